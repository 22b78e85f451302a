"""The tree's term sets and the root's document frequencies, as append-only rows that are folded now and then."""

from collections.abc import Iterable, Sequence

from memory_mcp.model.ids import NodeId, node_key
from memory_mcp.storage.termsets import fold_counts, fold_sets, group_sets, subtract_sets
from memory_mcp_team.postgres.connection import Connection, Writer, own

_SETS = f"SELECT key, hashes FROM term_delta WHERE {own()} AND key = ANY(%(keys)s::bigint[])"
_OF_DAYS = f"""SELECT t.hashes FROM segment_cut s JOIN term_delta t ON {own("t")} AND t.key = s.key
  WHERE {own("s")} AND s.project = %(project)s AND s.day >= %(first)s AND s.day < %(after)s"""
_MANY = f"""SELECT number, key, hashes FROM term_delta WHERE {own()} AND key IN (
  SELECT key FROM term_delta WHERE {own()} GROUP BY key HAVING count(*) > %(most)s)"""
_GONE = f"""DELETE FROM term_delta t USING unnest(%(keys)s::bigint[], %(numbers)s::bigint[]) m(key, number)
  WHERE {own("t")} AND t.key = m.key AND t.number = m.number"""
_MANY_FREQUENCIES = f"""SELECT number, project, hashes, counts FROM frequency WHERE {own()} AND project IN (
  SELECT project FROM frequency WHERE {own()} GROUP BY project HAVING count(*) > %(most)s)"""
_FREQUENCY = ("project, hashes, counts", ("text", "bytea", "bytea"))


class PostgresTerms:
    """The part of TocStore about terms: reads and folds rows, which `publish` adds."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def get_term_sets(self, ids: Iterable[NodeId]) -> dict[NodeId, list[bytes]]:
        """Return the stored term rows of each node."""
        by_key = {node_key(i): i for i in ids}
        term_sets: dict[NodeId, list[bytes]] = {}
        for key, hashes in self._con.rows(_SETS, keys=list(by_key)) if by_key else ():
            term_sets.setdefault(by_key[key], []).append(hashes)
        return term_sets

    def list_day_terms(self, first_day: str, after_day: str, project: str) -> list[bytes]:
        """Return the term rows of a project's segments in a span of days."""
        return [row[0] for row in self._con.rows(_OF_DAYS, project=project, first=first_day, after=after_day)]

    def list_frequencies(self) -> list[tuple[str, bytes, bytes]]:
        """Return the root's document frequencies: project, hashes, counts."""
        rows = self._con.rows(f"SELECT project, hashes, counts FROM frequency WHERE {own()}")
        return [(row[0], row[1], row[2]) for row in rows]

    def fold_terms(self, more_than: int) -> int:
        """Join term rows where a node or project has more than `more_than`."""
        with self._con.open_writer() as writer:
            gone, joined = fold_sets(writer.rows(_MANY, most=more_than), more_than)
            if joined:
                rows = [(key, number) for key, numbers in gone.items() for number in numbers]
                writer.run(_GONE, keys=[key for key, _ in rows], numbers=[number for _, number in rows])
                writer.insert_rows("term_delta", "key, hashes", ("bigint", "bytea"), [list(joined), list(joined.values())])
            folded = list(fold_counts(writer.rows(_MANY_FREQUENCIES, most=more_than), more_than))
            for project, numbers, (hashes, counts) in folded:
                writer.run(f"DELETE FROM frequency WHERE {own()} AND number = ANY(%(numbers)s::bigint[])", numbers=numbers)
                writer.insert_rows("frequency", *_FREQUENCY, [[project], [hashes], [counts]])
            return len(joined) + len(folded)


def subtract_segment_terms(writer: Writer, segments: Sequence[int]) -> None:
    """Subtract the term sets of segments (keys) from the frequencies of their projects, in the writer's transaction.

    Terms whose count becomes 0 are removed. The segments' cuts and term rows have to be there still.
    """
    rows_of_sets = writer.rows(
        f"""SELECT s.project, t.key, t.hashes FROM term_delta t JOIN segment_cut s ON {own("s")} AND s.key = t.key
            WHERE {own("t")} AND t.key = ANY(%(keys)s::bigint[])""",
        keys=list(segments),
    )
    for project, sets in group_sets(rows_of_sets).items():
        rows = writer.rows(f"SELECT hashes, counts FROM frequency WHERE {own()} AND project = %(project)s", project=project)
        writer.run(f"DELETE FROM frequency WHERE {own()} AND project = %(project)s", project=project)
        if remainder := subtract_sets(rows, sets):
            writer.insert_rows("frequency", *_FREQUENCY, [[project], *([part] for part in remainder)])
