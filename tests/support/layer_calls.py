"""A call of every layer."""

import functools

import keras
import numpy as np

from keras_attn import layers
from tests.support.numpy_attention import normal


def pair(mask):
    return {
        "query": normal(len(mask), 2, 4, seed=1),
        "value": normal(*mask.shape, 4),
        "value_mask": mask,
    }


def scored(mask):
    return {"query": normal(len(mask), 2, 4, seed=1), "key": normal(*mask.shape, 4)}


def alone(first="inputs", name="mask"):
    """One input; its mask is the argument of that name, lengths, or None."""

    def inputs(mask):
        given = mask.sum(axis=1) if name == "lengths" else mask
        return {first: normal(*mask.shape, 4), **({name: given} if name else {})}

    return inputs


def decoded(mask):
    return {
        "target_ids": np.tile([[1, 5]], (len(mask), 1)),
        "memory": normal(*mask.shape, 4),
        "memory_mask": mask,
    }


def texts(mask):
    return {
        "first": normal(*mask.shape, 4),
        "second": normal(len(mask), 2, 4, seed=1),
        "first_mask": mask,
    }


def grid(mask):
    tall = np.repeat(mask[:, :, None], 2, axis=2)
    return {"query": normal(*tall.shape, 4), "query_mask": tall}


def document(mask):
    return {"inputs": grid(mask)["query"], "mask": grid(mask)["query_mask"]}


def copied(mask):
    return {
        "vocabulary_probabilities": np.full((len(mask), 2, 4), 0.25, "float32"),
        "attention": np.repeat(mask[:, None], 2, axis=1) / np.float32(2),
        "source_ids": np.tile(np.arange(mask.shape[1]), (len(mask), 1)),
        "generation_probability": np.full((len(mask), 2, 1), 0.5, "float32"),
    }


def source_and_target(mask):
    return {
        "source": normal(*mask.shape, 4),
        "target": normal(len(mask), 2, 4, seed=1),
        "source_mask": mask,
    }


def encoded(mask):
    return {
        "inputs": normal(len(mask), 2, 4, seed=1),
        "encoded": normal(*mask.shape, 4),
        "encoded_mask": mask,
    }


def streams(mask):
    places, seen = np.tile(np.arange(mask.shape[1])[:2], (len(mask), 1)), mask[:, None]
    return {
        "content": normal(*mask.shape, 4),
        "query": normal(*places.shape, 4, seed=1),
        "query_positions": places,
        "segment_ids": np.zeros_like(mask),
        "content_mask": seen,
        "query_mask": seen,
    }


def decoder(cell):
    return layers.RecurrentDecoder(cell, 7, 3, teacher_forcing_ratio=0.5, seed=1)


def luong_cell():
    return layers.AttentionCell(GRU(4), layers.LuongAttention(4, seed=1))


# Keras's own first weights of it are orthogonal, which cannot be drawn in bfloat16.
GRU = functools.partial(keras.layers.GRUCell, recurrent_initializer="glorot_uniform")
SELF = alone("query", "query_mask")
# Those that give 0 for a row of padding alone, where biases are 0 as they are at first.
ZERO = {
    "ABCNN1Attention": (lambda: layers.ABCNN1Attention(3, seed=1), texts),
    "ABCNN2Pooling": (lambda: layers.ABCNN2Pooling(1), texts),
    "ABCNN2Pooling normalized": (lambda: layers.ABCNN2Pooling(1, normalize=True), texts),
    "Attention": (layers.Attention, pair),
    "AttentionPooling": (lambda: layers.AttentionPooling(3, seed=1), alone()),
    "AttentionPooling lengths": (lambda: layers.AttentionPooling(3, seed=1), alone(name="lengths")),
    "AttentionalInteraction": (lambda: layers.AttentionalInteraction(3, seed=1), alone()),
    "AttentiveConvPooling": (lambda: layers.AttentiveConvPooling(3, 3, 2, seed=1), alone()),
    "CRF": (layers.CRF, alone()),
    "ExpandedWindowAttention": (
        lambda: layers.ExpandedWindowAttention(2, 2, 1, 1, global_tokens=1, seed=1),
        SELF,
    ),
    "ExpandedWindowAttention random": (
        lambda: layers.ExpandedWindowAttention(2, 2, 2, random_blocks=1, seed=1),
        SELF,
    ),
    **{
        f"HardAttention {estimator}": (lambda e=estimator: layers.HardAttention(e, seed=1), pair)
        for estimator in ("straight_through", "gumbel", "reinforce")
    },
    "HierarchicalAttention": (lambda: layers.HierarchicalAttention(2, 2, 3, seed=1), document),
    **{
        f"LocalAttention {kind}": (lambda k=kind: layers.LocalAttention(1, k, seed=1), pair)
        for kind in ("monotonic", "predictive")
    },
    **{
        f"MixedAttention {mix}": (lambda m=mix: layers.MixedAttention(2, 2, 1, mix=m, seed=1), SELF)
        for mix in ("gate", "heads", "cascade")
    },
    "MixedAttention memory": (lambda: layers.MixedAttention(2, 2, 1, seed=1), pair),
    "ExpandedWindowAttention memory": (
        lambda: layers.ExpandedWindowAttention(2, 2, 2, 1, alignment="predictive", seed=1),
        pair,
    ),
    "MultiHeadAttention": (lambda: layers.MultiHeadAttention(2, 2, seed=1), pair),
    **{
        f"RelativeAttention {kind}": (
            lambda k=kind: layers.RelativeAttention(2, 2, k, seed=1),
            SELF,
        )
        for kind in ("xl", "shaw")
    },
    **{
        f"SequenceToVector {reduce}": (lambda r=reduce: layers.SequenceToVector(r, seed=1), alone())
        for reduce in ("last", "mean", "max", "attention")
    },
    "SequenceToVector lengths": (lambda: layers.SequenceToVector("mean"), alone(name="lengths")),
    "TwoStreamAttention": (lambda: layers.TwoStreamAttention(2, 2, seed=1), streams),
    "WindowAttention": (lambda: layers.WindowAttention(2, 2, 1, seed=1), SELF),
    "WindowAttention causal": (lambda: layers.WindowAttention(2, 2, 1, causal=True, seed=1), SELF),
    "WindowAttention grid": (lambda: layers.WindowAttention(2, 2, (1, 1), seed=1), grid),
}
CASES = {
    **ZERO,
    "AdditiveScore": (lambda: layers.AdditiveScore(seed=1), scored),
    "AlibiBias": (lambda: layers.AlibiBias(4), alone("query", None)),
    "AttentionCell": (lambda: decoder(luong_cell()), decoded),
    "BahdanauDecoderCell": (lambda: decoder(layers.BahdanauDecoderCell(4, seed=1)), decoded),
    "BilinearScore": (lambda: layers.BilinearScore(seed=1), scored),
    "ConcatScore": (lambda: layers.ConcatScore(seed=1), scored),
    "CopyDistribution": (lambda: layers.CopyDistribution(1), copied),
    "CosineScore": (layers.CosineScore, scored),
    "DotScore": (layers.DotScore, scored),
    "IntraAttentionLSTMCell": (
        lambda: keras.layers.RNN(
            layers.IntraAttentionLSTMCell(3, 2, seed=1), return_sequences=True
        ),
        alone(),
    ),
    "LearnedPositionEmbedding": (
        lambda: layers.LearnedPositionEmbedding(3, seed=1),
        alone(name=None),
    ),
    "LocationScore": (lambda: layers.LocationScore(3, seed=1), scored),
    "LuongAttention": (lambda: layers.LuongAttention(4, seed=1), pair),
    "PointerAttention": (lambda: layers.PointerAttention(seed=1), pair),
    "PositionwiseFeedForward": (
        lambda: layers.PositionwiseFeedForward(8, seed=1),
        alone(name=None),
    ),
    "RecurrentDecoder": (lambda: decoder(layers.AttentionCell(GRU(4), None)), decoded),
    "RelativePositionBias": (lambda: layers.RelativePositionBias(4, seed=1), alone("query", None)),
    "RotaryEmbedding": (layers.RotaryEmbedding, alone(name=None)),
    **{
        f"SequenceToSequence {context}": (
            lambda c=context: layers.SequenceToSequence(GRU(3), GRU(3), c, seed=1),
            source_and_target,
        )
        for context in ("states", "both")
    },
    "SinusoidalPositionEncoding": (layers.SinusoidalPositionEncoding, alone(name=None)),
    **{
        f"TransformerDecoderLayer {first}": (
            lambda f=first: layers.TransformerDecoderLayer(2, 8, norm_first=f, seed=1),
            encoded,
        )
        for first in (False, True)
    },
    **{
        f"TransformerEncoderLayer {first}": (
            lambda f=first: layers.TransformerEncoderLayer(2, 8, norm_first=f, seed=1),
            alone(name="padding_mask"),
        )
        for first in (False, True)
    },
    "VectorToSequence": (
        lambda: layers.VectorToSequence(GRU(3), 2),
        lambda mask: {"inputs": normal(len(mask), 4)},
    ),
}
# The number of features is fixed, two or more.
FEATURES = {"AttentionalInteraction"}
# The recurrent layer of Keras around it needs a step.
RECURRENT = {"IntraAttentionLSTMCell"}
