"""Configurations as people have them, by format: 20 and more of each, as bytes; made up for these tests."""

import json
from collections.abc import Sequence
from typing import Any

BOM = b"\xef\xbb\xbf"


def json_samples(keys: Sequence[str]) -> dict[str, bytes]:
    """JSON with comments and trailing commas or without; `keys` lead to the object that holds servers."""
    other: dict[str, Any] = {"command": "npx", "args": ["-y", "@example/server"], "env": {"KEY": "s3cret"}}
    plain = _inside(keys, {"files": other})
    two = json.dumps(plain, indent=2)
    key = keys[0]
    samples: dict[str, str | bytes] = {
        "an empty file": "",
        "blanks alone": "\n\n",
        "an empty object": "{}",
        "an empty object and a line break": "{}\n",
        "an empty object over lines": "{\n}\n",
        "an empty object with a blank": "{ }",
        "two spaces": two + "\n",
        "no line break at the end": two,
        "four spaces": json.dumps(plain, indent=4) + "\n",
        "tabs": json.dumps(plain, indent="\t") + "\n",
        "one line": json.dumps(plain),
        "one line without blanks": json.dumps(plain, separators=(",", ":")) + "\n",
        "CRLF": two.replace("\n", "\r\n") + "\r\n",
        "CRLF without the last": two.replace("\n", "\r\n"),
        "BOM": BOM + two.encode(),
        "BOM and CRLF": BOM + two.replace("\n", "\r\n").encode(),
        "BOM alone": BOM,
        "no servers yet": '{\n  "theme": "dark",\n  "telemetry": false\n}\n',
        "servers, none": json.dumps(_inside(keys, {}), indent=2) + "\n",
        "servers, none, on one line": json.dumps(_inside(keys, {})),
        "servers in the middle": json.dumps({"a": 1, **plain, "z": {"deep": [1, {"x": None}]}}, indent=2) + "\n",
        "not ASCII": json.dumps({"nutzer": "Jürgen 🦀 日本", **plain}, indent=2, ensure_ascii=False) + "\n",
        "escapes": json.dumps({"path": 'C:\\Users\\x "y" \u2028', "\u00e9": "\ud83e\udd80", **plain}, indent=2) + "\n",
        "numbers as written": '{\n  "a": 1.0,\n  "b": 1e5,\n  "c": -0,\n  "d": 12345678901234567890,\n  "e": 0.10\n}\n',
        "a line comment behind the last entry": '{\n  // mine\n  "theme": "dark" // keep\n}\n',
        "a comment before the end": '{\n  "theme": "dark"\n  // "old": 1,\n}\n',
        "a block comment with braces": '/* { "a": 1 } */\n{\n  "theme": /* here */ "dark" /* } */\n}\n// the end',
        "comments alone inside": "{\n  // nothing yet\n  /* still */\n}\n",
        "an address that looks like a comment": '{\n  "url": "http://x//y/*z*/"\n}\n',
        "a trailing comma": '{\n  "theme": "dark",\n}\n',
        "a trailing comma and a comment": '{\n  "theme": "dark", // why\n}\n',
        "trailing commas inside": '{\n  "' + key + '": {\n    "files": {"command": "x", "args": ["a",],},\n  },\n}\n',
        "a comma first": '{\n    "a": 1\n  , "b": 2\n}\n',
        "braces on their own lines": '{\n  "a":\n  {\n    "b": 1\n  }\n}\n',
        "odd indentation": '{\n "a": 1,\n      "b": {"c": 2,\n  "d": 3}\n}\n\n\n',
        "a key twice": '{\n  "a": 1,\n  "a": 2\n}\n',
        "line ends mixed": '{\r\n  "a": 1,\n  "b": 2\r\n}\n',
        "a long file": json.dumps(
            {**plain, "projects": {f"/code/p{n}": {"n": n, "h": ["x" * 50]} for n in range(400)}}, indent=2
        ),
        "nested deeply": '{\n  "a": ' + "[" * 200 + "]" * 200 + "\n}\n",
        "blanks at line ends": '{  \n  "a": 1  ,  \n  "b": 2  \n}  \n',
    }
    return _encoded(samples)


def _encoded(samples: dict[str, str | bytes]) -> dict[str, bytes]:
    return {name: text.encode("utf-8") if isinstance(text, str) else text for name, text in samples.items()}


def _inside(keys: Sequence[str], value: Any) -> dict[str, Any]:
    for key in reversed(keys):
        value = {key: value}
    return dict(value)


HOOKS = {
    "hooks of others": {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}},
    "hooks with matchers": {
        "hooks": {
            "PostToolUse": [
                {
                    "matcher": "Edit|Write",
                    "hooks": [{"type": "command", "command": "prettier"}, {"type": "command", "command": "x"}],
                },
                {"matcher": "Bash", "hooks": [{"type": "command", "command": "audit", "timeout": 5}]},
            ],
            "PreToolUse": [],
            "Notification": [{"hooks": [{"type": "command", "command": "bell"}]}],
        },
        "permissions": {"allow": ["Bash(ls:*)"], "deny": []},
    },
    "hooks, none": {"hooks": {}},
    "an event without hooks": {"hooks": {"Stop": [], "SessionEnd": []}},
}


def hook_samples() -> dict[str, bytes]:
    """Settings with hooks of others, in several hands."""
    found = {}
    for name, value in HOOKS.items():
        found[name] = json.dumps(value, indent=2).encode()
        found[f"{name}, one line"] = json.dumps(value).encode()
        found[f"{name}, tabs and CRLF"] = json.dumps(value, indent="\t").replace("\n", "\r\n").encode() + b"\r\n"
        found[f"{name}, BOM"] = BOM + json.dumps(value, indent=4).encode()
    found["commented hooks"] = (
        b'{\n  // mine\n  "hooks": {\n    "Stop": [ // first\n      {"hooks": [{"type": "command", "command": "x"}]}, // a\n'
        b'      /* none */\n    ],\n    // "SessionEnd": []\n  },\n}\n'
    )
    return found


_CODEX = """# my settings
model = "gpt-5.5"
approval_policy = "on-request"   # ask

[projects."/home/me/code"]
trust_level = "trusted"

[mcp_servers.files]
command = "npx"
args = ["-y", "@example/server"]
[mcp_servers.files.env]
KEY = "s3cret"
"""


def toml_samples() -> dict[str, bytes]:
    """TOML for Codex."""
    samples: dict[str, str | bytes] = {
        "an empty file": "",
        "blanks alone": "\n\n",
        "a comment alone": "# nothing yet\n",
        "a comment without a line break": "# nothing yet",
        "usual": _CODEX,
        "no line break at the end": _CODEX.rstrip(),
        "empty lines at the end": _CODEX + "\n\n\n",
        "CRLF": _CODEX.replace("\n", "\r\n"),
        "CRLF without the last": _CODEX.replace("\n", "\r\n").rstrip(),
        "BOM": BOM + _CODEX.encode(),
        "BOM and CRLF": BOM + _CODEX.replace("\n", "\r\n").encode(),
        "BOM alone": BOM,
        "root keys alone": 'model = "x"\nnotify = ["a", "b"]\n',
        "a header alone": "[mcp_servers]\n",
        "a header with a comment": "[mcp_servers] # mine\n\n[tui]\ntheme = 'x'\n",
        "inline servers' tables": '[mcp_servers]\nfiles = { command = "npx", args = ["-y"] }\n',
        "dotted keys": 'mcp_servers.files.command = "x"\nmcp_servers.files.args = []\n',
        "several lines of text": 'notes = """\n[mcp_servers.memory]\ncommand = "no"\n"""\n',
        "literal text": "path = 'C:\\Users\\me'\nre = '''\n[x]\n'''\n",
        "arrays over lines": 'a = [\n  1, # one\n  2,\n]\n\n[[profiles]]\nname = "a"\n\n[[profiles]]\nname = "b"\n',
        "not ASCII": '"schlüssel" = "Jürgen 🦀 日本"\n["tabelle ü"]\nx = 1\n',
        "tables out of order": '[a.b]\nx = 1\n[c]\ny = 2\n[a.d]\nz = 3\n[mcp_servers.z]\ncommand = "z"\n[e]\n',
        "indented": "[a]\n  x = 1\n  [a.b]\n    y = 2\n",
        "dates and numbers": "t = 1979-05-27T07:32:00Z\nn = 1_000\nf = 5e+22\nh = 0xDEAD\ni = inf\n",
        "tabs and blanks": "a\t=\t1   \n\n  \n[b]   \nc = 2\t# x\n",
        "a long file": "".join(f'[projects."/code/p{n}"]\ntrust_level = "trusted"\n\n' for n in range(800)),
        "line ends mixed": "a = 1\r\nb = 2\n[c]\r\nd = 3\n",
    }
    return _encoded(samples)
