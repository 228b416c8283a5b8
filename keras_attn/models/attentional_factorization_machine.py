"""Factorization machines with optional attention over pairs of features."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.attentional_interaction import AttentionalInteraction
from keras_attn.layers.seeds import drop, dropout_generator, seeded_initializer, split_seed
from keras_attn.models.task import Losses, label_weights
from keras_attn.ops.arguments import require_not_negative, require_rates, require_sizes
from keras_attn.ops.masks import as_mask
from keras_attn.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class AttentionalFactorizationMachine(Losses, keras.Model):
    """Regression on sparse features and their pairwise interactions.

    `y = w_0 + sum_i w_i x_i + p^T sum_{i<j} a_ij (v_i * v_j) x_i x_j`. Without attention (a and p
    are 1), it is a factorization machine.

    Args:
        num_features: Number of features, the rows of v and w.
        num_fields: Number of features F per example, including absent ones.
        embedding_dim: Size of the factors v.
        attention_units: See `AttentionalInteraction`.
        attention: Whether to use a and p.
        attention_l2: Factor of the L2 penalty on the attention's W in the loss.
        attention_dropout: Dropout rate of the attention weights a.
        dropout: Dropout rate of the weighted sum of pairs.
        seed: Integer seed of the initial weights and of dropout.

    Call arguments:
        inputs: Dictionary.
            `feature_ids`: Integers `(B, F)`.
            `feature_values`: Floats x `(B, F)`, optional; defaults to 1.
            `padding_mask`: Integers `(B, F)`, optional; 0 for absent features.
            For the loss also `label`, floats `(B,)` or `(B, 1)`; `sample_weight` of the same shape,
                optional.
        training: Whether dropout is applied.

    Returns:
        Dictionary of `logits`, y, float32 `(B, 1)`; with attention also the weights `attention`
        `(B, F (F - 1) / 2)` of the pairs (0, 1), (0, 2), …

    `fit` requires a dataset of such dictionaries. Loss `label`: squared error.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        Xiao et al., Attentional Factorization Machines, 2017, eq. 6; Rendle, Factorization
        Machines, 2010, eq. 1 and lemma 3.1.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import AttentionalFactorizationMachine
        >>> model = AttentionalFactorizationMachine(num_features=9, num_fields=3, embedding_dim=4)
        >>> found = model({"feature_ids": np.array([[1, 4, 7]]),
        ...                "padding_mask": np.array([[1, 1, 0]])})
        >>> print(np.array(found["attention"]))  # of the pairs (0, 1), (0, 2), (1, 2)
        [[1. 0. 0.]]
    """

    INPUTS = dict.fromkeys(("feature_ids", "feature_values", "padding_mask"), "BF")
    REQUIRED = ("feature_ids",)
    metric_names = ("label_loss",)

    def __init__(
        self,
        num_features: int,
        num_fields: int,
        embedding_dim: int = 256,
        attention_units: int = 8,
        attention: bool = True,
        attention_l2: float = 0.0,
        attention_dropout: float = 0.0,
        dropout: float = 0.0,
        seed: int | None = None,
        name: str | None = "attentional_factorization_machine",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.sizes = {
            "num_features": num_features,
            "num_fields": num_fields,
            "embedding_dim": embedding_dim,
            "attention_units": attention_units,
        }
        require_sizes(**self.sizes)
        if num_fields < 2:
            raise ValueError(
                "AttentionalFactorizationMachine: num_fields must be at least 2. "
                f"Received: num_fields={num_fields}"
            )
        self.rates = {"attention_dropout": attention_dropout, "dropout": dropout}
        require_rates(**self.rates)
        require_not_negative(attention_l2=attention_l2)
        self.has_attention = attention
        self.attention_l2 = attention_l2
        self.seed = seed

    def input_spec_of(self, name: str) -> keras.InputSpec:
        dtype = "float32" if name == "feature_values" else "int32"
        return keras.InputSpec(shape=(None, self.sizes["num_fields"]), dtype=dtype, name=name)

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        rows, depth = self.sizes["num_features"], self.sizes["embedding_dim"]
        embedding_seed, weight_seed, attention_seed, dropout_seed = split_seed(self.seed, 4)
        normal = keras.initializers.RandomNormal(stddev=0.01)
        self.embedding, self.weight = (
            self.add_weight(
                name=name,
                shape=(rows, columns),
                autocast=False,
                initializer=seeded_initializer(normal, seed),
            )
            for name, columns, seed in (
                ("embedding", depth, embedding_seed),
                ("weight", 1, weight_seed),
            )
        )
        self.bias = self.add_weight(name="bias", shape=(1,), initializer="zeros", autocast=False)
        self.interaction = None
        if self.has_attention:
            # Products of features and their mean may exceed 65,504, the maximum of float16.
            narrow = self.compute_dtype == "float16"
            self.interaction = AttentionalInteraction(
                self.sizes["attention_units"],
                self.rates["attention_dropout"],
                kernel_regularizer=keras.regularizers.L2(self.attention_l2)
                if self.attention_l2
                else None,
                seed=attention_seed,
                dtype="float32" if narrow else self.dtype_policy,
                name="interaction",
            )
            self.interaction.build((None, self.sizes["num_fields"], depth))
            self.projection = self.add_weight(
                name="projection", shape=(depth, 1), initializer="ones", autocast=False
            )
        self.seed_generator = dropout_generator(self.rates["dropout"], dropout_seed, "dropout")
        self.built = True

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        ids, mask = inputs["feature_ids"], as_mask(inputs.get("padding_mask"), "padding_mask")
        values = inputs.get("feature_values")
        values = ops.cast(1.0 if values is None else values, "float32")
        if mask is not None:
            values = ops.where(mask, values, 0.0)
        # (B, F, D) and (B, F, 1)
        factors, terms = (
            ops.cast(ops.take(table, ids, axis=0), "float32") * values[..., None]
            for table in (self.embedding, self.weight)
        )
        linear, found = ops.cast(self.bias, "float32") + ops.sum(terms, axis=1), {}
        if self.interaction is None:
            # Sum over pairs by lemma 3.1.
            pairs = 0.5 * (
                ops.square(ops.sum(factors, axis=1)) - ops.sum(ops.square(factors), axis=1)
            )
        else:
            pairs, found["attention"] = self.interaction(
                factors, mask=mask, training=training, return_attention_scores=True
            )
        pairs = drop(
            ops.cast(pairs, "float32"), self.rates["dropout"], self.seed_generator, training
        )
        projected = (
            ops.sum(pairs, axis=-1, keepdims=True)
            if self.interaction is None
            else ops.matmul(pairs, ops.cast(self.projection, "float32"))
        )
        return {"logits": linear + projected, **found}

    def loss_weights(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"label": ops.sum(label_weights(batch, batch["label"]))}

    def loss_errors(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        label = ops.reshape(ops.cast(batch["label"], "float32"), (-1,))
        errors = ops.square(outputs["logits"][:, 0] - label)
        return {"label": ops.sum(errors * label_weights(batch, label))}

    def metric_sums(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, tuple[Tensor, Tensor]]:
        return {}

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            **self.sizes,
            **self.rates,
            "attention": self.has_attention,
            "attention_l2": self.attention_l2,
            "seed": self.seed,
        }
