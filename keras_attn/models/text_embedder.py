"""Embeddings of texts: pooled token vectors, dense layers and normalization."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.models.task import TaskModel
from keras_attn.ops import take_positions
from keras_attn.ops.arguments import (
    require_numbers,
    require_positive,
    require_probabilities,
    require_sizes,
)
from keras_attn.ops.contrastive import (
    cosent_loss,
    cosine_similarity,
    in_batch_losses,
    similarity_divergences,
    unit_vectors,
)
from keras_attn.ops.masks import MASKED
from keras_attn.types import Shape, Tensor

# In the order in which several are concatenated, which is that of sentence-transformers.
POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")


def pool(x: Tensor, mask: Tensor, pooling: str) -> Tensor:
    """Reduces the token vectors of each text to one vector.

    Args:
        x: Token vectors `(B, T, D)`.
        mask: Tokens to pool, 1, and other tokens, 0: `(B, T)`.
        pooling: One of `POOLINGS`: "cls", the first token; "lasttoken", the last token; "max";
            "mean"; "mean_sqrt_len_tokens", the sum divided by the square root of the number of
            tokens; or "weightedmean", with the position from 1 as the weight of a token.

    Returns:
        float32 `(B, D)`; 0 for a row without tokens.
    """
    x, mask = ops.cast(x, "float32"), ops.cast(mask, "float32")
    places = ops.arange(1, ops.shape(x)[1] + 1, dtype="float32")
    if pooling in ("cls", "lasttoken"):
        at = ops.argmax(mask if pooling == "cls" else places * mask, axis=1)
        return take_positions(x * mask[:, :, None], at[:, None])[:, 0]
    if pooling == "max":
        found = ops.max(ops.where(mask[:, :, None] > 0, x, MASKED), axis=1)
        return ops.where(ops.any(mask > 0, axis=1, keepdims=True), found, 0.0)
    weights = mask * places if pooling == "weightedmean" else mask
    count = ops.maximum(ops.sum(weights, axis=1, keepdims=True), 1.0)
    divisor = ops.sqrt(count) if pooling == "mean_sqrt_len_tokens" else count
    return ops.sum(x * weights[:, :, None], axis=1) / divisor


@keras.saving.register_keras_serializable(package="keras_attn")
class EmbeddingHead(keras.layers.Layer):
    """Pools token vectors, and applies dense layers and normalization to the result.

    All computations are in float32.

    Args:
        pooling: List of `POOLINGS`, whose results are concatenated.
        steps: List of the steps after pooling, each a dictionary:
            `{"type": "dense", "units": …, "activation": …, "use_bias": …}`, with a name of
            `keras.activations`, or `{"type": "normalize"}`, which divides a vector by its norm.
        seed: Integer seed of the initial weights.

    Call arguments:
        x: Token vectors `(B, T, D)`.
        token_mask: Tokens to pool: `(B, T)`, integers or booleans.

    Returns:
        Embeddings, float32 `(B, E)`.

    Raises:
        ValueError: If a pooling or a step is unknown.

    Reference:
        Reimers and Gurevych, Sentence-BERT, 2019, section 3.
    """

    def __init__(
        self,
        pooling: Sequence[str] = ("mean",),
        steps: Sequence[Mapping[str, Any]] = (),
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**{**kwargs, "dtype": "float32"})
        if not pooling or not set(pooling) <= set(POOLINGS):
            raise ValueError(
                f"EmbeddingHead: pooling must be a list of {', '.join(POOLINGS)}. "
                f"Received: pooling={pooling!r}"
            )
        self.pooling, self.seed = list(pooling), seed
        self.steps = [dict(step) for step in steps]
        self._dense = self._dense_layers()
        self.supports_masking = True  # reads `token_mask`

    def _dense_layers(self):
        """Returns the dense layer of each step, None for a normalization."""
        layers = []
        for step, seed in zip(self.steps, split_seed(self.seed, len(self.steps)), strict=True):
            if step == {"type": "normalize"}:
                layers.append(None)
                continue
            if step.keys() != {"type", "units", "activation", "use_bias"}:
                raise ValueError(
                    "EmbeddingHead: a step must be of type normalize, or of type dense with "
                    f"units, activation and use_bias. Received: {step!r}"
                )
            require_sizes(units=step["units"])
            layers.append(
                keras.layers.Dense(
                    step["units"],
                    activation=step["activation"],
                    use_bias=step["use_bias"],
                    kernel_initializer=seeded_initializer("glorot_uniform", seed),
                    dtype="float32",
                    name=f"dense_{sum(layer is not None for layer in layers)}",
                )
            )
        return layers

    def build(self, x_shape: Shape, token_mask_shape: Shape | None = None) -> None:
        size = len(self.pooling) * x_shape[-1]
        for layer in filter(None, self._dense):
            layer.build((None, size))
            size = layer.units
        self.built = True

    def call(self, x: Tensor, token_mask: Tensor) -> Tensor:
        x = ops.concatenate([pool(x, token_mask, pooling) for pooling in self.pooling], axis=-1)
        for layer in self._dense:
            x = unit_vectors(x) if layer is None else layer(x)
        return x

    def output_dim(self, hidden_dim: int) -> int:
        """Returns the size E of the embeddings of token vectors of size `hidden_dim`."""
        units = [step["units"] for step in self.steps if "units" in step]
        return units[-1] if units else len(self.pooling) * hidden_dim

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        return None

    def compute_output_shape(self, x_shape: Shape, token_mask_shape: Shape | None = None) -> Shape:
        return (x_shape[0], self.output_dim(x_shape[-1]))

    def get_config(self) -> dict[str, Any]:
        own = {"pooling": self.pooling, "steps": self.steps, "seed": self.seed}
        return {**super().get_config(), **own}


OVER_BATCH = IN_BATCH, COSENT = "in_batch_negatives", "cosent"  # of the global batch
LOSSES = (IN_BATCH, COSENT, "cosine", "triplet")
DEFAULT_LOSS = {"loss": IN_BATCH, "temperature": 0.05, "symmetric": False, "margin": 1.0}


@keras.saving.register_keras_serializable(package="keras_attn")
class TextEmbedder(TaskModel, keras.Model):
    """A backbone with an `EmbeddingHead`, trained on groups of related texts.

    The losses over the batch, `"in_batch_negatives"`, `"cosent"` and distillation, are those of the
    global batch also with several devices or gradient accumulation: the engines pass the embeddings
    of all rows to `loss_errors` (`gathered_outputs`). `fit` supports them on one device.

    Args:
        backbone: A backbone with a `sequence_output`.
        pooling, steps: See `EmbeddingHead`.
        loss: `"in_batch_negatives"` (pairs, or pairs with hard negatives), `"cosent"` or `"cosine"`
            (pairs with scores; mean squared error of the cosine similarity), or `"triplet"`
            (anchor, positive and negative; Euclidean distance).
        temperature: Divisor of the cosine similarities of in-batch negatives, CoSENT and
            distillation.
        symmetric: With in-batch negatives: whether positives are anchors, too.
        margin: Margin of the triplet loss.
        distillation: Weight of the distillation loss, in [0, 1], in batches with
            `teacher_embedding`; the other loss has the weight 1 - distillation.
        distillation_temperature: Softmax temperature of the distillation loss.
        seed: Integer seed of the initial weights; defaults to the backbone's.

    Call arguments:
        inputs: The backbone's dictionary, and optionally
            `pooling_mask` `(B, T)`: 1 for tokens to pool; defaults to `padding_mask`.
            For losses and metrics all of them have an axis of the texts of an example, `(B, N, T)`:
            anchor, positive, and hard negatives; and
            `label` `(B,)` for `"cosent"` and `"cosine"`: the scores;
            `sample_weight` `(B,)`, optional, 0 for padding rows;
            `teacher_embedding` `(B, N, F)`, optional: embeddings by another model, and
            `text_numbers` `(B, N)`, integers: equal for equal texts.
        training: Whether dropout is applied.

    Returns:
        The backbone's dictionary and `embedding` `(B, E)`, float32; for groups of texts `embedding`
        `(B, N, E)` alone.

    `fit` requires a dataset of such dictionaries. Loss `embedding`; metric `accuracy` of in-batch
    negatives: the fraction of anchors whose positive has the highest score. The distillation loss
    is that of `keras_attn.ops.contrastive.similarity_divergences`.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        Reimers and Gurevych, Sentence-BERT, 2019; see also `keras_attn.ops.contrastive`.
    """

    OWN_INPUTS = {"pooling_mask": "BT"}
    gathered_inputs = ("sample_weight", "label", "teacher_embedding", "text_numbers")

    def __init__(
        self,
        backbone: keras.Model,
        pooling: Sequence[str] = ("mean",),
        steps: Sequence[Mapping[str, Any]] = (),
        loss: str = IN_BATCH,
        temperature: float = 0.05,
        symmetric: bool = False,
        margin: float = 1.0,
        distillation: float = 0.0,
        distillation_temperature: float = 2.0,
        seed: int | None = None,
        name: str | None = "text_embedder",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, seed, name=name, **kwargs)
        require_positive(temperature=temperature, distillation_temperature=distillation_temperature)
        require_probabilities(distillation=distillation)
        require_numbers(margin=margin)
        if loss not in LOSSES:
            raise ValueError(
                f"TextEmbedder: loss must be one of {', '.join(LOSSES)}. Received: loss={loss!r}"
            )
        self.embedding_head = EmbeddingHead(pooling, steps, self.head_seed, name="embedding_head")
        self.loss_name, self.temperature = loss, temperature
        self.symmetric, self.margin = symmetric, margin
        self.distillation = distillation
        self.distillation_temperature = distillation_temperature

    @classmethod
    def head_names(cls, steps: Sequence[Mapping[str, Any]] = (), **heads: Any) -> list[str]:
        return ["embedding_head"] if any("units" in step for step in steps) else []

    @property
    def gathered_outputs(self) -> tuple[str, ...]:
        """Names of the outputs whose rows of the global batch `loss_errors` reads."""
        over_batch = self.loss_name in OVER_BATCH or self.distillation
        return ("embedding",) if over_batch else ()

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        backbone = self.build_backbone()
        self.embedding_head.build((None, None, backbone.hidden_dim))
        self.built = True

    def __call__(self, inputs: dict[str, Tensor], *args: Any, **kwargs: Any) -> Any:
        texts = _texts_of_example(inputs)
        if texts is None:
            return super().__call__(inputs, *args, **kwargs)
        return _grouped(super().__call__(self._flat(inputs), *args, **kwargs), texts)

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        texts = _texts_of_example(inputs)
        if texts is not None:  # from the engines, which do not use `__call__`
            return _grouped(self.call(self._flat(inputs), training), texts)
        outputs = self.backbone(self.backbone.select_inputs(inputs), training=training)
        mask = inputs.get("pooling_mask", inputs.get("padding_mask"))
        if mask is None:
            mask = ops.ones_like(inputs["token_ids"])
        return {**outputs, "embedding": self.embedding_head(outputs["sequence_output"], mask)}

    def _flat(self, inputs):
        """Returns the inputs with a row for each text."""
        return {
            name: ops.reshape(x, (-1, ops.shape(x)[-1]))
            for name, x in self.select_inputs(inputs).items()
        }

    @property
    def metric_names(self) -> list[str]:
        own = ["accuracy"] if self.loss_name == IN_BATCH else []
        return ["embedding_loss", *own]

    def loss_weights(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"embedding": ops.sum(_row_weights(batch))}

    def loss_errors(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        embeddings = outputs["embedding"]
        error = self._label_error(embeddings, batch)
        if "teacher_embedding" in batch:
            distilled = self._distillation_error(embeddings, batch)
            error = (1.0 - self.distillation) * error + self.distillation * distilled
        return {"embedding": error}

    def _label_error(self, embeddings, batch):
        weights = _row_weights(batch)
        if self.loss_name == "cosine":
            similarities = cosine_similarity(embeddings[:, 0], embeddings[:, 1])
            errors = ops.square(similarities - ops.cast(batch["label"], "float32"))
            return ops.sum(errors * weights)
        if self.loss_name == "triplet":
            anchor, positive, negative = (embeddings[:, k] for k in range(3))
            errors = _distance(anchor, positive) - _distance(anchor, negative) + self.margin
            return ops.sum(ops.relu(errors) * weights)
        rows, weights, inside, scores = _global_rows(embeddings, batch)
        if self.loss_name == COSENT:
            similarities = cosine_similarity(rows[:, 0], rows[:, 1])
            loss = cosent_loss(similarities, scores, weights, self.temperature)
            value = ops.sum(weights * inside) * ops.stop_gradient(loss)
            return value + ops.sum(weights) * (loss - ops.stop_gradient(loss))
        losses, _ = in_batch_losses(rows, weights, self.temperature, self.symmetric)
        return _own_error(losses * weights, inside)

    def _distillation_error(self, embeddings, batch):
        rows, weights, inside, _ = _global_rows(embeddings, batch)
        losses = similarity_divergences(
            rows,
            _of_all_rows(batch, "teacher_embedding"),
            _of_all_rows(batch, "text_numbers"),
            weights,
            self.temperature,
            self.distillation_temperature,
        )
        return _own_error(losses * weights, inside)

    def metric_sums(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, tuple[Tensor, Tensor]]:
        if self.loss_name != IN_BATCH:
            return {}
        rows, weights, inside, _ = _global_rows(outputs["embedding"], batch)
        _, hits = in_batch_losses(rows, weights, self.temperature)
        own = weights * inside
        return {"accuracy": (ops.sum(hits * own), ops.sum(own))}

    def get_config(self) -> dict[str, Any]:
        head = self.embedding_head
        return {
            **super().get_config(),
            "pooling": head.pooling,
            "steps": head.steps,
            "loss": self.loss_name,
            "temperature": self.temperature,
            "symmetric": self.symmetric,
            "margin": self.margin,
            "distillation": self.distillation,
            "distillation_temperature": self.distillation_temperature,
        }


def _texts_of_example(inputs):
    """Returns the number of texts of an example; None for single texts."""
    ids = inputs.get("token_ids") if hasattr(inputs, "get") else None
    shape = getattr(ids, "shape", ())
    if len(shape) != 3:
        return None
    return ops.shape(ids)[1] if shape[1] is None else shape[1]


def _grouped(outputs, texts):
    """Returns the embeddings of each example: `(B, N, E)`."""
    embedding = outputs["embedding"]
    return {"embedding": ops.reshape(embedding, (-1, texts, embedding.shape[-1]))}


def _global_rows(embeddings, batch):
    """Returns the embeddings and weights of the global batch, which rows are of this part of it,
    1 and 0, and the scores, or None.
    """
    own = _row_weights(batch)
    if "gathered_embedding" not in batch:
        return embeddings, own, ops.ones_like(own), batch.get("label")
    # The same values; these have a gradient.
    count, gathered = ops.shape(embeddings)[0], batch["gathered_embedding"]
    places = ops.arange(ops.shape(gathered)[0]) - batch["gathered_start"]
    inside = ops.logical_and(places >= 0, places < count)
    placed = ops.take(embeddings, ops.clip(places, 0, count - 1), axis=0)
    rows = ops.where(inside[:, None, None], placed, gathered)
    weights = ops.cast(batch["gathered_sample_weight"], "float32")
    return rows, weights, ops.cast(inside, "float32"), batch.get("gathered_label")


def _of_all_rows(batch, name):
    """Returns an entry of the rows of the global batch."""
    return batch.get(f"gathered_{name}", batch[name])


def _own_error(errors, inside):
    """Returns the error of the rows of this part, with the gradient of the error of all rows."""
    others = ops.sum(errors * (1.0 - inside))
    return ops.sum(errors * inside) + others - ops.stop_gradient(others)


def _row_weights(batch):
    if "sample_weight" in batch:
        return ops.cast(batch["sample_weight"], "float32")
    return ops.ones(ops.shape(batch["token_ids"])[:1], "float32")


def _distance(first, second):
    """Euclidean distance, with a finite gradient for equal vectors."""
    squared = ops.sum(ops.square(first - second), axis=-1)
    return ops.sqrt(ops.maximum(squared, 1e-12))
