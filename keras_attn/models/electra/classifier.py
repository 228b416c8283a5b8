"""ELECTRA for classification and regression."""

from typing import Any

import keras

from keras_attn.models.first_token_classifier import FirstTokenClassifier


@keras.saving.register_keras_serializable(package="keras_attn")
class ElectraClassifier(FirstTokenClassifier):
    """A classifier with the head of ELECTRA: a hidden layer with GELU on the first token.

    Args:
        backbone: `ElectraEncoder`, or another encoder of rows that begin with `[CLS]`.
        num_classes: Number of classes C; 1 for regression.
        dropout: Dropout rate of the first token and of the hidden layer.
        pooling: `"cls"`, the default: the first token, as in ELECTRA; `"mean"`: the mean of the
            sequence output over real tokens, without the hidden layer.
        **kwargs: Further arguments of `keras_attn.models.classifier.Classifier`, which also
            documents calls, losses and metrics.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        Clark et al., ELECTRA, 2020; `ElectraForSequenceClassification` of transformers.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import ElectraClassifier, ElectraEncoder
        >>> backbone = ElectraEncoder.from_size("mini", vocabulary_size=50, seed=0)
        >>> model = ElectraClassifier(backbone, 3)
        >>> short, padded = ({"token_ids": np.array([ids]), "padding_mask": np.sign([ids])}
        ...                  for ids in ([4, 7, 9], [4, 7, 9, 0]))
        >>> logits = [np.array(model(inputs)["logits"]) for inputs in (short, padded)]
        >>> print(logits[0].shape, np.abs(logits[0] - logits[1]).max().round(4))
        (1, 3) 0.0
    """

    ACTIVATION, DROPS_INPUT = "gelu_erf", True

    def __init__(
        self,
        backbone: keras.Model,
        num_classes: int,
        dropout: float = 0.1,
        pooling: str | None = None,
        name: str | None = "electra_classifier",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, num_classes, dropout, pooling, name=name, **kwargs)
