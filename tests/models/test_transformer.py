"""The Transformer: its parts agree with each other, and it learns."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attn.generation import beam_search, sample
from keras_attn.models import Transformer
from tests.support.layer_checks import compiled, in_a_graph
from tests.support.quick import THOROUGH, quick

PAD, BEGIN, END = 0, 1, 2


def _model(**options):
    model = Transformer(11, 2, 16, 2, **{"dropout": 0.0, "max_length": 12, "seed": 1, **options})
    model.build()
    return model


def _batch(rows=3, seed=0):
    random = np.random.default_rng(seed)
    batch = {
        "token_ids": random.integers(3, 11, (rows, 7)),
        "padding_mask": np.ones((rows, 7), int),
        "target_ids": random.integers(3, 11, (rows, 6)),
        "label": random.integers(2, 11, (rows, 6)),
        "sample_weight": np.ones((rows, 6), int),
    }
    batch["padding_mask"][1, 4:] = batch["token_ids"][1, 4:] = 0
    batch["target_ids"][:, 0] = BEGIN
    batch["sample_weight"][2, 3:] = 0
    return {name: array.astype("int32") for name, array in batch.items()}


OPTIONS = [
    {},
    {"norm_first": True},
    {"positions": "learned", "tie_embeddings": False},
    {"target_vocabulary_size": 13},
]
HALF = {"dtype": "mixed_bfloat16"}


@pytest.mark.parametrize("way", [in_a_graph, pytest.param(compiled, marks=THOROUGH)])
@pytest.mark.parametrize("options", quick([*OPTIONS, HALF], OPTIONS[1]))
def test_decoding_step_by_step_gives_the_logits_of_one_pass(options, way):
    model, batch = _model(**options), _batch()
    close = 0.06 if "dtype" in options else 1e-4  # bfloat16 has 8 bits
    outputs = model({name: ops.convert_to_tensor(batch[name]) for name in model.INPUTS})
    wanted = ops.convert_to_numpy(outputs["logits"])
    assert wanted.shape == (3, 6, options.get("target_vocabulary_size", 11))
    mask = ops.convert_to_tensor(batch["padding_mask"])
    cache, memory = model.start_decoding(
        {name: ops.convert_to_tensor(batch[name]) for name in ("token_ids", "padding_mask")}, 6
    )
    step = way(lambda ids, index, cache: model.decode(ids, index, cache, memory, mask))
    for i in range(6):
        logits, cache = step(
            ops.convert_to_tensor(batch["target_ids"][:, i : i + 1]),
            ops.convert_to_tensor(i, dtype="int32"),
            cache,
        )
        np.testing.assert_allclose(ops.convert_to_numpy(logits)[:, 0], wanted[:, i], close, close)
    assert {str(x.dtype) for x in keras.tree.flatten((cache["layers"], memory))} == {
        str(ops.zeros((), model.compute_dtype).dtype)
    }


def test_decoding_in_parts_gives_the_logits_of_one_pass():
    model, batch = _model(), _batch()
    wanted = ops.convert_to_numpy(model(batch)["logits"])
    cache, memory = model.start_decoding(
        {name: ops.convert_to_tensor(batch[name]) for name in ("token_ids", "padding_mask")}, 6
    )
    for begin, end in ((0, 4), (4, 5), (5, 6)):
        logits, cache = model.decode(
            batch["target_ids"][:, begin:end], begin, cache, memory, batch["padding_mask"]
        )
        np.testing.assert_allclose(ops.convert_to_numpy(logits), wanted[:, begin:end], 1e-4, 1e-4)


def test_greedy_tokens_with_a_cache_are_those_without():
    model, batch = _model(), _batch()
    inputs = {name: ops.convert_to_tensor(batch[name]) for name in ("token_ids", "padding_mask")}
    step, cache = _step(model, inputs, 8)
    found = sample(step, cache, np.full(3, BEGIN), 8, END, temperature=0, min_length=8)
    tokens = np.full((3, 9), PAD)
    tokens[:, 0] = BEGIN
    for i in range(8):
        logits = ops.convert_to_numpy(model({**inputs, "target_ids": tokens[:, : i + 1]})["logits"])
        logits[:, i, END] = -np.inf
        tokens[:, i + 1] = logits[:, i].argmax(-1)
    np.testing.assert_array_equal(ops.convert_to_numpy(found["token_ids"]), tokens[:, 1:])


def test_a_token_changes_no_logits_at_or_before_it_and_padding_none():
    model, batch = _model(), _batch()
    wanted = ops.convert_to_numpy(model(batch)["logits"])
    other = {**batch, "target_ids": batch["target_ids"].copy()}
    other["target_ids"][:, 4] = 3 + (other["target_ids"][:, 4] - 2) % 8
    found = ops.convert_to_numpy(model(other)["logits"])
    np.testing.assert_array_equal(found[:, :4], wanted[:, :4])
    assert np.abs(found[:, 4:] - wanted[:, 4:]).max() > 1e-3
    longer = {
        **batch,
        "token_ids": np.pad(batch["token_ids"], [(0, 0), (0, 3)], constant_values=5),
        "padding_mask": np.pad(batch["padding_mask"], [(0, 0), (0, 3)]),
    }
    np.testing.assert_allclose(ops.convert_to_numpy(model(longer)["logits"]), wanted, 1e-4, 1e-4)


def test_tables_are_read_by_their_own_side():
    batch = _batch()
    batch["token_ids"] = np.where(batch["padding_mask"], 3 + batch["token_ids"] % 4, 0)
    unused = np.setdiff1d(np.arange(11), batch["token_ids"])

    def logits(model):
        return ops.convert_to_numpy(model(batch)["logits"])

    def change(variable, rows=slice(None)):
        values = ops.convert_to_numpy(variable).copy()
        values[rows] = 0.5
        variable.assign(values)

    apart = _model(target_vocabulary_size=11)
    before = logits(apart)
    change(apart.token_embedding, unused)
    np.testing.assert_array_equal(logits(apart), before)
    change(apart.target_embedding, unused)
    assert np.abs(logits(apart) - before).max() > 0.1
    untied = _model(tie_embeddings=False)
    untied.output_kernel.assign(0.0 * untied.output_kernel)
    assert not logits(untied).any()
    learned = _model(positions="learned")
    for layer in learned.position_layers:
        before = logits(learned)
        change(layer.weights[0], slice(3))
        assert np.abs(logits(learned) - before).max() > 1e-3


def test_returned_attention_is_the_mean_of_heads_and_layers():
    model, batch = _model(), _batch()
    x, encoded = model._embed(1, batch["target_ids"], False), model.encode(batch)
    scores = []
    for layer in model.decoder_layers:
        x, found = layer(
            x, encoded, encoded_mask=batch["padding_mask"], return_attention_scores=True
        )
        scores.append(ops.convert_to_numpy(found))
    cache, memory = model.start_decoding(batch, 6)
    _, _, returned = model.decode(
        batch["target_ids"], 0, cache, memory, batch["padding_mask"], return_attention_scores=True
    )
    np.testing.assert_allclose(
        ops.convert_to_numpy(returned), np.mean(scores, axis=(0, 2)), atol=1e-5
    )


def test_loss_and_metrics_are_those_of_numpy():
    model, batch = _model(label_smoothing=0.2), _batch()
    outputs = model(batch)
    logits = ops.convert_to_numpy(outputs["logits"]).astype("float64")
    log = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    right = np.eye(11)[batch["label"]]
    weight = batch["sample_weight"]
    smooth = -((0.8 * right + 0.2 / 11) * log).sum(-1)
    errors, weights = model.loss_errors(outputs, batch), model.loss_weights(batch)
    np.testing.assert_allclose(
        ops.convert_to_numpy(errors["token"]), (smooth * weight).sum(), rtol=1e-5
    )
    assert float(weights["token"]) == weight.sum() == 15
    sums = model.metric_sums(outputs, batch)
    np.testing.assert_allclose(
        ops.convert_to_numpy(sums["log_perplexity"][0]),
        -(right * log).sum(-1)[weight > 0].sum(),
        rtol=1e-5,
    )
    hit = logits.argmax(-1) == batch["label"]
    assert float(sums["token_accuracy"][0]) == hit[weight > 0].sum()


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


@pytest.mark.runs
def test_the_score_of_a_translation_is_the_models_own_and_its_batch_changes_none():
    model, batch = _model(), _batch()
    inputs = {name: ops.convert_to_tensor(batch[name]) for name in ("token_ids", "padding_mask")}
    begin = np.full(3, BEGIN)
    step, cache = _step(model, inputs, 8, 4)
    found = beam_search(
        step,
        cache,
        begin,
        4,
        8,
        END,
        length_penalty=0.0,
        source_length=7,
        return_attention=True,
        reorder=model.reorder_cache,
    )
    found = {name: ops.convert_to_numpy(value) for name, value in found.items()}
    for row in range(3):
        for tokens, length, score in zip(
            *(found[name][row] for name in ("token_ids", "lengths", "scores")), strict=True
        ):
            target = np.concatenate([[BEGIN], tokens[: length - 1]])[None].astype("int32")
            logits = ops.convert_to_numpy(
                model(
                    {
                        "token_ids": batch["token_ids"][row : row + 1],
                        "padding_mask": batch["padding_mask"][row : row + 1],
                        "target_ids": target,
                    }
                )["logits"]
            )[0].astype("float64")
            log = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
            assert score == pytest.approx(log[np.arange(length), tokens[:length]].sum(), abs=1e-3)
        one = {name: value[row : row + 1] for name, value in inputs.items()}
        step, cache = _step(model, one, 8, 4)
        alone = beam_search(
            step, cache, begin[:1], 4, 8, END, length_penalty=0.0, reorder=model.reorder_cache
        )
        alone = {name: ops.convert_to_numpy(value)[0] for name, value in alone.items()}
        np.testing.assert_array_equal(alone["token_ids"], found["token_ids"][row])
        np.testing.assert_allclose(alone["scores"], found["scores"][row], rtol=1e-4)
    attention = found["attention"][1, 0]
    assert not attention[:, 4:].any(), "padding is not attended to"
    np.testing.assert_allclose(attention[: found["lengths"][1, 0]].sum(-1), 1.0, rtol=1e-5)


@pytest.mark.thorough
def test_a_compiled_search_finds_the_same():
    model, batch = _model(), _batch()
    inputs = {name: ops.convert_to_tensor(batch[name]) for name in ("token_ids", "padding_mask")}

    def search(token_ids, padding_mask):
        step, cache = _step(model, {"token_ids": token_ids, "padding_mask": padding_mask}, 8, 3)
        return beam_search(
            step,
            cache,
            np.full(3, BEGIN),
            3,
            8,
            END,
            source_length=7,
            return_attention=True,
            reorder=model.reorder_cache,
        )

    wanted = search(**inputs)
    for name, value in compiled(search)(*inputs.values()).items():
        np.testing.assert_allclose(
            ops.convert_to_numpy(value),
            ops.convert_to_numpy(wanted[name]),
            1e-4,
            1e-5,
            err_msg=name,
        )


@pytest.mark.thorough
def test_sampling_greedily_attends_as_one_beam_does():
    model, batch = _model(), _batch()
    inputs = {name: ops.convert_to_tensor(batch[name]) for name in ("token_ids", "padding_mask")}
    step, cache = _step(model, inputs, 8)
    options = {"return_attention": True, "source_length": 7}
    one = sample(step, cache, np.full(3, BEGIN), 8, END, temperature=0, **options)
    beam = beam_search(
        step, cache, np.full(3, BEGIN), 1, 8, END, **options, reorder=model.reorder_cache
    )
    one, beam = (
        {name: ops.convert_to_numpy(value) for name, value in found.items()}
        for found in (one, beam)
    )
    np.testing.assert_array_equal(one["token_ids"], beam["token_ids"][:, 0])
    assert one["attention"].shape == (3, 8, 7)
    for row, length in enumerate(one["lengths"]):
        np.testing.assert_allclose(
            one["attention"][row, :length], beam["attention"][row, 0, :length], atol=1e-6
        )
        assert not one["attention"][row, length:].any()


@pytest.mark.runs
def test_it_learns_to_reverse_and_fit_works(tmp_path):
    keras.utils.set_random_seed(1)  # the order of the rows
    random = np.random.default_rng(0)
    source = random.integers(3, 11, (256, 5))
    target = np.concatenate([source[:, ::-1], np.full((256, 1), END)], 1)
    data = {
        "token_ids": source,
        "target_ids": np.concatenate([np.full((256, 1), BEGIN), target[:, :-1]], 1),
        "label": target,
    }
    data = {name: array.astype("int32") for name, array in data.items()}
    model = _model(positions="learned", label_smoothing=0.0)
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    history = model.fit(x=data, batch_size=32, epochs=60, verbose=0).history
    assert history["token_accuracy"][-1] > 0.95
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    inputs = {
        "token_ids": ops.convert_to_tensor(data["token_ids"][:8]),
        "padding_mask": ops.ones((8, 5), "int32"),
    }
    step, cache = _step(again, inputs, 6)
    found = sample(step, cache, np.full(8, BEGIN), 6, END, temperature=0)
    assert (ops.convert_to_numpy(found["token_ids"]) == target[:8]).mean() > 0.9


@pytest.mark.parametrize(
    "options, message",
    [
        ({"num_heads": 3}, "num_heads=3"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"label_smoothing": -0.1}, "label_smoothing=-0.1"),
        ({"positions": "x"}, "positions='x'"),
        ({"num_layers": 0}, "num_layers=0"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    options = {"vocabulary_size": 11, "num_layers": 2, "hidden_dim": 16, "num_heads": 2, **options}
    with pytest.raises(ValueError, match=message):
        Transformer(**options)


def test_sizes_have_names():
    # Vaswani et al., table 3; Wu et al. for tiny.
    for size, wanted in (
        ("tiny", (4, 128, 4, 256)),
        ("base", (6, 512, 8, 2048)),
        ("big", (6, 1024, 16, 4096)),
    ):
        model = Transformer.from_size(size, 10)
        assert wanted == (
            model.num_layers,
            model.hidden_dim,
            model.num_heads,
            model.intermediate_dim,
        )
    with pytest.raises(ValueError, match="tiny, base, big"):
        Transformer.from_size("huge", 10)
