"""A scripted model behind the APIs of four vendors, on loopback: what a client asks is recorded, what it hears is the script.

Messages of Anthropic, Responses and Chat Completions of OpenAI, generateContent of Google, each streamed or whole, as far as
the clients use them. A request that offers no tools is a client's own errand (a title, a count): the script does not answer it.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

#: What is said when the script has ended, and to errands.
ELSE = "Nothing to add."


@dataclass(frozen=True, slots=True)
class Say:
    """Words."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the offered tool whose name ends with `tool`."""

    tool: str
    given: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as the client sent it."""

    path: str
    body: dict[str, Any]

    @property
    def offers(self) -> bool:
        """Whether the model is offered tools, as in a conversation with a person."""
        return bool(self.body.get("tools"))

    @property
    def latest(self) -> str:
        """What came into the conversation last: a prompt, or a tool's answer."""
        said = self.body.get("messages") or self.body.get("input") or self.body["contents"]
        return json.dumps(said[-1], ensure_ascii=False)


@dataclass
class Model:
    """The server; `with` starts and ends it."""

    script: Sequence[Say | Call] = ()
    asked: list[Asked] = field(default_factory=list)

    def __enter__(self) -> "Model":
        self._lock = threading.Lock()
        self._left = list(self.script)
        self._calls = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"model": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def address(self) -> str:
        """Where it listens, without a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def say(self, *script: Say | Call) -> None:
        """What is answered next."""
        with self._lock:
            self._left = list(script)

    def answer(self, path: str, body: dict[str, Any]) -> tuple[Say | Call, str]:
        """What is answered to a request, and an id that no other answer has."""
        with self._lock:
            self.asked.append(Asked(path, body))
            self._calls += 1
            turn = self._left.pop(0) if self.asked[-1].offers and self._left else Say(ELSE)
            return turn, f"{self._calls:04d}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: Model

    def log_message(self, *_: object) -> None:
        """Nothing is written about requests."""

    def do_HEAD(self) -> None:
        """A client looks whether anybody is there."""
        self._whole(b"")

    def do_GET(self) -> None:
        """A client asks which models there are; it knows of its own."""
        self._whole(b'{"data": [], "models": []}')

    def do_POST(self) -> None:
        """One request for words."""
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        body = json.loads(raw or b"{}")
        if "count" in self.path.lower():
            self._whole(b'{"input_tokens": 9, "totalTokens": 9}')
            return
        turn, number = self.model.answer(self.path, body)
        if "streamGenerateContent" in self.path:
            self._stream((None, chunk) for chunk in [_google(turn, body)])
        elif "generateContent" in self.path:
            self._whole(json.dumps(_google(turn, body)).encode())
        elif self.path.partition("?")[0].endswith("/messages"):
            self._either(body, _anthropic(turn, body, number), _anthropic_events)
        elif self.path.endswith("/responses"):
            self._stream(_openai_responses(turn, body, number))
        else:
            self._either(body, _openai_chat(turn, body, number), _openai_chunks)

    def _either(self, body: dict[str, Any], whole: dict[str, Any], events: Any) -> None:
        if body.get("stream"):
            self._stream(events(whole))
        else:
            self._whole(json.dumps(whole).encode())

    def _whole(self, data: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Iterator[tuple[str | None, Any]]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for name, data in events:
            line = data if isinstance(data, str) else json.dumps(data)
            self.wfile.write((f"event: {name}\n" if name else "").encode() + f"data: {line}\n\n".encode())


def _named(body: dict[str, Any], call: Call) -> tuple[str, str]:
    """Namespace ("" without one) and name of an offered tool; AssertionError tells what is offered instead."""
    offered: list[tuple[str, str]] = []
    for tool in body["tools"]:
        for one in tool.get("functionDeclarations") or tool.get("tools") or [tool]:
            name = one.get("name") or one.get("function", {}).get("name") or ""
            offered.append((tool["name"] if tool.get("type") == "namespace" else "", name))
    found = [(space, name) for space, name in offered if name.endswith(call.tool)]
    assert found, f"{call.tool} is not offered: {offered}"
    return found[0]


# Anthropic


def _anthropic(turn: Say | Call, body: dict[str, Any], number: str) -> dict[str, Any]:
    if isinstance(turn, Say):
        block: dict[str, Any] = {"type": "text", "text": turn.text}
    else:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": _named(body, turn)[1], "input": turn.given}
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": [block],
        "stop_reason": "tool_use" if isinstance(turn, Call) else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 9},
    }


def _anthropic_events(whole: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "message_start", {"type": "message_start", "message": whole | {"content": [], "stop_reason": None}}
    [block] = whole["content"]
    if block["type"] == "text":
        empty, delta = block | {"text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        empty, delta = block | {"input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    yield "content_block_start", {"type": "content_block_start", "index": 0, "content_block": empty}
    yield "content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}
    yield "content_block_stop", {"type": "content_block_stop", "index": 0}
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": end, "usage": whole["usage"]}
    yield "message_stop", {"type": "message_stop"}


# OpenAI


def _openai_responses(turn: Say | Call, body: dict[str, Any], number: str) -> Iterator[tuple[str, Any]]:
    if isinstance(turn, Say):
        item: dict[str, Any] = {"type": "message", "role": "assistant", "id": f"msg_{number}"}
        item["content"] = [{"type": "output_text", "text": turn.text}]
    else:
        space, name = _named(body, turn)
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name}
        item |= {"arguments": json.dumps(turn.given)} | ({"namespace": space} if space else {})
    response = {"id": f"resp_{number}"}
    usage = {
        "input_tokens": 9,
        "input_tokens_details": None,
        "output_tokens": 9,
        "output_tokens_details": None,
        "total_tokens": 18,
    }
    yield "response.created", {"type": "response.created", "response": response}
    yield "response.output_item.done", {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield "response.completed", {"type": "response.completed", "response": response | {"usage": usage}}


def _openai_chat(turn: Say | Call, body: dict[str, Any], number: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn.text if isinstance(turn, Say) else None}
    if isinstance(turn, Call):
        function = {"name": _named(body, turn)[1], "arguments": json.dumps(turn.given)}
        message["tool_calls"] = [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 0,
        "model": body.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if isinstance(turn, Call) else "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18},
    }


def _openai_chunks(whole: dict[str, Any]) -> Iterator[tuple[None, Any]]:
    [choice] = whole["choices"]
    head = whole | {"object": "chat.completion.chunk"}
    del head["usage"]
    yield None, head | {"choices": [{"index": 0, "delta": choice["message"], "finish_reason": None}]}
    end = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    yield None, head | {"choices": [end], "usage": whole["usage"]}
    yield None, "[DONE]"


# Google


def _google(turn: Say | Call, body: dict[str, Any]) -> dict[str, Any]:
    part = {"text": turn.text} if isinstance(turn, Say) else {"functionCall": {"name": _named(body, turn)[1], "args": turn.given}}
    return {
        "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 9, "totalTokenCount": 18},
        "modelVersion": "scripted",
    }
