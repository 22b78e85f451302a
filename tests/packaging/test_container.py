"""The container image: what its file says, how its two scripts behave, and, in the long form, the image itself."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memory_mcp.config import ServerSettings
from tests.packaging.conftest import DOWNLOAD_PATIENCE, ROOT, Built, tool
from tests.packaging.test_wheel import away, run
from tests.ports import free_port
from tests.waiting import PATIENCE, until

FOLDER = ROOT / "packaging" / "container"
TOKEN = "0123456789abcdef" * 3
unix = pytest.mark.skipif(os.name == "nt", reason="the scripts of the image run on Linux")


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, continued lines joined, without comments."""
    text = re.sub(r"^#.*\n", "", (FOLDER / "Dockerfile").read_text(encoding="utf-8"), flags=re.M).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line.strip())]


def test_the_image_is_a_slim_debian_with_a_user_a_volume_a_port_and_a_health_check() -> None:
    said = instructions()
    assert ("ARG", "BASE=debian:trixie-slim") in said
    last = said[max(i for i, (word, _) in enumerate(said) if word == "FROM") :]
    stage = dict(last)
    assert stage["USER"] == "10001"
    assert stage["VOLUME"] == "/data"
    assert stage["EXPOSE"] == str(ServerSettings().http_port)
    assert "healthy.py" in stage["HEALTHCHECK"]
    assert stage["CMD"] == '["serve"]'
    assert "MEMORY_MCP_STORAGE__DATA_DIR=/data" in stage["ENV"]
    assert "TOKEN" not in str(last)


def test_what_is_copied_exists_and_nothing_else_goes_to_who_builds() -> None:
    copied = [words.split() for word, words in instructions() if word == "COPY" and "--from" not in words]
    sources = {source for words in copied for source in words[:-1] if not source.startswith("--")}
    assert {s for s in sources if "*" not in s and not (ROOT / s).is_file()} == set()
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").split("\n")
    assert "*" in ignore
    let_in = [line[1:] for line in ignore if line.startswith("!")]
    assert {s for s in sources if not any(s == one or s.startswith(f"{one}/") for one in let_in)} == set()


def healthy(env: dict[str, str]) -> bool:
    words = [sys.executable, str(FOLDER / "healthy.py")]
    return subprocess.run(words, env=env, capture_output=True, timeout=PATIENCE, check=False).returncode == 0


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@unix
def test_the_containers_process_serves_until_it_is_stopped_and_ends_the_daemon_in_order(tmp_path: Path) -> None:
    port = str(free_port())
    own = {"MEMORY_MCP_STORAGE__DATA_DIR": str(tmp_path / "data"), "MEMORY_MCP_SERVER__HTTP_PORT": port}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # Who serves ends the daemon, however long a busy machine takes to get there.
    own |= {"MEMORY_MCP_SERVER__IDLE_EXIT_SECS": "600"}
    env = away(tmp_path, PATH=path, MEMORY_MCP_SERVER__HTTP_TOKEN=TOKEN, MEMORY_MCP_TELEPORT__ENABLED="false", **own)
    words = ["sh", str(FOLDER / "serve.sh"), "--host", "127.0.0.1"]
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as served:
        # Each look at its health is a process.
        until(lambda: served.poll() is not None or listens(int(port)), "for the door")
        until(lambda: served.poll() is not None or healthy(env), "for its health")
        assert served.poll() is None
        assert not healthy(env | {"MEMORY_MCP_SERVER__HTTP_TOKEN": "another"})
        served.send_signal(signal.SIGTERM)
        said, _ = served.communicate(timeout=PATIENCE)
    log = (tmp_path / "data" / "daemon.log").read_text(encoding="utf-8")
    assert served.returncode == 0, said
    assert "Stopped (process " in said, f"{said}\n{log}"
    assert not healthy(env)
    assert "ending: asked to" in log


@pytest.mark.slow  # in the short form: the script that serves, above; the message, in daemon/test_serve_http.py.
@unix
def test_without_a_token_the_container_ends_at_once_and_says_what_is_missing(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = away(tmp_path, PATH=path, MEMORY_MCP_STORAGE__DATA_DIR=str(tmp_path / "data"))
    env |= {"MEMORY_MCP_SERVER__HTTP_ALLOWED_HOSTS": "localhost", "MEMORY_MCP_TELEPORT__ENABLED": "false"}
    done = subprocess.run(
        ["sh", str(FOLDER / "serve.sh")], env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, "needs server.http_token" in done.stderr) == (2, True), done.stderr


@pytest.mark.slow
def test_hadolint_finds_nothing() -> None:
    run([tool("hadolint", 'pip install -e ".[packages]"'), str(FOLDER / "Dockerfile")], ROOT, dict(os.environ))


@contextmanager
def image(built: Built, tmp_path: Path) -> Iterator[str]:
    """The image's file system, mounted: built from the Dockerfile over a Debian made here, since none can be pulled."""
    buildah, debootstrap = tool("buildah", "Debian's package buildah"), tool("mmdebstrap", "Debian's package mmdebstrap")
    if os.geteuid() != 0:
        pytest.skip("building and entering an image takes root here")
    env = dict(os.environ)
    context = tmp_path / "context"
    shutil.copytree(FOLDER, context / "packaging" / "container")
    shutil.copy(ROOT / "constraints.txt", context)
    pins = ["-c", str(ROOT / "constraints.txt")]
    wheels = [sys.executable, "-m", "pip", "wheel", "-q", "-w", str(context / "dist"), *pins, str(built.wheel)]
    run(wheels, tmp_path, env, DOWNLOAD_PATIENCE)
    suite = re.findall(r"^VERSION_CODENAME=(\w+)", Path("/etc/os-release").read_text(encoding="utf-8"), re.M)
    run([debootstrap, "--variant=minbase", "--include=ca-certificates", *suite, "base.tar"], tmp_path, env, DOWNLOAD_PATIENCE)
    own = [buildah, "--root", str(tmp_path / "images"), "--runroot", str(tmp_path / "run")]
    try:
        base = run([*own, "from", "scratch"], tmp_path, env).strip()
        run([*own, "add", "-q", base, "base.tar", "/"], tmp_path, env)
        run([*own, "commit", "-q", "--rm", base, "localhost/base"], tmp_path, env)
        told = ["BASE=localhost/base", "PIP_NO_INDEX=1", "PIP_FIND_LINKS=/dist"]
        flags = [word for one in told for word in ("--build-arg", one)]
        words = ["bud", "-q", "--format", "docker", "--isolation", "chroot", *flags, "-t", "localhost/memory-mcp"]
        run([*own, *words, "-f", "packaging/container/Dockerfile", "."], context, env, DOWNLOAD_PATIENCE)
        made = run([*own, "from", "localhost/memory-mcp"], tmp_path, env).strip()
        yield run([*own, "mount", made], tmp_path, env).strip()
    finally:
        subprocess.run([*own, "rm", "-a"], env=env, capture_output=True, check=False, timeout=PATIENCE)
        shutil.rmtree(tmp_path / "images", ignore_errors=True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_image_serves_as_process_1_of_a_user_without_rights_and_stops_in_order(built: Built, tmp_path: Path) -> None:
    with image(built, tmp_path) as root:
        port = str(free_port())
        variables = dict(words.split("=", 1) for word, said in instructions() if word == "ENV" for words in said.split())
        variables |= {"PATH": "/opt/memory-mcp/bin:/usr/local/bin:/usr/bin:/bin", "HOME": "/home/memory"}
        variables |= {"MEMORY_MCP_SERVER__HTTP_TOKEN": TOKEN, "MEMORY_MCP_SERVER__HTTP_PORT": port}
        inside = " ".join(f"{name}={value}" for name, value in variables.items())
        entered = f"chroot --userspec=10001:10001 {root} serve --host 127.0.0.1"
        begin = f"mount -t proc proc {root}/proc && exec env -i {inside} /usr/sbin/{entered}"
        words = ["unshare", "--pid", "--fork", "--mount", "--kill-child", "sh", "-c", begin]
        shutil.chown(f"{root}/data", 10001, 10001)
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as served:
            until(lambda: served.poll() is not None or healthy(variables), "for the door")
            assert served.poll() is None
            [first] = Path(f"/proc/{served.pid}/task/{served.pid}/children").read_text(encoding="ascii").split()
            os.kill(int(first), signal.SIGTERM)
            said, _ = served.communicate(timeout=PATIENCE)
        assert (served.returncode, "Stopped (process " in said) == (0, True), said
        assert Path(f"{root}/data/memory.duckdb").stat().st_uid == 10001
        assert not Path(f"{root}/opt/memory-mcp/bin/pip").exists()
