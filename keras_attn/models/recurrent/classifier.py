"""Recurrent encoder for classification and regression."""

from typing import Any

import keras

from keras_attn.models.classifier import Classifier
from keras_attn.models.recurrent.encoder import RecurrentEncoder


@keras.saving.register_keras_serializable(package="keras_attn")
class RecurrentClassifier(Classifier):
    """A recurrent encoder with a dense layer on its pooled output.

    Args:
        backbone: `RecurrentEncoder`, whose `reduce` selects the pooling.
        num_classes: Number of classes C; 1 for regression.
        dropout: Dropout rate of the pooled output.
        pooling: `"pooled"`, the default: the pooling of the backbone; or `"mean"`.
        **kwargs: Further arguments of `keras_attn.models.classifier.Classifier`, which also
            documents calls, losses and metrics.

    Raises:
        ValueError: If an argument is out of range.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import RecurrentClassifier, RecurrentEncoder
        >>> model = RecurrentClassifier(RecurrentEncoder(50, 1, 8, seed=0), 3)
        >>> found = model({"token_ids": np.array([[4, 7, 9]])})
        >>> print(found["logits"].shape, np.array(found["pooling_attention"]).sum().round(3))
        (1, 3) 1.0
    """

    OWN = "pooled"

    def __init__(
        self,
        backbone: RecurrentEncoder,
        num_classes: int,
        dropout: float = 0.1,
        pooling: str | None = None,
        name: str | None = "recurrent_classifier",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, num_classes, dropout, pooling, name=name, **kwargs)
