"""What the extractive summarizer chooses, drops and calls things."""

import re
from dataclasses import replace

import pytest

from memory_mcp.model.event import EventType, Role
from memory_mcp.model.toc import MemoryKind
from memory_mcp.tree.summarize.base import Summary
from memory_mcp.tree.summarize.extractive import ExtractiveSummarizer
from memory_mcp.tree.summarize.kinds import OPENERS, is_chatter
from memory_mcp.tree.summarize.sentences import Shape, clean_text, find_spans, shorten
from memory_mcp.tree.summarize.titles import REQUEST_WIDTH, join_terms, make_headline, without_date
from memory_mcp.tree.summarize.vocabulary import tokens_of
from tests.summarize.suite import dialogue, event, node, talk
from tests.work import calls

SUMMARIZER = ExtractiveSummarizer()


def texts(summary: Summary) -> list[str]:
    return [bullet.text for bullet in summary.bullets]


def cut(text: str) -> list[str]:
    return [text[span.start : span.end] for span in find_spans(text)]


def test_decisions_and_fixes_come_before_chatter() -> None:
    summary = SUMMARIZER.summarize(
        talk(
            "Can you speed up the invoice export?",
            "Great question! Let me look at the exporter. I'll start with the query.",
            "ok go on",
            "Perfect! Now I can see everything. The root cause is an N+1 query in `load_invoices`. "
            "We decided to batch the rows instead of caching them. Is there anything else you'd like?",
        )
    )
    said = texts(summary)
    assert any("root cause is an N+1 query" in text for text in said)
    assert any("decided to batch the rows" in text for text in said)
    assert not any(re.search(r"Let me look|Great question|Perfect!|anything else", text) for text in said)


@pytest.mark.parametrize(
    ("said", "title"),
    [
        (
            ["Hey, can you please fix the timezone bug in `invoice_mailer.py`?", "Fixed the bug in `next_run`."],
            "Fix the timezone bug in invoice_mailer.py",
        ),
        (
            ["Implement the following plan:\n\n# Plan: Rotate signing keys nightly\n\n## Context\n\nKeys live too long today."],
            "Rotate signing keys nightly",
        ),
        (
            ["commit this and push", "Committed the retry logic for the webhook dispatcher and its backoff table."],
            "Committed the retry logic for the webhook dispatcher",
        ),
    ],
    ids=["a request without its politeness", "the heading of a plan", "work before an errand"],
)
def test_a_title_is_what_the_work_was_about(said: list[str], title: str) -> None:
    assert SUMMARIZER.summarize(talk(*said)).title.startswith(title)


def test_identifiers_are_kept_whole() -> None:
    keywords = SUMMARIZER.summarize(
        talk(
            "Why does parseConfigFile ignore server.max_upload_bytes from /srv/app/conf/settings.toml?",
            "parseConfigFile reads settings.toml before the overlay, so server.max_upload_bytes is overwritten.",
        )
    ).keywords
    assert {"parseConfigFile", "server.max_upload_bytes", "settings.toml"} <= set(keywords)


def test_an_error_line_is_kept_with_the_command_that_failed() -> None:
    call = event(
        1,
        "Bash\npytest tests/mail",
        Role.ASSISTANT,
        kind=EventType.TOOL_CALL,
        tool="Bash",
        command="pytest tests/mail",
        tool_use_id="t1",
    )
    result = event(2, "collected 4 items\n....\nKeyError: 'smtp_host'\n1 failed in 0.2s", Role.TOOL, tool_use_id="t1")
    bullets = SUMMARIZER.summarize([event(0, "Run the mail tests."), call, result]).bullets
    failed = next(bullet for bullet in bullets if "KeyError" in bullet.text)
    assert failed.text == "pytest tests/mail: KeyError: 'smtp_host'"
    assert [source.event_id for source in failed.sources] == [call.event_id, result.event_id]


def test_pages_of_output_give_no_bullet() -> None:
    listing = "\n".join(f"{n}\t    value_{n} = compute({n})" for n in range(400))
    bullets = SUMMARIZER.summarize([event(0, "Read the table."), event(1, listing, Role.TOOL)]).bullets
    assert all("compute(" not in bullet.text for bullet in bullets)


def test_people_are_named_and_facts_come_before_greetings() -> None:
    summary = SUMMARIZER.summarize(
        dialogue(
            ("Ann", "Hey Bert! Long time no see!"),
            ("Bert", "Hi Ann! So glad to hear from you!"),
            ("Ann", "I moved to Oslo in March and joined a pottery studio near the harbour."),
            ("Bert", "Wow, that's amazing! My sister opened a bakery in Bergen last year."),
        )
    )
    assert "Ann: I moved to Oslo in March and joined a pottery studio near the harbour." in texts(summary)
    assert "Bert: My sister opened a bakery in Bergen last year." in texts(summary)
    assert not any("Long time" in text or "glad" in text for text in texts(summary))
    assert not {"Ann", "Bert"} & set(summary.keywords)
    assert summary.title.startswith(("Ann: ", "Bert: "))


def test_japanese_has_sentences_words_and_decisions() -> None:
    summary = SUMMARIZER.summarize(
        talk(
            "認証サーバーのトークン期限切れを調査してください。",
            "原因は時計のずれでした。認証サーバーの許容範囲を二分に設定することに決めました。こんにちは。",
        )
    )
    assert "認証サーバーの許容範囲を二分に設定することに決めました。" in texts(summary)
    assert "原因は時計のずれでした。" in texts(summary)
    assert {"サーバー", "トークン"} <= set(summary.keywords)


def test_near_duplicates_are_said_once() -> None:
    fact = "The nightly backup of the orders database failed because the disk was full."
    said = texts(
        SUMMARIZER.summarize(talk(fact, fact, "And again: the nightly backup of the orders database failed, the disk was full."))
    )
    assert sum("backup" in text for text in said) == 1


def test_markdown_tags_and_home_folders_are_cleaned_away() -> None:
    assert clean_text("**Fixed** the [`parser`](https://example.org/x) in <b>core</b>") == "Fixed the parser in core"
    assert clean_text("- [x] see /home/ann/work/shop/src/cart.py") == "[x] see cart.py"
    assert (
        clean_text("keep snake_case_names and 2 * 3 and https://example.org/a/b")
        == "keep snake_case_names and 2 * 3 and https://example.org/a/b"
    )
    assert clean_text("\x1b[31mred\x1b[0m\x00 text") == "red text"


def test_code_tables_diffs_and_traces_are_no_sentences() -> None:
    text = (
        "We changed the loader.\n\n```go\nfunc main() {}\n```\n| a | b |\n@@ -1,2 +1,2 @@\n"
        '  File "app.py", line 3, in load\nValueError: bad header\n'
        "<system-reminder>\nhidden words here\n</system-reminder>\nIt works."
    )
    assert cut(text) == ["We changed the loader.", "ValueError: bad header", "It works."]


def test_sentences_end_where_they_end() -> None:
    assert cut("See e.g. Dr. Smith's note. Version 2.1 is out! Is it? Yes") == [
        "See e.g. Dr. Smith's note.",
        "Version 2.1 is out!",
        "Is it?",
        "Yes",
    ]
    assert [span.shape for span in find_spans("# Head\n\nSteps:\n- one thing\n- two things")] == [
        Shape.HEADING,
        Shape.LEAD,
        Shape.ITEM,
        Shape.ITEM,
    ]


def test_what_an_agent_narrates_a_person_tells() -> None:
    text = "I need to move out before June."
    assert is_chatter(text, 0, len(text), narrates=True)
    assert not is_chatter(text, 0, len(text))


@pytest.mark.parametrize(
    "text", ["The cache is stale.", "Fixed the leak.", "Okay, the root cause is DNS.", "Now it fails on Windows."]
)
def test_findings_are_not_chatter(text: str) -> None:
    assert not is_chatter(text, 0, len(text), narrates=True)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("ok, can you please add a retry to the uploader?", "Add a retry to the uploader"),
        ("What does the cache do?", "What does the cache do?"),
        ("src/app.py:12:5: undefined name 'x'", "Undefined name 'x'"),
        ("we should keep both.", "Keep both"),
    ],
)
def test_headlines_read_as_headlines(text: str, title: str) -> None:
    assert make_headline(text) == title


def test_a_long_headline_is_cut_between_words() -> None:
    asked = "Investigate the intermittently failing deployment pipeline of the European production cluster at night"
    title = make_headline(asked, REQUEST_WIDTH)
    assert len(title) <= 55
    assert title.endswith("…")
    assert "Investigate the intermittently failing deployment pipeline of the".startswith(title[:-1])


def test_a_title_leaves_out_terms_that_already_stand_in_it() -> None:
    assert (
        join_terms("Fix token refresh", ["tokens", "auth.py", "refresh_token", "leeway"]) == "Fix token refresh — auth.py, leeway"
    )


@pytest.mark.parametrize(
    "dated", ["2026-03-02: Fix it", "2026-03: Fix it", "2026-W10 — Fix it", "Mon 2 March 2026 · Fix it", "Fix it"]
)
def test_the_date_of_a_childs_title_does_not_go_into_its_parents(dated: str) -> None:
    assert without_date(dated) == "Fix it"


def test_shortening_keeps_whole_words() -> None:
    assert shorten("alpha beta gamma delta", 14) == "alpha beta…"


def test_a_period_of_one_child_is_called_like_it() -> None:
    child = node(0, "2026-03-02: Fix clock skew — auth.py", ["The leeway is 120 seconds."], ["auth.py"])
    rolled = SUMMARIZER.roll_up([child])
    assert (rolled.title, rolled.bullets, rolled.keywords) == ("Fix clock skew — auth.py", child.bullets, child.keywords)


def test_a_period_hears_every_child_and_says_nothing_twice() -> None:
    children = [
        node(
            0,
            "Fix clock skew",
            ["The leeway is 120 seconds.", "Tokens are checked twice.", "Skew was ninety seconds."],
            ["leeway"],
        ),
        node(1, "Add retry", ["The leeway is 120 seconds now.", "Uploads retry with backoff."], ["uploader"]),
    ]
    said = [bullet.text for bullet in SUMMARIZER.roll_up(children, 3).bullets]
    assert "Uploads retry with backoff." in said
    assert sum("leeway" in text for text in said) == 1


def test_a_busy_child_does_not_drown_the_others() -> None:
    """Rules were laid down on one day, and on each of nine others one thing was seen: two of the ten are the rules'."""
    rules = (
        "Never merge without review.", "Secrets live in vault paths only.", "Prefer composition over inheritance.",
        "Squash commits before release.", "Every endpoint needs rate limits.", "Timeouts default to thirty seconds.",
        "Logs must carry request ids.", "Migrations run inside transactions.", "Feature flags expire after a quarter.",
        "Snapshots go to cold storage nightly.", "Use kebab-case for bucket names.", "Docs change together with code.",
    )  # fmt: skip
    seen = (
        "The parser choked on tabs.", "Coverage rose by four points.", "Grafana showed a memory spike.",
        "Norway invoices lacked VAT.", "Kubernetes evicted two pods.", "Lint complained about imports.",
        "A flaky browser test was removed.", "Redis latency doubled overnight.", "The demo went well.",
    )  # fmt: skip
    busy = node(0, "Rules", rules)
    busy = replace(busy, bullets=tuple(replace(bullet, kind=MemoryKind.CONSTRAINT) for bullet in busy.bullets))
    quiet = [node(n, f"Day {n}", [text]) for n, text in enumerate(seen, 1)]
    said = [bullet.text for bullet in SUMMARIZER.roll_up([busy, *quiet], 10).bullets]
    assert len(said) == 10
    assert len(set(said) & set(rules)) == 2


@pytest.mark.parametrize("days", [61, 90, 119, 121, 239, 400])
def test_the_end_of_a_long_period_is_heard(days: int) -> None:
    """More days than are weighed one by one: what a sample of them says comes from all of the period."""
    children = [node(n, f"Day {n}", [f"Plain remark {n} about thing{n} and part{n}."]) for n in range(days)]
    last = children[-days // 6 :]
    loud = [replace(c, keywords=("zebra",), bullets=(replace(c.bullets[0], text=f"Zebra zebra{c.start_ms}."),)) for c in last]
    said = SUMMARIZER.roll_up([*children[: -len(last)], *loud], 10).bullets
    assert any(bullet.text.startswith("Zebra") for bullet in said)


@pytest.mark.parametrize(
    "text",
    [
        "Let me check the logs.",
        "Great! I'll run it.",
        "Hey Ann!",
        "I’ll look now.",
        "Thanks a lot!",
        "Okay, so now let me check the logs.",
        "I'll start with the query.",
        "You're absolutely right",
        "**Good question!**",
        "Congratulations on the release",
        "__Hello__ there",
        "Looking at the exporter first",
        "[Request interrupted by user]",
        "Co-Authored-By: somebody",
    ],
)
def test_chatter_is_known_by_its_first_word(text: str) -> None:
    """The words that save trying the patterns leave out nothing that the patterns find."""
    assert is_chatter(text, 0, len(text), narrates=True)
    assert OPENERS[tokens_of(text)[0]]


@pytest.mark.parametrize("count", [15, 120])
def test_a_summary_costs_the_same_for_each_event(count: int) -> None:
    """340 to 380 calls an event of 560 bytes were counted; the bench has the time."""
    prose = "The uploader retries with backoff because the gateway drops slow clients. Fixed `retry_upload` in uploader.py. "
    events = [event(n, f"{prose * 5} Run {n}.", Role.ASSISTANT if n % 2 else Role.USER) for n in range(count)]
    SUMMARIZER.summarize(events)
    assert calls(lambda: SUMMARIZER.summarize(events)) <= 500 * count


def test_rolling_up_many_children_costs_less_for_each() -> None:
    """201 calls a child were counted for 30 of them, 19 for 4,000: what is looked at closely is bounded."""
    facts = [f"Fact {i} about module_{i} and the cache of tenant {i}." for i in range(5)]
    children = [
        node(n, f"Work on module_{n} — cache, tenant_{n}", facts, [f"module_{n}", "cache", f"tenant_{n % 50}"])
        for n in range(4_000)
    ]
    SUMMARIZER.roll_up(children[:30])
    assert calls(lambda: SUMMARIZER.roll_up(children[:30])) <= 30 * 230
    assert calls(lambda: SUMMARIZER.roll_up(children)) <= 4_000 * 30


@pytest.mark.parametrize(
    ("greeting", "said"),
    [
        ("Hey Mel!", "I signed up for the pottery course in the old mill."),
        ("Hallo Melanie, na du?", "Ich habe mich für den Töpferkurs in der alten Mühle angemeldet."),
        ("Привет, Mel!", "Я записалась на курс гончарного дела на старой мельнице."),
        ("Coucou Mel, ça va?", "Je me suis inscrite au cours de poterie du vieux moulin."),
    ],
)
def test_an_address_names_nothing_whatever_its_language(greeting: str, said: str) -> None:
    """A few words with the name of somebody who takes part."""
    events = [
        replace(event(0, f"{greeting} {said}"), speaker="Caroline"),
        replace(
            event(1, f"{greeting.replace('Melanie', 'Mel').replace('Mel', 'Caro')} {said[:9]}", Role.ASSISTANT), speaker="Melanie"
        ),
    ]
    title = SUMMARIZER.summarize(events).title
    assert title.startswith(f"Caroline: {said[:20]}")


@pytest.mark.parametrize(
    "reply",
    [
        "For the timestamps: I just checked, for example, the importer of the photos and the camera, and found both changed.",
        "Timestamps, as far as I can tell after a look at the exporter and the camera that the importer reads, were changed.",
    ],
)
def test_a_title_that_would_end_within_a_statement_is_the_request(reply: str) -> None:
    assert SUMMARIZER.summarize(talk("Why are the timestamps wrong?", reply)).title.startswith("Why are the timestamps wrong?")


def test_the_commonest_words_of_other_languages_are_no_keywords() -> None:
    """A background table of one language knows none of another: there short and frequent words say least."""
    told = [
        "Der Techniker hat die Heizung im Keller der Schule repariert, und das Wasser ist wieder warm, sagt die Hausmeisterin.",
        "Die Rechnung der Firma kommt mit der Post, und der Betrag für die Pumpe ist höher als das Angebot, das sie uns mit gab.",
    ]
    keywords = SUMMARIZER.summarize(talk(*told)).keywords
    assert not {"der", "die", "das", "und", "ist", "mit"} & {word.lower() for word in keywords}
    assert {"Techniker", "Heizung", "Pumpe"} <= set(keywords)
