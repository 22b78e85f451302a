"""Asks an HTTP endpoint that speaks as OpenAI's or Anthropic's: the one address of the settings, and no other.

No redirect is followed and no proxy is asked; a key is sent only where the settings name its variable.
"""

import http.client
import json
import os
import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from memory_mcp.model.tokens import estimate_tokens
from memory_mcp.tree.llm.prompt import Prompt
from memory_mcp.tree.llm.reply import MAX_OUT, Refused, Reply, Unavailable
from memory_mcp.tree.llm.settings import ANTHROPIC, SummarizerSettings

#: Longest answer that is read, bytes.
_MOST = 4 * 1024 * 1024
_CHUNK = 64 * 1024
#: Answers after which another try may help; 529 is Anthropic's "overloaded".
_AGAIN = frozenset({408, 429, 500, 502, 503, 504, 529})
#: Answers that are about one prompt: too long, or not to the endpoint's liking.
_ONE_PROMPT = frozenset({400, 413, 422})
_ANTHROPIC_VERSION = "2023-06-01"
#: Where Anthropic's kind states the tokens that it read.
_GIVEN = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
_SECONDS = re.compile(r"\d{1,9}(?:\.\d+)?")


class Endpoint:
    """Answers a prompt by an HTTP endpoint, as `reply.Ask`."""

    def __init__(self, settings: SummarizerSettings) -> None:
        """Keep the settings and make the path of requests, such as /v1/chat/completions; nothing is sent."""
        self._settings = settings
        self._is_anthropic = settings.provider == ANTHROPIC
        tail = "/v1/messages" if self._is_anthropic else "/chat/completions"
        base = settings.address.path.rstrip("/")
        self._path = base if base.endswith(tail) else base + tail

    def __call__(self, prompt: Prompt, stopped: threading.Event) -> Reply:
        """Ask once and return the reply; `stopped` is not looked at.

        Raises Unavailable when the key's variable is not set, the endpoint is not reached, is too slow or answers with
        most statuses other than 200 (see `_failure`), Refused when it refuses this prompt or answers in another form.
        """
        del stopped
        headers = {"Content-Type": "application/json", "User-Agent": "memory-mcp"}
        asked = {"role": "user", "content": prompt.data}
        body: dict[str, Any] = {"model": self._settings.model, "max_tokens": MAX_OUT}
        if self._is_anthropic:
            headers["anthropic-version"] = _ANTHROPIC_VERSION
            body |= {"system": prompt.task, "messages": [asked]}
        else:
            body |= {"messages": [{"role": "system", "content": prompt.task}, asked], "stream": False}
        if name := self._settings.api_key_env:
            key = os.environ.get(name, "").strip()
            if not key:
                raise Unavailable(f"the variable {name} (summarizer.api_key_env) is not set where this process runs", again=False)
            headers |= {"x-api-key": key} if self._is_anthropic else {"Authorization": f"Bearer {key}"}
        try:
            status, after, raw = self._exchange(headers, json.dumps(body).encode("ascii"))
        except TimeoutError:
            raise Unavailable("no answer in time", again=True, tokens_in=prompt.tokens) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unavailable(f"not reached: {type(error).__name__}", again=True) from None
        if status != http.client.OK:
            raise _failure(status, after)
        return self._reply(raw, prompt)

    def _exchange(self, headers: Mapping[str, str], body: bytes) -> tuple[int, str, bytes]:
        """POST a request; return (status, Retry-After or "", body); the body is not read on once it is longer than 4 MB.

        Raises TimeoutError when all of it takes longer than the settings allow, OSError, HTTPException or ValueError when
        it fails.
        """
        address, timeout = self._settings.address, self._settings.timeout_secs
        until = time.monotonic() + timeout
        kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
        connection = kind(address.hostname or "", address.port, timeout=timeout)
        try:
            connection.request("POST", self._path, body, dict(headers))
            # What is read drop by drop must not take longer than what does not come at all. The answer may take the
            # socket over when it closes the connection, so it is kept here.
            wire = connection.sock
            response = connection.getresponse()
            raw = b""
            while not response.isclosed() and len(raw) <= _MOST:
                if (left := until - time.monotonic()) <= 0:
                    raise TimeoutError
                wire.settimeout(left)
                if not (part := response.read1(_CHUNK)):
                    break
                raw += part
            return response.status, response.getheader("Retry-After", ""), raw
        finally:
            connection.close()

    def _reply(self, raw: bytes, prompt: Prompt) -> Reply:
        """Return the reply in an answer, its tokens estimated unless it states both counts; raise Refused for another form."""
        try:
            told = json.loads(raw)
            if self._is_anthropic:
                text = "".join(block["text"] for block in told["content"] if block.get("type") == "text")
            else:
                text = told["choices"][0]["message"]["content"] or ""
            assert isinstance(text, str)
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, AssertionError, RecursionError):
            raise Refused("the endpoint's answer has not the form it should", prompt.tokens) from None
        usage = told["usage"] if isinstance(told.get("usage"), dict) else {}
        given, made = usage.get("prompt_tokens"), usage.get("completion_tokens")
        if given is None:
            # Anthropic's kind: what a cache held counts as given.
            read = [usage.get(name) or 0 for name in _GIVEN]
            given, made = (sum(read) if all(isinstance(n, int) for n in read) else None), usage.get("output_tokens")
        if isinstance(given, int) and isinstance(made, int) and given > 0 and made >= 0:
            return Reply(text, given, made, estimated=False)
        return Reply(text, prompt.tokens, estimate_tokens(text), estimated=True)


def _failure(status: int, after: str) -> Refused | Unavailable:
    """Return, not raise, the error for a status other than 200; the body is not repeated, since it may quote the prompt.

    Unavailable with another try for 408, 429, 500, 502, 503, 504 and 529; Refused for 400, 413 and 422; Unavailable
    without another try for the rest. `after` is the Retry-After header: seconds or a date, "" for none.
    """
    told = f"HTTP {status}"
    if status in _AGAIN:
        seconds = float(after) if _SECONDS.fullmatch(after.strip()) else None
        if seconds is None:
            from email.utils import parsedate_to_datetime

            with suppress(ValueError, TypeError):
                seconds = max(0.0, parsedate_to_datetime(after).timestamp() - time.time())
        return Unavailable(told, again=True, after=seconds)
    if status in _ONE_PROMPT:
        return Refused(told)
    if 300 <= status < 400:
        return Unavailable(f"{told}: redirects are not followed; name the address itself in summarizer.url", again=False)
    if status in (401, 403):
        return Unavailable(f"{told}: the endpoint wants another key; see summarizer.api_key_env", again=False)
    return Unavailable(f"{told}: see summarizer.url and summarizer.model", again=False)
