"""What a session asked for first and last, finished and removed, from its events; and which statements tell a result. Pure.

What an agent announces, plans, supposes or finds broken on its way is no result, whatever words it uses; what a person wrote in
reply to a call decides something only if it says so.
"""

import posixpath
import re
from collections.abc import Iterable, Sequence

from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.model.event import RECAP, RECORD, Event, EventType, Role, Trust, mark_of
from memory_mcp.model.toc import MemoryKind
from memory_mcp.tree.summarize.kinds import Cue, cues_of, is_chatter, kind_of
from memory_mcp.tree.summarize.sentences import shorten
from memory_mcp.tree.toc.doings import QuotedSpan, is_telling, request_of
from memory_mcp.tree.toc.tasks import is_list_call

#: Characters of a client's command, and words of a result.
_COMMAND, _LEAST_WORDS = 120, 3
_UNDONE = lazy_pattern(
    r"\W*(?:#\d+\b|your\b|(?:proposed|suggested|recommended|possible|potential|optional|quick)\b|(?:oh|wait|hmm*)\b|(?:(?:ok(?:ay)?|so|and|but|great|good|now|next|first|then|finally)\b\W*)*"
    r"(?:let(?:'s| us| me)|i(?:'ll| will| need| should| can| think| believe| suspect| see| understand|'m going)|"
    r"we(?:'ll| will| need| should| still)|need to|to ?do\b|plan:|trying|"
    r"it (?:looks|seems)|looks like|apparently|maybe|perhaps)\b|"
    r"(?:now|next|then)\b\W*(?:fix|update|add|run|check|create|implement|write|remove|delete|change|make|test|verify|build|look|"
    r"move|replace|rename|commit|push|merge|address|handle)\b|(?:currently|still)\b|(?:phase|step) \d+ ?[:.)–-])",
    re.I,
)
_BROKEN = lazy_pattern(
    r"\b(?:there (?:is|are|were) (?:still |some |a |an |\d+ )*(?:fail\w*|errors?|issues?|problems?|conflicts?)|"
    r"(?:still|now) (?:fails?|failing|broken)|(?:is|are) (?:still )?(?:undefined|failing|broken|missing)|"
    r"(?:doesn't|does not|don't|do not|didn't) (?:yet |even )?(?:work|pass|compile|build|exist)|"
    r"\d+ (?:tests? )?(?:fail(?:s|ed|ing|ures?)?)\b)",
    re.I,
)
_SUPPOSED = lazy_pattern(
    r"\b(?:likely|probably|might|may be|could be|should be|needs? to|would|presumably|wahrscheinlich|vermutlich)\b", re.I
)
_TESTS_PASS = lazy_pattern(r"\b(?:tests?|checks?|suites?)\b[^.;]{0,40}\b(?:pass(?:es|ed|ing)?|green|succeed(?:s|ed)?)\b", re.I)
#: Words of a rule, in a person's reply to a call.
_BINDS = lazy_pattern(r"\b(?:always|never|must|not|don['’]t|from now on|immer|nie|niemals|nicht)\b", re.I)
#: How a person's reply to a question chooses.
_CHOOSES = lazy_pattern(
    r"\W*(?:yes|yeah|yep|no|nope|option|the (?:first|second|third|last)|both|neither|use|go with|let's|ja|nein|oui|non|"
    r"[a-d]|\d)\b",
    re.I,
)
#: Lines of a program: an error of a package manager or a build, a piece of JSON.
_PRINTED = lazy_pattern(r"\bnpm (?:err!?|error|warn)\b|^\s*#?\d+\.\d+ |\"[}\]]|^\s*(?:error|fatal|traceback)\b", re.I)
_RULES = frozenset({MemoryKind.DECISION, MemoryKind.CONSTRAINT, MemoryKind.PREFERENCE})
#: How a pasted terminal begins.
_PROMPTS = ("❯", "➜", "$ ", "> ", "C:\\>", "PS C:\\")
_REMOVES = lazy_pattern(r"(?:^|[;&|\n][ \t]*)(?:git\s+)?rm\s+(?P<arguments>[^;&|\n]+)")
_MOVES = lazy_pattern(r"(?:^|[;&|\n][ \t]*)cd\s+([^\s;&|]+)")
_DONE = lazy_pattern(r"^(?:[-*] )?\[[xX]\] (?P<task>\S.*)$", re.M)


def is_result(text: str, event: Event | None, label: str) -> bool:
    """Return whether a statement of a result tells one; `event` holds its words, None if it is not known.

    Its `label` is that of `stretch_results`: a cause has to be certain.
    """
    if event is not None and (event.type is EventType.TOOL_CALL or mark_of(event, RECORD)):
        return False
    if " " in text and len(text.split()) < _LEAST_WORDS:
        return False
    plain = text.replace("’", "'")
    if _UNDONE.match(plain) or _BROKEN.search(plain) or is_chatter(plain, 0, len(plain), narrates=True):
        return False
    return label != "cause" or _SUPPOSED.search(plain) is None


def tells_passing_tests(text: str) -> bool:
    """Return whether a statement says that tests pass, which holds until the next change."""
    return _TESTS_PASS.search(text) is not None


def is_decided(text: str, label: str, event: Event | None) -> bool:
    """Return whether a statement with a label of `stretch_rules` tells what is decided or binds.

    How something is used, as an agent says it, is neither, nor what a program printed; of a reply to a call or to a question
    only a person's own words count.
    """
    if _PRINTED.search(text) is not None:
        return False
    if event is None:
        return True
    if label == "procedure" and event.role is Role.ASSISTANT:
        return False
    question, _, reply = text.rpartition("? ")
    is_reply = bool(question) and question not in event.text
    if event.role is not Role.USER or not (is_reply or "tool_use_id" in event.metadata):
        return True
    words = reply if is_reply else event.text
    cues = cues_of(words)
    if cues & Cue.QUESTION:
        return False
    is_rule = bool(cues & Cue.DECISION) or kind_of(words, cues) in _RULES or _BINDS.search(words) is not None
    return is_rule or (is_reply and _CHOOSES.match(words) is not None)


def find_first_request(events: Iterable[Event]) -> QuotedSpan | None:
    """Return a session's first request, else the client's first command; None if there is neither."""
    command: QuotedSpan | None = None
    for event in events:
        words = request_of(event)
        if words is not None and is_telling(words.text):
            return words
        command = command or _find_command(event)
    return command


def find_last_request(events: Sequence[Event]) -> QuotedSpan | None:
    """Return a session's last request that describes work, states no rule and is no pasted terminal; None if there is none."""
    written = (event for event in reversed(events) if not event.text.lstrip().startswith(_PROMPTS))
    requests = (words for event in written if (words := request_of(event)) is not None and is_telling(words.text))
    return next((words for words in requests if not _states_rule(words.text)), None)


def _states_rule(text: str) -> bool:
    cues = cues_of(text)
    return not cues & Cue.QUESTION and (bool(cues & Cue.DECISION) or kind_of(text, cues) in _RULES)


def _find_command(event: Event) -> QuotedSpan | None:
    is_written = event.type is EventType.USER_MESSAGE and event.role is Role.USER and event.trust is not Trust.AGENT_NOTE
    if not is_written or mark_of(event, RECAP) or not re.match(r"/[a-z][\w:-]{2,}", event.text):
        return None
    line = shorten(" ".join(event.text.split("\n", 1)[0].split()), _COMMAND)
    return QuotedSpan(line, "user", event, 0, len(event.text))


def finished_tasks(events: Sequence[Event]) -> list[QuotedSpan]:
    """Return the tasks that the agent's last list marks as done, in order."""
    call = next((event for event in reversed(events) if is_list_call(event) and _DONE.search(event.text)), None)
    if call is None:
        return []
    return [QuotedSpan(match["task"].strip(), "agent", call, *match.span("task")) for match in _DONE.finditer(call.text)]


def removed_names(events: Sequence[Event]) -> dict[str, int]:
    """Return the paths that commands removed, as `resolve_path` gives them, each with the time of the last one (ms)."""
    removed: dict[str, int] = {}
    for event in events:
        if event.type is EventType.TOOL_CALL and (command := event.metadata.get("command", "")):
            for match in _REMOVES.finditer(command):
                words = [word.strip("\"'") for word in match["arguments"].split()]
                if "--cached" in words:
                    continue
                directory = event.metadata.get("cwd", "")
                for moved in _MOVES.findall(command[: match.start() + 1]):
                    directory = resolve_path(moved.strip("\"'"), directory)
                paths = (resolve_path(word, directory) for word in words if word and not word.startswith("-"))
                removed |= dict.fromkeys(paths, event.timestamp)
    return removed


def resolve_path(path: str, directory: str) -> str:
    """Return a path as it is named from a directory, with slashes of one kind."""
    return posixpath.normpath(posixpath.join(directory.replace("\\", "/"), path.replace("\\", "/")))
