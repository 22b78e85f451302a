"""What the bundled model may be trained on."""

from bench.embedder import text

_PERMISSIVE = "Metadata-Version: 2.1\nName: a\nLicense-Expression: MIT\n"


def test_only_packages_that_name_a_permissive_licence_are_read() -> None:
    assert text.permissive(_PERMISSIVE)
    assert text.permissive("Name: a\nClassifier: License :: OSI Approved :: BSD License\n")
    assert not text.permissive("Name: a\nLicense: LGPL-2.1\n")
    assert not text.permissive("Name: a\nLicense-Expression: MIT AND MPL-2.0\n")
    assert not text.permissive("Name: a\n")


def test_a_docstring_gives_its_first_sentence_and_the_rest_without_markup() -> None:
    source = '"""Reads the whole file at once. It returns ``bytes``, which :func:`~a.decode` takes, and *never* fails."""'
    rest = "It returns bytes, which a.decode takes, and never fails."
    assert list(text.docstrings(source)) == [text.Pair("Reads the whole file at once", rest)]


def test_what_cannot_be_parsed_gives_nothing() -> None:
    assert list(text.docstrings("def (")) == []


def test_a_run_of_comment_lines_is_one_text_and_code_is_none() -> None:
    source = "x = 1\n# The cache is emptied here, because the next reader\n# must not see what was there before.\n"
    found = list(text.comments(source))
    assert found == [text.Pair("The cache is emptied here, because the next reader must not see what was there before.")]
    assert list(text.comments("# a=[1];b={2:3};c=(4);d=[5];e={6:7};f=(8);g=[9];h={10:11};i=(12)\n")) == []


def test_a_mixture_has_each_text_once() -> None:
    found = {"docstrings": [text.Pair("a", "b"), text.Pair("c")], "comments": [text.Pair("b")], "pages": []}
    assert text.mixture(found, [text.Pair("a"), text.Pair("d")], ["d", "e"]) == {
        "a": "technical",
        "b": "technical",
        "c": "technical",
        "d": "spoken",
        "e": "bag",
    }


def test_bags_are_the_same_every_time() -> None:
    assert text.bags(["one", "two", "three"], 2) == text.bags(["one", "two", "three"], 2)
