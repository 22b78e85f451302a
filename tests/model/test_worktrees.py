"""What the form of a path tells of a worktree: every rule with something that looks like it and is none."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_mcp.base import scope, worktrees
from memory_mcp.base.scope import project_of, root_commit_of


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    for cached in (project_of, scope._repositories_below):
        cached.cache_clear()
    yield
    for cached in (project_of, scope._repositories_below):
        cached.cache_clear()


@pytest.mark.parametrize(
    ("path", "root"),
    [
        ("/data/shop/.worktrees/1", "/data/shop"),
        ("/data/shop/.worktrees/fix/login/src/deep", "/data/shop"),
        ("/data/shop/.claude/worktrees/bright-fox", "/data/shop"),
        ("/data/shop/.gemini/worktrees/bright-fox/src", "/data/shop"),
        ("/data/shop.worktrees/fix-login", "/data/shop"),
        ("/data/shop/.git/worktrees/fix", "/data/shop"),
        ("/data/shop/.worktrees/a/.claude/worktrees/b", "/data/shop"),
        (r"C:\Users\dev\shop\.worktrees\1", r"C:\Users\dev\shop"),
        # What looks like it: another word, a home directory, a folder of many repositories, a bare repository's name.
        ("/data/shop/worktrees/1", ""),
        ("/data/shop/.worktrees-old/1", ""),
        ("/data/shop/.github/workflows", ""),
        ("/data/shop/.claude/skills", ""),
        ("/data/shop.git/hooks", ""),
        ("/home/dev/.worktrees/example-feature/skills", ""),
        ("/Users/dev/.claude/worktrees/x", ""),
        ("/home/dev/code/.worktrees/shop/fix", "/home/dev/code"),
        ("/.worktrees/x", ""),
        ("/data/shop", ""),
    ],
)
def test_a_layout_that_holds_only_worktrees_names_their_tree(path: str, root: str) -> None:
    assert worktrees.find_holder(path) == root


@pytest.mark.parametrize(
    ("path", "branch", "found"),
    [
        ("/data/shop-wt-3", "", ["/data/shop"]),
        ("/data/shop-wt-3/src", "", ["/data/shop"]),
        ("/data/shop-worktrees/fix", "", ["/data/shop"]),
        ("/data/shop/worktrees/fix", "", ["/data/shop"]),
        ("/data/shop-fix-login", "fix-login", ["/data/shop"]),
        ("/data/shop.fix-login/src", "feature/fix-login", ["/data/shop"]),
        ("/data/shop-feature-fix-login", "feature/fix-login", ["/data/shop", "/data/shop-feature"]),
        # Near misses: no mark, a mark without an end, another branch, a branch that every clone stands on.
        ("/data/shop-admin", "", []),
        ("/data/shop-wt", "", []),
        ("/data/shopwt-3", "", []),
        ("/data/shop-worktrees", "", []),
        ("/data/shop-admin", "fix-login", []),
        ("/data/shop-main", "main", []),
        ("/data/fix-login", "fix-login", []),
        ("/data/shopfix-login", "fix-login", []),
        ("/home/dev/code/worktrees/fix", "", ["/home/dev/code"]),
        ("/home/dev/worktrees/fix", "", []),
    ],
)
def test_a_name_is_only_a_reason_to_look_for_the_repository(path: str, branch: str, found: list[str]) -> None:
    assert list(worktrees.iter_candidates(path, branch)) == found


@pytest.mark.parametrize(
    ("path", "names", "folder"),
    [
        ("/home/dev/.cursor/worktrees/shop/k2fj/src", "shop k2fj", "/home/dev/.cursor/worktrees/shop/k2fj"),
        ("/home/dev/.codex/worktrees/1f2e/shop/src", "1f2e shop", "/home/dev/.codex/worktrees/1f2e/shop"),
        ("/home/dev/.claude-worktrees/shop/bold-fox", "shop bold-fox", "/home/dev/.claude-worktrees/shop/bold-fox"),
        ("/Users/dev/conductor/workspaces/shop/lisbon", "shop lisbon", "/Users/dev/conductor/workspaces/shop/lisbon"),
        ("/home/dev/.superset/worktrees/shop/fix/login", "shop fix", "/home/dev/.superset/worktrees/shop/fix"),
        ("/home/dev/.local/share/opencode/worktree/4b2e/calm-cabin", "4b2e calm-cabin",
         "/home/dev/.local/share/opencode/worktree/4b2e/calm-cabin"),
        ("/tmp/vibe-kanban/worktrees/1f2e-fix/shop", "1f2e-fix shop", "/tmp/vibe-kanban/worktrees/1f2e-fix/shop"),
        (r"C:\Users\dev\.any\worktrees\shop\x", "shop x", r"C:\Users\dev\.any\worktrees\shop\x"),
        ("/data/all/worktrees/shop/fix/lib", "shop fix", ""),
        ("/home/dev/.cursor/worktrees/shop", "", ""),
        ("/home/dev/.codex/worktrees/1f2e", "", ""),
        ("/home/dev/.cursor/extensions/shop/src", "", ""),
        ("/home/dev/workspaces/client/shop", "", ""),
    ],
)  # fmt: skip
def test_a_pool_names_the_repository_without_its_place(path: str, names: str, folder: str) -> None:
    assert worktrees.parse_pooled(path) == (tuple(names.split()), folder)


def test_folders_above_leave_out_what_holds_many_repositories() -> None:
    assert list(worktrees.iter_parents("/home/dev/code/shop/src/deep")) == ["/home/dev/code/shop"]
    assert list(worktrees.iter_parents("/home/dev/lib")) == []


def git(cwd: Path, *arguments: str) -> None:
    settings = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", *settings, *arguments], cwd=cwd, check=True, capture_output=True)


@pytest.fixture
def shop(processes: None, tmp_path: Path) -> Path:
    place = tmp_path / "shop"
    (place / "lib").mkdir(parents=True)
    git(place, "init", "-q")
    git(place, "commit", "-q", "--allow-empty", "-m", "first")
    return place


def test_worktrees_that_are_gone_belong_to_the_repository_that_is_left(shop: Path, tmp_path: Path) -> None:
    for gone in (
        f"{shop}/.worktrees/1",
        f"{shop}/.claude/worktrees/bold-fox/lib",
        f"{shop}.worktrees/fix",
        f"{shop}-wt-7/lib",
        f"{shop}/lib/removed/deep",
    ):
        assert project_of(gone) == str(shop), gone
    assert project_of(f"{shop}-fix-login", branch="fix-login") == str(shop)
    git(shop, "remote", "add", "origin", "git@example.org:dev/shop.git")
    project_of.cache_clear()
    assert project_of(f"{shop}/.worktrees/1") == project_of(f"{shop}-wt-7") == "example.org/dev/shop"


def test_what_only_looks_like_a_worktree_stays_a_project_of_its_own(shop: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    for gone in (f"{shop}-admin", f"{tmp_path}/store-wt-1", f"{plain}/.worktrees/1", f"{plain}-wt-1", f"{shop}-fix-login"):
        assert project_of(gone) == gone, gone
    assert project_of(f"{shop}-fix-login", branch="main") == f"{shop}-fix-login"


def test_a_worktree_that_was_removed_without_git_is_known_by_the_repositorys_records(shop: Path, tmp_path: Path) -> None:
    away = tmp_path / "any-name"
    git(shop, "worktree", "add", "-q", str(away))
    (away / ".git").unlink()
    away.rmdir()
    assert project_of(f"{away}/lib") == str(shop)
    assert project_of(f"{away}-2") == f"{away}-2", "a name that begins alike"


def remove(tree: Path) -> None:
    (tree / ".git").unlink()
    tree.rmdir()


def test_a_worktree_in_a_pool_is_known_by_records_and_by_the_worktrees_beside_it(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    home_repository = tmp_path / "src" / "forge" / "store"
    home_repository.mkdir(parents=True)
    git(home_repository, "init", "-q")
    git(home_repository, "commit", "-q", "--allow-empty", "-m", "first")
    pool = tmp_path / ".tool" / "pool"
    for owner, names in ((shop, ("a/shop", "b/shop", "shop/one")), (home_repository, ("c/store", "shop-2/store"))):
        for name in names:
            git(owner, "worktree", "add", "-q", "--detach", str(pool / name))
    remove(pool / "c" / "store")
    assert project_of(f"{pool}/c/store/lib") == str(home_repository), "a record in a repository below the home directory"
    # Removed with git: no record is left.
    assert project_of(f"{pool}/gone/shop/lib") == str(shop), "those beside it that are called alike"
    assert project_of(f"{pool}/shop/two") == str(shop), "a folder with nothing but worktrees of one repository"
    for gone in (f"{pool}/gone/other", f"{pool}/gone", f"{tmp_path}/src/gone", f"{tmp_path}/src/forge/gone/store"):
        assert project_of(gone) == gone, gone
    (pool / "shop" / "plain").mkdir()
    project_of.cache_clear()
    assert project_of(f"{pool}/shop/two") == f"{pool}/shop/two"


def test_a_pool_whose_folder_is_called_after_the_only_such_repository_at_home_belongs_to_it(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    commit = root_commit_of(str(shop))
    pools = (
        f"{tmp_path}/.cursor/worktrees/shop/k2fj",
        f"{tmp_path}/conductor/workspaces/shop/lisbon/lib",
        f"{tmp_path}/.superset/worktrees/shop/fix/login",
        f"{tmp_path}/.local/share/opencode/worktree/{commit}/calm-cabin",
        "/tmp/vibe-kanban/worktrees/1f2e-fix/shop",
    )
    assert {project_of(gone) for gone in pools} == {str(shop)}
    (tmp_path / "a").mkdir()
    git(tmp_path / "a", "init", "-q", "shop")
    for cached in (project_of, scope._repositories_below):
        cached.cache_clear()
    assert project_of(pools[0]) == pools[0], "two of that name"
    assert project_of(pools[3]) == str(shop)
    for other in (f"{tmp_path}/elsewhere/shop/x", "/srv/.cursor/worktrees/shop/k2fj", f"{tmp_path}/.cursor/worktrees/store/x"):
        assert project_of(other) == other, other


@pytest.mark.usefixtures("processes")
def test_a_repository_in_the_home_directory_owns_nothing_that_is_gone_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    git(tmp_path, "init", "-q")
    gone = f"{tmp_path}/other/lib"
    assert project_of(gone) == gone
    assert project_of(f"{tmp_path}/.worktrees/x") == f"{tmp_path}/.worktrees/x"


def test_trees_that_are_gone_themselves_gather_their_worktrees(tmp_path: Path) -> None:
    root = f"{tmp_path}/away/shop"
    assert {project_of(f"{root}/.worktrees/{n}/lib") for n in range(3)} == {root}
    assert project_of(f"{tmp_path}/.codex/worktrees/ab/shop/lib") == f"{tmp_path}/.codex/worktrees/ab/shop"
