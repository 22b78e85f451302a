"""The model in the package: what it knows, what it leaves alone, what it costs; and that it never asks the network."""

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from memory_mcp.embed.model2vec import Model2Vec
from memory_mcp.embed.models import BUNDLED, FILES, TOKENIZER, resolve_model
from memory_mcp.embed.static import load_static_model
from memory_mcp.embed.tokens import _CUT_HERE, WordPieceTokens, read_tokens
from tests.indexes.models import static_model
from tests.waiting import PATIENCE
from tests.work import calls

FOLDER = resolve_model(BUNDLED, None).folder


@pytest.fixture(scope="module")
def bundled() -> Model2Vec:
    return Model2Vec(FOLDER)


def similar(model: Model2Vec, one: str, other: str) -> float:
    rows = model.embed([one, other])
    return float(rows[0] @ rows[1])


def test_it_is_small_and_its_licence_and_notice_lie_beside_it() -> None:
    assert sum((FOLDER / name).stat().st_size for name in FILES) <= 16_000_000
    assert "Apache License" in (FOLDER / "LICENSE").read_text(encoding="utf-8")
    assert "all-MiniLM-L6-v2" in (FOLDER / "NOTICE").read_text(encoding="utf-8")
    assert Model2Vec(FOLDER).dimensions == 256


@pytest.mark.parametrize(
    ("asked", "meant", "other"),
    [
        ("we moved to another city", "She relocated to Boston last spring.", "The invoice was paid on time."),
        ("why is the build broken", "CI fails since the compiler upgrade.", "We painted the kitchen yellow."),
        ("remove a directory", "Delete a folder and everything in it.", "Sort lines of text by their length."),
        ("her pet", "Melanie's dog Oscar is a golden retriever.", "Set the timeout to thirty seconds."),
    ],
)
def test_it_finds_the_same_meaning_in_other_words(bundled: Model2Vec, asked: str, meant: str, other: str) -> None:
    assert similar(bundled, asked, meant) > similar(bundled, asked, other) + 0.05


@pytest.mark.parametrize(
    "text",
    [
        "我们修复了登录超时的错误，然后重新部署了服务。",
        "Мы исправили ошибку входа и снова развернули сервис.",
        "登録フォームのエラーを修正しました",
        "تم إصلاح خطأ تسجيل الدخول",
    ],
)
def test_what_it_mostly_does_not_know_is_no_vector_at_all(bundled: Model2Vec, text: str) -> None:
    assert not bundled.embed([text]).any()


def test_a_known_text_with_a_foreign_word_in_it_is_embedded(bundled: Model2Vec) -> None:
    assert bundled.embed(["The login form greets people with привет since the last release."]).any()


@pytest.mark.parametrize("text", ["✅ build\n✅ lint\n✅ deploy ✅ ✅ done", "🔥🔥 login 🚀 ❌ fix", "⠋ ⠙ ⠹ installing"])
def test_ticks_and_faces_do_not_make_a_text_foreign(bundled: Model2Vec, text: str) -> None:
    assert bundled.embed([text]).any()


def test_a_users_own_folder_may_be_written_into_while_it_is_used(tmp_path: Path) -> None:
    folder = static_model(tmp_path / "mine")
    model = Model2Vec(folder)
    before = model.embed(["login token"])
    (folder / "model.safetensors").write_bytes(b"")
    assert np.array_equal(model.embed(["login token"]), before)


def test_half_of_the_words_must_be_known(tmp_path: Path) -> None:
    model = Model2Vec(static_model(tmp_path / "model"))
    assert model.embed(["login qoph zyzzyva", "login qoph", "login token qoph"]).any(axis=1).tolist() == [False, True, True]


@pytest.mark.usefixtures("processes")
def test_the_matrix_is_mapped_and_the_rest_takes_little_memory() -> None:
    code = """
import json, sys
def anonymous():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon:")) * 1024
from memory_mcp.embed.model2vec import Model2Vec
model = Model2Vec(sys.argv[1])
import numpy
before = anonymous()
model.embed(["warm"])
base = model._load_shared().model._rows
while base is not None and not isinstance(base, numpy.memmap):
    base = base.base
model.embed(["a sentence about the login form of the service"] * 5000)
print(json.dumps([anonymous() - before, base is not None]))
"""
    if not Path("/proc/self/status").is_file():
        pytest.skip("memory is looked at through /proc")
    done = subprocess.run([sys.executable, "-c", code, str(FOLDER)], check=True, capture_output=True, text=True, timeout=PATIENCE)
    grown, mapped = json.loads(done.stdout)
    assert mapped
    assert grown <= 100_000_000


@pytest.mark.usefixtures("processes")
def test_it_embeds_without_a_network_and_starts_no_process() -> None:
    code = """
import os, socket, subprocess, sys
def refuse(*_, **__): raise AssertionError("nothing may be asked or started")
socket.socket.connect = refuse; socket.getaddrinfo = refuse
subprocess.Popen.__init__ = refuse; os.fork = refuse; os.posix_spawn = refuse
from memory_mcp.embed.model2vec import Model2Vec
assert Model2Vec(sys.argv[1]).embed(["a word"] * 12000).any(axis=1).all()
"""
    subprocess.run([sys.executable, "-c", code, str(FOLDER)], check=True, timeout=PATIENCE)


def test_a_text_costs_a_dozen_calls_whether_alone_or_among_thousands(bundled: Model2Vec) -> None:
    """27 a text were counted in bulk, each with a word of its own, and 148 for one alone; bench.embedder has the time."""
    texts = [
        f"The login session {n} expired again, so we rolled the deploy back and wrote a note about the retry. " * 2
        for n in range(4000)
    ]
    bundled.embed(["warm"])
    assert calls(lambda: bundled.embed(texts)) <= 30 * len(texts)
    assert calls(lambda: bundled.embed(["where did we fix the login timeout"])) <= 250


def test_words_are_cut_as_the_library_cuts_them() -> None:
    tokens = read_tokens(FOLDER / TOKENIZER)
    assert isinstance(tokens, WordPieceTokens)
    rng, characters = random.Random(7), [c for c in map(chr, range(0x20, 0x1F600)) if _CUT_HERE.fullmatch(c)]
    words = [word for c in characters for word in (c, f"a{c}b")]
    words += ["".join(rng.choices(characters, k=rng.randrange(2, 9))) for _ in range(20_000)]
    words += ["".join(rng.choices("aeiouAEI\u0301\u00c9\u03a3\u0130\u01c5\u0439'", k=8)) for _ in range(5_000)]
    cut_here = [tokens.cut_word(word) for word in words]
    different = [word for word, ids in zip(words, cut_here, strict=True) if ids != tokens._library.cut_word(word)]
    assert different == []


def test_words_one_by_one_give_the_tokens_of_the_whole_text() -> None:
    model = load_static_model(FOLDER)
    signs = "ab ZX9_.-\t\n\r\x0b\x1b\x1c\u0301\u00e9\u00a0\u2028"
    signs += "\u3000\u4e2d\u3002\u00df\u200b\ufeff\u0130'[]\U0001f600\u0600\u00adaBcD\u041f"
    rng = random.Random(5)
    texts = ["".join(rng.choices(signs, k=rng.randrange(60))) for _ in range(2000)]
    pieces = [token.removeprefix("##") for token in rng.choices(model.tokens, k=6000)]
    texts += [
        "".join(rng.choice(("", "", " ", "-", "_", "X")) + piece for piece in pieces[at : at + 9]) for at in range(0, 6000, 3)
    ]
    texts += ["[UNK] aBcDef", "[PAD]", "getHTTPValue of user_id", "a" * 150, "word " * 700, "GitHub JavaScript"]
    by_word = [model.token_ids([text]) for text in texts]
    model._word_tokens = None
    assert by_word == [model.token_ids([text]) for text in texts]
