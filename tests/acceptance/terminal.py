"""A client in a terminal of its own: runs its hooks and its server as children of one process, by lines on standard input.

A line is {"hook": payload} or {"ask": arguments, "tool": name}; of each the answer is printed, a line.
"""

import json
import subprocess
import sys
from typing import Any


class Server:
    """The memory's server, which this client has started."""

    def __init__(self, name: str) -> None:
        """Start it and greet it as `name`."""
        command = [sys.executable, "-m", "memory_mcp"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._number = 0
        info = {"name": name, "version": "2"}
        self.request("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info})
        self._say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _say(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of one request."""
        self._number += 1
        self._say({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == self._number:
                result: dict[str, Any] = message["result"]
                return result
        raise EOFError(method)

    def end(self) -> None:
        """Close its input and wait for its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


def main(name: str) -> None:
    """Do what the lines say until they end."""
    server = Server(name)
    for line in sys.stdin:
        told = json.loads(line)
        answer: Any = {}
        if "hook" in told:
            hook = [sys.executable, "-m", "memory_mcp", "hook", name]
            subprocess.run(hook, input=json.dumps(told["hook"]), text=True, check=True, stdout=subprocess.DEVNULL)
        else:
            call = {"name": told.get("tool", "intelligent_search"), "arguments": told["ask"]}
            answer = server.request("tools/call", call)["structuredContent"]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    server.end()


if __name__ == "__main__":
    main(sys.argv[1])
