"""Which statements contradict which: pairs in English and Chinese, and many more that both hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.model.toc import MemoryKind
from memory_mcp.tree.summarize.contradictions import Claim, contradicts, parse_claim
from memory_mcp.tree.summarize.kinds import cues_of, kind_of

CONTRADICTED = [
    ("We decided to use Postgres 15 for the orders database.", "We switched to MySQL 8 for the orders database."),
    ("The API listens on port 8080.", "The API now listens on port 9090."),
    ("We decided to use tabs for indentation.", "We decided to use spaces for indentation."),
    ("The request timeout must be at most 30 seconds.", "The request timeout must be at most 60 seconds."),
    ("Always run the migrations before the deploy.", "Never run the migrations before the deploy."),
    ("Telemetry is enabled by default.", "Telemetry is disabled by default."),
    ("We decided to deploy on Fridays to staging.", "We decided not to deploy on Fridays to staging."),
    ("We decided to use Redis for the session cache.", "We use Memcached instead of Redis for the session cache."),
    ("We decided that the parcels are shipped by falcon.", "We decided that the parcels are shipped by train."),
    ("I prefer dark mode in the editor.", "I prefer light mode in the editor."),
    ("My favourite editor is Vim.", "My favourite editor is Emacs."),
    ("The default branch is main.", "The default branch is trunk."),
    ("We will use Python 3.11.", "We will use Python 3.12."),
    ("数据库决定使用PostgreSQL。", "数据库改用MySQL。"),
    ("我们决定使用 Redis 作为会话缓存。", "我们决定使用 Memcached 作为会话缓存。"),
    ("请求超时上限是30秒。", "请求超时上限改为60秒。"),
    ("部署之前必须运行迁移脚本。", "部署之前不要运行迁移脚本。"),
]
HOLDING = [
    ("Service alpha listens on port 8080.", "Service beta listens on port 8081."),
    ("Service alpha uses port 8080.", "Service beta uses port 8080."),
    ("We use Redis for caching.", "We use Redis for sessions."),
    ("We decided to use ruff for linting.", "We decided to use mypy for type checking."),
    ("We decided to use Redis for the session cache.", "We also use Memcached for the session cache."),
    ("I like to collect jerseys.", "I like to collect sneakers."),
    ("The tests must cover the importer.", "The tests must cover the exporter."),
    ("We decided to add a retry to the importer.", "We decided to add a timeout to the importer."),
    ("We agreed to meet at 3 pm today about the ledger.", "We agreed to meet at 4 pm today about the ledger."),
    ("Step 3 must run before the deploy of the ledger.", "Step 4 must run before the deploy of the ledger."),
    ("We decided to use Redis for the session cache.", "Should we use Memcached for the session cache?"),
    ("We decided to use Redis for the session cache.", "We could use Memcached for the session cache."),
    ("We decided to use Redis for the session cache.", "We agreed to use Redis for the session cache."),
    ("The default branch of the shop is main.", "The default branch of the site is trunk."),
    ("Then use Decimal, and always add a test before a fix.", "Then use unaccent, and always add a test before a fix."),
    ("服务甲的端口是8080。", "服务乙的端口是8081。"),
    ("我们决定使用 Redis 作为会话缓存。", "我们决定使用 Redis 作为任务队列。"),
    ("我们决定使用 Redis 作为会话缓存。", "也可以使用 Memcached 作为会话缓存。"),
    ("我们决定七月重构订单模块的接口。", "我们决定八月重构订单模块的接口。"),
]


def claim(text: str) -> Claim | None:
    return parse_claim(text, kind_of(text, cues_of(text)))


def says(older: str, newer: str) -> bool:
    first, second = claim(older), claim(newer)
    return first is not None and second is not None and contradicts(second, first, is_other_day=True)


@pytest.mark.parametrize(("older", "newer"), CONTRADICTED)
def test_another_value_for_the_same_thing_contradicts(older: str, newer: str) -> None:
    assert says(older, newer)


@pytest.mark.parametrize(("older", "newer"), HOLDING)
def test_what_may_hold_beside_another_does_not(older: str, newer: str) -> None:
    assert not says(older, newer)
    assert not says(newer, older)


@pytest.mark.parametrize("text", [text for pair in CONTRADICTED + HOLDING for text in pair])
def test_nothing_contradicts_itself(text: str) -> None:
    assert not says(text, text)


def test_what_holds_on_its_day_is_contradicted_on_that_day_only() -> None:
    first, second = claim("We decided to use Redis for the demo today."), claim("We decided to use MySQL for the demo today.")
    assert first is not None
    assert second is not None
    assert contradicts(second, first, is_other_day=False)
    assert not contradicts(second, first, is_other_day=True)


@given(st.text(max_size=200), st.text(max_size=200), st.sampled_from(MemoryKind))
def test_no_text_makes_it_fail(one: str, other: str, kind: MemoryKind) -> None:
    first, second = parse_claim(one, kind), parse_claim(other, kind)
    if first is not None and second is not None:
        contradicts(first, second, is_other_day=False)
