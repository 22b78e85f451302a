"""The proxy of packaging/team as a real nginx in front of two real servers."""

import http.client
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from memory_mcp_team.access.permissions import Role
from tests.daemon.http_client import Caller
from tests.packaging.conftest import ROOT
from tests.ports import free_port
from tests.team.servers import Team, serving
from tests.waiting import PATIENCE, until

HOST = "memory.example.com"
#: Where nginx keeps what is too large for memory; an installed one has folders for it.
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@dataclass
class Behind(Caller):
    """A caller that comes through the proxy, by TLS and the public name."""

    def send(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        insecure = ssl.create_default_context()
        insecure.check_hostname, insecure.verify_mode = False, ssl.CERT_NONE
        place = urlsplit(self.url)
        connection = http.client.HTTPSConnection("127.0.0.1", place.port, timeout=PATIENCE, context=insecure)
        try:
            named = {k.replace("_", "-"): v for k, v in headers.items()}
            connection.request(method, path, body, self.headers() | {"Host": HOST} | named)
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()


def nginx() -> str:
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if found is None:
        pytest.skip("nginx is not here; Debian's package nginx-light brings it")
    return found


@contextmanager
def proxied(folder: Path, servers: list[str]) -> Iterator[tuple[str, Path]]:
    """The proxy's address and log; its configuration with other addresses and paths, and nothing else changed."""
    folder.mkdir()
    words = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-subj",
        f"/CN={HOST}",
    ]
    subprocess.run([*words, "-keyout", folder / "key", "-out", folder / "crt"], check=True, capture_output=True, timeout=PATIENCE)
    port, log = free_port(), folder / "access"
    text = (ROOT / "packaging" / "team" / "proxy" / "nginx.conf").read_text(encoding="utf-8")
    for old, new in {
        "events {": f"pid {folder}/pid;\nevents {{",
        "http {": "http {" + "".join(f"{kind}_temp_path {folder}/{kind};" for kind in _TEMPORARY),
        "server1:8767": urlsplit(servers[0]).netloc,
        "server2:8767": urlsplit(servers[1]).netloc,
        "listen 8443": f"listen 127.0.0.1:{port}",
        "/run/secrets/tls_certificate": str(folder / "crt"),
        "/run/secrets/tls_key": str(folder / "key"),
        "/dev/stdout": str(log),
        "/dev/stderr": str(folder / "error"),
    }.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "nginx.conf").write_text(text, encoding="utf-8")
    # The workers' user has to reach the folder, where this is run by root.
    own = ["-g", "daemon off;" + ("user root;" if os.geteuid() == 0 else "")]
    command = [nginx(), "-p", str(folder), "-e", str(folder / "error"), "-c", str(folder / "nginx.conf")]
    tried = subprocess.run([*command, "-t"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert tried.returncode == 0, tried.stderr
    with subprocess.Popen([*command, *own]) as process:
        try:
            url = f"https://127.0.0.1:{port}"

            def answers() -> bool:
                assert process.poll() is None
                try:
                    return Behind(url, "").send("GET", "/health/ready")[0] == 200
                except OSError:
                    return False

            until(answers, "for the proxy")
            yield url, log
        finally:
            process.send_signal(signal.SIGQUIT)
            process.wait(PATIENCE)


def upstreams(log: Path, path: str) -> list[str]:
    """Which server answered each call of a path, in order; several where one was passed over."""
    return re.findall(rf'"POST {path}" \d+ \S+ (.*?) [\d.,\s-]+$', log.read_text(encoding="utf-8"), re.MULTILINE)


def test_callers_keep_their_server_and_are_answered_by_the_other_when_it_is_gone(tmp_path: Path, team: Team) -> None:
    nginx()
    caller_keys = [team.member("acme", name, shared=Role.WRITER) for name in ("ana", "bo")]
    more = {"MEMORY_MCP_SERVER__HTTP_ALLOWED_HOSTS": HOST}
    with (
        serving(tmp_path / "one", team.url, more) as one,
        serving(tmp_path / "two", team.url, more) as two,
        proxied(tmp_path / "proxy", [one.url, two.url]) as (url, log),
    ):
        callers = [Behind(url, key) for key in caller_keys]
        for number, caller in enumerate(callers):
            for turn in range(2):
                caller.ok("remember", text=f"The lighthouse number {number} was painted in turn {turn}.")
        taken = upstreams(log, "/mcp")
        assert len(taken) == 4
        assert taken[::2] == taken[1::2]

        assert callers[0].send("GET", "/metrics")[0] == 404
        assert callers[0].send("GET", "/health/live")[0] == 200
        big = json.dumps({"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": "lamp oil " * 200_000}).encode()
        assert callers[0].send("POST", "/hooks/claude-code", big)[0] != 413
        assert {Behind(url, f"nobody{number}").send("POST", "/mcp", b"{}")[0] for number in range(40)} == {401}
        # Strangers, who prove nothing, are spread over both as everybody else is.
        assert set(upstreams(log, "/mcp")) == {urlsplit(server.url).netloc for server in (one, two)}

        gone = next(server for server in (one, two) if urlsplit(server.url).netloc == taken[0])
        gone.process.kill()
        gone.process.wait(PATIENCE)
        for caller in callers:
            assert caller.ok("intelligent_search", query="lighthouse painted", scope="all")["results"]
        assert callers[0].send("GET", "/health/ready")[0] == 200
