"""The recipes of docs/language-model.md run as they are written."""

import http.server
import json
import re
import sys
import threading
import tomllib
from pathlib import Path

import pytest

from memory_mcp.tree.llm.command import Command
from memory_mcp.tree.llm.material import Prompt
from memory_mcp.tree.llm.settings import SummarizerSettings

pytestmark = pytest.mark.usefixtures("processes")

PAGE = (Path(__file__).parents[2] / "docs" / "language-model.md").read_text(encoding="utf-8")
PROMPT = Prompt("Say it better.", "what was recorded")
ANSWER = {"title": "hello"}


def ask(command: str) -> tuple[object, int]:
    reply = Command(command, 60, None).ask(PROMPT, threading.Event(), 0)
    return json.loads(reply.text)["title"], reply.tokens_in


@pytest.mark.skipif(sys.platform == "win32", reason="the recipe is a line of a shell")
def test_the_recipe_for_claude_gives_the_prompt_on_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "claude"
    program.write_text(f"#!/bin/sh\ncat > {tmp_path}/prompt\necho \"$@\" > {tmp_path}/words\necho '{json.dumps(ANSWER)}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    settings = tomllib.loads(re.findall(r"```toml\n(.*?)```", PAGE, re.S)[0])["summarizer"]
    assert ask(SummarizerSettings(**settings).command)[0] == "hello"
    assert (tmp_path / "prompt").read_text().rstrip() == PROMPT.whole.rstrip()
    assert (tmp_path / "words").read_text() == "-p\n"


def test_the_recipe_for_ollama_asks_its_server_and_tells_the_tokens(tmp_path: Path) -> None:
    requests = []

    class Ollama(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append((self.path, json.loads(self.rfile.read(int(self.headers["content-length"])))))
            body = json.dumps({"response": json.dumps(ANSWER), "prompt_eval_count": 12, "eval_count": 3}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    script = re.findall(r"```python\n(.*?)```", PAGE, re.S)[0]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Ollama) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        file = tmp_path / "ollama.py"
        file.write_text(script.replace("127.0.0.1:11434", f"127.0.0.1:{server.server_port}"), encoding="utf-8")
        assert ask(f"{sys.executable} {file}") == ("hello", 12)
        server.shutdown()
    [(path, body)] = requests
    assert (path, body["prompt"], body["format"], body["stream"]) == ("/api/generate", PROMPT.whole, "json", False)
