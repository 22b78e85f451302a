"""Answers as readable Markdown."""

from memory_mcp.server.markdown import markdown


def test_a_search_is_a_list_of_dated_quotations() -> None:
    found = {
        "origin": "recalled",
        "results": [
            {
                "when": "2026-02-01T10:02",
                "who": "Melanie",
                "quote": "First line.\nSecond line.",
                "grip": "grip:1:a",
                "title": "Queue",
                "score": 0.5,
                "outside": True,
            },
            {"when": "2026-02-01T10:05", "who": "user", "quote": "Yes.", "grip": "grip:1:b", "score": 0.1},
        ],
        "confidence": "weak",
        "explanation": {"intent": "answer", "fallback_occurred": False, "notices": ["nothing else"]},
    }
    assert markdown(found).splitlines() == [
        "**1. 2026-02-01 10:02 · Melanie · outside the time named · Queue** grip: grip:1:a, score: 0.5",
        "> First line.",
        "> Second line.",
        "",
        "**2. 2026-02-01 10:05 · user** grip: grip:1:b, score: 0.1",
        "> Yes.",
        "",
        "- confidence: weak",
        "- intent: answer",
        "- fallback occurred: no",
        "- notices: nothing else",
    ]
    assert markdown({**found, "results": []}).startswith("No results.")


def test_a_citation_is_a_transcript() -> None:
    text = markdown(
        {
            "grip": {"grip_id": "grip:1:a", "quote": "Ten slots.", "when": "2026-02-01T10:02", "event_id_start": "01K"},
            "verified": True,
            "events_before": [{"when": "2026-02-01T10:01", "role": "user", "text": "How many?"}],
            "excerpt_events": [{"when": "2026-02-01T10:02", "role": "assistant", "text": "Ten slots.\nNo more."}],
            "events_after": [],
            "truncated": True,
            "more": {"token_budget": 900},
        }
    )
    assert text.splitlines()[:2] == ["**grip:1:a** · 2026-02-01 10:02 · verified", "> Ten slots."]
    assert "- 2026-02-01 10:01 user: How many?" in text
    assert "- 2026-02-01 10:02 assistant:\n  > Ten slots.\n  > No more." in text
    assert text.endswith("Shortened; everything with token_budget 900.")


def test_any_other_answer_is_its_fields() -> None:
    layers = [{"name": "bm25", "enabled": True, "count": 3}, {"name": "vector", "enabled": False, "reason": "no model"}]
    text = markdown({"tier": 4, "layers": layers, "store": {"events": 7, "projects": ["a", "b"]}, "summary": "One.\nTwo."})
    assert text.splitlines() == [
        "- tier: 4",
        "- layers:",
        "  - **bm25**",
        "    - enabled: yes",
        "    - count: 3",
        "  - **vector**",
        "    - enabled: no",
        "    - reason: no model",
        "- store:",
        "  - events: 7",
        "  - projects: a, b",
        "- summary:",
        "  > One.",
        "  > Two.",
    ]
