"""What pyproject.toml says, in the files that have to repeat it: bundle, registry, formula, image, plugin, README.

python packaging/manifests.py                 write them
python packaging/manifests.py --check         name those that differ; exit status 1 when there are any
python packaging/manifests.py --release DIR [--image NAME]
                                              what is published, into DIR, with the checksums of what was built there
python packaging/manifests.py --tag vX.Y.Z    the changelog of that release; exit status 1 unless it has a date and this version

Run it after a change of name, version, description or [tool.memory-mcp.release]. A file keeps its form: only the values change.
"""

import argparse
import hashlib
import json
import re
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MANIFEST, SERVER, FORMULA = "packaging/mcpb/manifest.json", "packaging/server.json", "packaging/homebrew/memory-mcp.rb"
BUNDLE = "memory-mcp.mcpb"
_NO_SUM = "0" * 64
_STDIO = {"type": "stdio"}
#: How a client runs the image: with a volume, and the server on stdin and stdout.
_RUN = {
    "runtimeHint": "docker",
    "runtimeArguments": [{"type": "named", "name": "--mount", "value": "type=volume,src=memory-mcp,dst=/data"}],
    "packageArguments": [{"type": "positional", "value": "memory-mcp"}, {"type": "positional", "value": "serve"}],
}


@dataclass(frozen=True)
class Facts:
    """What is said once, in pyproject.toml and in the package."""

    name: str
    version: str
    description: str
    title: str
    licence: str
    repository: str
    mcp_name: str

    @property
    def sdist(self) -> str:
        """File name of the source distribution."""
        return f"{self.name.replace('-', '_')}-{self.version}.tar.gz"

    def download(self, file: str) -> str:
        """Where a file of this release lies."""
        return f"{self.repository}/releases/download/v{self.version}/{file}"


def facts() -> Facts:
    """Read them."""
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, release = whole["project"], whole["tool"]["memory-mcp"]["release"]
    package = (ROOT / whole["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"', package, re.M)
    if found is None:
        raise SystemExit("the package names no __version__")
    return Facts(
        project["name"],
        found[1],
        project["description"],
        release["title"],
        project["license"],
        release["repository"],
        release["mcp-name"],
    )


class Place(NamedTuple):
    """One value in one file: what stands before it, as an expression that fits exactly once, and the value."""

    file: str
    before: str
    value: str
    after: str = '"'


def places(said: Facts) -> Iterator[Place]:
    """Every place where something is repeated."""
    yield Place(MANIFEST, r'^  "version": "', said.version)
    yield Place(MANIFEST, r'^  "description": "', said.description)
    yield Place(MANIFEST, r'"repository": \{ "type": "git", "url": "', said.repository)
    yield Place(MANIFEST, r'^  "license": "', said.licence)
    yield Place("packaging/mcpb/pyproject.toml", r'^version = "', said.version)
    yield Place("packaging/mcpb/pyproject.toml", r'^dependencies = \["', f"{said.name}=={said.version}")
    yield Place(SERVER, r'^  "name": "', said.mcp_name)
    yield Place(SERVER, r'^  "title": "', said.title)
    yield Place(SERVER, r'^  "description": "', said.description)
    yield Place(SERVER, r'"repository": \{ "url": "', said.repository)
    yield Place(SERVER, r'^  "version": "', said.version)
    yield Place(SERVER, r'"registryType": "pypi",\n      "identifier": "', said.name)
    yield Place(SERVER, r'^      "version": "', said.version)
    yield Place(FORMULA, r'^  desc "', said.description.partition(":")[0])
    yield Place(FORMULA, r'^  homepage "', said.repository)
    yield Place(FORMULA, r'^  url "', said.download(said.sdist))
    dockerfile = "packaging/container/Dockerfile"
    yield Place(dockerfile, r'image\.version="', said.version)
    yield Place(dockerfile, r'image\.licenses="', said.licence)
    yield Place(dockerfile, r'image\.source="', said.repository)
    yield Place(dockerfile, r'server\.name="', said.mcp_name)
    yield Place(dockerfile, r"pip install [^\n]*/dist/", said.name.replace("-", "_"), "-*.whl")
    yield Place("plugin/.claude-plugin/plugin.json", r'^  "version": "', said.version)
    yield Place("README.md", "<!-- mcp-name: ", said.mcp_name, " -->")


def written(said: Facts) -> dict[Path, str]:
    """Every such file as it must be."""
    texts: dict[Path, str] = {}
    for place in places(said):
        path = ROOT / place.file
        text = texts.get(path) or path.read_text(encoding="utf-8")
        texts[path] = _put(text, place)
    return texts


def _put(text: str, place: Place) -> str:
    pattern = re.compile(rf"({place.before})([^\n]*?)(?={re.escape(place.after)})", re.M)
    if len(pattern.findall(text)) != 1:
        raise SystemExit(f"{place.file} has no single place for {place.value!r} behind {place.before!r}")
    return pattern.sub(lambda found: found[1] + place.value, text)


def release(folder: Path, said: Facts, image: str = "") -> None:
    """Formula and server.json with checksums, and with the image where it was pushed; SystemExit when something was not built."""
    for name in (said.sdist, BUNDLE):
        if not (folder / name).is_file():
            raise SystemExit(f"{folder} has no {name}: see CONTRIBUTING.md, A release")
    formula = (ROOT / FORMULA).read_text(encoding="utf-8")
    formula = formula[formula.index("class ") :].replace(_NO_SUM, _sum(folder / said.sdist))
    (folder / Path(FORMULA).name).write_text(formula, encoding="utf-8")
    server = json.loads((ROOT / SERVER).read_text(encoding="utf-8"))
    bundle = {"registryType": "mcpb", "identifier": said.download(BUNDLE), "fileSha256": _sum(folder / BUNDLE)}
    server["packages"].append({**bundle, "transport": _STDIO})
    if image:
        server["packages"].append({"registryType": "oci", "identifier": f"{image}:{said.version}", "transport": _STDIO, **_RUN})
    (folder / Path(SERVER).name).write_text(json.dumps(server, indent=2) + "\n", encoding="utf-8")


def notes(tag: str, said: Facts, changelog: str) -> str:
    """What the changelog says of the release that a tag names; SystemExit when it is of another version, or has no date."""
    if tag != f"v{said.version}":
        raise SystemExit(f"{tag} is not v{said.version}, the version of the package")
    dated = re.search(rf"^## \[{re.escape(said.version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)", changelog, re.M | re.S)
    if dated is None or not dated[1].strip():
        raise SystemExit(f"CHANGELOG.md tells nothing under ## [{said.version}] - YYYY-MM-DD")
    return dated[1].strip() + "\n"


def _sum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def main() -> int:
    """Write, compare or release."""
    parser = argparse.ArgumentParser(description="Bring the files that repeat pyproject.toml up to date.")
    parser.add_argument("--check", action="store_true", help="change nothing, name the files that differ")
    parser.add_argument("--release", metavar="DIR", type=Path, help="write what is published into the folder of what was built")
    parser.add_argument("--tag", metavar="TAG", help="print the changelog of the release that a tag names")
    parser.add_argument("--image", metavar="NAME", default="", help="where the image was pushed, without the tag")
    args = parser.parse_args()
    said = facts()
    if args.tag:
        sys.stdout.write(notes(args.tag, said, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
        return 0
    stale = {path: text for path, text in written(said).items() if path.read_text(encoding="utf-8") != text}
    if args.check or args.release:
        for path in stale:
            sys.stderr.write(f"out of date: {path.relative_to(ROOT)} (python packaging/manifests.py)\n")
        if stale or args.check:
            return 1 if stale else 0
        release(args.release, said, args.image)
        return 0
    for path, text in stale.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
