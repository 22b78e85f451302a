"""The server with everything the protocol's conformance suite asks for by name, and without the token layer.

A program: `python -m tests.daemon.fixtures_app [--port N] [--plain]`; prints the address. `--plain` is the server as it
is, without fixtures. The suite cannot send a header, so no token is asked for; Host and Origin are checked as ever.
"""

import argparse
import base64
import json
from typing import Annotated, Any

import anyio
import uvicorn
from mcp.server import ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.shared.exceptions import MCPError
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    InputRequest,
    InputRequiredResult,
    JSONRPCMessage,
    ListRootsRequest,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel, Field

from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.server.build import build_server
from memory_mcp.server.guard import MemoryServer
from memory_mcp.service.daemon.http import MAX_BODY, bind
from memory_mcp.service.daemon.routes import Asked, Connection, route_of, routes
from memory_mcp.service.daemon.security import Guard, Rules
from memory_mcp.storage.settings import StorageSettings

#: A picture of one point, and a sound of no length.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
PAUSE = 0.05


def text(words: str) -> TextContent:
    return TextContent(type="text", text=words)


def embedded(uri: str, words: str, mime_type: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=words))


def image() -> ImageContent:
    return ImageContent(type="image", data=PNG, mime_type="image/png")


def add_contents(server: MemoryServer) -> None:
    """Tools that answer with each kind of content."""

    @server.tool()
    def test_simple_text() -> str:
        return "This is a simple text response for testing."

    @server.tool()
    def test_image_content() -> list[ImageContent]:
        return [image()]

    @server.tool()
    def test_audio_content() -> list[AudioContent]:
        return [AudioContent(type="audio", data=WAV, mime_type="audio/wav")]

    @server.tool()
    def test_embedded_resource() -> list[EmbeddedResource]:
        return [embedded("test://embedded-resource", "This is an embedded resource content.")]

    @server.tool()
    def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
        data = json.dumps({"test": "data", "value": 123})
        mixed = embedded("test://mixed-content-resource", data, "application/json")
        return [text("Multiple content types test:"), image(), mixed]

    @server.tool()
    def test_error_handling() -> str:
        raise RuntimeError("This tool intentionally returns an error for testing")

    @server.tool()
    def test_x_mcp_header(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "") -> str:
        return f"region={region}"

    @server.tool()
    def json_schema_2020_12_tool() -> str:
        return "json_schema_2020_12_tool"

    schema_tool = server._tool_manager.get_tool("json_schema_2020_12_tool")
    assert schema_tool is not None
    schema_tool.parameters = SCHEMA


#: Every keyword of JSON Schema 2020-12 that must come through unchanged.
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        **{name: {"type": "string"} for name in ("name", "phone", "email")},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def add_messages(server: MemoryServer) -> None:
    """Tools that send something while they run."""

    async def say(ctx: Context, words: str) -> None:
        # Deprecated in the newest revision, and still part of the older one.
        await ctx.session.send_log_message("info", words, related_request_id=ctx.request_id)

    @server.tool()
    async def test_tool_with_logging(ctx: Context) -> str:
        for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await say(ctx, words)
            await anyio.sleep(PAUSE)
        return "Tool with logging executed successfully"

    @server.tool()
    async def test_tool_with_progress(ctx: Context) -> str:
        for done in (0, 50, 100):
            await ctx.report_progress(done, 100, f"Completed step {done} of 100")
            await anyio.sleep(PAUSE)
        return "done"

    @server.tool()
    async def test_reconnection(ctx: Context) -> str:
        await say(ctx, "Before disconnect")
        await ctx.close_sse_stream()
        await anyio.sleep(4 * PAUSE)
        await say(ctx, "After reconnect")
        return "Reconnection test completed"

    @server.tool()
    async def test_trigger_tool_change(ctx: Context) -> str:
        server.add_tool(lambda: "dynamic", name="test_dynamic_tool")
        server.remove_tool("test_dynamic_tool")
        await ctx.notify_tools_changed()
        return "tool list changed"

    @server.tool()
    async def test_trigger_prompt_change(ctx: Context) -> str:
        server.add_prompt(Prompt.from_function(lambda: "dynamic", name="test_dynamic_prompt", description="dynamic"))
        server.remove_prompt("test_dynamic_prompt")
        await ctx.notify_prompts_changed()
        return "prompt list changed"


class Reply(BaseModel):
    response: str = Field(description="User's response")


class Defaults(BaseModel):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Annotated[str, Field(json_schema_extra={"enum": ["active", "inactive", "pending"]})] = "active"
    verified: bool = True


def titled(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"const": const, "title": title} for const, title in pairs]


class Enums(BaseModel):
    untitledSingle: Annotated[str, Field(json_schema_extra={"enum": ["active", "inactive", "pending"]})]  # noqa: N815
    titledSingle: Annotated[  # noqa: N815
        str, Field(json_schema_extra={"oneOf": titled(("low", "Low"), ("medium", "Medium"), ("high", "High"))})
    ]
    untitledMulti: Annotated[  # noqa: N815
        list[str], Field(json_schema_extra={"items": {"type": "string", "enum": ["read", "write", "execute"]}})
    ]
    titledMulti: Annotated[  # noqa: N815
        list[str], Field(json_schema_extra={"items": {"anyOf": titled(("feature", "Feature"), ("bug", "Fix"))}})
    ]
    legacyEnum: Annotated[  # noqa: N815
        str, Field(json_schema_extra={"enum": ["small", "medium", "large"], "enumNames": ["Small", "Medium", "Large"]})
    ]


def add_questions(server: MemoryServer) -> None:
    """Tools that ask the client while they run, which only the older revision knows."""

    async def ask(ctx: Context, message: str, schema: type[BaseModel]) -> str:
        answer = await ctx.elicit(message=message, schema=schema)
        content = answer.data.model_dump_json() if answer.action == "accept" else "{}"
        return f"action={answer.action}, content={content}"

    @server.tool()
    async def test_sampling(prompt: str, ctx: Context) -> str:
        asked = [SamplingMessage(role="user", content=text(prompt))]
        answer = await ctx.session.create_message(messages=asked, max_tokens=100, related_request_id=ctx.request_id)
        return f"LLM response: {answer.content.text if isinstance(answer.content, TextContent) else ''}"

    @server.tool()
    async def test_elicitation(message: str, ctx: Context) -> str:
        return f"User response: {await ask(ctx, message, Reply)}"

    @server.tool()
    async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
        return f"Elicitation completed: {await ask(ctx, 'Please provide user information', Defaults)}"

    @server.tool()
    async def test_elicitation_sep1330_enums(ctx: Context) -> str:
        return f"Elicitation completed: {await ask(ctx, 'Please choose', Enums)}"

    @server.tool()
    async def test_missing_capability(ctx: Context) -> str:
        able = ctx.session.client_capabilities
        if able is None or able.sampling is None:
            needed: dict[str, Any] = {"requiredCapabilities": {"sampling": {}}}
            raise MCPError(code=MISSING_REQUIRED_CLIENT_CAPABILITY, message="the client cannot sample", data=needed)
        return "The client can sample."


# Answers that ask for input first: the newest revision's way.


def form(message: str, field: str, kind: str = "string") -> ElicitRequest:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(words: str) -> CreateMessageRequest:
    asked = [SamplingMessage(role="user", content=text(words))]
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=asked, max_tokens=100))


def said(answer: object, field: str) -> str:
    return str(answer.content.get(field, "")) if isinstance(answer, ElicitResult) and answer.content else ""


def wanted(state: str | None = None, **requests: InputRequest) -> InputRequiredResult:
    return InputRequiredResult(input_requests=requests, request_state=state)


def add_inputs(server: MemoryServer) -> None:
    """Tools and a prompt that need one input."""

    @server.tool()
    async def test_input_required_result_elicitation(ctx: Context) -> str | InputRequiredResult:
        answers = ctx.input_responses or {}
        if "user_name" in answers:
            return f"Hello, {said(answers['user_name'], 'name')}!"
        return wanted(user_name=form("What is your name?", "name"))

    @server.tool()
    async def test_input_required_result_sampling(ctx: Context) -> str | InputRequiredResult:
        answers = ctx.input_responses or {}
        if "capital_question" in answers:
            return f"Model said: {answers['capital_question'].model_dump_json()}"
        return wanted(capital_question=sample("What is the capital of France?"))

    @server.tool()
    async def test_input_required_result_list_roots(ctx: Context) -> str | InputRequiredResult:
        answers = ctx.input_responses or {}
        if "client_roots" in answers:
            return f"Client roots: {answers['client_roots'].model_dump_json()}"
        return wanted(client_roots=ListRootsRequest())

    @server.tool()
    async def test_input_required_result_capabilities(ctx: Context) -> InputRequiredResult:
        able = ctx.client_capabilities
        requests: dict[str, InputRequest] = {}
        if able is None or able.sampling is not None:
            requests["sample"] = sample("Say hello")
        if able is None or able.elicitation is not None:
            requests["ask"] = form("What is your name?", "name")
        return wanted("by capability", **requests)

    @server.prompt()
    async def test_input_required_result_prompt(ctx: Context) -> list[UserMessage] | InputRequiredResult:
        answers = ctx.input_responses or {}
        if "user_context" in answers:
            return [UserMessage(content=text(f"Use this context: {said(answers['user_context'], 'context')}"))]
        return wanted(user_context=form("What context should the prompt use?", "context"))


def add_rounds(server: MemoryServer) -> None:
    """Tools that go through several rounds, carrying a state."""

    @server.tool()
    async def test_input_required_result_request_state(ctx: Context) -> str | InputRequiredResult:
        if "confirm" in (ctx.input_responses or {}) and ctx.request_state == "asked":
            return "state-ok: confirmed"
        return wanted("asked", confirm=form("Please confirm", "ok", "boolean"))

    @server.tool()
    async def test_input_required_result_tampered_state(ctx: Context) -> str | InputRequiredResult:
        if ctx.request_state is None:
            return wanted("round-1", confirm=form("Please confirm", "ok", "boolean"))
        return f"state-ok: {ctx.request_state}"

    @server.tool()
    async def test_input_required_result_multiple_inputs(ctx: Context) -> str | InputRequiredResult:
        requests: dict[str, InputRequest] = {
            "user_name": form("What is your name?", "name"),
            "greeting": sample("Generate a greeting"),
            "client_roots": ListRootsRequest(),
        }
        return "All inputs received." if set(requests) <= set(ctx.input_responses or {}) else wanted("asked", **requests)

    @server.tool()
    async def test_input_required_result_multi_round(ctx: Context) -> str | InputRequiredResult:
        answers = ctx.input_responses or {}
        state = json.loads(ctx.request_state or "{}")
        if "name" in state and "step2" in answers:
            return f"{state['name']} likes {said(answers['step2'], 'color')}."
        if state and "step1" in answers:
            name = said(answers["step1"], "name")
            return wanted(json.dumps({"name": name}), step2=form("Step 2: What is your favorite color?", "color"))
        return wanted(json.dumps({"round": 1}), step1=form("Step 1: What is your name?", "name"))


def add_reading(server: MemoryServer) -> None:
    """Resources, prompts, and the handlers of the older revision that a tools server has no use for."""

    @server.resource("test://static-text")
    def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        return base64.b64decode(PNG)

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def template(id: str) -> str:  # noqa: A002
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})

    @server.resource("test://watched-resource")
    def watched() -> str:
        return "Watched resource content"

    @server.prompt()
    def test_simple_prompt() -> list[UserMessage]:
        return [UserMessage(content=text("This is a simple prompt for testing."))]

    @server.prompt()
    def test_prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
        return [UserMessage(content=text(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"))]

    @server.prompt()
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803
        words = UserMessage(content=text("Please process the embedded resource above."))
        return [UserMessage(content=embedded(resourceUri, "Embedded resource content for testing.")), words]

    @server.prompt()
    def test_prompt_with_image() -> list[UserMessage]:
        return [UserMessage(content=image()), UserMessage(content=text("Please analyze the image above."))]

    async def done(ctx: ServerRequestContext[Any], params: Any) -> EmptyResult:
        return EmptyResult()

    low = server._lowlevel_server
    low.add_request_handler("logging/setLevel", SetLevelRequestParams, done)
    low.add_request_handler("resources/subscribe", SubscribeRequestParams, done)
    low.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, done)


class Kept(EventStore):
    """What was sent, for a client that comes back for the rest."""

    def __init__(self) -> None:
        self._sent: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self._sent.append((stream_id, message))
        return str(len(self._sent))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        seen = int(last_event_id) if last_event_id.isdecimal() else 0
        if not 0 < seen <= len(self._sent):
            return None
        stream = self._sent[seen - 1][0]
        for number, (sender, message) in enumerate(self._sent[seen:], seen + 1):
            if sender == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def fixtures(server: MemoryServer) -> MemoryServer:
    for add in (add_contents, add_messages, add_questions, add_inputs, add_rounds, add_reading):
        add(server)
    # The suite wants each described.
    for tool in server._tool_manager.list_tools():
        tool.description = tool.description or f"Fixture {tool.name}."
    for prompt in server._prompt_manager.list_prompts():
        prompt.description = prompt.description or f"Fixture {prompt.name}."
    return server


def guarded(server: MemoryServer, **transport: Any) -> Guard:
    """The application as the door has it, but for the token."""
    asked = Asked(dict, str, lambda client, payload: None)
    return Guard(Connection(routes(server, asked, MAX_BODY, **transport)), Rules(None, "", MAX_BODY), route_of)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--plain", action="store_true")
    args = parser.parse_args()
    app = App(Settings(storage=StorageSettings(timezone="UTC")), in_memory=True)
    server = build_server(app, "")
    guard = guarded(server) if args.plain else guarded(fixtures(server), event_store=Kept(), retry_interval=100)
    listener = bind("127.0.0.1", args.port)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)  # noqa: T201
    config = uvicorn.Config(guard, log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
