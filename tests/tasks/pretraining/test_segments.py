"""Pretraining of BERT on documents without next sentences."""

import json

import pytest
from ml_collections import ConfigDict

from keras_attn import pretrain
from keras_attn.data.shards.prepare import prepare
from keras_attn.defaults import pretraining_defaults
from keras_attn.tasks.pretraining.segments import choose_segments
from keras_attn.text.vocabulary import SPECIAL_TOKENS
from keras_attn.text.wordpiece import WordPieceTokenizer
from tests.support.small_runs import SmallRun

SENTENCES = [f"the cat number {n} sat on a mat near the river" for n in range(60)]
TOKENIZER = WordPieceTokenizer(
    [*SPECIAL_TOKENS, "the", "cat", "number", "sat", "on", "a", "mat", "near", "river"]
)


def _text(sentences_per_document):
    return "".join(
        sentence + "\n" * (1 + (n % sentences_per_document == 0))
        for n, sentence in enumerate(SENTENCES, 1)
    )


def _choose(folder, train, validation, segments=None, next_sentence=None):
    """Returns the chosen segments, whether next sentences are left out, and the output."""
    sources = {}
    for split, text in (("validation", validation), ("train", train)):
        (folder / f"{split}.txt").write_text(text)
        sources[split] = str(folder / split)
        prepare(
            str(folder / f"{split}.txt"),
            TOKENIZER,
            sources[split],
            format="lines",
            log=lambda line: None,
        )
    config = ConfigDict({"data": {"segments": segments}, "model": {"next_sentence": next_sentence}})
    run = SmallRun(config)
    fallback = choose_segments(run, sources, TOKENIZER)
    assert run.resolved["data"]["segments"] == config.data.segments
    return config.data.segments, fallback, run.said


def test_documents_of_one_sentence_have_no_next_sentences_to_predict(tmp_path):
    alone, several = _text(1), _text(3)
    assert _choose(tmp_path, several, several) == ("next_sentence", False, [])
    segments, fallback, said = _choose(tmp_path, alone, several)
    assert (segments, fallback) == ("full_sentences", True)
    assert said == [
        "warning: hardly any sentence of data.train has a next sentence: the text has 60 "
        "sentences in 60 documents. The run uses data.segments=full_sentences and leaves out "
        "next-sentence prediction.",
        "If the blank lines in this text do not separate documents, set data.format=paragraphs "
        "(--format of pretrain.prepare).",
    ]
    segments, fallback, said = _choose(tmp_path, several, alone)
    assert (segments, fallback) == ("next_sentence", False)
    assert "of data.validation has a next" in said[0] and "nsp_accuracy is meaningless" in said[0]


@pytest.mark.parametrize("given", [{"segments": "next_sentence"}, {"next_sentence": True}])
def test_explicit_next_sentences_are_used_with_a_warning(tmp_path, given):
    segments, fallback, said = _choose(tmp_path, _text(1), _text(3), **given)
    assert (segments, fallback) == ("next_sentence", False)
    assert "Set data.segments=full_sentences" in said[0]
    assert _choose(tmp_path, _text(1), _text(1), segments="sentence_order")[1:] == (False, [])


@pytest.mark.runs
def test_a_run_on_documents_of_one_sentence_is_resumed_with_its_segments(tmp_path, capsys):
    (tmp_path / "t.txt").write_text(_text(1))
    config = pretraining_defaults()
    config.update_from_flattened_dict(
        {
            "data.train": str(tmp_path / "t.txt"),
            "data.validation": str(tmp_path / "t.txt"),
            "data.vocab_size": 100,
            "data.length": 16,
            "train.steps": 2,
            "train.batch_size": 8,
            "eval.batch_size": 8,
            "model.num_layers": 1,
            "model.hidden_dim": 16,
            "model.num_heads": 2,
        }
    )
    found = pretrain(config, workdir=str(tmp_path / "run"))
    assert "nsp_accuracy" not in found and "full_sentences" in capsys.readouterr().out
    saved = json.loads((tmp_path / "run/config.json").read_text())
    assert saved["config"]["data"]["segments"] == "full_sentences"
    assert saved["heads"]["next_sentence"] is False
    config.train.steps = 4
    assert pretrain(config, workdir=str(tmp_path / "run"))["steps"] == 4
    # The advice is right: read as paragraphs, the sentences have next ones.
    config.data.format = "paragraphs"
    found = pretrain(config, workdir=str(tmp_path / "other"))
    assert 0 < found["nsp_accuracy"] < 1
