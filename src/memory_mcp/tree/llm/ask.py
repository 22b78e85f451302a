"""Choose what answers prompts under the settings, and wait for the answer."""

import threading
from pathlib import Path

from memory_mcp.tree.llm.prompt import Prompt
from memory_mcp.tree.llm.reply import Ask, Refused, Reply, Unavailable
from memory_mcp.tree.llm.settings import COMMAND, SummarizerSettings

#: First wait before another try, doubled each time, and the longest that is waited, also where the endpoint asks for more (s).
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0


def asker(settings: SummarizerSettings, directory: Path | None) -> Ask:
    """Return what answers prompts: by the provider a `Command` run in `directory` (None: the current one), or an `Endpoint`."""
    if settings.provider == COMMAND:
        from memory_mcp.tree.llm.command import Command

        return Command(settings.command, settings.timeout_secs, directory)
    from memory_mcp.tree.llm.endpoint import Endpoint

    return Endpoint(settings)


def patiently(ask: Ask, prompt: Prompt, retries: int, stopped: threading.Event) -> Reply:
    """Ask until there is an answer, and return it; at most `retries` further tries. Tokens of failed tries count as in.

    Waits 1 s, doubled each time, or as long as the endpoint asks for. Raises Refused, and Unavailable when no further try
    may help, tries are used up, more than 60 s would be waited, or `stopped` is set; their `tokens_in` is the cost.
    """
    lost = 0
    for attempt in range(retries + 1):
        try:
            reply = ask(prompt, stopped)
            return Reply(reply.text, reply.tokens_in + lost, reply.tokens_out, reply.estimated or lost > 0)
        except Refused as error:
            error.tokens_in += lost
            raise
        except Unavailable as error:
            lost += error.tokens_in
            wait = _FIRST_WAIT * 2.0**attempt if error.after is None else error.after
            if not error.again or attempt == retries or wait > _LONGEST_WAIT or stopped.wait(wait):
                error.tokens_in = lost
                raise
    raise AssertionError("a negative number of retries")
