"""ELECTRA with its generator and the pretraining heads."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.models.bert.pretrainer import BertPretrainer
from keras_attn.models.electra.encoder import ElectraEncoder
from keras_attn.models.electra.replacement import (
    gumbel_noise,
    put_tokens,
    row_shifts,
    sample_tokens,
)
from keras_attn.models.task import TaskModel, mask_weights
from keras_attn.ops.arguments import require_not_negative, require_probabilities
from keras_attn.types import Shape, Tensor


def generator_arguments(architecture: Mapping[str, Any], fraction: float) -> dict[str, Any]:
    """Returns the arguments of the `ElectraEncoder` that generates replacements.

    It has as many layers as the discriminator and its embeddings; hidden size, feed-forward size
    and number of heads are a fraction of those of the discriminator.

    Args:
        architecture: Arguments of the discriminator.
        fraction: Fraction of the size, in (0, 1].
    """
    hidden_dim, num_heads = architecture["hidden_dim"], architecture["num_heads"]
    wanted = fraction * hidden_dim
    heads = max(1, int(wanted * num_heads / hidden_dim))
    hidden = heads * max(1, round(wanted / heads))
    embedding_dim = architecture.get("embedding_dim") or hidden_dim
    inner = architecture.get("intermediate_dim") or 4 * hidden_dim
    return {
        **architecture,
        "hidden_dim": hidden,
        "num_heads": heads,
        "embedding_dim": embedding_dim,
        "intermediate_dim": max(1, round(fraction * inner)),
    }


class _Generator(ElectraEncoder):
    """An encoder with the token, position and segment embeddings of another one."""

    def __init__(self, other, **kwargs):
        super().__init__(**kwargs)
        self._other = lambda: other  # a function, so that Keras does not track it here

    def build_embeddings(self, token_seed, position_seed, segment_seed):
        pass

    @property
    def token_embedding(self):
        return self._other().token_embedding

    @property
    def segment_embedding(self):
        return self._other().segment_embedding

    @property
    def position_embedding(self):
        return self._other().position_embedding


@keras.saving.register_keras_serializable(package="keras_attn")
class ElectraPretrainer(TaskModel, keras.Model):
    """ELECTRA with replaced-token detection: the discriminator is the backbone.

    A generator, a small masked language model, predicts the masked tokens. Each masked token is
    replaced by a sample from its prediction, by the Gumbel-max trick and without gradient. The
    discriminator predicts for every token whether it was replaced; where the sample is the original
    token, it was not. Both are trained together and share token, position and segment embeddings:

        `loss = mlm + discriminator_weight * rtd`

    In training, samples depend on the seed of the step. Otherwise they depend on the row alone, so
    that evaluation does not depend on batches or devices.

    Args:
        backbone: `ElectraEncoder`, the discriminator.
        generator_fraction: Size of the generator as a fraction of the discriminator's, in (0, 1]:
            of the hidden size, feed-forward size and number of heads. None: no generator, as in the
            released discriminators.
        discriminator_weight: Weight of the loss of the discriminator.
        temperature: Divisor of the generator's logits before sampling; 0: the most probable token.
        seed: Integer seed of the initial weights and of the samples; defaults to the backbone's.

    Call arguments:
        inputs: The backbone's dictionary and
            `mask_positions` `(B, P)`, optional; without it there are no `mlm_logits`.
            For losses and metrics also
            `mask_ids` `(B, P)`, the original tokens;
            `mask_weights` `(B, P)`, 0 for unused slots, which are not replaced;
            `sample_weight` `(B,)`, optional, or `(B, E)`, which `mask_weights` must already
                include.
        training: Whether dropout is applied.

    Returns:
        The backbone's dictionary and, in float32, `rtd_logits` `(B, T)`, positive where a token was
        replaced; with `mask_positions` the generator's `mlm_logits` `(B, P, V)`; with `mask_ids`
        also `mlm_errors` and `mlm_hits` `(B, P)`, see `BertPretrainer`, and `rtd_labels` `(B, T)`,
        1 for replaced tokens. Without `mask_ids` the discriminator reads `token_ids` unchanged.

    `fit` requires a dataset of such dictionaries. Losses `mlm` and `rtd`, which is scaled by
    `discriminator_weight`; metrics `mlm_accuracy`, `rtd_cross_entropy`, which is not scaled, and
    `rtd_accuracy` per token, `rtd_precision` and `rtd_recall` of replaced tokens, and `rtd_auc`: of
    all pairs of a replaced and an original token of a row, the fraction in which the replaced one
    has the larger logit, the area under the ROC curve.

    Reference:
        Clark et al., ELECTRA, 2020, section 2 and appendix A.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import ElectraEncoder, ElectraPretrainer
        >>> model = ElectraPretrainer(ElectraEncoder.from_size("mini", vocabulary_size=50, seed=0))
        >>> found = model({"token_ids": np.array([[4, 7, 9]]), "mask_positions": np.array([[1]])})
        >>> print(found["mlm_logits"].shape, found["rtd_logits"].shape)
        (1, 1, 50) (1, 3)
        >>> print(model.generator.backbone.hidden_dim, model.backbone.hidden_dim)
        64 256
    """

    BACKBONE_ATTRIBUTES = ("embedding_dim", "activation", "layer_norm_epsilon", "initializer_range")
    OWN_INPUTS = {"mask_positions": "BP"}
    SAME_BATCH = ("mask_positions",)
    OUTPUT_BIAS = "mlm_bias"  # weight that may start from log frequencies of tokens
    # Paths of the weights of the backbone that the generator shares.
    SHARED = ("token_embedding", "segment_embedding", "position_embedding/embeddings")
    GENERATOR_TASK = "masked_lm"
    generator_arguments = staticmethod(generator_arguments)

    def __init__(
        self,
        backbone: ElectraEncoder,
        generator_fraction: float | None = 0.25,
        discriminator_weight: float = 50.0,
        temperature: float = 1.0,
        seed: int | None = None,
        name: str | None = "electra_pretrainer",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, seed, name=name, **kwargs)
        require_probabilities(optional=True, generator_fraction=generator_fraction)
        require_not_negative(discriminator_weight=discriminator_weight, temperature=temperature)
        if generator_fraction == 0:
            raise ValueError(
                "ElectraPretrainer: generator_fraction must be above 0, or None for a "
                f"discriminator alone. Received: generator_fraction={generator_fraction}"
            )
        self.generator_fraction = generator_fraction
        self.discriminator_weight = discriminator_weight
        self.temperature = temperature
        self.generator: BertPretrainer | None = None

    @classmethod
    def head_names(cls, generator_fraction: float | None = 0.25, **heads: Any) -> list[str]:
        generator = [] if generator_fraction is None else ["generator"]
        return [*generator, "rtd_dense", "rtd_output"]

    @property
    def remat(self) -> bool:
        return self.backbone.remat

    @remat.setter
    def remat(self, value: bool) -> None:
        for model in (self.backbone, self.generator):
            if model is not None:
                model.remat = value

    @property
    def mlm_bias(self) -> keras.Variable:
        """Output bias of the generator."""
        assert self.generator is not None
        return self.generator.mlm_bias

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        backbone = self.build_backbone()
        dense_seed, output_seed, encoder_seed, head_seed, sample_seed = split_seed(
            self.head_seed, 5, stream=1
        )
        if self.generator_fraction is not None:
            generator = self._make_generator(backbone, encoder_seed, head_seed)
            generator.remat = backbone.remat
            generator.build()
            self.generator = generator
            self.seed_generator = keras.random.SeedGenerator(sample_seed, name="sampling")
        initializer = keras.initializers.TruncatedNormal(stddev=backbone.initializer_range)
        self.rtd_dense = keras.layers.Dense(
            backbone.hidden_dim,
            activation=backbone.activation,
            kernel_initializer=seeded_initializer(initializer, dense_seed),
            dtype=self.dtype_policy,
            name="rtd_dense",
        )
        self.rtd_dense.build((None, None, backbone.hidden_dim))
        # In float32 for any policy, like the loss.
        self.rtd_output = keras.layers.Dense(
            1,
            kernel_initializer=seeded_initializer(initializer, output_seed),
            dtype="float32",
            name="rtd_output",
        )
        self.rtd_output.build((None, None, backbone.hidden_dim))
        self.built = True

    def _make_generator(self, backbone, encoder_seed, head_seed):
        policy, fixed = self.dtype_policy, keras.Model().get_config().keys() | {"name", "seed"}
        config = {name: x for name, x in backbone.get_config().items() if name not in fixed}
        arguments = generator_arguments(config, self.generator_fraction)
        return BertPretrainer(
            _Generator(backbone, **arguments, seed=encoder_seed, name=backbone.name, dtype=policy),
            next_sentence=False,
            mlm_activation="gelu_erf",
            seed=head_seed,
            dtype=policy,
            name="generator",
        )

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        given = self.backbone.select_inputs(inputs)
        if self.generator is not None and "mask_positions" in inputs:
            names = [*self.generator.INPUTS, "mask_ids"]
            generated = self.generator(
                {name: inputs[name] for name in names if name in inputs}, training=training
            )
            found = {name: x for name, x in generated.items() if name.startswith("mlm_")}
            if "mask_ids" in inputs:
                ids, found["rtd_labels"] = self._replace(inputs, found["mlm_logits"], training)
                given["token_ids"] = ids
        outputs = self.backbone(given, training=training)
        logits = self.rtd_output(self.rtd_dense(outputs["sequence_output"]))
        return {**outputs, **found, "rtd_logits": ops.squeeze(logits, -1)}

    def _replace(self, inputs, logits, training):
        """Returns the tokens with samples in place of masked ones, and where they differ."""
        positions, ids = inputs["mask_positions"], inputs["mask_ids"]
        used = ops.ones_like(positions) if "mask_weights" not in inputs else inputs["mask_weights"]
        used = ops.cast(used, "float32") > 0
        shape = ops.shape(positions)
        logits = ops.stop_gradient(ops.reshape(logits, (-1, self.backbone.vocabulary_size)))
        if self.temperature:
            noise = self._noise(inputs, ops.shape(logits), training)
            tokens = sample_tokens(logits, noise, self.temperature)
        else:
            tokens = ops.argmax(logits, axis=-1)
        original = put_tokens(inputs["token_ids"], positions, ids, used)
        replaced = put_tokens(original, positions, ops.reshape(tokens, shape), used)
        return replaced, ops.cast(ops.not_equal(replaced, original), "float32")

    def _noise(self, inputs, shape, training):
        """Returns Gumbel noise `(B P, V)`."""
        if training:
            return gumbel_noise(keras.random.uniform(shape, seed=self.seed_generator))
        size = self.backbone.vocabulary_size
        table = gumbel_noise(keras.random.uniform((size,), seed=0))
        shifts = row_shifts(
            inputs["token_ids"], inputs.get("padding_mask"), inputs["mask_positions"], size
        )
        columns = ops.arange(size, dtype="int32") + ops.reshape(shifts, (-1, 1))
        return ops.take(table, columns % size, axis=0)

    @property
    def metric_names(self) -> list[str]:
        metrics = ("cross_entropy", "accuracy", "precision", "recall", "auc")
        return ["mlm_loss", "rtd_loss", "mlm_accuracy", *(f"rtd_{name}" for name in metrics)]

    def loss_weights(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"mlm": ops.sum(mask_weights(batch)), "rtd": ops.sum(_token_weights(batch))}

    def loss_errors(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        return {
            "mlm": ops.sum(outputs["mlm_errors"] * mask_weights(batch)),
            "rtd": self.discriminator_weight * _rtd_error(outputs, batch),
        }

    def metric_sums(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, tuple[Tensor, Tensor]]:
        masked, weights = mask_weights(batch), _token_weights(batch)
        labels = outputs["rtd_labels"]
        predicted = ops.cast(outputs["rtd_logits"] > 0, "float32")
        right = ops.cast(ops.equal(predicted, labels), "float32")
        found = ops.sum(weights * predicted * labels)
        return {
            "mlm_accuracy": (ops.sum(outputs["mlm_hits"] * masked), ops.sum(masked)),
            "rtd_cross_entropy": (_rtd_error(outputs, batch), ops.sum(weights)),
            "rtd_accuracy": (ops.sum(weights * right), ops.sum(weights)),
            "rtd_precision": (found, ops.sum(weights * predicted)),
            "rtd_recall": (found, ops.sum(weights * labels)),
            "rtd_auc": _ranked_pairs(outputs, batch),
        }

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "generator_fraction": self.generator_fraction,
            "discriminator_weight": self.discriminator_weight,
            "temperature": self.temperature,
        }


def _rtd_error(outputs, batch):
    """Returns the sum of the binary cross-entropy over real tokens."""
    errors = ops.binary_crossentropy(outputs["rtd_labels"], outputs["rtd_logits"], from_logits=True)
    return ops.sum(errors * _token_weights(batch))


def _ranked_pairs(outputs, batch):
    """Returns the pairs of a replaced and an original token in the right order, and all pairs.

    Both tokens are of one example. Equal logits count half.
    """
    logits, labels = outputs["rtd_logits"], outputs["rtd_labels"]
    positions = ops.cast(batch["mask_positions"], "int32")

    def at_masks(values):
        return ops.expand_dims(ops.take_along_axis(values, positions, axis=1), 2)

    weights = ops.expand_dims(mask_weights(batch), 2) * at_masks(labels)
    real = _token_weights({name: x for name, x in batch.items() if name != "sample_weight"})
    weights = weights * ops.expand_dims(real * (1 - labels), 1)  # (B, P, T)
    if "pack_ids" in batch:
        same = ops.equal(at_masks(batch["pack_ids"]), ops.expand_dims(batch["pack_ids"], 1))
        weights = weights * ops.cast(same, "float32")
    order = ops.sign(at_masks(logits) - ops.expand_dims(logits, 1))
    return ops.sum(weights * (1 + order)) / 2, ops.sum(weights)


def _token_weights(batch):
    """Returns the weight of each token, float32 `(B, T)`; 0 for padding."""
    padding, rows = batch.get("padding_mask"), batch.get("sample_weight")
    weights = ops.cast(ops.ones_like(batch["token_ids"]) if padding is None else padding, "float32")
    if rows is None or len(rows.shape) == 2:
        return weights
    return weights * ops.expand_dims(ops.cast(rows, "float32"), 1)
