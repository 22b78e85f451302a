"""The static model: what it promises as an Embedder, and that it never leaves the folder it was given."""

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model2vec import StaticModel
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from memory_mcp.base.errors import LayerUnavailable
from memory_mcp.embed.base import Embedder
from memory_mcp.embed.model2vec import Model2Vec
from memory_mcp.embed.models import BUNDLED, resolve_model
from memory_mcp.embed.static import TokenMeanModel
from memory_mcp.embed.tokens import LibraryTokens
from tests.indexes.models import WORDS, static_model
from tests.waiting import PATIENCE, together


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return static_model(tmp_path / "model")


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    asked: list[object] = []

    def refuse(*arguments: object, **_: object) -> None:
        asked.append(arguments)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    return asked


def test_vectors_have_length_one_and_the_models_dimensions(folder: Path) -> None:
    embedder: Embedder = Model2Vec(folder)
    rows = embedder.embed(["fix the login", "kitten", "invoice refund tax"])
    assert (str(rows.dtype), rows.shape, embedder.dimensions) == ("float32", (3, 32), 32)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)


def test_a_text_of_unknown_words_is_a_row_of_zeros(folder: Path) -> None:
    rows = Model2Vec(folder).embed(["zyzzyva qoph", "", "   ", "login"])
    assert [bool(r.any()) for r in rows] == [False, False, False, True]


def test_a_vector_does_not_depend_on_what_it_is_embedded_with(folder: Path) -> None:
    embedder = Model2Vec(folder)
    texts = [" ".join(WORDS[i : i + 1 + i % 9]) for i in range(150)]
    together = embedder.embed(texts)
    assert all(np.array_equal(embedder.embed([t])[0], row) for t, row in zip(texts, together, strict=True))
    assert embedder.embed([]).shape == (0, 32)


def test_lone_surrogates_nul_and_very_long_texts_are_embedded(folder: Path) -> None:
    rows = Model2Vec(folder).embed(["login \ud800 token", "login \0 token", "login token " * 50_000])
    assert rows.any(axis=1).all()


def test_the_fingerprint_tells_models_apart_and_says_where_they_lie(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    other = static_model(tmp_path / "other", seed=1)
    first, second, third = (Model2Vec(f).fingerprint() for f in (folder, copy, other))
    assert first == {**second, "folder": str(folder)}
    assert first["digest"] != third["digest"]
    assert json.loads(json.dumps(first)) == first


@pytest.mark.parametrize("missing", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_folder_without_one_of_its_files_is_refused_by_name(folder: Path, missing: str, no_network: list[object]) -> None:
    (folder / missing).unlink()
    with pytest.raises(LayerUnavailable, match=missing):
        Model2Vec(folder).embed(["login"])
    assert no_network == []


def test_a_missing_folder_is_refused_without_asking_the_network(tmp_path: Path, no_network: list[object]) -> None:
    for folder in (tmp_path / "nothing", Path("minishlab/potion-base-8M")):
        embedder = Model2Vec(folder)
        for act in (embedder.fingerprint, lambda e=embedder: e.embed(["login"]), lambda e=embedder: e.dimensions):
            with pytest.raises(LayerUnavailable, match="does not exist"):
                act()
    assert no_network == []


def test_a_damaged_model_is_refused(folder: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    for damaged in (b"", whole[:4], whole[:60], b"\xff" * 200):
        (folder / "model.safetensors").write_bytes(damaged)
        with pytest.raises(LayerUnavailable, match="cannot be"):
            Model2Vec(folder).embed(["login"])


def test_a_model_that_changes_before_it_is_loaded_is_refused(folder: Path, tmp_path: Path) -> None:
    embedder = Model2Vec(folder)
    embedder.fingerprint()
    shutil.copy(static_model(tmp_path / "other", seed=1) / "model.safetensors", folder)
    with pytest.raises(LayerUnavailable, match="has been changed"):
        embedder.embed(["login"])


def test_threads_may_embed_at_once(folder: Path) -> None:
    embedder = Model2Vec(folder)
    expected = Model2Vec(folder).embed(WORDS)

    def work() -> None:
        for _ in range(30):
            assert np.array_equal(embedder.embed(WORDS), expected)

    together(*[work] * 4)


@pytest.mark.usefixtures("processes")
def test_nothing_heavy_is_loaded_before_the_first_text(folder: Path) -> None:
    code = (
        "import sys; from memory_mcp.embed.model2vec import Model2Vec; m = Model2Vec(sys.argv[1]); m.fingerprint();"
        "assert 'tokenizers' not in sys.modules; m.embed(['login']);"
        "loaded = {'model2vec', 'joblib', 'tqdm', 'huggingface_hub', 'safetensors'} & set(sys.modules);"
        "assert not loaded, loaded;"
        "import os; assert os.environ['TOKENIZERS_PARALLELISM'] == 'false'"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True, timeout=PATIENCE)
    code = (
        "import sys; from memory_mcp.embed.model2vec import Model2Vec; m = Model2Vec(sys.argv[1]);"
        "assert m.embed(['getUserName of the login-form (v2)']).any(); assert 'tokenizers' not in sys.modules;"
        "m.embed(['\\u05d0\\u05d1']); assert 'tokenizers' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code, str(resolve_model(BUNDLED, None).folder)], check=True, timeout=PATIENCE)


class _AsTheLibraryDoes(StaticModel):
    """The library's own model over the tokens that ours takes."""

    ours: TokenMeanModel

    def tokenize(self, sentences: Sequence[str]) -> list[list[int]]:
        return self.ours.token_ids(sentences)


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("extra", ["", "weights", "mapping", "both"])
@pytest.mark.parametrize("normalize", [True, False])
def test_vectors_are_those_of_the_library_to_the_last_bit(kind: type, extra: str, normalize: bool) -> None:
    random = np.random.default_rng(7)
    count = len(dict.fromkeys(WORDS)) + 1
    rows: NDArray[Any] = (random.standard_normal((count, 24)) * 20).astype(kind)
    found: dict[str, NDArray[Any]] = {"embeddings": rows}
    if extra in ("weights", "both"):
        found["weights"] = random.random(count).astype(np.float32)
    if extra in ("mapping", "both"):
        found["mapping"] = random.integers(0, count, count).astype(np.int64)
    config = {"normalize": normalize, "max_length": 6}
    ours = TokenMeanModel(found, LibraryTokens(_tokenizer()), config)
    theirs = _AsTheLibraryDoes(
        rows,
        _tokenizer(),
        config,
        normalize=normalize,
        weights=found.get("weights"),
        token_mapping=found.get("mapping"),
        max_length=6,
    )
    theirs.ours = ours
    texts = [" ".join(random.choice(WORDS, size)) for size in (*range(12), 300)] + ["", "zyzzyva qoph", "login zyzzyva"]
    expected = theirs.encode(texts, use_multiprocessing=False)
    found_rows = ours.encode(texts)
    assert found_rows.dtype == expected.dtype
    assert np.array_equal(found_rows, expected)
    assert (theirs.tokens, theirs.unk_token_id) == (tuple(ours.tokens), ours.unknown_token)


def _tokenizer() -> Tokenizer:
    words = {"[UNK]": 0, **{word: place for place, word in enumerate(dict.fromkeys(WORDS), start=1)}}
    tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    return tokenizer
