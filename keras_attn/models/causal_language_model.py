"""Base class of causal language models."""

from keras import ops

from keras_attn.models.building import needs_weights
from keras_attn.models.task import TaskModel
from keras_attn.ops.cross_entropy import vocabulary_losses
from keras_attn.types import Nest, Shape, Tensor


class CausalLanguageModel(TaskModel):
    """Mixin of a backbone with a causal language model head; precedes `keras.Model` in the bases.

    The head shares the token embeddings and has no weights of its own. The backbone has
    `token_embedding`, `token_products`, `make_cache` and `decode`.

    A model implements the decoding of `beam_search`: `share_cache`, `reorder_cache` and
    `decode_beams`; see `keras_attn.models.GPT2LanguageModel`.
    """

    BACKBONE_ATTRIBUTES: tuple[str, ...] = ("token_products", "make_cache", "decode")
    metric_names = ("token_loss", "token_accuracy")

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
    def make_cache(self, batch_size: int, length: int) -> Nest:
        """See the `make_cache` of the backbone."""
        return self.backbone.make_cache(batch_size, length)

    @needs_weights
    def decode(
        self,
        token_ids: Tensor,
        index: Tensor | int,
        cache: Nest,
        padding_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        logits_kernel: Tensor | None = None,
    ) -> tuple[Tensor, Nest]:
        """Like the `decode` of the backbone, but returns the logits `(B, V)` after the last token.

        `logits_kernel` is the result of the backbone's method for this number of rows; computing it
        once pays off for many steps.
        """
        hidden, cache = self.backbone.decode(token_ids, index, cache, padding_mask, position_ids)
        products = self.backbone.token_products(hidden[:, -1], logits_kernel)
        return ops.cast(products, "float32"), cache

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
