"""ModernBERT for classification, regression, tagging and question answering."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.layer_norm import LayerNorm
from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.models.bert.question_answerer import BertQuestionAnswerer
from keras_attn.models.classifier import Classifier
from keras_attn.models.modernbert.encoder import ModernBertEncoder
from keras_attn.models.token_classifier import TokenClassifier
from keras_attn.ops import take_positions
from keras_attn.ops.products import apply_rowwise
from keras_attn.types import Shape, Tensor

_ATTRIBUTES = (
    "activation",
    "layer_norm_epsilon",
    "initializer_range",
    "use_bias",
    "norm_bias",
)


class _PredictionHead(keras.layers.Layer):
    """A dense layer, activation and norm of vectors `(..., D)`: the head of ModernBERT."""

    def __init__(self, backbone, seed, **kwargs):
        super().__init__(dtype=backbone.dtype_policy, **kwargs)
        initializer = keras.initializers.TruncatedNormal(stddev=backbone.initializer_range)
        self.dense = keras.layers.Dense(
            backbone.hidden_dim,
            activation=backbone.activation,
            use_bias=backbone.use_bias,
            kernel_initializer=seeded_initializer(initializer, seed),
            dtype=backbone.dtype_policy,
            name="dense",
        )
        self.norm = LayerNorm(
            epsilon=backbone.layer_norm_epsilon,
            center=backbone.norm_bias,
            dtype=backbone.dtype_policy,
            name="norm",
        )

    def build(self, input_shape):
        self.dense.build((None, input_shape[-1]))
        self.norm.build((None, input_shape[-1]))
        self.built = True

    def call(self, inputs):
        return apply_rowwise(lambda x: self.norm(self.dense(x)), inputs)


def _make_head(model):
    (seed,) = split_seed(model.head_seed, 1, stream=2)
    head = _PredictionHead(model.backbone, seed, name="head")
    head.build((None, model.backbone.hidden_dim))
    return head


@keras.saving.register_keras_serializable(package="keras_attn")
class ModernBertClassifier(Classifier):
    """ModernBERT with a head of two dense layers on a vector that represents the text.

    The first one is followed by an activation and a norm.

    Args:
        backbone: `ModernBertEncoder`, or another encoder with its attributes.
        num_classes: Number of classes C; 1 for regression.
        dropout: Dropout rate of the input of the last dense layer.
        pooling: `"cls"`, the default: the first token; `"mean"`: the mean of the sequence output
            over real tokens.
        **kwargs: Further arguments of `keras_attn.models.classifier.Classifier`, which also
            documents calls, losses and metrics.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        Warner et al., ModernBERT, 2024; `ModernBertForSequenceClassification` of transformers.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import ModernBertClassifier, ModernBertEncoder
        >>> backbone = ModernBertEncoder.from_size("tiny", vocabulary_size=50, seed=0)
        >>> model = ModernBertClassifier(backbone, 3)
        >>> short, padded = ({"token_ids": np.array([ids]), "padding_mask": np.sign([ids])}
        ...                  for ids in ([4, 7, 9], [4, 7, 9, 0]))
        >>> logits = [np.array(model(inputs)["logits"]) for inputs in (short, padded)]
        >>> print(logits[0].shape, np.abs(logits[0] - logits[1]).max().round(4))
        (1, 3) 0.0
    """

    BACKBONE_ATTRIBUTES = _ATTRIBUTES
    OWN = "cls"

    def __init__(
        self,
        backbone: ModernBertEncoder,
        num_classes: int,
        dropout: float = 0.0,
        pooling: str | None = None,
        name: str | None = "modernbert_classifier",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, num_classes, dropout, pooling, name=name, **kwargs)

    @classmethod
    def head_names(cls, **heads: Any) -> list[str]:
        return ["head", "logits_dense"]

    @classmethod
    def uses_pooler(cls, pooling: str | None = None, **heads: Any) -> bool:
        return False

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        super().build(input_shape)
        self.head = _make_head(self)

    def pool(
        self,
        outputs: dict[str, Tensor],
        inputs: dict[str, Tensor],
        training: bool | None = None,
    ) -> Tensor:
        if self.pooling == "mean":
            return self.head(super().pool(outputs, inputs, training))
        hidden = outputs["sequence_output"]
        if "cls_positions" in inputs:
            return self.head(take_positions(hidden, inputs["cls_positions"]))
        return self.head(ops.sum(hidden[:, :1], axis=1))  # 0 for texts without tokens


@keras.saving.register_keras_serializable(package="keras_attn")
class ModernBertTokenClassifier(TokenClassifier):
    """ModernBERT with a head of two dense layers on the hidden state of each word.

    The first one is followed by an activation and a norm.

    Args:
        backbone: `ModernBertEncoder`, or another encoder with its attributes.
        num_classes: Number of tags K.
        dropout: Dropout rate of the input of the last dense layer.
        **kwargs: Further arguments of `TokenClassifier`, which also documents calls, losses and
            metrics.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        Warner et al., ModernBERT, 2024; `ModernBertForTokenClassification` of transformers.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import ModernBertEncoder, ModernBertTokenClassifier
        >>> backbone = ModernBertEncoder.from_size("tiny", vocabulary_size=50, seed=0)
        >>> model = ModernBertTokenClassifier(backbone, num_classes=5)
        >>> found = model({"token_ids": np.array([[2, 4, 7, 9, 3]])})
        >>> print(found["logits"].shape)
        (1, 5, 5)
        >>> padded = model({"token_ids": np.array([[2, 4, 7, 9, 3, 0]]),
        ...                 "padding_mask": np.array([[1, 1, 1, 1, 1, 0]])})
        >>> print(np.abs(np.array(padded["logits"][:, :5] - found["logits"])).max().round(4))
        0.0
    """

    BACKBONE_ATTRIBUTES = _ATTRIBUTES

    def __init__(
        self,
        backbone: ModernBertEncoder,
        num_classes: int,
        dropout: float = 0.0,
        name: str | None = "modernbert_token_classifier",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, num_classes, dropout, name=name, **kwargs)

    @classmethod
    def head_names(cls, crf: bool = False, **heads: Any) -> list[str]:
        return ["head", *super().head_names(crf, **heads)]

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        super().build(input_shape)
        self.head = _make_head(self)

    def transform(self, hidden: Tensor) -> Tensor:
        return self.head(hidden)


@keras.saving.register_keras_serializable(package="keras_attn")
class ModernBertQuestionAnswerer(BertQuestionAnswerer):
    """ModernBERT with a head of two dense layers that finds the answer to a question in a passage.

    The first one is followed by an activation and a norm.

    Args:
        backbone: `ModernBertEncoder`, or another encoder with its attributes.
        seed: Integer seed of the initial weights; defaults to the backbone's.

    Calls, losses and metrics are those of `BertQuestionAnswerer`, whose `segment_ids` the encoder
    does not use.

    Reference:
        Warner et al., ModernBERT, 2024; `ModernBertForQuestionAnswering` of transformers.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import ModernBertEncoder, ModernBertQuestionAnswerer
        >>> backbone = ModernBertEncoder.from_size("tiny", vocabulary_size=50, seed=0)
        >>> model = ModernBertQuestionAnswerer(backbone)
        >>> found = model({"token_ids": np.array([[2, 7, 3, 8, 9, 3]]),
        ...                "segment_ids": np.array([[0, 0, 0, 1, 1, 1]])})
        >>> print((np.array(found["span_logits"])[0, :, 0] > -1e9).astype(int))
        [1 0 0 1 1 0]
    """

    BACKBONE_ATTRIBUTES = _ATTRIBUTES

    def __init__(
        self,
        backbone: ModernBertEncoder,
        seed: int | None = None,
        name: str | None = "modernbert_question_answerer",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, seed, name=name, **kwargs)

    @classmethod
    def head_names(cls, **heads: Any) -> list[str]:
        return ["head", *super().head_names(**heads)]

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        super().build(input_shape)
        self.head = _make_head(self)

    def transform(self, hidden: Tensor) -> Tensor:
        return self.head(hidden)
