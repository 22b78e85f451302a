"""Prose keeps its title behind whatever precedes it; output gives none."""

from itertools import product

import pytest

from memory_mcp.model.event import DEFAULT_TYPES, Event, Role, Trust
from memory_mcp.model.ids import event_id
from memory_mcp.tree.summarize.base import Summary
from memory_mcp.tree.summarize.extractive import ExtractiveSummarizer

#: What people and tools put before a sentence, each also without the blank behind it, doubled, and before another.
TAGS = (
    "[PAY-12]",
    "[ ]",
    "[x]",
    "(a)",
    "(draft)",
    "<anna>",
    "【公告】",
    "「報告」",
    "[2026-03-01 Mon]",
    "[10:03:22]",
    "[bug][ui]",
    "{idea}",
)
MARKS = (
    "#12",
    ">",
    "*",
    "-",
    "1)",
    "2.",
    "|",
    "🎉",
    "✅",
    "✓",
    "→",
    "//",
    ";;",
    "10:30",
    "2026-03-01 10:00:00",
    "2026-03-01T10:00:00Z",
    "[INFO]",
)
SENTENCES = {
    "invoice": "The invoice page shows a blank screen after the session expires",
    "rechnungsseite": "Die Rechnungsseite bleibt leer, wenn die Sitzung abgelaufen ist",
    "страница": "Страница счетов остаётся пустой после окончания сеанса",
    "発行": "請求書を発行しようとすると真っ白な画面になります",
    "चालान": "सत्र समाप्त होने के बाद चालान पेज खाली दिखता है",
    "청구서": "세션이 만료되면 청구서 페이지가 비어 있습니다",
}
OUTPUT = (
    "2026-03-01 10:00:00,123 INFO  [main] server.Invoices: Started the invoice server\n2026-03-01 10:00:01,223 WARN  x.Y: slow",
    "[INFO] Scanning for projects\n[INFO] Building the invoice module\n[INFO] Finished the whole build",
    "| name | type | description |\n|------|------|------|\n| id | int | the primary key of the invoice table |",
    "    at Object.<anonymous> (/app/invoice.js:1:2)\n    at async main (/app/x.js:3:4)",
    '{"name": "the invoice page", "state": "shows a blank screen after all"}',
    '["the invoice page shows", "a blank screen after all"]',
    '[\n  {\n    "name": "the invoice page shows a blank screen"\n  }\n]',
    "[=====>    ] 45% 12/30\n[########  ] downloading invoice files 80%",
    "[ 45%] Building CXX object invoice/bar.cc.o\n[ 46%] Linking CXX executable invoice",
    "├── src\n│   ├── invoice.py\n└── tests",
    "10:00:03 GET /api/invoices 200 12ms\n10:00:04 POST /api/invoices 500 3ms",
    "[2026-03-01T10:00:00.123Z] ERROR invoice refused by the server host=db1 port=5432",
    "12:  const invoice = load(bar);\n13:  return invoice;",
    "[12345.678901] invoice 1-1: new high-speed device number 5 using xhci_hcd",
    "[root@box ~]# ls -la the invoice files",
    "$ npm run build the invoice app",
    "1\tdef invoice(page):\n2\t    return page",
    "diff --git a/invoice b/invoice\nindex abc123..def\n@@ -1 +1 @@",
    "src/app/invoice.py\nsrc/app/invoices.py\nsrc/app/session.py",
)


def summary_of(text: str) -> Summary:
    """The summary of a session of one message."""
    message = Event(event_id(0, "", text), "s", 0, DEFAULT_TYPES[Role.USER], Role.USER, Trust.USER, text, "jsonl")
    return ExtractiveSummarizer().summarize([message])


def test_prose_keeps_its_title_and_keywords_behind_anything() -> None:
    """No line is output for how it begins."""
    before = [f"{part} " for part in (*TAGS, *MARKS)] + list(TAGS) + [f"{a} {b} " for a, b in product(TAGS[:4], MARKS[:4])]
    lost = []
    for start, (word, sentence) in product(before, SENTENCES.items()):
        summary = summary_of(f"{start}{sentence}")
        if word not in summary.title.lower() or not summary.keywords:
            lost.append((start, word, summary.title))
    assert not lost


@pytest.mark.parametrize("text", OUTPUT)
def test_output_gives_no_title(text: str) -> None:
    """Logs, tables, traces, data, progress, listings and prompts are counted, not quoted."""
    assert summary_of(text).title.split(" — ")[0] == "1 message"
