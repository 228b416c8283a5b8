"""The speedrun: its judge is the same for any tokenizer, and its queue continues after a kill."""

import json
import math
import types

import numpy as np
import pytest

from benchmarks.speedrun import queue
from benchmarks.speedrun.judge import UNKNOWN, nats_per_character, rows_of, selected
from keras_attn.errors import UserError
from keras_attn.text.row_layout import RowLayout

TEXT = {"one": "the sea was calm and " * 40, "two": "a wind came, later; not strong " * 30}


class PiecesOfWords:
    """A tokenizer of pieces of at most `size` characters of a word; ids are their lengths."""

    pad_id, unk_id, mask_id = 0, 90, 91
    row_layout = RowLayout((92,), (93,), (93,), 0)

    def __init__(self, size, unknown=""):
        self.size, self.unknown = size, unknown

    def encode_with_spans(self, texts):
        ids, ends, spans = [], [], []
        for text in texts:
            start = 0
            for word in text.split(" "):
                for begin in range(0, len(word), self.size):
                    piece = word[begin : begin + self.size]
                    ids.append(self.unk_id if piece == self.unknown else len(piece))
                    spans.append((start + begin, start + begin + len(piece)))
                start += len(word) + 1
            ends.append(len(ids))
        return np.array(ids, np.int32), np.array(ends), np.array(spans)


def _masked_words():
    return [text[start:end] for text, spans in rows_of(TEXT) for start, end in spans]


def _uniform(classes, batches=None):
    def predict(batch):
        if batches is not None:
            batches.append(batch)
        return np.full(batch["mask_ids"].shape, math.log(classes))

    return predict


@pytest.mark.parametrize(("size", "classes"), [(1, 30), (3, 500), (99, 8000)])
def test_a_uniform_prediction_costs_log_v_for_each_subword_of_the_same_words(size, classes):
    words = _masked_words()
    subwords = sum(math.ceil(len(word) / size) for word in words)
    characters = sum(map(len, words))
    batches = []
    found = nats_per_character(
        _uniform(classes, batches), PiecesOfWords(size), rows_of(TEXT), length=400, batch_size=4
    )
    assert (found["characters"], found["subwords"]) == (characters, subwords)
    wanted = subwords * math.log(classes) / characters
    assert found["nats_per_character"] == pytest.approx(wanted)
    for batch in batches:  # every selected token, and no other one, is hidden
        used = batch["mask_weights"] > 0
        hidden = np.zeros_like(batch["token_ids"], bool)
        hidden[np.nonzero(used)[0], batch["mask_positions"][used]] = True
        np.testing.assert_array_equal(batch["token_ids"] == PiecesOfWords.mask_id, hidden)
        lengths = (batch["mask_ids"] * used).sum()
        assert lengths == batch["mask_ids"].sum() > 0


def test_15_percent_of_the_words_are_masked_whatever_the_rows():
    words = sum(len(text.split()) for text in TEXT.values())
    masked = [_words_of(rows_of(TEXT, characters=size)) for size in (80, 500)]
    assert masked[0] == masked[1] == _masked_words()
    many = sum(selected("a", position) for position in range(20_000))
    assert abs(many / 20_000 - 0.15) < 0.01
    assert 0.05 < len(masked[0]) / words < 0.25
    assert _words_of(rows_of(TEXT, seed=1)) != masked[0]
    assert len(rows_of(TEXT, characters=80, most=5)) == 5
    assert max(len(text) for text, _ in rows_of(TEXT, characters=80)) <= 80


def _words_of(rows):
    return [text[start:end] for text, spans in rows for start, end in spans]


def test_an_unknown_subword_costs_its_characters_in_addition():
    plain = nats_per_character(_uniform(10), PiecesOfWords(99), rows_of(TEXT))
    found = nats_per_character(_uniform(10), PiecesOfWords(99, "calm"), rows_of(TEXT))
    cost = UNKNOWN * 4 * _masked_words().count("calm")
    assert cost > 0
    difference = found["nats_per_character"] - plain["nats_per_character"]
    assert difference * plain["characters"] == pytest.approx(cost)


def test_rows_that_are_too_long_are_an_error():
    with pytest.raises(UserError, match="at most 50 tokens. Received: .* tokens"):
        nats_per_character(_uniform(10), PiecesOfWords(1), rows_of(TEXT), length=50)


@pytest.fixture
def output(tmp_path, monkeypatch):
    (tmp_path / "runs.json").write_text(
        json.dumps([{"name": name, "flags": [f"--{name}"]} for name in ("a", "b")])
    )
    values = {"runs": str(tmp_path / "runs.json"), "output": str(tmp_path), "minutes": ["1", "2"]}
    monkeypatch.setattr(queue, "FLAGS", types.SimpleNamespace(**values, seeds=1))
    return tmp_path


def test_a_queue_continues_after_a_kill_and_tries_failed_runs_again(output, monkeypatch, capsys):
    calls = []

    def trained(key):
        calls.append((key["name"], key["minutes"]))
        if len(calls) == 2:
            return {"error": 1}
        if len(calls) == 4:
            raise KeyboardInterrupt
        return {"nats_per_character": 2.0 / key["minutes"]}

    monkeypatch.setattr(queue, "trained", trained)
    with pytest.raises(KeyboardInterrupt):
        queue.main()
    with open(output / "results.jsonl", "a") as file:
        file.write('{"name": "b", "mi')  # a line that a kill left incomplete
    queue.main()
    assert calls == [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("b", 1), ("b", 2)]
    queue.main()
    assert len(calls) == 6
    assert "| b | 2.0000 | 1.0000 |" in capsys.readouterr().out
    lines = [json.loads(line) for line in (output / "results.jsonl").open()]
    assert [line["name"] for line in lines] == ["a", "b", "a", "b", "b"]


def test_results_of_other_flags_and_equal_names_are_errors(output, monkeypatch):
    monkeypatch.setattr(queue, "trained", lambda key: {"nats_per_character": 1.0})
    queue.main()
    (output / "runs.json").write_text('[{"name": "a", "flags": []}]')
    with pytest.raises(UserError, match="flags of a have changed"):
        queue.main()
    (output / "runs.json").write_text('[{"name": "a", "flags": []}, {"name": "a", "flags": []}]')
    with pytest.raises(UserError, match="with a name of their own"):
        queue.main()
