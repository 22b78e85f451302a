"""The files by which a team's servers are run: each says what the program, PostgreSQL and its proxy really have."""

import os
import re
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from memory_mcp import config
from memory_mcp.base import paths
from memory_mcp.config import ServerSettings
from memory_mcp_team.settings import team_settings
from tests.packaging.conftest import ROOT, tool
from tests.postgres import ROLE, Cluster, programs
from tests.waiting import PATIENCE, until

FOLDER = ROOT / "packaging" / "team"
KUBERNETES = FOLDER / "kubernetes"
#: What the program reads beside its settings.
_BESIDE = {f"{config.PREFIX}{name}" for name in paths.VARIABLES}
_CODE = re.compile(r"#.*")
needs_postgres = pytest.mark.skipif(
    programs() is None, reason="PostgreSQL is not installed; Debian's package postgresql brings it"
)


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
    return found


def manifests() -> dict[tuple[str, str], dict[str, Any]]:
    """Every manifest that kustomization.yaml names, by kind and name."""
    told = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text(encoding="utf-8"))
    assert {*told["resources"], "kustomization.yaml"} == {path.name for path in KUBERNETES.iterdir()}
    parts = [part for name in told["resources"] for part in yaml.safe_load_all((KUBERNETES / name).read_text(encoding="utf-8"))]
    return {(part["kind"], part["metadata"]["name"]): part for part in parts}


def read(tmp_path: Path, settings: dict[str, str], file: str) -> config.Settings:
    """The program's settings for these variables, with the settings file that a secret holds."""
    place = tmp_path / "memory.toml"
    place.write_text(file, encoding="utf-8")
    return config.load(settings | {"MEMORY_MCP_CONFIG": str(place)})


def settings_of_compose() -> list[dict[str, str]]:
    services = compose()["services"]
    return [services[name]["environment"] for name in ("server1", "server2")]


def test_every_variable_is_a_setting_of_the_program() -> None:
    known = {*config.variables(), *_BESIDE}
    configured = manifests()["ConfigMap", "memory-settings"]["data"]
    for given in (*settings_of_compose(), configured):
        assert set(given) <= known
    assert set(config.variables().values()) >= {key for key, _ in config.iter_keys()}


def test_the_program_reads_what_compose_gives_its_servers(tmp_path: Path) -> None:
    for given in settings_of_compose():
        told = read(tmp_path, given, '[storage]\nurl = "postgresql://memory:x@db/memory"\n')
        assert (told.storage.engine, told.storage.url) == ("postgres", "postgresql://memory:x@db/memory")
        assert team_settings(told.extensions).auth == "keys"
        assert told.server.http_port == ServerSettings().http_port


def test_the_program_reads_what_kubernetes_gives_its_servers(tmp_path: Path) -> None:
    found = manifests()
    file = found["Secret", "memory-database"]["stringData"]["memory.toml"]
    told = read(tmp_path, found["ConfigMap", "memory-settings"]["data"], file)
    assert told.storage.engine == "postgres"
    assert "localhost" in told.server.http_allowed_hosts.split(",")
    assert team_settings(told.extensions).auth == "both"


def test_servers_of_compose_have_disposable_data_and_no_password_in_their_variables() -> None:
    told = compose()
    services = told["services"]
    held = [services[name]["volumes"] for name in ("server1", "server2")]
    kept = settings_of_compose()[0]["MEMORY_MCP_TEAM__TOMBSTONES_DIR"]
    assert held == [["indexes1:/data", f"tombstones:{kept}"], ["indexes2:/data", f"tombstones:{kept}"]]
    assert {"database", "tombstones", "replica", "indexes1", "indexes2"} == set(told["volumes"])
    # A new volume has the owner of the folder in the image.
    assert kept in (ROOT / "packaging" / "container" / "Dockerfile").read_text(encoding="utf-8").split()
    for name, service in services.items():
        for variable, value in service.get("environment", {}).items():
            assert "PASSWORD" not in variable or variable.endswith("_FILE"), (name, variable)
            assert not re.search(r"://[^/\s]*:[^/\s]*@", str(value)), (name, variable)
        assert set(service.get("secrets", ())) <= set(told["secrets"])
        assert set(service["networks"]) <= set(told["networks"])
    assert told["networks"]["inside"]["internal"] is True
    assert services["db"]["networks"] == ["inside"]
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]


def test_health_is_asked_where_it_is_told_and_the_proxy_waits_for_it() -> None:
    services = compose()["services"]
    for name in ("server1", "server2"):
        assert services[name]["healthcheck"]["test"][-2:] == ["/opt/memory-mcp/healthy.py", "/health/ready"]
        assert services["proxy"]["depends_on"][name] == {"condition": "service_healthy"}
        assert services[name]["depends_on"]["db"] == {"condition": "service_healthy"}
    assert services["replica"]["profiles"] == ["replica"]


def test_secrets_are_made_once_for_nobody_else(tmp_path: Path) -> None:
    tool("openssl", "Debian's package openssl")
    shutil.copy(FOLDER / "secrets.sh", tmp_path)
    words = ["sh", str(tmp_path / "secrets.sh"), "memory.example.com"]
    subprocess.run(words, check=True, capture_output=True, timeout=PATIENCE)
    folder = tmp_path / "secrets"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name for path in folder.iterdir()} == {Path(one["file"]).name for one in compose()["secrets"].values()}
    made = {path.name: path.read_bytes() for path in folder.iterdir()}
    subprocess.run(words, check=True, capture_output=True, timeout=PATIENCE)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == made
    told = read(tmp_path, settings_of_compose()[0], made["memory.toml"].decode())
    assert told.storage.url == f"postgresql://memory:{made['memory_password'].decode()}@db/memory"
    assert "secrets/" in (FOLDER / ".gitignore").read_text(encoding="utf-8").split()


def test_the_real_compose_reads_the_file(tmp_path: Path) -> None:
    found = shutil.which("docker-compose")
    if found is None:
        pytest.skip("docker-compose is not here; Debian's package docker-compose brings it")
    shutil.copytree(FOLDER, tmp_path / "team")
    words = [found, "-f", str(tmp_path / "team" / "compose.yaml"), "--profile", "replica", "config"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert set(yaml.safe_load(done.stdout)["services"]) == {"db", "replica", "server1", "server2", "proxy"}


def test_the_real_kubectl_reads_the_manifests() -> None:
    done = subprocess.run(
        [tool("kubectl", "its own site"), "kustomize", str(KUBERNETES)],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    built = list(yaml.safe_load_all(done.stdout))
    assert {(part["kind"], part["metadata"]["name"]) for part in built} == set(manifests())
    assert {part["metadata"].get("namespace", "memory") for part in built} == {"memory"}


def test_kubernetes_probes_drains_and_keeps_one_server_at_least() -> None:
    found = manifests()
    deployment = found["Deployment", "memory"]
    pod = deployment["spec"]["template"]
    (server,) = pod["spec"]["containers"]
    assert {port["name"]: port["containerPort"] for port in server["ports"]} == {"http": ServerSettings().http_port}
    asked = {kind: server[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert {kind: get["path"] for kind, get in asked.items()} == {
        "startup": "/health/live",
        "liveness": "/health/live",
        "readiness": "/health/ready",
    }
    allowed = found["ConfigMap", "memory-settings"]["data"]["MEMORY_MCP_SERVER__HTTP_ALLOWED_HOSTS"].split(",")
    for get in asked.values():
        assert get["port"] == "http"
        # A probe comes with the pod's address as its host, which the server would refuse.
        assert [header["value"] for header in get["httpHeaders"]] == [allowed[-1]]
    waits = int(server["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["spec"]["terminationGracePeriodSeconds"] > waits + 30
    labels = pod["metadata"]["labels"]
    for selector in (
        deployment["spec"]["selector"]["matchLabels"],
        found["PodDisruptionBudget", "memory"]["spec"]["selector"]["matchLabels"],
        found["Service", "memory"]["spec"]["selector"],
        found["NetworkPolicy", "memory"]["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    assert found["PodDisruptionBudget", "memory"]["spec"]["minAvailable"] >= 1
    assert deployment["spec"]["replicas"] > found["PodDisruptionBudget", "memory"]["spec"]["minAvailable"]


def test_kubernetes_gives_a_server_no_rights_and_everything_it_writes_to() -> None:
    found = manifests()
    pod = found["Deployment", "memory"]["spec"]["template"]["spec"]
    (server,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10001
    assert server["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounts = {mount["name"]: mount["mountPath"] for mount in server["volumeMounts"]}
    assert set(mounts) == {volume["name"] for volume in pod["volumes"]}
    told = found["ConfigMap", "memory-settings"]["data"]
    # A folder of its own: the mounted one is open to others, and would be refused.
    assert f"{mounts['data']}/memory" == told["MEMORY_MCP_STORAGE__DATA_DIR"]
    assert told["MEMORY_MCP_CONFIG"] == f"{mounts['database']}/memory.toml"
    named = next(volume for volume in pod["volumes"] if volume["name"] == "database")["secret"]["secretName"]
    assert ("Secret", named) in found
    assert {"emptyDir"} <= {key for volume in pod["volumes"] if volume["name"] == "data" for key in volume}


@pytest.fixture(scope="module")
def primary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with memory.conf as the database of compose has it, its roles made by roles.sh."""
    folder = tmp_path_factory.mktemp("passwords")
    cluster = Cluster(settings=settings_of_the_file())
    cluster.execute(f"DROP ROLE {ROLE}")
    given = {"POSTGRES_USER": "postgres", "PGHOST": str(cluster.folder)}
    for name in ("MEMORY", "REPLICATOR"):
        (folder / name).write_text(f"pass'word of {name}", encoding="utf-8")
        given[f"{name}_PASSWORD_FILE"] = str(folder / name)
    words = ["sh", str(FOLDER / "postgres" / "roles.sh")]
    done = subprocess.run(words, env=os.environ | given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    yield cluster
    cluster.close()


def settings_of_the_file() -> list[str]:
    """What memory.conf says, without what a test's own cluster has otherwise."""
    lines = [
        _CODE.sub("", line).strip() for line in (FOLDER / "postgres" / "memory.conf").read_text(encoding="utf-8").split("\n")
    ]
    told = dict(line.split(" = ", 1) for line in lines if line)
    for own in ("data_directory", "listen_addresses", "shared_buffers", "max_wal_size", "min_wal_size"):
        del told[own]
    return [f"{name}={value}" for name, value in told.items()]


@needs_postgres
def test_the_database_takes_its_settings_and_binds_the_programs_role(primary: Cluster) -> None:
    with psycopg.connect(primary.url("memory"), autocommit=True) as raw:
        assert raw.execute("SHOW log_parameter_max_length").fetchone() == ("0",)
        assert raw.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("1min",)
        assert raw.execute("SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = 'memory'").fetchone() == (False, False)
        assert raw.execute("SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'memory'").fetchone() == ("memory",)
        raw.execute("CREATE TABLE made (x integer)")


@needs_postgres
def test_a_replica_copies_the_primary_and_follows_it(primary: Cluster) -> None:
    folder, bin_folder = primary.folder / "replica", programs()
    folder.mkdir(mode=0o700)
    script, password = folder / "replica.sh", folder / "password"
    shutil.copy(FOLDER / "postgres" / "replica.sh", script)
    password.write_text("unused", encoding="utf-8")
    as_user: list[str] = []
    if os.geteuid() == 0:
        for path in (folder, script, password):
            shutil.chown(path, "postgres", "postgres")
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    own = {"PGDATA": str(folder / "data"), "PRIMARY_HOST": str(primary.folder), "REPLICATOR_PASSWORD_FILE": str(password)}
    env = os.environ | own | {"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "TMPDIR": str(folder)}
    options = (f"unix_socket_directories={folder}", "listen_addresses=", "fsync=off")
    words = [*as_user, "sh", str(script), *(word for option in options for word in ("-c", option))]
    with subprocess.Popen(words, env=env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as follower:
        with psycopg.connect(primary.url("memory"), autocommit=True) as raw:
            raw.execute("CREATE TABLE followed AS SELECT 7 AS x")
        try:

            def followed() -> bool:
                assert follower.poll() is None
                try:
                    with psycopg.connect(f"host={folder} dbname=memory user={ROLE}", autocommit=True) as raw:
                        return raw.execute("SELECT count(*), pg_is_in_recovery() FROM followed").fetchone() == (1, True)
                except psycopg.Error:
                    return False

            until(followed, "for the replica")
        finally:
            follower.send_signal(signal.SIGINT)
            follower.communicate(timeout=PATIENCE)
