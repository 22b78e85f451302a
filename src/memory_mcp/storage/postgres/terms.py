"""The tree's term sets and the root's document frequencies, as append-only rows that are folded now and then."""

from collections.abc import Iterable, Sequence

from memory_mcp.model.ids import NodeId, node_key
from memory_mcp.storage.postgres.connection import Connection, Writer, own
from memory_mcp.storage.termsets import less, smallest, summed, union

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
    """Reading and folding; rows are added by `publish`."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def term_sets(self, ids: Iterable[NodeId]) -> dict[NodeId, list[bytes]]:
        """See TocStore."""
        by_key = {node_key(i): i for i in ids}
        found: dict[NodeId, list[bytes]] = {}
        for key, hashes in self._con.rows(_SETS, keys=list(by_key)) if by_key else ():
            found.setdefault(by_key[key], []).append(hashes)
        return found

    def terms_of_days(self, first_day: str, after_day: str, project: str) -> list[bytes]:
        """See TocStore."""
        return [row[0] for row in self._con.rows(_OF_DAYS, project=project, first=first_day, after=after_day)]

    def frequencies(self) -> list[tuple[str, bytes, bytes]]:
        """See TocStore."""
        rows = self._con.rows(f"SELECT project, hashes, counts FROM frequency WHERE {own()}")
        return [(row[0], row[1], row[2]) for row in rows]

    def fold_terms(self, more_than: int) -> int:
        """See TocStore."""
        with self._con.writing() as writer:
            parts: dict[int, list[tuple[int, bytes]]] = {}
            for number, key, hashes in writer.rows(_MANY, most=more_than):
                parts.setdefault(key, []).append((number, hashes))
            if parts:
                small = {key: smallest(several, more_than) for key, several in parts.items()}
                gone = [(key, number) for key, several in small.items() for number, _ in several]
                writer.run(_GONE, keys=[key for key, _ in gone], numbers=[number for _, number in gone])
                joined = [union([hashes for _, hashes in several]) for several in small.values()]
                writer.insert("term_delta", "key, hashes", ("bigint", "bytea"), [list(small), joined])
            return len(parts) + _fold_frequencies(writer, more_than)


def _fold_frequencies(writer: Writer, more_than: int) -> int:
    by_project: dict[str, list[tuple[int, bytes, bytes]]] = {}
    for number, project, hashes, counts in writer.rows(_MANY_FREQUENCIES, most=more_than):
        by_project.setdefault(project, []).append((number, hashes, counts))
    for project, parts in by_project.items():
        small = smallest(parts, more_than)
        numbers = [part[0] for part in small]
        writer.run(f"DELETE FROM frequency WHERE {own()} AND number = ANY(%(numbers)s::bigint[])", numbers=numbers)
        hashes, counts = summed(part[1:] for part in small)
        writer.insert("frequency", *_FREQUENCY, [[project], [hashes], [counts]])
    return len(by_project)


def without_sets(writer: Writer, segments: Sequence[int]) -> None:
    """Take the sets of some segments (keys) out of the frequencies of their projects, with terms that nothing else holds."""
    found = writer.rows(
        f"""SELECT s.project, t.key, t.hashes FROM term_delta t JOIN segment_cut s ON {own("s")} AND s.key = t.key
            WHERE {own("t")} AND t.key = ANY(%(keys)s::bigint[])""",
        keys=list(segments),
    )
    sets: dict[str, dict[int, list[bytes]]] = {}
    for project, key, hashes in found:
        sets.setdefault(project, {}).setdefault(key, []).append(hashes)
    for project, by_key in sets.items():
        rows = writer.rows(f"SELECT hashes, counts FROM frequency WHERE {own()} AND project = %(project)s", project=project)
        writer.run(f"DELETE FROM frequency WHERE {own()} AND project = %(project)s", project=project)
        if left := less(rows, by_key.values()):
            writer.insert("frequency", *_FREQUENCY, [[project], *([part] for part in left)])
