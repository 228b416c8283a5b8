"""ABCNN for classification and regression."""

from typing import Any

import keras

from keras_attn.models.classifier import Classifier


@keras.saving.register_keras_serializable(package="keras_attn")
class ABCNNClassifier(Classifier):
    """An `ABCNNEncoder` with a dense layer on the features of a pair of sentences.

    Args:
        backbone: `ABCNNEncoder`.
        num_classes: Number of classes C; 1 for regression.
        dropout: Dropout rate of the features.
        pooling: `"pooled"`, the default: the means of the sentences and their match scores; or
            `"mean"`: the mean of the token vectors of both sentences, special tokens counting as 0.
        **kwargs: Further arguments of `keras_attn.models.classifier.Classifier`, which also
            documents calls, losses and metrics.

    Raises:
        ValueError: If an argument is out of range.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import ABCNNClassifier, ABCNNEncoder
        >>> model = ABCNNClassifier(ABCNNEncoder(50, 8, max_length=7, seed=0), 3)
        >>> found = model({"token_ids": np.array([[2, 4, 7, 3, 4, 9, 3]]),
        ...                "segment_ids": np.array([[0, 0, 0, 0, 1, 1, 1]])})
        >>> matches = np.array(found["input_attention_0"])[0]
        >>> print(found["logits"].shape, matches[0, 0])  # both texts begin with token 4
        (1, 3) 1.0
    """

    OWN = "pooled"

    def __init__(
        self,
        backbone: keras.Model,
        num_classes: int,
        dropout: float = 0.1,
        pooling: str | None = None,
        name: str | None = "abcnn_classifier",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, num_classes, dropout, pooling, name=name, **kwargs)

    @property
    def pooled_dim(self) -> int:
        return self.backbone.pooled_dim if self.pooling == self.OWN else super().pooled_dim
