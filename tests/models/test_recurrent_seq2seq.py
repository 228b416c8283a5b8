"""Recurrent encoder–decoders: their parts agree with each other, and they learn."""

import itertools

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.generation import beam_search, sample
from keras_attn.models.recurrent import BahdanauSeq2Seq, LuongSeq2Seq
from tests.support.layer_checks import (
    JIT,
    check_every_weight_gets_a_gradient,
    compiled,
    in_a_graph,
)
from tests.support.quick import quick
from tests.support.small_seq2seq import BEGIN, END, MODELS, seq2seq_batch, seq2seq_model

# One of each encoder, decoder and kind of attention; tests/layers compares the others.
KINDS = "bahdanau", "gru", "predictive", "mixed", "plain"


def _inputs(batch):
    return {name: ops.convert_to_tensor(batch[name]) for name in ("token_ids", "padding_mask")}


def _step(model, inputs, length, rows=1):
    cache, memory = model.start_decoding(inputs, length, rows)

    def step(token_ids, index, cache):
        logits, cache, scores = model.decode(
            token_ids[:, None],
            index,
            cache,
            memory,
            inputs["padding_mask"],
            return_attention_scores=True,
        )
        return logits[:, 0], cache, scores[:, 0]

    return step, cache


def _numpy(found):
    return {name: ops.convert_to_numpy(value) for name, value in found.items()}


@pytest.mark.parametrize("name", quick(MODELS, "bahdanau", "reinforce"))
def test_a_batch_of_no_source_token_or_no_target_token_has_a_finite_loss(name):
    model, full = seq2seq_model(name), seq2seq_batch()
    source, target = {"token_ids", "padding_mask"}, {"target_ids", "label", "sample_weight"}
    for names in (source, target, source | target):
        batch = {k: x[:, :0] if k in names else x for k, x in full.items()}
        outputs = model({k: ops.convert_to_tensor(x) for k, x in batch.items()})
        assert outputs["logits"].shape == (*batch["target_ids"].shape, 9)
        assert np.isfinite(float(model.compute_loss(batch, y_pred=outputs)))


@pytest.mark.parametrize("kind", [BahdanauSeq2Seq, LuongSeq2Seq])
def test_words_start_apart_and_other_than_in_the_other_language(kind):
    model = kind(300, 40, seed=1)
    model.build()
    source, target = map(ops.convert_to_numpy, (model.token_embedding, model.decoder.embedding))
    for table in (source, target):
        assert table.mean() == pytest.approx(0, abs=0.05)
        assert table.std() == pytest.approx(1, abs=0.05)
    assert abs(np.corrcoef(source.ravel(), target.ravel())[0, 1]) < 0.05


@pytest.mark.parametrize("way", [in_a_graph, pytest.param(compiled, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", quick(MODELS, "unfed", "monotonic"))
def test_decoding_step_by_step_gives_what_one_pass_gives(name, way):
    model, batch = seq2seq_model(name), seq2seq_batch()
    outputs = _numpy(model(batch))
    assert outputs["logits"].shape == (3, 6, 9) and outputs["alignments"].shape == (3, 6, 7)
    np.testing.assert_array_equal(outputs["alignments"][1, :, 4:], 0.0)
    cache, memory = model.start_decoding(_inputs(batch), 6)
    step = way(
        lambda ids, index, cache: model.decode(
            ids, index, cache, memory, return_attention_scores=True
        )
    )
    for i in range(6):
        logits, cache, scores = step(
            ops.convert_to_tensor(batch["target_ids"][:, i : i + 1]),
            ops.convert_to_tensor(i, dtype="int32"),
            cache,
        )
        np.testing.assert_allclose(
            ops.convert_to_numpy(logits)[:, 0], outputs["logits"][:, i], 1e-4, 1e-4
        )
        np.testing.assert_allclose(
            ops.convert_to_numpy(scores)[:, 0], outputs["alignments"][:, i], 1e-4, 1e-5
        )


def test_bahdanaus_encoder_resets_its_state_before_the_product():
    model, batch = seq2seq_model("bahdanau"), seq2seq_batch()
    table, *weights = (
        ops.convert_to_numpy(weight).astype("float64")
        for weight in [model.token_embedding, *model.encoder.weights]
    )
    x = table[batch["token_ids"][0]]

    def read(x, kernel, recurrent, bias):  # Keras's update gate is 1 - z of the paper
        states = [np.zeros(8)]
        for given in x @ kernel + bias:
            update, reset = np.split(
                1 / (1 + np.exp(-given[:16] - states[-1] @ recurrent[:, :16])), 2
            )
            new = np.tanh(given[16:] + (reset * states[-1]) @ recurrent[:, 16:])
            states.append(update * states[-1] + (1 - update) * new)
        return np.array(states[1:])

    forward, backward = read(x, *weights[:3]), read(x[::-1], *weights[3:])[::-1]
    encoded, first = (ops.convert_to_numpy(found)[0] for found in model.read(_inputs(batch)))
    np.testing.assert_allclose(encoded, np.concatenate([forward, backward], 1), 1e-4, 1e-5)
    np.testing.assert_allclose(first, backward[0], 1e-4, 1e-5)


@pytest.mark.parametrize("name", quick(["bahdanau", "luong", "unfed"], "unfed"))
def test_half_precision_is_near(name):
    model, half = seq2seq_model(name), seq2seq_model(name, dtype="mixed_bfloat16")
    batch = seq2seq_batch()
    wanted = _numpy(model(batch))["logits"]
    np.testing.assert_allclose(
        _numpy(half(batch))["logits"], wanted, atol=0.06 * np.abs(wanted).max()
    )
    step, cache = _step(half, _inputs(batch), 6)
    logits, cache, _ = step(ops.convert_to_tensor(batch["target_ids"][:, 0]), 0, cache)
    np.testing.assert_allclose(
        ops.convert_to_numpy(logits), wanted[:, 0], atol=0.06 * np.abs(wanted).max()
    )
    assert {keras.backend.standardize_dtype(x.dtype) for x in keras.tree.flatten(cache)} == {
        "bfloat16"
    }


@pytest.mark.parametrize("name", quick(["bahdanau", "luong", "gru"], "luong"))
def test_greedy_decoding_is_a_pass_without_forcing(name):
    model, batch = seq2seq_model(name), seq2seq_batch(6)
    free = ops.convert_to_numpy(model(batch, teacher_forcing_ratio=0.0)["logits"]).argmax(-1)
    step, cache = _step(model, _inputs(batch), 6)
    found = _numpy(sample(step, cache, np.full(6, BEGIN), 6, END, temperature=0))
    step, cache = _step(model, _inputs(batch), 6)
    beam = _numpy(
        beam_search(step, cache, np.full(6, BEGIN), 1, 6, END, reorder=model.reorder_cache)
    )
    for row, length in enumerate(found["lengths"]):
        np.testing.assert_array_equal(found["token_ids"][row, :length], free[row, :length])
    np.testing.assert_array_equal(beam["token_ids"][:, 0], found["token_ids"])
    assert len(np.unique(free)) > 2 and found["lengths"].max() == 6


@pytest.mark.parametrize(
    "name, compile",
    quick(
        list(
            itertools.product(
                ("bahdanau", "luong", "monotonic", "mixed", "reinforce"), (False, True)
            )
        ),
        ("bahdanau", False),
    ),
)
def test_the_score_of_a_hypothesis_is_the_models_own_and_a_compiled_search_finds_the_same(
    name, compile
):
    model, batch = seq2seq_model(name), seq2seq_batch()

    def search(token_ids, padding_mask):
        step, cache = _step(model, {"token_ids": token_ids, "padding_mask": padding_mask}, 8, 4)
        return beam_search(
            step,
            cache,
            np.full(3, BEGIN),
            4,
            8,
            END,
            length_penalty=0.0,
            source_length=7,
            return_attention=True,
            reorder=model.reorder_cache,
        )

    found = _numpy(search(**_inputs(batch)))
    again = compiled(search)(*_inputs(batch).values()) if compile else {}
    for key, value in _numpy(again).items():
        np.testing.assert_allclose(value, found[key], 1e-3, 1e-4, err_msg=key)
    for row in range(3):
        target = np.concatenate(
            [np.full((4, 1), BEGIN), found["token_ids"][row, :, :-1]], axis=1
        ).astype("int32")
        outputs = _numpy(
            model(
                {
                    "token_ids": np.repeat(batch["token_ids"][row : row + 1], 4, 0),
                    "padding_mask": np.repeat(batch["padding_mask"][row : row + 1], 4, 0),
                    "target_ids": target,
                }
            )
        )
        logits = outputs["logits"].astype("float64")
        log = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        for k, length in enumerate(found["lengths"][row]):
            tokens = found["token_ids"][row, k, :length]
            assert found["scores"][row, k] == pytest.approx(
                log[k, np.arange(length), tokens].sum(), abs=1e-3
            )
            np.testing.assert_allclose(
                found["attention"][row, k, :length], outputs["alignments"][k, :length], atol=1e-4
            )


@pytest.mark.parametrize("name", quick(MODELS, "bahdanau", "reinforce"))
def test_padding_of_the_source_and_later_words_change_nothing(name):
    model, batch = seq2seq_model(name), seq2seq_batch()
    wanted = _numpy(model(batch))
    other = {**batch, "target_ids": batch["target_ids"].copy()}
    other["target_ids"][:, 4] = 3 + (other["target_ids"][:, 4] - 2) % 6
    found = _numpy(model(other))
    np.testing.assert_allclose(found["logits"][:, :4], wanted["logits"][:, :4], 1e-5, 1e-5)
    assert np.abs(found["logits"][:, 4:] - wanted["logits"][:, 4:]).max() > 1e-3
    longer = {
        **batch,
        "token_ids": np.pad(batch["token_ids"], [(0, 0), (0, 3)], constant_values=5),
        "padding_mask": np.pad(batch["padding_mask"], [(0, 0), (0, 3)]),
    }
    found = _numpy(model(longer))
    np.testing.assert_allclose(found["logits"], wanted["logits"], 1e-4, 1e-4)
    np.testing.assert_allclose(found["alignments"][..., :7], wanted["alignments"], 1e-4, 1e-5)


def test_a_source_of_padding_alone_gives_finite_logits_and_no_attention():
    for name in ("bahdanau", "luong"):
        batch = seq2seq_batch()
        batch["padding_mask"][0] = 0
        outputs = _numpy(seq2seq_model(name)(batch))
        assert np.isfinite(outputs["logits"]).all()
        np.testing.assert_array_equal(outputs["alignments"][0], 0.0)


@pytest.mark.parametrize("name", ["bahdanau", "luong", "unfed", "predictive"])
def test_every_weight_gets_a_gradient(name):
    kind, options = MODELS[name]
    check_every_weight_gets_a_gradient(kind(11, 8, seed=1, **options), seq2seq_batch())


def test_loss_and_metrics_are_those_of_numpy():
    model, batch = seq2seq_model("luong", label_smoothing=0.2), seq2seq_batch()
    outputs = model(batch)
    logits = ops.convert_to_numpy(outputs["logits"]).astype("float64")
    log = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    right, weight = np.eye(9)[batch["label"]], batch["sample_weight"]
    smooth = -((0.8 * right + 0.2 / 9) * log).sum(-1)
    loss = model.compute_loss(batch, y_pred=outputs)
    assert float(loss) == pytest.approx((smooth * weight).sum() / weight.sum(), rel=1e-5)
    sums = model.metric_sums(outputs, batch)
    hit = logits.argmax(-1) == batch["label"]
    assert float(sums["token_accuracy"][0]) == hit[weight > 0].sum()


@pytest.mark.runs
@pytest.mark.parametrize(
    "kind, options",
    [
        (BahdanauSeq2Seq, {}),
        (LuongSeq2Seq, {}),
        (LuongSeq2Seq, {"teacher_forcing_ratio": 0.8, "level": "token", "dropout": 0.05}),
    ],
    ids=["bahdanau", "luong", "scheduled"],
)
def test_it_learns_to_reverse_and_fit_works(kind, options, tmp_path):
    random = np.random.default_rng(0)
    source = random.integers(3, 11, (256, 4))
    target = np.concatenate([source[:, ::-1], np.full((256, 1), END)], 1)
    data = {
        "token_ids": source,
        "padding_mask": np.ones_like(source),
        "target_ids": np.concatenate([np.full((256, 1), BEGIN), target[:, :-1]], 1),
        "label": target,
    }
    data = {name: array.astype("int32") for name, array in data.items()}
    model = kind(11, 32, seed=1, **options)
    model.compile(optimizer=keras.optimizers.Adam(0.01), jit_compile="auto" if options else JIT)
    history = model.fit(x=data, batch_size=32, epochs=20, verbose=0).history
    assert history["token_accuracy"][-1] > 0.95
    alignments = ops.convert_to_numpy(model(data)["alignments"])
    if not options:
        # Word t is the last but t of the source: so are most of the weights.
        assert (alignments[:, :4].argmax(-1) == [3, 2, 1, 0]).mean() > 0.4
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        ops.convert_to_numpy(again(data)["alignments"]), alignments, 1e-5, 1e-5
    )
    step, cache = _step(
        again,
        {name: ops.convert_to_tensor(data[name][:8]) for name in ("token_ids", "padding_mask")},
        5,
    )
    found = sample(step, cache, np.full(8, BEGIN), 5, END, temperature=0)
    assert (ops.convert_to_numpy(found["token_ids"]) == target[:8]).mean() > 0.9


@pytest.mark.parametrize("name", MODELS)
def test_its_config_is_complete(name):
    schedule = keras.optimizers.schedules.ExponentialDecay(1.0, 10, 0.9)
    model = seq2seq_model(name, teacher_forcing_ratio=schedule, level="token")
    again = type(model).from_config(model.get_config())
    assert again.get_config() == model.get_config()
    again.build()
    assert [v.path for v in again.trainable_variables] == [
        v.path for v in model.trainable_variables
    ]


@pytest.mark.parametrize(
    "kind, options, message",
    [
        (BahdanauSeq2Seq, {"units": 0}, "units=0"),
        (BahdanauSeq2Seq, {"dropout": 1.0}, "dropout=1.0"),
        (LuongSeq2Seq, {"units": 3}, "units=3"),
        (LuongSeq2Seq, {"num_layers": 0}, "num_layers=0"),
        (LuongSeq2Seq, {"cell": "rnn"}, "cell='rnn'"),
        (LuongSeq2Seq, {"attention": "local"}, "attention='local'"),
        (LuongSeq2Seq, {"attention": None, "score": "dot"}, "score='dot'"),
        (LuongSeq2Seq, {"attention": None, "attention_units": 3}, "attention_units=3"),
        (
            LuongSeq2Seq,
            {"window": 3},
            "with local, mixed or expanded_window attention. Received: window=3",
        ),
        (LuongSeq2Seq, {"teacher_forcing_ratio": -1}, "teacher_forcing_ratio=-1"),
    ],
)
def test_wrong_arguments_are_named(kind, options, message):
    with pytest.raises(ValueError, match=message):
        kind(**{"vocabulary_size": 11, "units": 8, **options})
