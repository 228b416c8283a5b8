"""Classification of words with any backbone."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.crf import CRF
from keras_attn.layers.seeds import drop, dropout_generator, seeded_initializer, split_seed
from keras_attn.models.task import TaskModel, label_weights
from keras_attn.ops import sparse_cross_entropy
from keras_attn.ops.arguments import (
    require_positive,
    require_probabilities,
    require_rates,
    require_sizes,
)
from keras_attn.ops.crf import best_tags
from keras_attn.ops.divergence import softmax_divergence
from keras_attn.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_attn")
class TokenClassifier(TaskModel, keras.Model):
    """A backbone with a dense layer on the hidden state of each word.

    A word is represented by its first token, or by the mean of its tokens. With `crf`, the tags of
    a row are predicted jointly.

    Args:
        backbone: The backbone model.
        num_classes: Number of tags K.
        dropout: Dropout rate of the hidden states.
        word_vector: `"first"`, or `"mean"`, the mean of the tokens of a word.
        crf: Whether a `keras_attn.layers.CRF` follows the dense layer.
        allowed_transitions: With `crf`: booleans `(K, K)` as nested lists, whether a tag (row) may
            be followed by another one (column); defaults to all.
        distillation: Weight of the distillation loss, in [0, 1], in batches with
            `teacher_logits`; the loss with respect to the labels has the weight 1 - distillation.
        distillation_temperature: Softmax temperature of the distillation loss.
        seed: Integer seed of the initial weights and of dropout; defaults to the backbone's.

    Call arguments:
        inputs: The backbone's dictionary, and
            `word_ids` `(B, T)`, optional, integers: the number of the word of each token from 1,
                and 0 for other tokens; defaults to a word for each real token;
            `label` `(B, T)`, for losses and metrics: the tag at the first token of each word, and
                -1 at other tokens;
            `sample_weight` `(B,)`, optional;
            `teacher_logits` `(B, T, K)`, optional: logits of another model at the tokens with a
                label.
        training: Whether dropout is applied.

    Returns:
        The backbone's dictionary and `logits` `(B, T, K)` in float32. Without `training` also
        `tags` int32 `(B, T)`, the most probable tags, decoded jointly per row with `crf`; and
        `tag_probabilities` `(B, T)`, the probability of each. They are valid at the first tokens
        of words.

    `fit` requires a dataset of such dictionaries. Loss `tag`: the mean over words of the
    cross-entropy, or of the negative log-likelihood of the CRF; metric `accuracy` of words, with a
    CRF in training that of the logits.

    The distillation loss is the mean over words of `keras_attn.ops.divergence.softmax_divergence`.
    With a CRF it trains the logits, its emissions, and not its transitions.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        Devlin et al., BERT, 2018, section 5.3; Lample et al., Neural Architectures for Named Entity
        Recognition, 2016, section 2.2.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import BertEncoder, TokenClassifier
        >>> backbone = BertEncoder.from_size("tiny", vocabulary_size=50, seed=0)
        >>> model = TokenClassifier(backbone, num_classes=5)
        >>> found = model({"token_ids": np.array([[2, 4, 7, 9, 3]]),  # [CLS] play ##ing golf [SEP]
        ...                "word_ids": np.array([[0, 1, 1, 2, 0]])})
        >>> print(found["logits"].shape, found["tags"].shape)
        (1, 5, 5) (1, 5)
        >>> at = np.array([1, 3])  # the first tokens of both words: 5 tags are about as probable
        >>> print(np.array(found["tag_probabilities"])[0, at].round(1))
        [0.2 0.2]
    """

    OWN_INPUTS = {"word_ids": "BT"}

    def __init__(
        self,
        backbone: keras.Model,
        num_classes: int,
        dropout: float = 0.1,
        word_vector: str = "first",
        crf: bool = False,
        allowed_transitions: list[list[bool]] | None = None,
        distillation: float = 0.0,
        distillation_temperature: float = 2.0,
        seed: int | None = None,
        name: str | None = "token_classifier",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, seed, name=name, **kwargs)
        require_sizes(num_classes=num_classes)
        require_rates(dropout=dropout)
        require_probabilities(distillation=distillation)
        require_positive(distillation_temperature=distillation_temperature)
        if word_vector not in ("first", "mean"):
            raise ValueError(
                "TokenClassifier: word_vector must be 'first' or 'mean'. "
                f"Received: word_vector={word_vector!r}"
            )
        if allowed_transitions is not None and not crf:
            raise ValueError(
                f"TokenClassifier: allowed_transitions require crf=True. Received: crf={crf}"
            )
        self.num_classes = num_classes
        self.dropout = dropout
        self.word_vector = word_vector
        self.crf = crf
        self.allowed_transitions = allowed_transitions
        self.distillation = distillation
        self.distillation_temperature = distillation_temperature

    @classmethod
    def head_names(cls, crf: bool = False, **heads: Any) -> list[str]:
        return ["logits_dense", "crf_layer"] if crf else ["logits_dense"]

    def build(self, input_shape: dict[str, Shape] | None = None) -> None:
        backbone = self.build_backbone()
        kernel_seed, dropout_seed = split_seed(self.head_seed, 2, stream=1)
        initializer = keras.initializers.TruncatedNormal(stddev=backbone.initializer_range)
        # In float32 for any policy, like the loss.
        self.logits_dense = keras.layers.Dense(
            self.num_classes,
            kernel_initializer=seeded_initializer(initializer, kernel_seed),
            dtype="float32",
            name="logits_dense",
        )
        self.logits_dense.build((None, backbone.hidden_dim))
        if self.crf:
            self.crf_layer = CRF(
                allowed_transitions=self.allowed_transitions, dtype="float32", name="crf_layer"
            )
            self.crf_layer.build((None, None, self.num_classes))
        self.seed_generator = dropout_generator(self.dropout, dropout_seed, "hidden_dropout")
        self.built = True

    def call(self, inputs: dict[str, Tensor], training: bool | None = None) -> dict[str, Tensor]:
        outputs = self.backbone(self.backbone.select_inputs(inputs), training=training)
        hidden = ops.cast(outputs["sequence_output"], "float32")
        if self.word_vector == "mean" and "word_ids" in inputs:
            hidden = _mean_of_words(hidden, inputs["word_ids"])
        hidden = self.transform(hidden)
        hidden = drop(hidden, self.dropout, self.seed_generator, training)
        logits = self.logits_dense(hidden)
        outputs = {**outputs, "logits": logits}
        if self.crf and "label" in inputs:
            # Words of -1, the context of a window, are marginalized: the chain is that of `decode`.
            outputs["log_likelihood"] = self.crf_layer.log_likelihood(
                logits, ops.cast(inputs["label"], "int32"), mask=_first_tokens(inputs)
            )
        return outputs if training else {**outputs, **self._predicted(logits, inputs)}

    def transform(self, hidden: Tensor) -> Tensor:
        """Returns the vectors from which tags are predicted, before dropout.

        A subclass whose head has more layers overrides it.

        Args:
            hidden: Hidden states `(B, T, D)`, float32.
        """
        return hidden

    def _predicted(self, logits, inputs):
        if self.crf:
            tags, _ = self.crf_layer.decode(logits, mask=_first_tokens(inputs))
        else:
            tags = best_tags(logits)
        probabilities = self.probabilities(logits, inputs)
        chosen = ops.take_along_axis(probabilities, ops.expand_dims(tags, -1), axis=-1)
        return {"tags": tags, "tag_probabilities": ops.squeeze(chosen, -1)}

    def probabilities(self, logits: Tensor, inputs: dict[str, Tensor]) -> Tensor:
        """Returns the probability of each tag: the softmax, or with `crf` the marginals.

        Args:
            logits: Output `(B, T, K)`.
            inputs: See the call arguments.

        Returns:
            float32 `(B, T, K)`, valid at the first tokens of words.
        """
        if self.crf:
            return self.crf_layer.marginals(logits, mask=_first_tokens(inputs))
        return ops.softmax(logits, axis=-1)

    @property
    def metric_names(self) -> list[str]:
        return ["tag_loss", "accuracy"]

    def loss_weights(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"tag": ops.sum(_word_weights(batch))}

    def loss_errors(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        labels, words = ops.cast(batch["label"], "int32"), _word_weights(batch)
        if self.crf:
            rows = label_weights(batch, labels[:, 0])
            error = -ops.sum(outputs["log_likelihood"] * rows)
        else:
            errors = sparse_cross_entropy(ops.maximum(labels, 0), outputs["logits"])
            error = ops.sum(errors * words)
        if "teacher_logits" in batch:
            distilled = softmax_divergence(
                outputs["logits"], batch["teacher_logits"], self.distillation_temperature
            )
            distilled = ops.sum(distilled * words)
            error = (1.0 - self.distillation) * error + self.distillation * distilled
        return {"tag": error}

    def metric_sums(
        self, outputs: dict[str, Tensor], batch: dict[str, Tensor]
    ) -> dict[str, tuple[Tensor, Tensor]]:
        weights = _word_weights(batch)
        tags = outputs.get("tags")
        if tags is None:
            tags = ops.argmax(outputs["logits"], axis=-1)
        right = ops.equal(ops.cast(batch["label"], "int32"), ops.cast(tags, "int32"))
        return {"accuracy": (ops.sum(ops.cast(right, "float32") * weights), ops.sum(weights))}

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "dropout": self.dropout,
            "word_vector": self.word_vector,
            "crf": self.crf,
            "allowed_transitions": self.allowed_transitions,
            "distillation": self.distillation,
            "distillation_temperature": self.distillation_temperature,
        }


def _first_tokens(inputs):
    """Returns which tokens are the first of a word: bool `(B, T)`."""
    if "word_ids" in inputs:
        words = ops.cast(inputs["word_ids"], "int32")
        before = ops.pad(words[:, :-1], [[0, 0], [1, 0]])
        return ops.logical_and(ops.greater(words, 0), ops.not_equal(words, before))
    if "padding_mask" in inputs:
        return ops.cast(inputs["padding_mask"], "bool")
    return ops.ones_like(inputs["token_ids"], dtype="bool")


def _mean_of_words(hidden, word_ids):
    """Returns the mean of the hidden states of each word `(B, T, D)`, at all of its tokens."""
    same = ops.equal(ops.expand_dims(word_ids, 2), ops.expand_dims(word_ids, 1))
    same = ops.cast(same, hidden.dtype)
    # (B, T, T) x (B, T, D) -> (B, T, D)
    return ops.matmul(same, hidden) / ops.sum(same, axis=-1, keepdims=True)


def _word_weights(batch):
    """Returns the weights of the labels, 0 for tokens without a label: float32 `(B, T)`."""
    labels = batch["label"]
    return label_weights(batch, labels) * ops.cast(ops.greater_equal(labels, 0), "float32")
