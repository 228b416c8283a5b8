"""Every trainable model and recurrent layer under XLA where the last batch is smaller."""

import keras
import numpy as np
import pytest

from keras_attn import layers as L
from keras_attn import models as M

pytestmark = [
    pytest.mark.runs,
    pytest.mark.skipif(
        keras.backend.backend() != "tensorflow", reason="others compile each shape by itself"
    ),
]
RANDOM = np.random.default_rng(0)
IDS = RANDOM.integers(1, 6, (5, 4)).astype("int32")
TEXTS = {"token_ids": IDS, "label": IDS[:, 0] % 2}
PAIRS = {"token_ids": IDS, "target_ids": IDS, "label": IDS}
MASKED = {
    "token_ids": IDS,
    "mask_positions": IDS[:, :2] % 4,
    "mask_ids": IDS[:, :2],
    "mask_weights": np.ones((5, 2), "float32"),
    "next_sentence_label": IDS[:, 0] % 2,
    "segment_ids": IDS % 2,
    "padding_mask": np.ones_like(IDS),
}
ANSWERS = {
    **{name: MASKED[name] for name in ("token_ids", "segment_ids", "padding_mask")},
    "label": IDS[:, :2] % 4,
}
TAGS = {
    "token_ids": IDS,
    "word_ids": np.tile([1, 1, 2, 3], (5, 1)).astype("int32"),
    "label": np.where([True, False, True, True], IDS % 3, -1),
}
FEATURES = {"feature_ids": IDS, "label": IDS[:, 0].astype("float32")}
POINTS = {
    "elements": RANDOM.normal(size=(5, 4, 1)).astype("float32"),
    "label": np.tile(np.arange(4, dtype="int32"), (5, 1)),
}


def bert(**options):
    return M.BertEncoder(7, 1, 4, 2, dropout=0.0, seed=0, **options)


def modernbert():
    return M.ModernBertEncoder(7, 2, 4, 2, window=2, seed=0)


def electra():
    return M.ElectraEncoder(7, 1, 4, 2, embedding_dim=3, dropout=0.0, seed=0)


def gpt2():
    return M.GPT2(7, 1, 4, 2, max_length=8, dropout=0.0, seed=0)


def xlnet(**options):
    return M.XLNet(7, 1, 4, 2, dropout=0.0, seed=0, **options)


def luong(**options):
    return lambda: M.LuongSeq2Seq(7, 4, embedding_dim=3, dropout=0.0, seed=0, **options)


def bahdanau(**options):
    return lambda: M.BahdanauSeq2Seq(7, 4, embedding_dim=3, dropout=0.0, seed=0, **options)


MODELS = {
    "ABCNN": (
        lambda: M.ABCNN(7, 2, 4, 3, 3, 3, 3, 1, seed=0),
        {**TEXTS, "second_token_ids": IDS[::-1]},
    ),
    "ABCNNClassifier": (
        lambda: M.ABCNNClassifier(
            M.ABCNNEncoder(7, 4, max_length=4, variant=1, dropout=0.0, seed=0), 2, dropout=0.0
        ),
        {**ANSWERS, "label": IDS[:, 0] % 2},
    ),
    "AttentionalFactorizationMachine": (
        lambda: M.AttentionalFactorizationMachine(7, 4, 3, 3, seed=0),
        FEATURES,
    ),
    "AttentiveLSTMClassifier": (
        lambda: M.AttentiveLSTMClassifier(7, 2, 3, 3, "self_attention", seed=0),
        TEXTS,
    ),
    "BertClassifier": (lambda: M.BertClassifier(bert(), 2, dropout=0.0), TEXTS),
    "BertPretrainer": (lambda: M.BertPretrainer(bert()), MASKED),
    "BertQuestionAnswerer": (lambda: M.BertQuestionAnswerer(bert()), ANSWERS),
    "DistilBertClassifier": (
        lambda: M.DistilBertClassifier(bert(num_segments=0, use_pooler=False), 2, dropout=0.0),
        TEXTS,
    ),
    "ElectraClassifier": (lambda: M.ElectraClassifier(electra(), 2, dropout=0.0), TEXTS),
    "ElectraPretrainer of the most probable tokens": (
        lambda: M.ElectraPretrainer(electra(), temperature=0),
        MASKED,
    ),
    "GPT2Classifier": (lambda: M.GPT2Classifier(gpt2(), 2, dropout=0.0), TEXTS),
    "GPT2LanguageModel": (lambda: M.GPT2LanguageModel(gpt2()), {"token_ids": IDS}),
    "HierarchicalAttentionNetwork": (
        lambda: M.HierarchicalAttentionNetwork(7, 2, 3, 3, 3, 3, seed=0),
        {**TEXTS, "token_ids": IDS.reshape(5, 2, 2)},
    ),
    "ModernBertClassifier": (lambda: M.ModernBertClassifier(modernbert(), 2), TEXTS),
    "ModernBertPretrainer": (lambda: M.ModernBertPretrainer(modernbert()), MASKED),
    "ModernBertQuestionAnswerer": (
        lambda: M.ModernBertQuestionAnswerer(modernbert()),
        ANSWERS,
    ),
    "ModernBertTokenClassifier": (lambda: M.ModernBertTokenClassifier(modernbert(), 3), TAGS),
    "RecurrentClassifier of sentences": (
        lambda: M.RecurrentClassifier(
            M.HierarchicalEncoder(7, 4, min_words=2, sentence_ends=[3], dropout=0.0, seed=0), 2
        ),
        TEXTS,
    ),
    "RecurrentClassifier": (
        lambda: M.RecurrentClassifier(M.RecurrentEncoder(7, 1, 4, seed=0), 2),
        TEXTS,
    ),
    "RecurrentLanguageModel": (
        lambda: M.RecurrentLanguageModel(
            M.RecurrentEncoder(7, 1, 4, bidirectional=False, reduce="last", seed=0)
        ),
        {"token_ids": IDS},
    ),
    "RobertaClassifier": (
        lambda: M.RobertaClassifier(bert(num_segments=1, use_pooler=False), 2, dropout=0.0),
        TEXTS,
    ),
    "TokenClassifier": (lambda: M.TokenClassifier(bert(), 3, dropout=0.0), TAGS),
    "TokenClassifier with a CRF": (
        lambda: M.TokenClassifier(bert(), 3, dropout=0.0, word_vector="mean", crf=True),
        TAGS,
    ),
    "PointerNetwork": (lambda: M.PointerNetwork(1, 4, True, seed=0), POINTS),
    "PointerGenerator": (lambda: M.PointerGenerator(7, 2, 3, 3, seed=0), PAIRS),
    "Transformer": (lambda: M.Transformer(7, 1, 4, 2, dropout=0.0, max_length=8, seed=0), PAIRS),
    "XLNetClassifier": (lambda: M.XLNetClassifier(xlnet(), 2, dropout=0.0), TEXTS),
    "XLNetPretrainer": (
        lambda: M.XLNetPretrainer(xlnet()),
        {**MASKED, "permutation_ranks": IDS % 4},
    ),
    "BahdanauSeq2Seq": (bahdanau(), PAIRS),
    "LuongSeq2Seq": (luong(), PAIRS),
    **{
        f"LuongSeq2Seq {name}": (luong(**options), PAIRS)
        for name, options in {
            "additive": {"score": "additive"},
            "additive once": {"score": "additive", "input_feeding": False},
            "concat": {"score": "concat"},
            "local_predictive": {"attention": "local_predictive", "window": 2},
            "local_monotonic": {"attention": "local_monotonic", "window": 2},
            "gru, no attention": {"attention": None, "cell": "gru", "bidirectional": False},
            "two layers": {"num_layers": 2},
        }.items()
    },
}
DRAWS = {  # whose random numbers differ under XLA
    "BahdanauSeq2Seq half forced": (bahdanau(teacher_forcing_ratio=0.5), PAIRS),
    "ElectraPretrainer": (lambda: M.ElectraPretrainer(electra()), MASKED),
    "LuongSeq2Seq half forced": (luong(teacher_forcing_ratio=0.5), PAIRS),
    "LuongSeq2Seq hard": (luong(attention="hard", score="dot"), PAIRS),
}
GRU = keras.layers.GRUCell


class Predictor(keras.Model):
    """A layer, and the sum of its first output, to be trained by `fit` with labels."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def call(self, inputs, training=None):
        found = self.layer(*inputs, training=training)
        found = found[0] if isinstance(found, tuple) else found
        return keras.ops.mean(found, axis=range(1, len(found.shape)))


def cell(attention=None, **options):
    return L.AttentionCell(GRU(4), attention, **options)


def decoder(cell, **options):
    return lambda: L.RecurrentDecoder(cell(), 7, 3, seed=0, **options)


X = RANDOM.normal(size=(5, 4, 3)).astype("float32")
LAYERS = {
    "RNN of IntraAttentionLSTMCell": (
        lambda: keras.layers.RNN(L.IntraAttentionLSTMCell(3, 4)),
        [X],
    ),
    "SequenceToVector": (lambda: L.SequenceToVector("attention"), [X]),
    "VectorToSequence": (lambda: L.VectorToSequence(GRU(3), 3), [X[:, 0]]),
    "AttentiveConvPooling": (lambda: L.AttentiveConvPooling(3, 2, 3), [X]),
    "HierarchicalAttention": (lambda: L.HierarchicalAttention(3, 3, 3), [X[:, None]]),
    **{
        f"SequenceToSequence {context}": (
            lambda c=context: L.SequenceToSequence(GRU(3), GRU(3), c, "attention"),
            [X, X],
        )
        for context in ("states", "both")
    },
    "RecurrentDecoder": (decoder(lambda: L.BahdanauDecoderCell(4)), [IDS, X]),
    "RecurrentDecoder half forced": (
        decoder(lambda: L.BahdanauDecoderCell(4), teacher_forcing_ratio=0.5),
        [IDS, X],
    ),
    **{
        f"AttentionCell {name}": (decoder(lambda m=make, o=order: cell(m(), order=o)), [IDS, X])
        for order in ("attend_last", "attend_first")
        for name, make in {
            f"Luong {order}": lambda: L.LuongAttention(4),
            f"LocationScore {order}": lambda: L.Attention(L.LocationScore(4)),
            f"predictive {order}": lambda: L.LocalAttention(2, "predictive"),
        }.items()
    },
}


def fit(model, jit_compile, x, y=None):
    """Losses of two epochs of three, then two rows."""
    model.compile(keras.optimizers.SGD(0.1), None if y is None else "mse", jit_compile=jit_compile)
    return model.fit(x, y, batch_size=3, epochs=2, shuffle=False, verbose=0).history["loss"]


@pytest.mark.parametrize("name", MODELS)
def test_a_model_learns_the_same_under_xla(name):
    make, batch = MODELS[name]
    np.testing.assert_allclose(fit(make(), True, batch), fit(make(), False, batch), 1e-4)


@pytest.mark.parametrize("name", DRAWS)
def test_a_model_with_random_choices_learns_under_xla(name):
    make, batch = DRAWS[name]
    assert np.isfinite(fit(make(), True, batch)).all()


@pytest.mark.parametrize("name", LAYERS)
def test_a_recurrent_layer_learns_under_xla(name):
    make, inputs = LAYERS[name]
    losses = fit(Predictor(make()), True, [np.asarray(x) for x in inputs], np.ones(5, "float32"))
    assert np.isfinite(losses).all()


def test_no_trainable_model_is_left_out():
    trainable = {
        name for name in M.__all__ if getattr(M, name).compute_loss is not keras.Model.compute_loss
    }
    assert {name.split()[0] for name in {**MODELS, **DRAWS}} == trainable
