"""XLNet as a permutation language model."""

from typing import Any

import keras
from keras import ops

from keras_attn.models.declared_inputs import require_entries
from keras_attn.models.task import TaskModel, mask_weights
from keras_attn.models.xlnet.decoding import XLNetDecoding
from keras_attn.models.xlnet.encoder import XLNet
from keras_attn.ops.cross_entropy import vocabulary_losses
from keras_attn.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class XLNetPretrainer(XLNetDecoding, TaskModel, keras.Model):
    """XLNet with a permutation language model head, which shares the token embeddings.

    Unlike in section 2.4 of the paper, training recomputes the memory of each row from the M
    preceding tokens, instead of keeping the memory of the previous row. So rows may be in any
    order, and a run can be resumed from its step alone. In return, the context is limited to M
    tokens, instead of one additional segment per layer, and `reuse_length` has no effect.

    Args:
        backbone: `XLNet`.
        seed: Unused, as the only weight of the head is initialized to 0.

    Call arguments:
        inputs: The backbone's dictionary with
            `mask_positions` `(B, K)`, the positions to predict; for losses and metrics also
            `mask_ids` `(B, K)`, the original tokens;
            `mask_weights` `(B, K)`, 0 for unused slots;
            `sample_weight` `(B,)`, optional.
            Instead of the memory, `memory_ids` and `memory_mask` `(B, M)`: the preceding tokens,
                all of which are used regardless of the backbone's `memory_length`.
        training: Whether dropout is applied.

    Returns:
        The backbone's dictionary, and with `mask_positions` `logits` `(B, K, V)` in float32; with
        `mask_ids` `errors` and `hits` `(B, K)`: the cross-entropy, and 1 where no logit exceeds the
        label's.

    `fit` requires a dataset of such dictionaries. Loss `plm`; metric `plm_accuracy`.

    `decode` predicts tokens from left to right, for the functions of `keras_attn.generation`.

    Reference:
        Yang et al., XLNet, 2019, eq. 4-5.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.models import XLNet, XLNetPretrainer
        >>> model = XLNetPretrainer(XLNet.from_size("tiny", vocabulary_size=50, seed=0))
        >>> found = model({"token_ids": np.array([[4, 7, 9]]), "mask_positions": np.array([[2]]),
        ...                "permutation_ranks": np.array([[-1, -1, 0]])})
        >>> p = np.array(ops.softmax(found["logits"]))
        >>> print((-np.sum(p * np.log(p), axis=-1)).round(1))  # log 50: it has learnt nothing yet
        [[3.9]]
    """

    BACKBONE_ATTRIBUTES = ("token_products", "make_memory")
    OWN_INPUTS = {"memory_ids": "BM", "memory_mask": "BM"}
    SAME_BATCH = ("mask_positions",)
    metric_names = ("plm_loss", "plm_accuracy")

    def __init__(
        self,
        backbone: XLNet,
        seed: int | None = None,
        name: str | None = "xlnet_pretrainer",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, seed, name=name, **kwargs)

    @classmethod
    def head_names(cls, **heads: Any) -> list[str]:
        return ["output_bias"]

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        backbone = self.build_backbone()
        self.output_bias = self.add_weight(
            name="output_bias",
            shape=(backbone.vocabulary_size,),
            initializer="zeros",
            autocast=False,
        )
        self.built = True

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        given = self.backbone.select_inputs(inputs)
        if "memory_ids" in inputs:
            require_entries(self, inputs, ["memory_mask"])
            before = {"token_ids": inputs["memory_ids"], "padding_mask": inputs["memory_mask"]}
            if "reversed_rows" in inputs:  # the memory is in reverse order, too
                before["reversed_rows"] = inputs["reversed_rows"]
            given["memory"] = self.backbone.make_memory(before, training)
        outputs = self.backbone(given, training=training)
        if "mask_positions" not in inputs:
            return outputs
        shape, rows = ops.shape(inputs["mask_positions"]), (-1, self.backbone.vocabulary_size)
        hidden = ops.reshape(outputs["query_output"], (-1, self.backbone.hidden_dim))
        bias = ops.cast(self.output_bias, "float32")
        logits = self.token_logits(hidden)
        outputs["logits"] = ops.reshape(logits, (*shape, rows[1]))
        if "mask_ids" in inputs:
            errors, found, _ = vocabulary_losses(
                ops.reshape(inputs["mask_ids"], (-1,)),
                hidden,
                ops.cast(self.backbone.token_embedding, hidden.dtype),
                bias,
                logits,
            )
            outputs["errors"] = ops.reshape(errors, shape)
            outputs["hits"] = ops.reshape(found, shape)
        return outputs

    def token_logits(self, hidden: Tensor, kernel: Tensor | None = None) -> Tensor:
        """Returns logits `(..., V)` in float32.

        Args:
            hidden: Vectors of the query stream, `(..., D)`.
            kernel: Result of the backbone's `logits_kernel`, if available.
        """
        products = self.backbone.token_products(hidden, kernel)
        return ops.cast(products, "float32") + ops.cast(self.output_bias, "float32")

    def loss_weights(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"plm": ops.sum(mask_weights(batch))}

    def loss_errors(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        return {"plm": ops.sum(outputs["errors"] * mask_weights(batch))}

    def metric_sums(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, tuple[Tensor, Tensor]]:
        weights = mask_weights(batch)
        return {"plm_accuracy": (ops.sum(outputs["hits"] * weights), ops.sum(weights))}
