"""Which clients delete their transcripts, when those of this machine go, and which of them are not imported.

Known: Claude Code deletes a session's file once it was left alone for `cleanupPeriodDays` of its settings, 30 without one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from memory_mcp.ingest.base import Importer
from memory_mcp.ingest.finding import Lying, lying
from memory_mcp.install.edit import jsonc

#: Sessions that are deleted within so many days are reported.
SOON_DAYS = 7
_DAY_MS = 86_400_000
_CLAUDE_DAYS = 30


@dataclass(frozen=True, slots=True)
class Fate:
    """When one client's session files will be deleted. Times in UTC milliseconds."""

    importer: str
    title: str
    files: int
    #: Files with something that is not imported.
    new_files: int
    #: Days after which the client deletes them; 0: it keeps them.
    days: int = 0
    #: Files that are deleted within `SOON_DAYS`, how many of them are not imported, and when the first goes.
    going: int = 0
    going_new: int = 0
    first_ms: int = 0


def fates(importers: Sequence[Importer], marks: Mapping[str, str], now_ms: int) -> list[Fate]:
    """Return when every client's files on this machine will be deleted; `marks` holds importers' marks by name.

    One per client that has files at its usual places, `now_ms` in UTC milliseconds; 0 days for a client that keeps them.
    """
    found = []
    for importer in importers:
        for path in importer.default_paths():
            if path.exists():
                days = KEPT[importer.name](path) if importer.name in KEPT else 0
                found.append(_fate(importer, list(lying(importer, path, marks)), days, now_ms))
    kept = [fate for fate in found if fate.files]
    return [_together([f for f in kept if f.importer == name]) for name in dict.fromkeys(f.importer for f in kept)]


def _together(fates: Sequence[Fate]) -> Fate:
    """Return one fate for a client's several places: counts added, the fewest days, the earliest first moment (0: none goes)."""
    first = fates[0]
    return replace(
        first,
        files=sum(f.files for f in fates),
        new_files=sum(f.new_files for f in fates),
        days=min(f.days for f in fates),
        going=sum(f.going for f in fates),
        going_new=sum(f.going_new for f in fates),
        first_ms=min((f.first_ms for f in fates if f.first_ms), default=0),
    )


def _fate(importer: Importer, files: Sequence[Lying], days: int, now_ms: int) -> Fate:
    """Return the fate of the files of one place; its client keeps them that many days, 0 for ever.

    Those that go within `SOON_DAYS` of `now_ms` are counted, all and not imported ones.
    """
    kept_ms, soon = days * _DAY_MS, now_ms + SOON_DAYS * _DAY_MS
    going = [file for file in files if days and file.written + kept_ms <= soon]
    return Fate(
        importer.name,
        importer.title,
        len(files),
        sum(file.unread > 0 for file in files),
        days,
        len(going),
        sum(file.unread > 0 for file in going),
        min((file.written + kept_ms for file in going), default=0),
    )


def _claude_days(sessions: Path) -> int:
    """Return the days after which Claude Code deletes `sessions`, by the settings beside them; 30 if they state none above 0."""
    try:
        told = jsonc.parse((sessions.parent / "settings.json").read_text(encoding="utf-8-sig")).value.get("cleanupPeriodDays")
    except (OSError, ValueError, AttributeError):
        told = None
    return told if isinstance(told, int) and told > 0 else _CLAUDE_DAYS


#: Days after which a client deletes its session files, by importer; the folder of the sessions in.
KEPT: Mapping[str, Callable[[Path], int]] = {"claude-code": _claude_days}
