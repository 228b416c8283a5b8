"""Classification and regression with any pretrained Transformer."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.seeds import drop, dropout_generator, seeded_initializer, split_seed
from keras_attn.models.declared_inputs import require_entries
from keras_attn.models.task import TaskModel, label_weights
from keras_attn.ops import sparse_cross_entropy
from keras_attn.ops.arguments import (
    require_numbers,
    require_positive,
    require_probabilities,
    require_rates,
    require_sizes,
)
from keras_attn.ops.cross_entropy import hits
from keras_attn.ops.divergence import sigmoid_divergence, softmax_divergence
from keras_attn.types import Shape, Tensor


class Classifier(TaskModel, keras.Model):
    """A backbone with a dense layer on a vector that represents the text.

    Subclasses define `OWN`, the name of the backbone's `pooled_output` as a `pooling`. A head with
    more layers creates them in `build`, applies them in `pool`, and names them in `head_names`.

    Args:
        backbone: The backbone model.
        num_classes: Number of classes C; 1 for regression.
        dropout: Dropout rate of the pooled output.
        pooling: `OWN`, the default, or `"mean"`: the mean of the sequence output over real tokens.
        multilabel: Whether the classes are independent labels, any number of which may apply.
        label_mean: For regression: offset added to the scaled output of the head, usually the mean
            of the training labels.
        label_deviation: For regression: factor of the output of the head, usually the standard
            deviation of the training labels; the loss is in units of it. As the initial output of
            the head is near 0, all weights then learn about equally fast.
        distillation: Weight of the distillation loss, in [0, 1], in batches with
            `teacher_logits`; the loss with respect to the labels has the weight 1 - distillation.
        distillation_temperature: Softmax temperature T of the distillation loss.
        seed: Integer seed of the initial weights and of dropout; defaults to the backbone's.

    Call arguments:
        inputs: The backbone's dictionary; for losses and metrics also
            `label` `(B,)`, integers below C, or floats for regression; `(B, C)`, 0 and 1, if
                `multilabel`;
            `sample_weight` `(B,)`, optional;
            `teacher_logits` `(B, C)`, optional: logits of another model, or its predicted numbers
                for regression.
            With `cls_positions` `(B, E)`, if rows contain several examples, both have an axis E as
                well, and `pack_ids` must count from 1 in the order of `cls_positions`.
        training: Whether dropout is applied.

    Returns:
        The backbone's dictionary and `logits` `(B, C)`, or `(B, E, C)`, in float32.

    `fit` requires a dataset of such dictionaries. Loss `label`: cross-entropy (for multi-label the
    mean over labels), or squared error for regression; metric `accuracy`, except for regression:
    for multi-label the fraction of rows with all labels correct.

    The distillation loss is T² times the Kullback-Leibler divergence of the distribution of the
    model from that of the teacher, both at temperature T (for multi-label the mean over labels),
    or the squared difference for regression.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        Hinton et al., Distilling the Knowledge in a Neural Network, 2015, section 2.
    """

    OWN = "cls"

    def __init__(
        self,
        backbone: keras.Model,
        num_classes: int,
        dropout: float = 0.1,
        pooling: str | None = None,
        multilabel: bool = False,
        label_mean: float = 0.0,
        label_deviation: float = 1.0,
        distillation: float = 0.0,
        distillation_temperature: float = 2.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        pooling = self.OWN if pooling is None else pooling
        super().__init__(backbone, seed, **kwargs)
        require_sizes(num_classes=num_classes)
        require_rates(dropout=dropout)
        require_numbers(label_mean=label_mean)
        require_positive(
            label_deviation=label_deviation, distillation_temperature=distillation_temperature
        )
        require_probabilities(distillation=distillation)
        if pooling not in (self.OWN, "mean"):
            raise ValueError(
                f"{type(self).__name__}: pooling must be {self.OWN!r} or 'mean'. "
                f"Received: pooling={pooling!r}"
            )
        self.num_classes = num_classes
        self.dropout = dropout
        self.pooling = pooling
        self.multilabel = multilabel
        self.label_mean = label_mean
        self.label_deviation = label_deviation
        self.distillation = distillation
        self.distillation_temperature = distillation_temperature

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        backbone = self.build_backbone()
        kernel_seed, dropout_seed = split_seed(self.head_seed, 2, stream=1)
        initializer = keras.initializers.TruncatedNormal(stddev=backbone.initializer_range)
        # In float32 for any policy, like the loss.
        self.logits_dense = keras.layers.Dense(
            self.num_classes,
            kernel_initializer=seeded_initializer(initializer, kernel_seed),
            dtype="float32",
            name="logits_dense",
        )
        self.logits_dense.build((None, self.pooled_dim))
        self.seed_generator = dropout_generator(self.dropout, dropout_seed, "pooled_dropout")
        self.built = True

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        outputs = self.backbone(self.backbone.select_inputs(inputs), training=training)
        pooled = self.pool(outputs, inputs, training)
        pooled = drop(pooled, self.dropout, self.seed_generator, training)
        logits = self.logits_dense(pooled)
        if self._regression:
            logits = logits * self.label_deviation + self.label_mean
        return {**outputs, "logits": logits}

    def pool(
        self,
        outputs: dict[str, Tensor],
        inputs: dict[str, Tensor],
        training: bool | None = None,
    ) -> Tensor:
        """Returns the vector that represents each text, before the last dropout.

        Args:
            outputs: Dictionary of the backbone.
            inputs: See the call arguments.
            training: See the call arguments.

        Returns:
            Tensor `(B, D)`, or `(B, E, D)` with `cls_positions`.
        """
        if self.pooling == self.OWN:
            return outputs["pooled_output"]
        hidden = ops.cast(outputs["sequence_output"], "float32")
        if "cls_positions" in inputs:
            require_entries(self, inputs, ["pack_ids"])
            numbers = ops.arange(1, ops.shape(inputs["cls_positions"])[1] + 1, dtype="int32")
            packs = ops.cast(inputs["pack_ids"], "int32")
            members = ops.cast(ops.equal(packs[:, None, :], numbers[:, None]), "float32")
            # (B, E, T) x (B, T, D) -> (B, E, D)
            sums = ops.matmul(members, hidden)
            return sums / ops.maximum(ops.sum(members, axis=-1, keepdims=True), 1.0)
        if "padding_mask" not in inputs:
            return ops.mean(hidden, axis=1)
        real = ops.expand_dims(ops.cast(inputs["padding_mask"], "float32"), -1)
        return ops.sum(hidden * real, axis=1) / ops.maximum(ops.sum(real, axis=1), 1.0)

    @property
    def pooled_dim(self) -> int:
        """Size of the result of `pool`."""
        return self.backbone.hidden_dim

    @classmethod
    def head_names(cls, **heads: Any) -> list[str]:
        return ["logits_dense"]

    @classmethod
    def uses_pooler(cls, pooling: str | None = None, **heads: Any) -> bool:
        return pooling in (None, cls.OWN)

    @property
    def metric_names(self) -> list[str]:
        return ["label_loss"] if self._regression else ["label_loss", "accuracy"]

    @property
    def _regression(self):
        return self.num_classes == 1 and not self.multilabel

    def _weights(self, batch):
        labels = batch["label"]
        return label_weights(batch, labels[..., 0] if self.multilabel else labels)

    def loss_weights(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"label": ops.sum(self._weights(batch))}

    def loss_errors(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        labels, logits = batch["label"], outputs["logits"]
        if self.multilabel:
            # -log sigmoid(x) = softplus(-x), and -log(1 - sigmoid(x)) = softplus(x).
            signs = 1.0 - 2.0 * ops.cast(labels, "float32")
            errors = ops.mean(ops.softplus(signs * logits), axis=-1)
        elif self._regression:
            errors = logits[..., 0] - ops.cast(labels, "float32")
            errors = ops.square(errors / self.label_deviation)
        else:
            errors = sparse_cross_entropy(labels, logits)
        if "teacher_logits" in batch:
            teacher = ops.cast(batch["teacher_logits"], "float32")
            distilled = self._distillation_errors(logits, teacher)
            errors = (1.0 - self.distillation) * errors + self.distillation * distilled
        return {"label": ops.sum(errors * self._weights(batch))}

    def _distillation_errors(self, logits, teacher):
        if self._regression:
            return ops.square((logits - teacher)[..., 0] / self.label_deviation)
        if self.multilabel:
            found = sigmoid_divergence(logits, teacher, self.distillation_temperature)
            return ops.mean(found, axis=-1)
        return softmax_divergence(logits, teacher, self.distillation_temperature)

    def metric_sums(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, tuple[Tensor, Tensor]]:
        if self._regression:
            return {}
        labels, logits = batch["label"], outputs["logits"]
        weights = self._weights(batch)
        if self.multilabel:
            right = ops.equal(ops.greater(logits, 0), ops.greater(labels, 0))
            correct = ops.cast(ops.all(right, axis=-1), "float32")
        else:
            correct = hits(labels, logits)
        return {"accuracy": (ops.sum(correct * weights), ops.sum(weights))}

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "dropout": self.dropout,
            "pooling": self.pooling,
            "multilabel": self.multilabel,
            "label_mean": self.label_mean,
            "label_deviation": self.label_deviation,
            "distillation": self.distillation,
            "distillation_temperature": self.distillation_temperature,
        }
