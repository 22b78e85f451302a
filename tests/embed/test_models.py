"""What a model is called, and where it lies."""

from pathlib import Path

import pytest

from memory_mcp.base.errors import ConfigError, InvalidQuery, LayerUnavailable
from memory_mcp.embed.models import BUNDLED, PRETRAINED, is_managed_folder, iter_fetched_models, locate_model, resolve_model
from memory_mcp.embed.settings import EmbedderSettings
from tests.indexes.models import static_model


def test_the_bundled_model_is_the_default_and_lies_in_the_package() -> None:
    found = locate_model(EmbedderSettings().model, None)
    assert (found.name, found.kind, found.is_complete) == (BUNDLED, "bundled", True)
    assert found.folder.parent.parent.name == "memory_mcp"


@pytest.mark.parametrize("name", ["potion-base-8M", "POTION-BASE-8m", "minishlab/potion-base-8M"])
def test_a_known_model_goes_by_its_own_name_or_the_last_part_of_it(name: str, tmp_path: Path) -> None:
    found = resolve_model(name, tmp_path)
    assert (found.name.lower(), found.kind) == ("minishlab/potion-base-8m", "hub")
    assert found.folder.parent == tmp_path / "models"


def test_any_model_of_a_hub_goes_by_owner_and_name(tmp_path: Path) -> None:
    assert resolve_model("someone/their.model-2", tmp_path).folder == tmp_path / "models" / "someone--their.model-2"


@pytest.mark.parametrize("path", ["/srv/models/mine", "~/models/mine", "./mine", "../mine", "/srv/a/b/c"])
def test_a_path_is_a_folder(path: str) -> None:
    found = resolve_model(path, None)
    assert found.kind == "folder"
    assert found.folder == Path(path).expanduser().absolute()


@pytest.mark.parametrize("name", ["", "  ", "potion-base-9M", "bundle"])
def test_what_is_neither_is_refused_with_the_names_there_are(name: str) -> None:
    with pytest.raises(InvalidQuery, match="potion-base-8M") as refused:
        resolve_model(name, None)
    assert "OWNER/NAME" in refused.value.hint


def test_a_setting_that_names_no_model_stops_the_program_and_an_empty_one_does_not() -> None:
    with pytest.raises(ConfigError, match=r"embedder\.model: no model is called 'bundel'"):
        EmbedderSettings("bundel")
    assert EmbedderSettings("").model == ""


def test_a_model_that_was_not_fetched_says_how_to(tmp_path: Path) -> None:
    with pytest.raises(LayerUnavailable, match="not on this machine") as refused:
        locate_model("potion-base-8M", tmp_path)
    assert refused.value.hint == "Fetch it: memory-mcp embedder fetch minishlab/potion-base-8M."


def test_a_folder_that_looks_like_a_hubs_name_is_pointed_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    static_model(tmp_path / "models" / "mine")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LayerUnavailable) as refused:
        locate_model("models/mine", tmp_path / "data")
    assert refused.value.hint.endswith("Or if the folder is meant: ./models/mine")


def test_nobodys_home_is_an_error_of_ours() -> None:
    with pytest.raises(ConfigError, match="unknown home directory"):
        EmbedderSettings("~nosuchuser/model")


def test_only_folders_that_this_program_writes_are_its_own(tmp_path: Path) -> None:
    assert is_managed_folder(resolve_model(BUNDLED, None).folder)
    assert is_managed_folder(tmp_path / "models" / "someone--tiny")
    assert not is_managed_folder(tmp_path / "models" / "mine")
    assert not is_managed_folder(tmp_path / "someone--tiny")
    assert resolve_model(str(tmp_path / "models" / "someone--tiny"), None) == resolve_model("someone/tiny", tmp_path)


def test_what_was_fetched_is_found_and_half_a_model_is_not(tmp_path: Path) -> None:
    static_model(tmp_path / "models" / "someone--whole")
    static_model(tmp_path / "models" / "someone--half")
    (tmp_path / "models" / "someone--half" / "tokenizer.json").unlink()
    (tmp_path / "models" / ".fetching-x").mkdir()
    assert [(m.name, m.kind) for m in iter_fetched_models(tmp_path)] == [("someone/whole", "hub")]
    assert locate_model("someone/whole", tmp_path).is_complete


def test_every_known_model_can_be_named_by_either_name(tmp_path: Path) -> None:
    for model in PRETRAINED:
        assert resolve_model(model.name, tmp_path) == resolve_model(model.name.split("/")[1], tmp_path)
