"""Loss of models with one label per row."""

from keras import ops

from keras_attn.models.task import Losses, label_weights
from keras_attn.ops import sparse_cross_entropy
from keras_attn.ops.cross_entropy import hits
from keras_attn.types import Tensor


class LabelLoss(Losses):
    """Cross-entropy of `label` `(B,)` and the output `logits` `(B, C)`; a mixin like `Losses`."""

    metric_names = ("label_loss", "accuracy")

    def loss_weights(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"label": ops.sum(label_weights(batch, batch["label"]))}

    def loss_errors(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        return {"label": _sum(batch, sparse_cross_entropy(batch["label"], outputs["logits"]))}

    def metric_sums(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, tuple[Tensor, Tensor]]:
        weight = self.loss_weights(batch)["label"]
        return {"accuracy": (_sum(batch, hits(batch["label"], outputs["logits"])), weight)}


def _sum(batch, values):
    return ops.sum(label_weights(batch, batch["label"]) * values)
