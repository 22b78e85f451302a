"""The program that the conformance suite is run against: it has what the suite asks for by name, and ends when told to."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp.types import TextContent

from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
#: Names that the suite's requirements for both revisions use.
TOOLS = """test_simple_text test_image_content test_audio_content test_embedded_resource test_multiple_content_types
test_tool_with_logging test_tool_with_progress test_sampling test_elicitation test_elicitation_sep1034_defaults
test_elicitation_sep1330_enums test_error_handling test_x_mcp_header test_missing_capability
test_input_required_result_elicitation test_input_required_result_sampling test_input_required_result_list_roots
test_input_required_result_request_state test_input_required_result_multiple_inputs test_input_required_result_multi_round
test_input_required_result_tampered_state test_input_required_result_capabilities json_schema_2020_12_tool
test_reconnection test_trigger_tool_change test_trigger_prompt_change""".split()
PROMPTS = """test_simple_prompt test_prompt_with_arguments test_prompt_with_embedded_resource test_prompt_with_image
test_input_required_result_prompt""".split()


@pytest.fixture(scope="module")
def program() -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "tests.daemon.fixtures_app"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    assert process.stdout is not None
    yield process, process.stdout.readline().strip()
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE)
    process.stdout.close()


@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_everything_the_suite_asks_for_is_there_beside_the_servers_own(
    program: tuple[subprocess.Popen[str], str], era: str
) -> None:
    async def main() -> tuple[set[str], set[str], set[str]]:
        async with Client(program[1], mode=era) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
            return tools, prompts, {str(found.uri) for found in (await client.list_resources()).resources}

    tools, prompts, resources = anyio.run(main)
    assert {*TOOLS, "intelligent_search"} <= tools
    assert set(PROMPTS) <= prompts
    assert {"test://static-text", "test://static-binary", "test://watched-resource", "memory://status"} <= resources


def test_an_added_tool_fails_in_its_own_way_and_ours_in_ours(program: tuple[subprocess.Popen[str], str]) -> None:
    async def main() -> list[str]:
        texts = []
        async with Client(program[1]) as client:
            for name in ("test_simple_text", "test_error_handling", "expand_grip", "no_such_tool"):
                [block] = (await client.call_tool(name, {})).content
                assert isinstance(block, TextContent)
                texts.append(block.text)
        return texts

    added, failed, ours, unknown = anyio.run(main)
    assert added == "This is a simple text response for testing."
    assert failed == "Error executing tool test_error_handling"
    assert ours.startswith("INVALID_ARGUMENT: grip_id is missing.")
    assert unknown.startswith("INVALID_ARGUMENT: unknown tool 'no_such_tool'.")
