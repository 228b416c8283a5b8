"""500 steps of BERT-tiny: each optimization learns the same within floating-point error."""

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.data.batches import StreamBatches
from keras_attn.data.packing import choose_rows, pack
from keras_attn.data.shards.prepare_folder import prepare_folder
from keras_attn.models import BertEncoder, BertPretrainer
from keras_attn.ops import attention
from keras_attn.ops.kernels import tensorflow as kernels
from keras_attn.ops.kernels import tensorflow_graphs as graphs
from keras_attn.tasks.pretraining.masked_examples import PretrainingExamples
from keras_attn.text.wordpiece import WordPieceTokenizer
from keras_attn.training.engines import make_engine
from keras_attn.training.optimizers import make_optimizer
from keras_attn.training.schedules import learning_rates

STEPS, ROWS, LENGTH, SLOTS = 500, 8, 64, 10
MEAN_OF = 20  # steps, because the loss varies between batches


class Packed:
    """Batches of a stream of examples, each packed into as few rows as possible."""

    num_examples = STEPS * ROWS

    def __init__(self, source):
        self.source = source

    def rows(self, start, stop):
        batch = self.source.rows(start, stop)
        rows = choose_rows(batch["padding_mask"].sum(axis=1), 2 * LENGTH, 8)
        order = np.argsort(rows, kind="stable")
        return pack(
            {name: array[order] for name, array in batch.items()},
            rows[order],
            count=ROWS,
            length=2 * LENGTH,
            most=8,
            slots=8 * SLOTS,
        )


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """Rows of docstrings, half of them short."""
    folder = str(tmp_path_factory.mktemp("docstrings"))
    prepare_folder("docstrings", folder, vocab_size=4096, log=lambda line: None)
    tokenizer = WordPieceTokenizer.from_file(f"{folder}/vocab.txt")
    return PretrainingExamples(
        folder, tokenizer, length=LENGTH, max_predictions=SLOTS, short_fraction=0.5
    )


def _model(vocabulary_size=4096):
    backbone = BertEncoder.from_size("tiny", vocabulary_size, dropout=0.0, norm_first=True, seed=0)
    model = BertPretrainer(backbone)
    model.build()
    return model


# A peak of 2e-3 would not learn more, but amplify rounding errors a thousandfold.
RATES = learning_rates(
    (np.arange(STEPS) + 1) / (STEPS + 1), peak=1e-3, warmup_fraction=0.1, schedule="linear"
)


def _plain(examples, noise=0.0):
    """Losses with unfused AdamW and TensorFlow's cross-entropy, one step per call."""
    model = _model()
    for variable in model.trainable_variables:
        random = np.random.default_rng(1).normal(size=variable.shape)
        variable.assign(variable.numpy() * (1 + noise * random))
    moments = [
        (tf.Variable(tf.zeros(v.shape)), tf.Variable(tf.zeros(v.shape)))
        for v in model.trainable_variables
    ]
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits

    @tf.function
    def step(batch, number, rate):
        with tf.GradientTape() as tape:
            outputs = model(batch, training=True)
            words = entropy(batch["mask_ids"], outputs["mlm_logits"]) * batch["mask_weights"]
            pairs = entropy(batch["next_sentence_label"], outputs["nsp_logits"])
            loss = tf.reduce_sum(words) / tf.reduce_sum(batch["mask_weights"])
            loss += tf.reduce_mean(pairs)
        variables = [v.value for v in model.trainable_variables]
        gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, variables), 1.0)
        for variable, gradient, (m, v) in zip(variables, gradients, moments, strict=True):
            gradient = tf.convert_to_tensor(gradient)
            m.assign(0.9 * m + 0.1 * gradient)
            v.assign(0.999 * v + 0.001 * gradient**2)
            update = m / (1 - 0.9**number) / (tf.sqrt(v / (1 - 0.999**number)) + 1e-6)
            decay = 0.01 if len(variable.shape) > 1 else 0.0
            variable.assign_sub(rate * (update + decay * variable))
        return loss

    losses = []
    for number, rate in enumerate(RATES):
        rows = examples.rows(number * ROWS, (number + 1) * ROWS)
        losses.append(
            float(
                step(
                    {name: tf.constant(array) for name, array in rows.items()},
                    tf.constant(number + 1.0),
                    tf.constant(rate),
                )
            )
        )
    return losses


def _fast(source, **options):
    model = _model()
    step = make_engine(strategy="one_device").make_step(
        model, make_optimizer("adamw", model), **options
    )
    feed = step.feed(StreamBatches(source, ROWS), 0)
    return [row["loss"] for row in step.run(feed, 0, RATES)]


def _curve(losses):
    return np.reshape(losses, (-1, MEAN_OF)).mean(axis=1)


@pytest.fixture(scope="module")
def plain(examples):
    """The reference curve, and its deviation from a curve with initial weights 1e-6 apart."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graphs, "WORTH_COMPILING", 2**62)
        curve = _curve(_plain(examples))
        noise = np.abs(_curve(_plain(examples, noise=1e-6)) - curve).max()
    assert curve[0] > 8 and curve[-1] < curve[0] - 1.5, "it must have learned"
    assert noise < 5e-3, "it must not be chaotic"
    return curve, noise


@pytest.mark.slow
@pytest.mark.parametrize("way", ["step", "xla", "micro_batches", "blocks", "packed"])
def test_500_steps_give_the_same_curve(examples, plain, way, monkeypatch):
    curve, noise = plain
    if way == "blocks":
        monkeypatch.setitem(attention.BLOCKWISE_MIN_LOGITS, "tensorflow", 1)
        # Several blocks, the last one incomplete.
        monkeypatch.setattr(kernels, "QUERIES", 20)
        monkeypatch.setattr(kernels, "KEYS", 24)
    options = {"xla": {"jit": True}, "micro_batches": {"accumulate": 4}}.get(way, {})
    found = _curve(_fast(Packed(examples) if way == "packed" else examples, **options))
    print(f"{way}: {np.abs(found - curve).max():.2e} apart, noise {noise:.2e}")
    np.testing.assert_allclose(found[0], curve[0], atol=1e-5)
    np.testing.assert_allclose(found, curve, atol=1e-5 + 3 * noise)
