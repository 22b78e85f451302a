"""Project identity, on repositories made with git."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_mcp.base.scope import caller_project, normalise_remote, project_of, root_commit_of


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    for cached in (project_of, root_commit_of):
        cached.cache_clear()
    yield
    for cached in (project_of, root_commit_of):
        cached.cache_clear()


def git(cwd: Path, *arguments: str) -> None:
    settings = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *settings, *arguments], cwd=cwd, check=True, capture_output=True)


@pytest.fixture
def repository(processes: None, tmp_path: Path) -> Path:
    path = tmp_path / "shop"
    (path / "src" / "deep").mkdir(parents=True)
    git(path, "init", "-q")
    git(path, "commit", "-q", "--allow-empty", "-m", "first")
    return path


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/Owner/Shop.git",
        "https://github.com/Owner/Shop",
        "https://github.com/Owner/Shop/",
        "https://user:pass@GitHub.com/Owner/Shop.git",
        "https://ghp_token@github.com:443/Owner/Shop.git",
        "http://github.com/Owner/Shop",
        "ssh://git@github.com/Owner/Shop.git",
        "ssh://git@github.com:22/Owner/Shop.git",
        "git://github.com/Owner/Shop.git",
        "git+ssh://git@github.com/Owner/Shop.git",
        "git@github.com:Owner/Shop.git",
        "git@github.com:/Owner/Shop.git",
        "github.com:Owner/Shop",
        "  git@GITHUB.com:Owner/Shop.git  ",
    ],
)
def test_every_form_of_a_remote_gives_one_identity(url: str) -> None:
    assert normalise_remote(url) == "github.com/Owner/Shop"


@pytest.mark.parametrize(
    ("url", "identity"),
    [
        ("https://gitlab.example.org/group/sub/name.git", "gitlab.example.org/group/sub/name"),
        ("ssh://git@[2001:DB8::1]:2222/owner/name.git", "2001:db8::1/owner/name"),
        ("file:///srv/git/name.git", "/srv/git/name"),
        ("/srv/git/name.git/", "/srv/git/name"),
        ("../name.git", "/base/name"),
        ("https://example.org", "example.org"),
        ("", ""),
    ],
)
def test_unusual_remotes_have_an_identity_too(url: str, identity: str) -> None:
    assert normalise_remote(url, "/base/work") == identity


def test_a_remote_names_the_project_anywhere_below_its_tree(repository: Path) -> None:
    git(repository, "remote", "add", "upstream", "https://example.org/other/shop.git")
    assert project_of(str(repository)) == "example.org/other/shop"
    git(repository, "remote", "add", "origin", "git@example.org:dev/shop.git")
    project_of.cache_clear()
    assert project_of(str(repository)) == "example.org/dev/shop"
    assert project_of(f"{repository}/src/deep/") == "example.org/dev/shop"


def test_without_a_remote_the_main_tree_is_the_project(repository: Path) -> None:
    assert project_of(f"{repository}/src") == str(repository)


def test_worktrees_share_their_project(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", str(tmp_path / "elsewhere"), "-b", "other")
    (tmp_path / "elsewhere" / "sub").mkdir()
    assert project_of(f"{tmp_path}/elsewhere/sub") == str(repository)
    git(repository, "remote", "add", "origin", "git@example.org:dev/shop.git")
    project_of.cache_clear()
    assert project_of(f"{tmp_path}/elsewhere") == "example.org/dev/shop"


def test_worktrees_of_a_bare_repository_share_it(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--bare", str(repository), "bare.git")
    git(tmp_path / "bare.git", "remote", "remove", "origin")
    git(tmp_path / "bare.git", "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "other")
    assert project_of(str(tmp_path / "tree")) == project_of(str(tmp_path / "bare.git")) == str(tmp_path / "bare.git")


def test_a_submodule_is_a_project_of_its_own(repository: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "submodule", "add", "-q", str(repository), "inner")
    assert project_of(str(outer / "inner")) == str(repository)
    git(outer / "inner", "remote", "remove", "origin")
    project_of.cache_clear()
    assert project_of(str(outer / "inner")) == str(outer / "inner")
    assert project_of(str(outer)) == str(outer)


def test_a_clone_on_this_machine_is_the_project_it_was_cloned_from(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(repository), "copy")
    assert project_of(str(tmp_path / "copy")) == str(repository)


@pytest.mark.parametrize(
    ("given", "identity"),
    [("", ""), ("/no/such/place", "/no/such/place"), ("/no//such/./place/x/..", "/no/such/place"), ("bad\0path", "bad\0path")],
)
def test_a_place_that_is_not_here_is_its_own_project(given: str, identity: str) -> None:
    assert project_of(given).startswith(identity[:3])
    if "\0" not in given:
        assert project_of(given) == identity


def test_a_folder_without_git_is_its_own_project(tmp_path: Path) -> None:
    assert project_of(f"{tmp_path}/") == str(tmp_path)


def test_a_broken_git_file_is_not_a_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").write_bytes(b"\xff\xfe nonsense")
    assert project_of(str(tmp_path)) == str(tmp_path)
    (tmp_path / ".git").write_text("gitdir: /no/such/place")
    project_of.cache_clear()
    assert project_of(str(tmp_path)) == str(tmp_path)


def test_quoted_values_and_comments_of_a_configuration_are_understood(repository: Path) -> None:
    (repository / ".git" / "config").write_text(
        '[core]\n\tbare = false ; no\n[remote "origin"] # here\n\turl = "https://example.org/dev/shop.git" ; main\n\tfetch = x\n'
    )
    assert project_of(str(repository)) == "example.org/dev/shop"


def test_a_caller_is_known_by_its_declared_directory_else_by_where_it_started(repository: Path) -> None:
    here = str(repository)
    assert caller_project({"CLAUDE_PROJECT_DIR": here, "HOME": "/home/dev"}, "/") == here
    assert caller_project({"HOME": "/home/dev"}, here) == here
    assert caller_project({"HOME": here}, f"{here}/") == ""
    assert caller_project({"HOME": here}, f"{here}/src") == here
    assert caller_project({"HOME": "/home/dev"}, "/") == ""
    assert caller_project({}, "") == ""


def test_a_remote_that_a_transcript_records_names_a_directory_that_is_gone(repository: Path, tmp_path: Path) -> None:
    gone = str(tmp_path / "elsewhere")
    assert project_of(gone, "git@example.org:dev/shop.git") == "example.org/dev/shop"
    assert project_of(gone, "") == gone
    assert project_of(str(repository), "git@example.org:dev/other.git") == str(repository), "what is there is believed first"
    assert project_of("", "git@example.org:dev/shop.git") == "example.org/dev/shop"
    assert project_of("", "") == ""


@pytest.mark.parametrize("name", ["workspace", "src", "repo"])
@pytest.mark.usefixtures("processes")
def test_a_repository_that_is_called_like_a_collection_owns_its_worktrees_that_are_gone(name: str, tmp_path: Path) -> None:
    (tmp_path / name / ".claude").mkdir(parents=True)
    gone = str(tmp_path / name / ".claude" / "worktrees" / "fix")
    assert project_of(gone) == gone
    project_of.cache_clear()
    git(tmp_path / name, "init", "-q")
    assert project_of(gone) == str(tmp_path / name)


def test_the_sources_of_the_callers_project_are_asked_in_order(tmp_path: Path) -> None:
    hook, declared, here = (str(tmp_path / name) for name in ("hook", "declared", "here"))
    environ = {"MEMORY_MCP_PROJECT": "github.com/acme/shop", "CLAUDE_PROJECT_DIR": declared, "HOME": "/home/dev"}
    assert caller_project(environ, here, hook, "configured") == "github.com/acme/shop"
    del environ["MEMORY_MCP_PROJECT"]
    assert caller_project(environ, here, hook, "configured") == hook
    assert caller_project(environ, here, "/home/dev", "configured") == declared, "a home directory tells nothing"
    del environ["CLAUDE_PROJECT_DIR"]
    assert caller_project(environ, here, "", "configured") == here
    assert caller_project(environ, "/home/dev", "", "configured") == "configured"
    assert caller_project(environ, "/", "", "") == ""


def test_a_project_may_be_named_by_its_directory_and_a_placeholder_names_none(repository: Path) -> None:
    git(repository, "remote", "add", "origin", "git@example.org:dev/shop.git")
    environ = {"HOME": str(repository.parent)}
    for name in (str(repository / "src"), "./src", "~/shop"):
        assert caller_project(environ | {"MEMORY_MCP_PROJECT": name}, str(repository)) == "example.org/dev/shop", name
    assert caller_project(environ | {"MEMORY_MCP_PROJECT": "${workspaceFolder}"}, "/") == ""
    assert caller_project(environ, "/", "", str(repository)) == "example.org/dev/shop"


def test_the_folder_of_an_editors_window_is_its_project_unless_it_has_several(tmp_path: Path) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    assert caller_project({"WORKSPACE_FOLDER_PATHS": one, "HOME": "/home/dev"}, "/home/dev") == one
    assert caller_project({"WORKSPACE_FOLDER_PATHS": f"{one},{two}", "HOME": "/home/dev"}, "/home/dev") == ""
    assert caller_project({"CURSOR_PROJECT_DIR": two, "WORKSPACE_FOLDER_PATHS": one}, "/") == two


def test_a_history_begins_with_the_same_commit_in_every_copy_loose_packed_or_as_differences(
    repository: Path, tmp_path: Path
) -> None:
    for number in range(30):
        git(repository, "commit", "-q", "--allow-empty", "-m", f"change {number}\n\nparent {'0' * 40}")
    root = root_commit_of(str(repository / "src" / "deep"))
    assert len(root) == 40
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))
    git(repository, "gc", "-q", "--aggressive", "--prune=now")
    git(tmp_path, "clone", "-q", f"file://{repository}", "clone")
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{repository}", "shallow")
    (tmp_path / "other").mkdir()
    git(tmp_path / "other", "init", "-q")
    for empty in (tmp_path, tmp_path / "shallow", tmp_path / "other", tmp_path / "gone"):
        assert root_commit_of(str(empty)) == "", "what is not known is not guessed"
    git(tmp_path / "other", "commit", "-q", "--allow-empty", "-m", "another history")
    root_commit_of.cache_clear()
    assert [root_commit_of(str(tmp_path / name)) for name in ("shop", "tree", "clone")] == [root] * 3
    assert root_commit_of(str(tmp_path / "other")) not in ("", root)


def test_a_history_that_is_no_git_s_is_none_and_nothing_is_followed(repository: Path, tmp_path: Path) -> None:
    head = repository / ".git" / "HEAD"
    reference = repository / ".git" / head.read_text().split()[1]
    outside = tmp_path / "outside"
    outside.write_bytes(reference.read_bytes())
    reference.unlink()
    reference.symlink_to(outside)
    for written in (head.read_text(), "ref: refs/../../outside", "0" * 40, "f" * 41, "\0" * 9_000, ""):
        head.write_text(written)
        root_commit_of.cache_clear()
        assert root_commit_of(str(repository)) == ""
