"""Translation of texts and files, and errors of inputs that cannot be translated."""

import io
import itertools
import json
import shutil
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_attn import finetune, load
from keras_attn.convert import read_ready
from keras_attn.errors import UserError
from keras_attn.export.saved_model import export
from keras_attn.inference.evaluate import evaluate
from keras_attn.inference.predict_files import predict_texts
from keras_attn.inference.translate_files import translate_file
from keras_attn.tasks.translation.export import ExportedTranslator
from keras_attn.tasks.translation.metrics import translation_scores
from keras_attn.text.subwords import BEGIN_ID, END_ID, Subwords, train_subwords
from tests.support.small_translators import WORDS, config_of, make_corpus

pytestmark = pytest.mark.runs


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return make_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def translator(corpus):
    """The workdir of a translator, and its results."""
    config = config_of(
        corpus,
        **{"train.steps": 1000, "eval.every": 500, "checkpoint.every": 20, "checkpoint.average": 3},
    )
    return corpus / "run", finetune(config, workdir=str(corpus / "run")), config


def test_it_learns_to_translate(translator, corpus):
    workdir, results, _ = translator
    assert results["bleu"] > 85 and results["chrf"] > 85
    assert results["token_accuracy"] > 0.9
    found = load(str(workdir)).translate(["red cat", "", "the", "big dog sees small bird"])
    assert found[0] == "rot Katze" and found[1] == ""
    assert found[3] == "groß Hund sieht klein Vogel"
    sources = (corpus / "valid.en").read_text().splitlines()
    targets = (corpus / "valid.de").read_text().splitlines()
    from sacrebleu import corpus_bleu

    translations = load(str(workdir)).translate(sources, beam=2)
    assert corpus_bleu(translations, [targets]).score == pytest.approx(results["bleu"], abs=1e-6)
    measured = evaluate(
        str(workdir), str(corpus / "valid.en"), target=str(corpus / "valid.de"), batch_size=7
    )
    for name in ("bleu", "chrf", "bleu_signature", "chrf_signature"):
        assert measured[name] == results[name]
    assert measured["examples"] == len(sources) and measured["skipped"] == 0
    short = evaluate(
        str(workdir),
        str(corpus / "valid.en"),
        target=str(corpus / "valid.de"),
        beam=1,
        length_penalty=0.0,
    )
    greedy = load(str(workdir)).translate(sources, beam=1)
    assert short["bleu"] == pytest.approx(corpus_bleu(greedy, [targets]).score, abs=1e-6)


def test_its_loops_copy_no_cache(translator):
    made = load(str(translator[0]))
    inputs = {name: np.ones((2, 8), np.int32) for name in ("token_ids", "padding_mask")}
    limits = np.full(2, 4, np.int32)
    searches = [
        made._search.get_concrete_function(inputs, limits, 2, 4, 0.6, False),
        ExportedTranslator(made).serve.get_concrete_function(),
    ]
    for search in searches:
        functions = search.graph.as_graph_def().library.function
        bodies = [
            {node.op for node in function.node_def}
            for function in functions
            if "while_body" in function.signature.name
        ]
        assert any("TensorStridedSliceUpdate" in body for body in bodies)


def test_scores_are_those_of_whole_passes(translator, corpus):
    made = load(str(translator[0]))
    sources = (corpus / "valid.en").read_text().splitlines()[:5]
    sources += ["red cat red cat sees big", "bird"]
    hypotheses = made.translate(sources, beam=4, nbest=4, alignments=True)
    compared = 0
    for ids, found in zip(made.encode(sources), hypotheses, strict=True):
        for one in found:
            target = made.subwords.encode([one["text"]])[0]
            label = [*target, END_ID] if one["finished"] else target
            logits = np.asarray(
                made.model(
                    {
                        "token_ids": np.array([[*ids, END_ID]], np.int32),
                        "target_ids": np.array([[BEGIN_ID, *label[:-1]]], np.int32),
                    }
                )["logits"],
                np.float64,
            )[0]
            log = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
            own = log[np.arange(len(label)), label].sum()
            # A text may be made of other pieces than it is cut into.
            if made.subwords.pieces(label) == one["tokens"]:
                assert one["log_probability"] == pytest.approx(own, abs=1e-3)
                compared += 1
    assert compared > 14


def test_half_precision_translates_alike(translator, corpus, tmp_path):
    workdir, sources = translator[0], (corpus / "valid.en").read_text().splitlines()
    whole, half = load(str(workdir)), load(str(workdir), precision="bfloat16")
    kinds = {keras.backend.standardize_dtype(v.dtype) for v in half.model.trainable_variables}
    assert kinds == {"bfloat16"}
    found = [made.translate(sources, nbest=1) for made in (whole, half)]
    same = [a[0]["text"] == b[0]["text"] for a, b in zip(*found, strict=True)]
    assert np.mean(same) > 0.9
    for (a,), (b,) in itertools.compress(zip(*found, strict=True), same):
        # bfloat16 has 8 bits: an error of 0.4 % in each logit.
        assert b["log_probability"] == pytest.approx(
            a["log_probability"], abs=0.05 * len(a["text"].split()) + 0.05
        )
        assert b["log_probability"] != a["log_probability"]
    out = tmp_path / "out.txt"
    translate_file(str(workdir), str(corpus / "valid.en"), str(out), precision="bfloat16")
    assert out.read_text().splitlines() == [one["text"] for (one,) in found[1]]
    measured = evaluate(
        str(workdir),
        str(corpus / "valid.en"),
        target=str(corpus / "valid.de"),
        precision="bfloat16",
    )
    targets = (corpus / "valid.de").read_text().splitlines()
    scores = translation_scores([one["text"] for (one,) in found[1]], targets)
    assert measured["bleu"] == pytest.approx(scores["bleu"][0])
    with pytest.raises(UserError, match="precision must be float32 or bfloat16"):
        load(str(workdir), precision="half")


def test_the_same_call_resumes_and_has_the_same_results(translator):
    workdir, results, config = translator
    again = finetune(config, workdir=str(workdir))
    names = ("bleu", "chrf", "loss", "weights_sha256", "steps")
    assert {name: again[name] for name in names} == {name: results[name] for name in names}


def test_a_translation_does_not_depend_on_its_batch(translator, corpus):
    model = load(str(translator[0]))
    texts = [*(corpus / "valid.en").read_text().splitlines()[:9], ""]
    together = model.translate(texts, beam=4, nbest=4)
    for size in (1, 4):
        alone = model.translate(texts, beam=4, nbest=4, batch_size=size)
        for one, other in zip(together, alone, strict=True):
            assert [row["text"] for row in one] == [row["text"] for row in other]
            np.testing.assert_allclose(
                [row["score"] for row in one], [row["score"] for row in other], atol=1e-4
            )
    for rows in together[:9]:
        scores = [row["score"] for row in rows]
        assert scores == sorted(scores, reverse=True)


def test_alignments_are_of_the_tokens(translator):
    ((best, _),) = load(str(translator[0])).translate(
        ["red cat sees dog"], nbest=2, alignments=True
    )
    attention = best["attention"]
    assert attention.shape == (len(best["tokens"]), len(best["source_tokens"]))
    np.testing.assert_allclose(attention.sum(axis=1), 1.0, atol=1e-5)
    assert best["source_tokens"][-1] == best["tokens"][-1] == "</s>"


def test_results_have_what_sacrebleu_counted(translator):
    _, results, _ = translator
    assert "case:mixed" in results["bleu_signature"] and "tok:13a" in results["bleu_signature"]
    assert "nc:6" in results["chrf_signature"]


def test_alignments_of_batches_of_any_width(translator):
    model = load(str(translator[0]))
    words = list(WORDS)
    for count in (1, 4, 2, 6):
        text = " ".join((words * 3)[:count])
        (found,) = model.translate([text], nbest=1, alignments=True)
        assert found[0]["attention"].shape[1] == len(found[0]["source_tokens"])


def test_a_saved_model_translates_alike(translator, corpus, tmp_path):
    import tensorflow_text  # noqa: F401

    export(str(translator[0]), str(tmp_path / "served"))
    saved = tf.saved_model.load(str(tmp_path / "served"))
    texts = [*(corpus / "valid.en").read_text().splitlines()[:9], "", "dog Ω", "red cat big"]
    found = saved.serve(tf.constant(texts))
    wanted = load(str(translator[0])).translate(texts, beam=2, nbest=1)
    assert [one.decode() for one in found["translation"].numpy()] == [
        row[0]["text"] for row in wanted
    ]
    np.testing.assert_allclose(found["score"], [row[0]["score"] for row in wanted], atol=1e-5)
    assert saved.serve(tf.constant([], tf.string))["translation"].shape == (0,)
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 31 tokens"):
        saved.serve(tf.constant(["cat " * 40]))
    with pytest.raises(UserError, match="finetune.export has no pairs for models for tr"):
        export(str(translator[0]), str(tmp_path / "pairs"), pairs=True)


def test_a_call_can_be_ended_between_batches(translator):
    answers = [False, True]
    found = load(str(translator[0])).translate(
        ["cat", "dog", "bird"], batch_size=1, stop=lambda: answers.pop(0)
    )
    assert found is None and not answers


def test_tensorflow_text_and_sentencepiece_have_the_same_subwords(translator):
    import tensorflow_text as tf_text

    subwords = read_ready(str(translator[0])).tokenizer
    texts = ["red cat", "", " Ω  big", "groß!\tKatze", "a" * 50]
    ids, ends = subwords.encode(texts)
    found = tf_text.SentencepieceTokenizer(subwords.model, tf.int32).tokenize(texts)
    assert found.to_list() == [row.tolist() for row in np.split(ids, ends[:-1])]


def test_files_and_streams_keep_order_and_empty_lines(translator, tmp_path, capsys, monkeypatch):
    workdir = str(translator[0])
    (tmp_path / "in.txt").write_bytes(b"red cat\n\nbig bird\r\ndog")
    translate_file(workdir, str(tmp_path / "in.txt"), str(tmp_path / "out.txt"))
    lines = ["rot Katze", "", "groß Vogel", "Hund"]
    assert (tmp_path / "out.txt").read_text() == "".join(f"{line}\n" for line in lines)
    assert "4 lines translated, 0 skipped" in capsys.readouterr().err
    stream = io.TextIOWrapper(io.BytesIO((tmp_path / "in.txt").read_bytes()))
    monkeypatch.setattr(sys, "stdin", stream)
    translate_file(workdir, "-", nbest=2, with_scores=True, alignments=True)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row[0]["text"] for row in rows] == lines
    assert len(rows[0]) == 2 and rows[0][0]["score"] >= rows[0][1]["score"]
    assert rows[0][0]["finished"] is True
    assert len(rows[0][0]["alignments"]) == len(rows[0][0]["tokens"])


def test_long_files_keep_their_order_and_the_numbers_of_their_lines(translator, tmp_path):
    workdir, path = str(translator[0]), tmp_path / "in.txt"
    lines = ["red cat", "", "big bird", "dog"] * 275 + ["small dog"]
    path.write_text("\n".join(lines))
    translate_file(workdir, str(path), str(tmp_path / "out.txt"), beam=1)
    assert (tmp_path / "out.txt").read_text().splitlines() == [
        " ".join(WORDS[word] for word in line.split()) for line in lines
    ]
    path.write_text("\n".join([*lines[:-1], "cat " * 40]))
    with pytest.raises(UserError, match="line 1101"):
        translate_file(workdir, str(path), str(tmp_path / "other.txt"), beam=1)
    assert not (tmp_path / "other.txt").exists()


def test_lines_that_cannot_be_translated_are_errors_or_counted(translator, tmp_path, capsys):
    workdir, path = str(translator[0]), tmp_path / "in.txt"
    for content, message in (
        (b"dog\n\xff\n", "A line must be valid UTF-8.*line 2"),
        (b"dog\n" + b"cat " * 40 + b"\n", "A line must have at most 31 tokens.*line 2"),
    ):
        path.write_bytes(content)
        with pytest.raises(UserError, match=message):
            translate_file(workdir, str(path), str(tmp_path / "out.txt"))
        assert not (tmp_path / "out.txt").exists()
        translate_file(workdir, str(path), on_bad_text="skip")
        captured = capsys.readouterr()
        assert captured.out == "Hund\n\n" and "1 skipped" in captured.err


def test_a_line_is_answered_before_the_next_is_there(translator, capsys, monkeypatch):
    class Slow(io.BytesIO):
        def read1(self, size):
            answers.append(capsys.readouterr().out)
            return blocks.pop(0) if blocks else b""

    answers, blocks = [], [b"\xef\xbb\xbfred c", b"at\nbig", b" bird\r\n", b"dog"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Slow()))
    translate_file(str(translator[0]), "-")
    answers.append(capsys.readouterr().out)
    assert answers == ["", "", "rot Katze\n", "groß Vogel\n", "", "Hund\n"]


def test_wrong_wishes_are_named(translator, tmp_path):
    model = load(str(translator[0]))
    with pytest.raises(UserError, match="nbest=None"):
        model.translate(["dog"], alignments=True)
    with pytest.raises(UserError, match="nbest=5"):
        translate_file(str(translator[0]), "-", beam=4, nbest=5)
    (tmp_path / "a.en").write_text("dog\ncat\n")
    (tmp_path / "a.de").write_text("Hund\n\n")
    with pytest.raises(UserError, match="no target at .*a.de, line 2"):
        evaluate(str(translator[0]), str(tmp_path / "a.en"), target=str(tmp_path / "a.de"))
    (tmp_path / "b.en").write_text("cat " * 40)
    (tmp_path / "a.en").write_text("dog\n" + "cat " * 40)
    with pytest.raises(UserError, match="at most 31 tokens.*a.en, line 2"):
        evaluate(str(translator[0]), str(tmp_path / "a.en"), target=str(tmp_path / "a.en"))
    with pytest.raises(UserError, match="Sentences must have at most 31 tokens"):
        evaluate(
            str(translator[0]),
            str(tmp_path / "b.en"),
            target=str(tmp_path / "b.en"),
            on_bad_text="skip",
        )
    for wrong in ("a\udcff", None):
        with pytest.raises(UserError, match="Texts must be strings.*as text 2"):
            model.translate(["dog", wrong])
    with pytest.raises(UserError, match="Use `python -m finetune.translate`"):
        predict_texts(str(translator[0]), ["dog"])
    with pytest.raises(UserError, match="requires a target"):
        evaluate(str(translator[0]), str(tmp_path / "a.en"))


def test_what_is_too_long_or_nothing_is_left_out_and_counted(translator, corpus, tmp_path, capsys):
    sources, targets = (
        ["dog", "cat " * 40, "\u200b", "red", "big"],
        ["Hund", "Katze", "rot", "\u200b", "groß " * 40],
    )
    paths = [tmp_path / "x.en", tmp_path / "x.de"]
    for path, lines in zip(paths, (sources, targets), strict=True):
        path.write_text("\n".join(lines))
    found = evaluate(str(translator[0]), str(paths[0]), target=str(paths[1]), on_bad_text="skip")
    assert (found["examples"], found["skipped"]) == (4, 1), "whatever the references are"
    fields = {
        "data.vocab": str(translator[0] / "subwords.model"),
        "train.steps": 1,
        "data.validation.source": str(paths[0]),
        "data.validation.target": str(paths[1]),
    }
    for wrong in (1, 2, 3, 4):
        for path, lines in zip(paths, (sources, targets), strict=True):
            path.write_text("\n".join(["dog", lines[wrong]]))
        with pytest.raises(
            UserError, match=r"A sentence must have at .*x\.(en|de), line 2"
        ) as error:
            finetune(config_of(corpus, **fields), workdir=str(tmp_path / "run"))
        assert ("x.de" in str(error.value)) == (wrong > 2)
    for path, lines in zip(paths, (sources, targets), strict=True):
        path.write_text("\n".join(lines))
    capsys.readouterr()
    finetune(
        config_of(corpus, **fields, **{"data.on_bad_text": "skip"}), workdir=str(tmp_path / "run")
    )
    said = capsys.readouterr().out
    assert "1 validation sentence ·" in said
    assert "2 skipped: too long · 2 skipped: empty" in said


def test_warnings_are_no_translations(translator, tmp_path, capsys):
    shutil.copytree(translator[0], tmp_path / "run")
    (tmp_path / "run/checkpoints/index.json").write_text("{")
    (tmp_path / "in.txt").write_text("dog\n")
    translate_file(str(tmp_path / "run"), str(tmp_path / "in.txt"))
    captured = capsys.readouterr()
    assert captured.out == "Hund\n" and "warning" in captured.err


def test_what_does_not_go_with_the_weights_to_start_from_is_named(translator, corpus, tmp_path):
    other = Subwords(train_subwords(["red cat sees dog"] * 9, 20, "bpe"))
    (tmp_path / "other").mkdir()
    other.write(tmp_path / "other")
    for fields, message in (
        ({"model.hidden_dim": 64}, "hidden_dim=64 differs from .* hidden_dim=32"),
        ({"model.norm_first": False}, "norm_first=False differs from .* norm_first=True"),
        ({"data.vocab": str(tmp_path / "other")}, "data.vocab must be the vocabulary of"),
        ({"data.length": 64}, "data.length=64 exceeds the model's 32 positions"),
    ):
        with pytest.raises(UserError, match=message):
            finetune(
                config_of(corpus, **fields),
                workdir=str(tmp_path / "run"),
                pretrained=str(translator[0]),
            )
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_translator_starts_from_another(translator, corpus, tmp_path):
    config = config_of(corpus, **{"train.learning_rate": 1e-9})
    results = finetune(config, workdir=str(tmp_path / "run"), pretrained=str(translator[0]))
    assert results["bleu"] == pytest.approx(translator[1]["bleu"], abs=0.5)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"beam": 2.5}, "beam must be a positive integer. Received: beam=2.5"),
        ({"beam": 0}, "beam=0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"beam": 2, "nbest": 3}, r"nbest must be in \[1, beam=2\]"),
        ({"length_penalty": -1.0}, "length_penalty=-1.0"),
    ],
)
def test_wrong_arguments_of_translating_are_named(translator, options, message):
    with pytest.raises(UserError, match=message):
        load(str(translator[0])).translate(["cat"], **options)
