"""BERT with its pretraining heads."""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_attn.layers.layer_norm import LayerNorm
from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.models.bert.encoder import BertEncoder
from keras_attn.models.task import TaskModel, label_weights, mask_weights
from keras_attn.ops import LinearTeacher, sparse_cross_entropy, take_positions
from keras_attn.ops.activations import get_activation
from keras_attn.ops.arguments import require_positive, require_probabilities
from keras_attn.ops.cross_entropy import hits, vocabulary_losses
from keras_attn.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class BertPretrainer(TaskModel, keras.Model):
    """BERT with its two pretraining tasks.

    Masked language model: a dense layer, activation and norm on the masked positions only, then the
    product with the token embeddings plus a bias. Next-sentence prediction: a dense layer on the
    pooled output; label 0 is the true next segment, 1 a random one.

    Args:
        backbone: `BertEncoder`, or another encoder with its attributes.
        next_sentence: Whether to train next-sentence prediction; requires the backbone's pooler.
        tie_embeddings: Whether the masked LM output shares the token embeddings, as in BERT, or has
            its own embedding matrix.
        mlm_activation: Activation of the masked language model head; defaults to the backbone's.
        logit_cap: None, or the bound c of the logits of the masked language model,
            `c tanh(logits / c)`.
        distillation: Weight of the distillation loss, in [0, 1], in training with a teacher (see
            `set_teacher`); the cross-entropy of the masked tokens has the weight 1 - distillation.
        distillation_temperature: Softmax temperature of the distillation loss.
        seed: Integer seed of the initial weights; defaults to the backbone's.

    Call arguments:
        inputs: The backbone's dictionary and
            `mask_positions` `(B, P)`, optional; without it there are no `mlm_logits`.
            For losses and metrics also
            `mask_ids` `(B, P)`, the original tokens;
            `mask_weights` `(B, P)`, 0 for unused slots;
            `next_sentence_label` `(B,)`, or `(B, E)` with the backbone's `cls_positions`;
            `sample_weight` `(B,)`, optional, or `(B, E)`, which `mask_weights` must already
                include.
        training: Whether dropout is applied.

    Returns:
        The backbone's dictionary and, in float32, `mlm_logits` `(B, P, V)` and `nsp_logits`
        `(B, 2)`, or `(B, E, 2)`; with `mask_ids` also `mlm_errors` and `mlm_hits` `(B, P)`: the
        cross-entropy, and 1 where no logit exceeds the label's. In training with a teacher the
        errors include the distillation loss.

    `fit` requires a dataset of such dictionaries. Losses `mlm`, `nsp`; metrics `mlm_accuracy`,
    `nsp_accuracy`. The distillation loss of a masked token is
    `keras_attn.ops.divergence.softmax_divergence` from the prediction of the teacher.

    Reference:
        Devlin et al., BERT, 2018, section 3.1; Sanh et al., DistilBERT, 2019, section 2;
        `logit_cap`: Gemma Team, Gemma 2, 2024, section 2.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.models import BertEncoder, BertPretrainer
        >>> model = BertPretrainer(BertEncoder.from_size("tiny", vocabulary_size=50, seed=0))
        >>> found = model({"token_ids": np.array([[4, 7, 9]]), "mask_positions": np.array([[1]])})
        >>> print(found["mlm_logits"].shape, found["nsp_logits"].shape)
        (1, 1, 50) (1, 2)
        >>> p = np.array(ops.softmax(found["mlm_logits"]))
        >>> print((-np.sum(p * np.log(p), axis=-1)).round(1))  # log 50: it has learnt nothing yet
        [[3.9]]
    """

    BACKBONE_ATTRIBUTES = ("use_pooler", "activation", "layer_norm_epsilon", "initializer_range")
    OWN_INPUTS = {"mask_positions": "BP"}
    SAME_BATCH = ("mask_positions",)
    OUTPUT_BIAS = "mlm_bias"  # weight that may start from log frequencies of tokens
    SEGMENT_HEAD = "nsp_dense"  # layer that predicts next sentences, or their order

    def __init__(
        self,
        backbone: BertEncoder,
        next_sentence: bool = True,
        tie_embeddings: bool = True,
        mlm_activation: str | None = None,
        distillation: float = 0.0,
        distillation_temperature: float = 2.0,
        seed: int | None = None,
        name: str | None = "bert_pretrainer",
        logit_cap: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, seed, name=name, **kwargs)
        if next_sentence and not backbone.use_pooler:
            raise ValueError(
                "BertPretrainer: next_sentence=True requires a backbone with a pooler. "
                f"Received: next_sentence={next_sentence}, use_pooler={backbone.use_pooler}"
            )
        self.next_sentence = next_sentence
        self.tie_embeddings = tie_embeddings
        require_probabilities(distillation=distillation)
        require_positive(distillation_temperature=distillation_temperature)
        require_positive(optional=True, logit_cap=logit_cap)
        self.mlm_activation = mlm_activation
        self.logit_cap = logit_cap
        self.distillation = distillation
        self.distillation_temperature = distillation_temperature
        self._teacher: Callable[[], BertPretrainer] | None = None

    @classmethod
    def head_names(cls, **heads: Any) -> list[str]:
        names = ["mlm_dense", "mlm_norm", cls.OUTPUT_BIAS]
        names += [] if heads.get("tie_embeddings", True) else ["mlm_embedding"]
        return names + ([cls.SEGMENT_HEAD] if heads.get("next_sentence", True) else [])

    @classmethod
    def uses_pooler(cls, next_sentence: bool = True, **heads: Any) -> bool:
        return next_sentence

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        backbone = self.build_backbone()
        seeds = split_seed(self.head_seed, 3, stream=1)
        initializer = keras.initializers.TruncatedNormal(stddev=backbone.initializer_range)
        # The product with factorized embeddings requires vectors of their size.
        size = getattr(backbone, "embedding_dim", backbone.hidden_dim)
        self.mlm_dense = keras.layers.Dense(
            size,
            activation=backbone.activation
            if self.mlm_activation is None
            else get_activation(self.mlm_activation),
            use_bias=getattr(backbone, "use_bias", True),
            kernel_initializer=seeded_initializer(initializer, seeds[0]),
            dtype=self.dtype_policy,
            name="mlm_dense",
        )
        self.mlm_dense.build((None, backbone.hidden_dim))
        self.mlm_norm = LayerNorm(
            epsilon=backbone.layer_norm_epsilon,
            center=getattr(backbone, "norm_bias", True),
            dtype=self.dtype_policy,
            name="mlm_norm",
        )
        self.mlm_norm.build((None, size))
        self.mlm_bias = self.add_weight(
            name="mlm_bias",
            shape=(backbone.vocabulary_size,),
            initializer="zeros",
            autocast=False,
        )
        self.mlm_embedding = None
        if not self.tie_embeddings:
            self.mlm_embedding = self.add_weight(
                name="mlm_embedding",
                shape=(backbone.vocabulary_size, size),
                initializer=seeded_initializer(initializer, seeds[2]),
                autocast=False,
            )
        self.nsp_dense = None
        if self.next_sentence:
            # In float32 for any policy, like the loss.
            self.nsp_dense = keras.layers.Dense(
                2,
                kernel_initializer=seeded_initializer(initializer, seeds[1]),
                dtype="float32",
                name="nsp_dense",
            )
            self.nsp_dense.build((None, backbone.hidden_dim))
        self.built = True

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        outputs = self.backbone(self.backbone.select_inputs(inputs), training=training)
        if "mask_positions" in inputs:
            hidden, table, bias = self._mlm_projection(
                outputs["sequence_output"], inputs["mask_positions"]
            )
            # (B P, D) x (V, D) -> (B P, V)
            logits = ops.cast(ops.matmul(hidden, ops.transpose(table)), "float32") + bias
            if self.logit_cap is not None:
                logits = self.logit_cap * ops.tanh(logits / self.logit_cap)
            shape = ops.shape(inputs["mask_positions"])
            outputs["mlm_logits"] = ops.reshape(logits, (*shape, self.backbone.vocabulary_size))
            if "mask_ids" in inputs:
                labels = ops.reshape(inputs["mask_ids"], (-1,))
                if self.logit_cap is not None:
                    errors, found = sparse_cross_entropy(labels, logits), hits(labels, logits)
                else:
                    teacher = self._linear_teacher(inputs) if training and self._teacher else None
                    errors, found, _ = vocabulary_losses(
                        labels, hidden, table, bias, logits, teacher=teacher
                    )
                outputs["mlm_errors"] = ops.reshape(errors, shape)
                outputs["mlm_hits"] = ops.reshape(found, shape)
        if self.nsp_dense is not None:
            outputs["nsp_logits"] = self.nsp_dense(outputs["pooled_output"])
        return outputs

    def _mlm_projection(self, hidden, positions):
        """Returns what the logits are computed from: hidden states `(B P, D)`, the output embedding
        matrix `(V, D)` and the bias `(V,)`.
        """
        x = ops.reshape(take_positions(hidden, positions), (-1, self.backbone.hidden_dim))
        x = self.mlm_norm(self.mlm_dense(x))
        tied = self.backbone.token_embedding if self.tie_embeddings else self.mlm_embedding
        return x, ops.cast(tied, x.dtype), ops.cast(self.mlm_bias, "float32")

    def set_teacher(self, teacher: "BertPretrainer") -> None:
        """Sets a pretrained model whose predictions of the masked tokens this one learns.

        It predicts the same masked rows in each training step. It is frozen, and neither trained
        nor saved with this model.

        Args:
            teacher: Built `BertPretrainer` with the same vocabulary.

        Raises:
            ValueError: If the vocabularies differ in size, or a model has a `logit_cap`.
        """
        sizes = [model.backbone.vocabulary_size for model in (teacher, self)]
        if sizes[0] != sizes[1]:
            raise ValueError(
                f"{type(self).__name__}: the teacher must have the same vocabulary. "
                f"Received: a teacher with {sizes[0]} tokens, not {sizes[1]}"
            )
        caps = [model.logit_cap for model in (teacher, self)]
        if any(cap is not None for cap in caps):
            raise ValueError(
                f"{type(self).__name__}: distillation is not supported with logit_cap. "
                f"Received: a teacher with logit_cap={caps[0]}, logit_cap={caps[1]}"
            )
        teacher.trainable = False
        self._teacher = lambda: teacher  # Keras tracks models that are attributes

    @property
    def constants(self) -> list[keras.Variable]:
        return self._teacher().variables if self._teacher else []

    def _linear_teacher(self, inputs):
        teacher = self._teacher()
        backbone = teacher.backbone
        hidden = backbone(backbone.select_inputs(inputs), training=False)["sequence_output"]
        return LinearTeacher(
            *teacher._mlm_projection(hidden, inputs["mask_positions"]),
            self.distillation,
            self.distillation_temperature,
        )

    @property
    def metric_names(self) -> list[str]:
        tasks = ("mlm", "nsp") if self.next_sentence else ("mlm",)
        return [f"{task}_{name}" for name in ("loss", "accuracy") for task in tasks]

    def loss_weights(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        weights = {"mlm": ops.sum(mask_weights(batch))}
        if self.next_sentence:
            weights["nsp"] = ops.sum(label_weights(batch, batch["next_sentence_label"]))
        return weights

    def loss_errors(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        errors = {"mlm": ops.sum(outputs["mlm_errors"] * mask_weights(batch))}
        if self.next_sentence:
            labels = batch["next_sentence_label"]
            nsp = sparse_cross_entropy(labels, outputs["nsp_logits"])
            errors["nsp"] = ops.sum(nsp * label_weights(batch, labels))
        return errors

    def metric_sums(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, tuple[Tensor, Tensor]]:
        weights = mask_weights(batch)
        sums = {"mlm_accuracy": (ops.sum(outputs["mlm_hits"] * weights), ops.sum(weights))}
        if self.next_sentence:
            labels = batch["next_sentence_label"]
            weights = label_weights(batch, labels)
            correct = hits(labels, outputs["nsp_logits"])
            sums["nsp_accuracy"] = (ops.sum(correct * weights), ops.sum(weights))
        return sums

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "next_sentence": self.next_sentence,
            "tie_embeddings": self.tie_embeddings,
            "mlm_activation": self.mlm_activation,
            "logit_cap": self.logit_cap,
            "distillation": self.distillation,
            "distillation_temperature": self.distillation_temperature,
        }
