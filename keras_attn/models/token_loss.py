"""Loss of models that predict the tokens of a target sequence."""

from keras import ops

from keras_attn.models.task import Losses, label_weights
from keras_attn.ops import sparse_cross_entropy
from keras_attn.ops.cross_entropy import hits
from keras_attn.types import Tensor


class TokenLoss(Losses):
    """Token-level cross-entropy and metrics; a mixin that precedes `keras.Model` in the bases.

    A model has an attribute `label_smoothing`. Its outputs contain either only `logits`
    `(B, T, V)`, or also the results of `vocabulary_losses` for the `label` `(B, T)`: `errors`,
    `hits` and `log_losses` `(B, T)`.
    """

    metric_names = ("token_loss", "token_accuracy", "log_perplexity")

    def loss_weights(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"token": ops.sum(label_weights(batch, batch["label"]))}

    def loss_errors(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        errors = (
            outputs["errors"]
            if "errors" in outputs
            else sparse_cross_entropy(batch["label"], outputs["logits"], self.label_smoothing)
        )
        return {"token": self._sum(batch, errors)}

    def metric_sums(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, tuple[Tensor, Tensor]]:
        weight = self.loss_weights(batch)["token"]
        if "errors" in outputs:
            correct, losses = outputs["hits"], outputs["log_losses"]
        else:
            correct = hits(batch["label"], outputs["logits"])
            losses = sparse_cross_entropy(batch["label"], outputs["logits"])
        return {
            "token_accuracy": (self._sum(batch, correct), weight),
            "log_perplexity": (self._sum(batch, losses), weight),
        }

    def _sum(self, batch, values):
        return ops.sum(label_weights(batch, batch["label"]) * values)
