"""Score layers: functions that compare queries with keys."""

from keras_attn.layers.scores.additive_score import AdditiveScore
from keras_attn.layers.scores.bilinear_score import BilinearScore
from keras_attn.layers.scores.concat_score import ConcatScore
from keras_attn.layers.scores.cosine_score import CosineScore
from keras_attn.layers.scores.dot_score import DotScore
from keras_attn.layers.scores.location_score import LocationScore

__all__ = [
    "AdditiveScore",
    "BilinearScore",
    "ConcatScore",
    "CosineScore",
    "DotScore",
    "LocationScore",
]
