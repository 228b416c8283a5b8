"""Embeddings of texts: pooled token vectors, dense layers and normalization."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
from keras import ops

from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.models.task import TaskModel
from keras_attn.ops import take_positions
from keras_attn.ops.arguments import require_sizes
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


def _normalize(x):
    """Divides vectors by their norm, with a finite gradient for a vector of zeros."""
    squared = ops.sum(ops.square(x), axis=-1, keepdims=True)
    return x * ops.rsqrt(ops.maximum(squared, 1e-24))


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
            x = _normalize(x) if layer is None else layer(x)
        return x

    def output_dim(self, hidden_dim: int) -> int:
        """Returns the size E of the embeddings of token vectors of size `hidden_dim`."""
        units = [step["units"] for step in self.steps if "units" in step]
        return units[-1] if units else len(self.pooling) * hidden_dim

    def compute_output_shape(self, x_shape: Shape, token_mask_shape: Shape | None = None) -> Shape:
        return (x_shape[0], self.output_dim(x_shape[-1]))

    def get_config(self) -> dict[str, Any]:
        own = {"pooling": self.pooling, "steps": self.steps, "seed": self.seed}
        return {**super().get_config(), **own}


@keras.saving.register_keras_serializable(package="keras_attn")
class TextEmbedder(TaskModel, keras.Model):
    """A backbone with an `EmbeddingHead`; it has no loss.

    Args:
        backbone: A backbone with a `sequence_output`.
        pooling, steps: See `EmbeddingHead`.
        seed: Integer seed of the initial weights; defaults to the backbone's.

    Call arguments:
        inputs: The backbone's dictionary, and optionally
            `pooling_mask` `(B, T)`: 1 for tokens to pool; defaults to `padding_mask`.
        training: Whether dropout is applied.

    Returns:
        The backbone's dictionary and `embedding` `(B, E)`, float32.
    """

    OWN_INPUTS = {"pooling_mask": "BT"}

    def __init__(
        self,
        backbone: keras.Model,
        pooling: Sequence[str] = ("mean",),
        steps: Sequence[Mapping[str, Any]] = (),
        seed: int | None = None,
        name: str | None = "text_embedder",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, seed, name=name, **kwargs)
        self.embedding_head = EmbeddingHead(pooling, steps, self.head_seed, name="embedding_head")

    @classmethod
    def head_names(cls, steps: Sequence[Mapping[str, Any]] = (), **heads: Any) -> list[str]:
        return ["embedding_head"] if any("units" in step for step in steps) else []

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        backbone = self.build_backbone()
        self.embedding_head.build((None, None, backbone.hidden_dim))
        self.built = True

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        outputs = self.backbone(self.backbone.select_inputs(inputs), training=training)
        mask = inputs.get("pooling_mask", inputs.get("padding_mask"))
        if mask is None:
            mask = ops.ones_like(inputs["token_ids"])
        return {**outputs, "embedding": self.embedding_head(outputs["sequence_output"], mask)}

    def get_config(self) -> dict[str, Any]:
        head = self.embedding_head
        return {**super().get_config(), "pooling": head.pooling, "steps": head.steps}
