"""Creation of score layers by name."""

import inspect

import keras

from keras_attn.layers.nested_layers import as_layer
from keras_attn.layers.scores.additive_score import AdditiveScore
from keras_attn.layers.scores.bilinear_score import BilinearScore
from keras_attn.layers.scores.concat_score import ConcatScore
from keras_attn.layers.scores.cosine_score import CosineScore
from keras_attn.layers.scores.dot_score import DotScore

SCORES = {
    "dot": lambda units, **kwargs: _without_seed(DotScore, scale=1.0, **kwargs),
    "scaled_dot": lambda units, **kwargs: _without_seed(DotScore, **kwargs),
    "bilinear": lambda units, **kwargs: BilinearScore(**kwargs),
    "general": lambda units, **kwargs: BilinearScore(**kwargs),
    "cosine": lambda units, **kwargs: _without_seed(CosineScore, **kwargs),
    "concat": lambda units, **kwargs: ConcatScore(units, **kwargs),
    "additive": lambda units, **kwargs: AdditiveScore(units, **kwargs),
}


WITH_UNITS = "concat", "additive"


def make_score(score, units=None, seed=None, dtype=None):
    """Creates a score layer from its name or config; returns a layer unchanged.

    Args:
        score: Key of `SCORES`, a layer called with (query, key), or its config.
        units: Hidden units of "concat" and "additive".
        seed: Integer seed of the initial weights.
        dtype: Dtype policy.

    Raises:
        ValueError: If the score is unknown, or does not support the given units.
    """
    if units is not None and score not in WITH_UNITS:
        raise ValueError(
            f"units is only supported with score={' or '.join(WITH_UNITS)}. Set the "
            f"units of a layer in that layer. Received: units={units}, "
            f"score={score!r}"
        )
    score = as_layer(score)
    if isinstance(score, keras.layers.Layer):
        return score
    if not isinstance(score, str) or score not in SCORES:
        raise ValueError(
            f"score must be a layer or one of {', '.join(SCORES)}. Received: score={score!r}"
        )
    return SCORES[score](units, seed=seed, dtype=dtype, name="score")


def build_score(score, query_shape, key_shape):
    """Builds a score layer if needed; by a call unless its `build` accepts both shapes."""
    if score.built:
        return
    if len(inspect.signature(score.build).parameters) == 2:
        score.build(query_shape, key_shape)
    else:
        score(
            *(keras.KerasTensor(shape, score.compute_dtype) for shape in (query_shape, key_shape))
        )


def _without_seed(layer, seed, **kwargs):
    return layer(**kwargs)
