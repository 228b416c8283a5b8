"""Classification from the first token, with a hidden layer in the head."""

from typing import Any, ClassVar

import keras
from keras import ops

from keras_attn.layers.seeds import drop, seeded_initializer, split_seed
from keras_attn.models.classifier import Classifier
from keras_attn.ops import take_positions
from keras_attn.ops.activations import get_activation
from keras_attn.types import Shape, Tensor


class FirstTokenClassifier(Classifier):
    """A backbone without pooler, and a hidden layer in the head that reads the first token.

    With `pooling="mean"` the head has no hidden layer, as that of a model with a pooler.

    Attributes:
        ACTIVATION: Activation of the hidden layer.
        DROPS_INPUT: Whether dropout is also applied to the input of the hidden layer.
    """

    BACKBONE_ATTRIBUTES = ("initializer_range",)
    OWN = "cls"
    ACTIVATION: ClassVar[str]
    DROPS_INPUT: ClassVar[bool]

    @classmethod
    def head_names(cls, pooling: str | None = None, **heads: Any) -> list[str]:
        return ["hidden_dense", "logits_dense"] if pooling in (None, cls.OWN) else ["logits_dense"]

    @classmethod
    def uses_pooler(cls, pooling: str | None = None, **heads: Any) -> bool:
        return False

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        super().build(input_shape)
        if self.pooling != self.OWN:
            return
        (seed,) = split_seed(self.head_seed, 1, stream=2)
        initializer = keras.initializers.TruncatedNormal(stddev=self.backbone.initializer_range)
        self.hidden_dense = keras.layers.Dense(
            self.backbone.hidden_dim,
            activation=get_activation(self.ACTIVATION),
            kernel_initializer=seeded_initializer(initializer, seed),
            dtype=self.dtype_policy,
            name="hidden_dense",
        )
        self.hidden_dense.build((None, self.backbone.hidden_dim))

    def pool(
        self,
        outputs: dict[str, Tensor],
        inputs: dict[str, Tensor],
        training: bool | None = None,
    ) -> Tensor:
        if self.pooling != self.OWN:
            return super().pool(outputs, inputs, training)
        hidden = outputs["sequence_output"]
        first = ops.sum(hidden[:, :1], axis=1)  # 0 for texts without tokens
        if "cls_positions" in inputs:
            first = take_positions(hidden, inputs["cls_positions"])
        if self.DROPS_INPUT:
            first = drop(first, self.dropout, self.seed_generator, training)
        return self.hidden_dense(first)
