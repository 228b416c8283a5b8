"""BERT for extractive question answering."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.models.task import TaskModel, label_weights
from keras_attn.ops import sparse_cross_entropy
from keras_attn.ops.cross_entropy import hits
from keras_attn.ops.masks import MASKED
from keras_attn.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class BertQuestionAnswerer(TaskModel, keras.Model):
    """BERT that predicts the start and end of the answer to a question in a passage.

    A row is `[CLS] question [SEP] passage [SEP]`. Position 0 represents "no answer in this
    passage".

    Args:
        backbone: `BertEncoder`, or another encoder of rows that begin with `[CLS]`.
        seed: Integer seed of the initial weights; defaults to the backbone's.

    Call arguments:
        inputs: The backbone's dictionary with `segment_ids`, 1 for the passage; for losses and
            metrics also
            `label` `(B, 2)`, integers: the positions of the first and the last token of the answer;
            `sample_weight` `(B,)`, optional.
            Each row contains one example.
        training: Whether dropout is applied.

    Returns:
        The backbone's dictionary and `span_logits` `(B, T, 2)` for the first and last token, in
        float32; -1e30 at positions that are neither a passage token nor 0.

    `fit` requires a dataset of such dictionaries. Loss `span`: the mean of the two cross-entropies
    over positions; metric `span_accuracy`: the fraction of rows with both ends correct.

    Reference:
        Devlin et al., BERT, 2018, sections 4.2 and 4.3.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.models import BertEncoder, BertQuestionAnswerer
        >>> model = BertQuestionAnswerer(BertEncoder.from_size("tiny", vocabulary_size=50, seed=0))
        >>> found = model({"token_ids": np.array([[2, 4, 3, 7, 9, 3]]),  # [CLS] question [SEP] …
        ...                "segment_ids": np.array([[0, 0, 0, 1, 1, 1]]),
        ...                "padding_mask": np.array([[1, 1, 1, 1, 1, 1]])})
        >>> p = np.array(ops.softmax(found["span_logits"], axis=1))[0, :, 0]
        >>> print((p > 0) * 1, p.sum().round(3))  # of the first token: none, or in the passage
        [1 0 0 1 1 0] 1.0
    """

    REQUIRED = ("token_ids", "segment_ids")

    def __init__(
        self,
        backbone: keras.Model,
        seed: int | None = None,
        name: str | None = "bert_question_answerer",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, seed, name=name, **kwargs)

    @classmethod
    def head_names(cls, **heads: Any) -> list[str]:
        return ["span_dense"]

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        backbone = self.build_backbone()
        (kernel_seed,) = split_seed(self.head_seed, 1, stream=1)
        initializer = keras.initializers.TruncatedNormal(stddev=backbone.initializer_range)
        # In float32 for any policy, like the loss.
        self.span_dense = keras.layers.Dense(
            2,
            kernel_initializer=seeded_initializer(initializer, kernel_seed),
            dtype="float32",
            name="span_dense",
        )
        self.span_dense.build((None, backbone.hidden_dim))
        self.built = True

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        outputs = self.backbone(self.backbone.select_inputs(inputs), training=training)
        logits = self.span_dense(self.transform(outputs["sequence_output"]))
        allowed = ops.expand_dims(_answer_mask(inputs), -1)
        return {**outputs, "span_logits": ops.where(allowed, logits, MASKED)}

    def transform(self, hidden: Tensor) -> Tensor:
        """Returns the vectors from which the ends of answers are predicted.

        A subclass whose head has more layers overrides it.

        Args:
            hidden: Hidden states `(B, T, D)`.
        """
        return hidden

    @property
    def metric_names(self) -> list[str]:
        return ["span_loss", "span_accuracy"]

    def loss_weights(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"span": ops.sum(label_weights(batch, batch["label"][:, 0]))}

    def loss_errors(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        errors = self._for_both_ends(sparse_cross_entropy, outputs, batch)
        weights = label_weights(batch, batch["label"][:, 0])
        return {"span": ops.sum(weights * (errors[0] + errors[1]) / 2)}

    def metric_sums(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, tuple[Tensor, Tensor]]:
        first, last = self._for_both_ends(hits, outputs, batch)
        weights = label_weights(batch, batch["label"][:, 0])
        return {"span_accuracy": (ops.sum(weights * first * last), ops.sum(weights))}

    @staticmethod
    def _for_both_ends(function, outputs, batch):
        return [
            function(batch["label"][:, end], outputs["span_logits"][:, :, end]) for end in range(2)
        ]


def _answer_mask(inputs):
    """Returns the valid answer positions `(B, T)`: the passage without its [SEP], and 0."""
    passage = ops.cast(inputs["segment_ids"], "int32")
    padding = inputs.get("padding_mask")
    real = ops.ones_like(passage) if padding is None else ops.cast(padding, "int32")
    has_next = ops.pad(real[:, 1:], [[0, 0], [0, 1]])
    first = ops.cast(ops.equal(ops.arange(ops.shape(passage)[1]), 0), "int32")
    return ops.cast(ops.maximum(passage * has_next, first), "bool")
