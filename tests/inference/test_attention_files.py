"""Attention pages of every kind of model that the commands load."""

import numpy as np
import pytest

from keras_attn import load
from keras_attn.errors import UserError
from keras_attn.inference.attention_files import write_attention_page
from keras_attn.inference.translate_files import translate_file, write_alignment_page
from keras_attn.visualize import attention_maps
from keras_attn.visualize.attention_page import AttentionPage
from tests.support.attention_page import unpacked
from tests.support.small_workdirs import GOLDEN

RUNS = GOLDEN / "workdirs_0_1"


def page_of(workdir, folder, *texts, **options):
    path = folder / "page.html"
    write_attention_page(str(workdir), str(path), [texts[0]], list(texts[1:]), **options)
    return unpacked(AttentionPage(path.read_text("utf-8")))


@pytest.mark.parametrize("run", ["bert", "bert_classifier", "gpt2_classifier", "xlnet_classifier"])
def test_an_encoder_or_classifier_has_a_page_of_every_layer(run, tmp_path):
    model = load(str(RUNS / run))
    found = page_of(RUNS / run, tmp_path, "the cat sees")
    maps = attention_maps(model.model, model.encode(["the cat sees"]))
    assert list(found) == list(maps)
    for name, (queries, keys, weights) in found.items():
        assert queries == keys and "cat" in "".join(queries)
        size = len(keys)
        np.testing.assert_allclose(weights, maps[name][0, :, :size, :size], atol=0.005)


def test_a_page_of_a_question_shows_the_window_with_its_answer(tmp_path):
    model = load(str(RUNS / "reading"))
    passage = " . ".join(
        f"the {word} sees a cat" for word in (["dog", "bird", "man", "fish", "cow", "owl"] * 9)
    )
    answer = model.answer("who sees a cat ?", passage)
    page = model.attention_page("who sees a cat ?", passage)
    assert answer["answer"] in page.html
    for queries, keys, _ in unpacked(page).values():
        assert queries == keys and queries.count("[SEP]") == 2
        start = queries.index("[SEP]") + 1
        assert len(queries) == model.length  # a window, not the whole passage
        window = "".join(queries[start:-1]).replace("##", "")
        assert answer["answer"].replace(" ", "") in window
    first = model.attention_page("who sees a cat ?", "the dog sees a cat")
    again = page_of(RUNS / "reading", tmp_path, "who sees a cat ?", "the dog sees a cat")
    assert unpacked(first).keys() == again.keys()
    with pytest.raises(UserError, match="A question requires its passage"):
        page_of(RUNS / "reading", tmp_path, "who sees a cat ?")


@pytest.mark.parametrize("run", ["gpt2", "xlnet"])
def test_a_model_that_generates_text_has_no_page(run, tmp_path):
    with pytest.raises(UserError, match="--attention requires an encoder.*a model for "):
        page_of(RUNS / run, tmp_path, "the cat")
    assert not list(tmp_path.iterdir())


@pytest.mark.runs
def test_a_page_of_a_translation_has_its_alignment(tmp_path):
    run, text, model = RUNS / "translation", "the cat sees", load(str(RUNS / "translation"))
    ((best,),) = model.translate([text], 1, 1, alignments=True)
    pages = unpacked(model.attention_page(text, beam=1)), written(run, tmp_path, text, beam=1)
    for page in pages:
        ((queries, keys, weights),) = page.values()
        assert (queries, keys) == (best["tokens"], best["source_tokens"])
        np.testing.assert_allclose(weights[0], best["attention"], atol=0.005)
    with pytest.raises(UserError, match="takes single texts"):
        model.attention_page(text, text)


def written(run, folder, text, **options):
    write_alignment_page(str(run), str(folder / "page.html"), [text], **options)
    return unpacked(AttentionPage((folder / "page.html").read_text("utf-8")))


@pytest.mark.parametrize(
    ("run", "texts", "message"),
    [
        ("translation", ["a", "b"], "exactly one --text. Received: 2 texts"),
        ("translation", None, "exactly one --text. Received: 0 texts"),
        ("translation", [""], "requires a translation with tokens"),
        ("bert_classifier", ["a"], "must contain a translation model.*a model for classification"),
    ],
)
def test_invalid_arguments_of_an_alignment_page_are_errors(run, texts, message, tmp_path):
    with pytest.raises(UserError, match=message):
        write_alignment_page(str(RUNS / run), str(tmp_path / "page.html"), texts)
    assert not list(tmp_path.iterdir())


@pytest.mark.runs
def test_texts_are_translated_like_lines(tmp_path):
    texts = ["the cat sees", "", "a dog"]
    translate_file(str(RUNS / "translation"), texts, str(tmp_path / "out.txt"))
    lines = (tmp_path / "out.txt").read_text("utf-8").splitlines()
    assert lines == load(str(RUNS / "translation")).translate(texts)
    with pytest.raises(UserError, match="at most .* tokens.*line 2 of --text"):
        translate_file(str(RUNS / "translation"), ["a", "cat " * 500], str(tmp_path / "out.txt"))
