"""One small instance of each public model, with inputs for it: `EVERY_MODEL`."""

import functools

import numpy as np

from keras_attn import models
from tests.support.small_models import MODELS as SMALL
from tests.support.small_models import TEXTS
from tests.support.small_seq2seq import MODELS as SEQ2SEQ

ROWS, LENGTH, PLACES = 11, 6, 2


def _texts():
    real = TEXTS[:ROWS] > 0
    return {
        "token_ids": TEXTS[:ROWS],
        "segment_ids": real & (np.arange(LENGTH) > 1),
        "padding_mask": real,
    }


def _one_segment(inputs=_texts):
    return {key: x for key, x in inputs().items() if key != "segment_ids"}


def _labelled():
    return {**_texts(), "label": np.arange(ROWS) % 3}


def _answered():
    return {**_texts(), "label": np.zeros((ROWS, 2))}  # no answer


def _tagged():
    real = TEXTS[:ROWS] > 0
    words = (1 + np.arange(LENGTH) // 2) * real  # of two tokens
    first = np.diff(words, axis=1, prepend=0) > 0
    return {
        **_texts(),
        "word_ids": words,
        "label": np.where(first, np.arange(ROWS)[:, None] % 3, -1),
    }


def _masked():
    numbers = np.arange(ROWS)
    return {
        **_texts(),
        "mask_positions": np.tile([0, 1], (ROWS, 1)),
        "mask_ids": TEXTS[:ROWS, :PLACES],
        # As many masked tokens on both devices would hide a mean of means.
        "mask_weights": np.stack([numbers > 0, numbers > 5], axis=1).astype("float32"),
    }


def _permuted():
    return {**_masked(), "permutation_ranks": np.tile([0, 1, *[-1] * (LENGTH - 2)], (ROWS, 1))}


def _translated():
    target = TEXTS[ROWS : 2 * ROWS] % 9
    return {
        "token_ids": TEXTS[:ROWS],
        "padding_mask": TEXTS[:ROWS] > 0,
        "target_ids": target,
        "label": np.roll(target, -1, axis=1),
        "sample_weight": (target > 0).astype("float32"),
    }


def _bert(**options):
    return models.BertEncoder(12, 1, 8, 2, dropout=0.0, seed=0, **options)


def _modernbert():  # a local layer after a global one
    return models.ModernBertEncoder(12, 2, 8, 2, window=4, seed=0)


def _electra(**options):
    return models.ElectraEncoder(12, 1, 8, 2, embedding_dim=6, dropout=0.0, seed=0, **options)


def _gpt2(**options):
    return models.GPT2(12, 1, 8, 2, dropout=0.0, seed=0, **options)


def _xlnet(**options):
    return models.XLNet(12, 1, 8, 2, dropout=0.0, seed=0, **options)


def _abcnn():
    return models.ABCNNEncoder(12, 8, max_length=LENGTH, variant=1, dropout=0.0, seed=0)


def _recurrent(**options):
    return models.RecurrentEncoder(12, 1, 8, dropout=0.0, seed=0, **options)


BACKBONES = {
    "ABCNNEncoder": (_abcnn, _texts),
    "AttentiveCNN": (lambda: models.AttentiveCNN(12, 8, dropout=0.0, seed=0), _one_segment),
    "AttentiveReader": (lambda: models.AttentiveReader(12, 8, dropout=0.0, seed=0), _texts),
    "BertEncoder": (_bert, _texts),
    "ElectraEncoder": (_electra, _texts),
    "GPT2": (_gpt2, _one_segment),
    "HierarchicalEncoder": (
        lambda: models.HierarchicalEncoder(
            12, 8, min_words=2, max_words=3, sentence_ends=[4], dropout=0.0, seed=0
        ),
        _one_segment,
    ),
    "ModernBertEncoder": (_modernbert, _one_segment),
    "RecurrentEncoder": (_recurrent, _one_segment),
    "XLNet": (_xlnet, _texts),
}
TASKS = {
    "ABCNNClassifier": (lambda: models.ABCNNClassifier(_abcnn(), 3, dropout=0.0), _labelled),
    "BertClassifier": (lambda: models.BertClassifier(_bert(), 3, dropout=0.0), _labelled),
    "BertPretrainer": (
        lambda: models.BertPretrainer(_bert()),
        lambda: {**_masked(), "next_sentence_label": np.arange(ROWS) % 2},
    ),
    "BertQuestionAnswerer": (lambda: models.BertQuestionAnswerer(_bert()), _answered),
    "DistilBertClassifier": (
        lambda: models.DistilBertClassifier(
            _bert(num_segments=0, use_pooler=False), 3, dropout=0.0
        ),
        _labelled,
    ),
    "ElectraClassifier": (
        lambda: models.ElectraClassifier(_electra(), 3, dropout=0.0),
        _labelled,
    ),
    # With the most probable tokens, as samples differ between devices.
    "ElectraPretrainer": (lambda: models.ElectraPretrainer(_electra(), temperature=0), _masked),
    "GPT2Classifier": (
        lambda: models.GPT2Classifier(_gpt2(), 3, dropout=0.0),
        lambda: _one_segment(_labelled),
    ),
    "GPT2LanguageModel": (lambda: models.GPT2LanguageModel(_gpt2()), _one_segment),
    "ModernBertClassifier": (
        lambda: models.ModernBertClassifier(_modernbert(), 3),
        lambda: _one_segment(_labelled),
    ),
    "ModernBertPretrainer": (
        lambda: models.ModernBertPretrainer(_modernbert()),
        lambda: _one_segment(_masked),
    ),
    "ModernBertQuestionAnswerer": (
        lambda: models.ModernBertQuestionAnswerer(_modernbert()),
        _answered,
    ),
    "ModernBertTokenClassifier": (
        lambda: models.ModernBertTokenClassifier(_modernbert(), 3),
        lambda: _one_segment(_tagged),
    ),
    "RecurrentClassifier": (
        lambda: models.RecurrentClassifier(_recurrent(), 3, dropout=0.0),
        lambda: _one_segment(_labelled),
    ),
    "RecurrentLanguageModel": (
        lambda: models.RecurrentLanguageModel(_recurrent(bidirectional=False, reduce="last")),
        _one_segment,
    ),
    "RobertaClassifier": (
        lambda: models.RobertaClassifier(_bert(num_segments=1, use_pooler=False), 3, dropout=0.0),
        _labelled,
    ),
    "TokenClassifier": (
        lambda: models.TokenClassifier(_bert(), 3, dropout=0.0, word_vector="mean", crf=True),
        _tagged,
    ),
    "XLNetClassifier": (lambda: models.XLNetClassifier(_xlnet(), 3, dropout=0.0), _labelled),
    "XLNetPretrainer": (lambda: models.XLNetPretrainer(_xlnet()), _permuted),
    "Transformer": (lambda: models.Transformer(12, 1, 8, 2, dropout=0.0, seed=0), _translated),
    **{
        kind.__name__: (
            lambda kind=kind: kind(12, 4, target_vocabulary_size=9, seed=1),
            _translated,
        )
        for kind in (SEQ2SEQ["bahdanau"][0], SEQ2SEQ["luong"][0])
    },
    **{
        name: (
            lambda key=key: SMALL[key][0](),
            lambda key=key: {k: x[:ROWS] for k, x in SMALL[key][1]().items()},
        )
        for name, key in (
            ("ABCNN", "abcnn3"),
            ("AttentionalFactorizationMachine", "afm"),
            ("AttentiveLSTMClassifier", "attention"),
            ("HierarchicalAttentionNetwork", "han"),
            ("PointerGenerator", "generator"),
            ("PointerNetwork", "pointer_once"),
        )
    },
}
EVERY_MODEL = {**BACKBONES, **TASKS}
# All backbones, each head on one of them, and each model of its own.
ONE_OF_EACH_KIND = [
    *BACKBONES, "BertClassifier", "BertQuestionAnswerer", "GPT2LanguageModel", "XLNetPretrainer",
    "TokenClassifier", "Transformer", "BahdanauSeq2Seq", "ABCNN", "AttentionalFactorizationMachine",
    "HierarchicalAttentionNetwork", "PointerGenerator", "PointerNetwork",
]  # fmt: skip


@functools.cache
def inputs_of(name):
    """Inputs of a model of `EVERY_MODEL`, int32 and float32."""
    _, data = EVERY_MODEL[name]
    return {
        key: np.asarray(x, "float32" if np.asarray(x).dtype.kind == "f" else "int32")
        for key, x in data().items()
    }


def make(name):
    """A new model of `EVERY_MODEL` that is not built, and its inputs."""
    return EVERY_MODEL[name][0](), dict(inputs_of(name))
