"""Questions that a memory cannot answer: not called sure, and told by the words that occur nowhere, in three languages."""

import json
from pathlib import Path
from typing import Any

from tests.acceptance.conftest import Command

LAYOUTS = {"berths": "Liegeplätze", "cranes": "Kräne", "vessels": "Schiffe", "lanterns": "Laternen", "tariffs": "Tarife"}
CHINESE = {"berths": "泊位", "cranes": "起重机", "vessels": "船舶", "lanterns": "灯笼", "tariffs": "关税"}


def history() -> str:
    """Exchanges about the layouts of tables, in English, German and Chinese; the broker is named in another project."""
    lines = []
    for number, (name, german) in enumerate(LAYOUTS.items(), 1):
        said = {
            "en": (
                f"why did we choose the {name} table layout number {number} for the report",
                f"We chose the {name} layout {number} since the nightly report reads it in one pass; the base cache stays.",
            ),
            "de": (
                f"warum haben wir die Tabelle für {german} so aufgebaut",
                f"Wir haben die Tabelle für {german} so aufgebaut, weil der Bericht sie nachts in einem Durchgang liest.",
            ),
            "zh": (
                f"我们为什么选择{CHINESE[name]}表的布局",
                f"我们选择{CHINESE[name]}表的布局，因为夜间报告一次就能读完。",
            ),
        }
        for language, (request, reply) in said.items():
            lines += [
                event(f"{language}{number}", number, 0, "user", request),
                event(f"{language}{number}", number, 2, "assistant", reply),
            ]
    lines.append(event("drill", 8, 0, "user", "the fire drill is next week, a vendor consults us about rabbits in app.js"))
    lines.append(event("asked", 7, 0, "user", "why did we choose the terraform layout?"))
    lines.append(event("broker", 9, 0, "user", "kafka brokers are restarted on Mondays", "/home/anna/streams"))
    return "\n".join(lines) + "\n"


def event(session: str, day: int, minute: int, role: str, text: str, project: str = "/home/anna/harbour") -> str:
    """A line for `ingest`."""
    at = f"2026-03-0{day}T09:0{minute}:00Z"
    return json.dumps({"session_id": session, "timestamp": at, "role": role, "text": text, "project": project, "agent": "codex"})


ASKED: tuple[tuple[str, str, list[str]], ...] = (
    ("why did we choose the lanterns layout", "strong", []),
    ("why did we choose redis", "", ["redis"]),
    ("which tyre pressure did the mechanic recommend", "", ["tyre", "pressure", "mechanic", "recommend"]),
    ("warum haben wir die Tabelle für Laternen so aufgebaut", "strong", []),
    ("warum haben wir Redis gewählt", "", ["Redis", "gewählt"]),
    ("我们为什么选择灯笼表的布局", "strong", []),
    ("我们为什么选择卡夫卡", "", ["卡夫卡"]),
    ("我们为什么选择redis表的布局", "", ["redis"]),
    ("why did we choose the firebase layout", "", ["firebase"]),
    ("warum haben wir die Tabelle für Firebase so aufgebaut", "", ["Firebase"]),
    # It was asked before, and nothing was said of it.
    ("why did we choose the terraform layout for the report", "", ["terraform"]),
    # What occurs in another form or in parts may be another word: it is not called missing, but no answer is sure without it.
    ("why did we choose the rabbitmq layout for the report", "", []),
    ("why did we choose the consul layout for the report", "", []),
    ("why did we choose the next.js layout for the report", "", []),
    ("why did we choose kafka", "", ["kafka (occurs in project /home/anna/streams)"]),
)


def test_an_answer_is_sure_only_when_right_and_names_the_words_that_occur_nowhere(command: Command, tmp_path: Path) -> None:
    """Nothing waits for the tree: what was ingested a moment ago is not missing either."""
    (tmp_path / "events.jsonl").write_text(history(), encoding="utf-8")
    done = command("ingest", "events.jsonl")
    assert done.returncode == 0, done.stderr
    answers = {question: answered(command, question) for question, _, _ in ASKED}
    assert {question: one.get("missing", []) for question, one in answers.items()} == {q: missing for q, _, missing in ASKED}
    sure = {question for question, one in answers.items() if one["confidence"] == "strong"}
    assert sure == {question for question, word, _ in ASKED if word == "strong"}
    shown = command("ask", "--project", "/home/anna/harbour", "why did we choose redis").stdout
    assert "Not in this memory: redis." in shown


def answered(command: Command, question: str) -> dict[str, Any]:
    """The answer about one project, as JSON."""
    done = command("--json", "ask", "--project", "/home/anna/harbour", question)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))
