"""GPT-2 as a causal language model."""

from typing import Any

import keras
from keras import ops

from keras_attn.models.building import needs_weights
from keras_attn.models.gpt2.decoder import GPT2
from keras_attn.models.shared_cache import make_writers, take_writers, write_step
from keras_attn.models.task import TaskModel
from keras_attn.ops.cross_entropy import vocabulary_losses
from keras_attn.types import Nest, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class GPT2LanguageModel(TaskModel, keras.Model):
    """GPT-2 with a causal language model head, which shares the token embeddings.

    Args:
        backbone: `GPT2`.
        seed: Unused, as the head has no weights of its own.

    Call arguments:
        inputs: The backbone's dictionary and for losses and metrics also
            `label` `(B, T)`, optional: the next token of each position. By default, the following
                token of the row; then the last position of a row or pack and positions before
                padding are excluded from the loss.
            `sample_weight` `(B,)` or `(B, T)`, optional.
        training: Whether dropout is applied.

    Returns:
        The backbone's dictionary and `logits` `(B, T, V)` in float32; `errors` and `hits` `(B, T)`
        for the labels: the cross-entropy, and 1 where no logit exceeds the label's.

    `fit` requires a dataset of such dictionaries. Loss `token`; metric `token_accuracy`.

    Reference:
        Radford et al., Language Models are Unsupervised Multitask Learners, 2019, eq. 1.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import GPT2, GPT2LanguageModel
        >>> model = GPT2LanguageModel(GPT2.from_size("tiny", vocabulary_size=50, seed=0))
        >>> whole, beginning = (np.array(model({"token_ids": np.array([ids])})["logits"])
        ...                     for ids in ([4, 7, 9], [4, 7]))
        >>> print(whole.shape, np.abs(whole[:, :2] - beginning).max().round(4))  # none sees ahead
        (1, 3, 50) 0.0
    """

    metric_names = ("token_loss", "token_accuracy")

    def __init__(
        self,
        backbone: GPT2,
        seed: int | None = None,
        name: str | None = "gpt2_language_model",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, seed, name=name, **kwargs)

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        self.build_backbone()
        self.built = True

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        outputs = self.backbone(self.backbone.select_inputs(inputs), training=training)
        hidden = outputs["sequence_output"]
        logits = ops.cast(self.backbone.token_products(hidden), "float32")
        labels, shape = self._labels(inputs), ops.shape(inputs["token_ids"])
        errors, found, _ = vocabulary_losses(
            ops.reshape(labels, (-1,)),
            ops.reshape(hidden, (-1, self.backbone.hidden_dim)),
            ops.cast(self.backbone.token_embedding, hidden.dtype),
            None,
            ops.reshape(logits, (-1, self.backbone.vocabulary_size)),
        )
        return {
            **outputs,
            "logits": logits,
            "errors": ops.reshape(errors, shape),
            "hits": ops.reshape(found, shape),
        }

    @needs_weights
    def make_cache(self, batch_size: int, length: int) -> list[tuple[Tensor, Tensor]]:
        """See `GPT2.make_cache`."""
        return self.backbone.make_cache(batch_size, length)

    @needs_weights
    def decode(
        self,
        token_ids: Tensor,
        index: Tensor | int,
        cache: list[tuple[Tensor, Tensor]],
        padding_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        logits_kernel: Tensor | None = None,
    ) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
        """Like `GPT2.decode`, but returns the logits `(B, V)` after the last token.

        `logits_kernel` is the result of the backbone's method for this number of rows; computing it
        once pays off for many steps.
        """
        hidden, cache = self.backbone.decode(token_ids, index, cache, padding_mask, position_ids)
        products = self.backbone.token_products(hidden[:, -1], logits_kernel)
        return ops.cast(products, "float32"), cache

    def share_cache(
        self, cache: list[tuple[Tensor, Tensor]], beams: int, length: int
    ) -> dict[str, Nest]:
        """Converts the cache of a prompt to a cache of K hypotheses that continue the prompt.

        Args:
            cache: As returned by `decode`, with K `length` entries after those of the prompt.
            beams: K.
            length: Maximum number of tokens of a hypothesis.

        Returns:
            The cache for `decode_beams`; `beam_search` reorders it with `reorder_cache`.
        """
        batch = ops.shape(cache[0][0])[0]
        return {"layers": cache, "writers": make_writers(batch, beams, length)}

    def reorder_cache(self, cache: dict[str, Nest], hypotheses: Tensor) -> dict[str, Nest]:
        """Selects the cache of the parent of each hypothesis, for `beam_search`.

        Args:
            cache: As returned by `share_cache` or `decode_beams`.
            hypotheses: Integers `(B K,)`, the index of the parent of each hypothesis.
        """
        return {**cache, "writers": take_writers(cache["writers"], hypotheses)}

    @needs_weights
    def decode_beams(
        self,
        token_ids: Tensor,
        index: Tensor | int,
        cache: dict[str, Nest],
        padding_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        logits_kernel: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Nest]]:
        """Like `decode`, for one token of each hypothesis.

        Args:
            token_ids: Integers `(B K,)`.
            index: Integer scalar, the step.
            cache: As returned by `share_cache` or the previous call.
            padding_mask: Integers `(B, P)`, 0 for padding of the prompt. None: no padding.
            position_ids: Integers `(B,)`; defaults to `P + index`.
            logits_kernel: See `decode`.

        Returns:
            (logits `(B K, V)`, cache).
        """
        writers, visible = write_step(cache["writers"], index)
        batch, beams, length = ops.shape(writers)
        prompt = cache["layers"][0][0].shape[2] - beams * length
        if padding_mask is not None:
            padding_mask = ops.concatenate(
                [padding_mask, ops.ones((batch, beams * length), padding_mask.dtype)], axis=1
            )
        if visible is not None:
            visible = ops.concatenate([ops.ones((batch, beams, prompt), "bool"), visible], axis=2)
        places = (
            ops.zeros((batch,), "int32") + prompt + index
            if position_ids is None
            else (position_ids)
        )
        hidden, layers = self.backbone.decode(
            ops.reshape(token_ids, (batch, beams)),
            prompt + index * beams,
            cache["layers"],
            padding_mask,
            ops.repeat(places[:, None], beams, axis=1),
            visible,
        )
        hidden = ops.reshape(hidden, (-1, hidden.shape[-1]))
        products = self.backbone.token_products(hidden, logits_kernel)
        return ops.cast(products, "float32"), {"layers": layers, "writers": writers}

    def _labels(self, batch):
        if "label" in batch:
            return ops.cast(batch["label"], "int32")
        # The last position has no next token; its weight is 0.
        return ops.roll(ops.cast(batch["token_ids"], "int32"), -1, axis=1)

    def _weights(self, batch):
        weights = ops.ones(ops.shape(batch["token_ids"]), "float32")
        if "padding_mask" in batch:
            weights = weights * ops.cast(batch["padding_mask"], "float32")
        if "label" not in batch:
            known = ops.cast(
                ops.arange(ops.shape(weights)[1]) < ops.shape(weights)[1] - 1, "float32"
            )
            weights = weights * known * ops.roll(weights, -1, axis=1)
            if "pack_ids" in batch:
                packs = ops.convert_to_tensor(batch["pack_ids"])
                weights = weights * ops.cast(packs == ops.roll(packs, -1, axis=1), "float32")
        if "sample_weight" in batch:
            rows = ops.cast(batch["sample_weight"], "float32")
            weights = weights * (rows[:, None] if len(rows.shape) == 1 else rows)
        return weights

    def loss_weights(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"token": ops.sum(self._weights(batch))}

    def loss_errors(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        return {"token": ops.sum(outputs["errors"] * self._weights(batch))}

    def metric_sums(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, tuple[Tensor, Tensor]]:
        weights = self._weights(batch)
        return {"token_accuracy": (ops.sum(outputs["hits"] * weights), ops.sum(weights))}
