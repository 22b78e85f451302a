"""The team bench in short: two tenants, two servers, and every figure of its report is there."""

import json
from dataclasses import asdict
from pathlib import Path

import psycopg
import pytest

from bench import team, team_fill
from tests.postgres import Cluster, programs

pytestmark = pytest.mark.skipif(programs() is None, reason="PostgreSQL is not installed; Debian's package postgresql brings it")

#: Tables of a memory in which a copy of a tenant has the same rows.
_SAME = ("event", "segment_cut", "node", "bullet", "bullet_grip", "grip", "node_parent", "term_delta", "outbox", "head")


@pytest.mark.slow
def test_a_day_is_replayed_and_every_figure_is_there(tmp_path: Path) -> None:
    options = team.Options(
        tenants=2, events=150, agents=4, day=5, seconds=60, searchers=1, probes=2, servers="2", templates=1, callers=2
    )
    report = team.measure(options)
    (one,) = report.rounds
    assert (one.servers, one.events, one.errors, one.unseen) == (2, 20, [], 0)
    assert (report.filled["events"], report.filled["appended"], report.filled["copied"]) == (300, 150, 150)
    measured = {name: value for name, value in asdict(one).items() if name not in ("servers", "errors", "unseen")}
    assert {name for name, value in measured.items() if not value} == set()
    assert report.joining is not None
    assert report.joining.documents > 0
    assert report.database_bytes_per_event > 0
    saved = tmp_path / "run.json"
    saved.write_text(json.dumps(asdict(report)), encoding="utf-8")
    assert team.read(saved) == report
    assert len(team.table([report])) == 3


def test_a_copied_tenant_holds_what_its_template_holds(cluster: Cluster) -> None:
    url = cluster.create()
    root = url.replace("user=memory", "user=postgres")
    team_fill.fill(url, root, 3, 60, templates=1)
    with psycopg.connect(root) as raw:
        for table in _SAME:
            rows = raw.execute(f"SELECT tenant, count(*) FROM {table} GROUP BY tenant ORDER BY tenant".encode()).fetchall()
            assert [tenant for tenant, _ in rows] == [1, 2, 3], table
            assert len({count for _, count in rows}) == 1, table
