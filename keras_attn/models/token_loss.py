"""The loss of models that predict the tokens of a target."""

from keras import ops

from keras_attn.models.task import Losses, label_weights
from keras_attn.ops import sparse_cross_entropy
from keras_attn.ops.cross_entropy import hits


class TokenLoss(Losses):
    """Cross-entropy and metrics of each token.

    A mixin before `keras.Model`. A model has `label_smoothing`, and returns `logits` `(B, T, V)`
    for the `label` `(B, T)`.
    """

    INPUTS = ("token_ids", "padding_mask", "target_ids")
    metric_names = ("token_loss", "token_accuracy", "log_perplexity")

    def loss_weights(self, batch):
        return {"token": ops.sum(label_weights(batch, batch["label"]))}

    def loss_errors(self, outputs, batch):
        return {"token": self._sum(batch, sparse_cross_entropy(
            batch["label"], outputs["logits"], self.label_smoothing))}

    def metric_sums(self, outputs, batch):
        weight = self.loss_weights(batch)["token"]
        found = {"token_accuracy": hits(batch["label"], outputs["logits"]),
                 "log_perplexity": sparse_cross_entropy(batch["label"], outputs["logits"])}
        return {name: (self._sum(batch, values), weight) for name, values in found.items()}

    def _sum(self, batch, values):
        return ops.sum(label_weights(batch, batch["label"]) * values)
