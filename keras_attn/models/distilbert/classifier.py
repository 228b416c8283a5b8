"""DistilBERT for classification and regression."""

from typing import Any

import keras

from keras_attn.models.first_token_classifier import FirstTokenClassifier


@keras.saving.register_keras_serializable(package="keras_attn")
class DistilBertClassifier(FirstTokenClassifier):
    """A classifier with the head of DistilBERT: a hidden layer with relu on the first token.

    The backbone of DistilBERT is a `BertEncoder` with `num_segments=0`.

    Args:
        backbone: `BertEncoder`, or another encoder of rows that begin with `[CLS]`.
        num_classes: Number of classes C; 1 for regression.
        dropout: Dropout rate of the hidden layer.
        pooling: `"cls"`, the default: the first token, as in DistilBERT; `"mean"`: the mean of the
            sequence output over real tokens, without the hidden layer.
        **kwargs: Further arguments of `keras_attn.models.classifier.Classifier`, which also
            documents calls, losses and metrics.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        Sanh et al., DistilBERT, 2019; `DistilBertForSequenceClassification` of transformers.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import BertEncoder, DistilBertClassifier
        >>> backbone = BertEncoder.from_size(
        ...     "tiny", vocabulary_size=50, num_segments=0, use_pooler=False, seed=0
        ... )
        >>> model = DistilBertClassifier(backbone, 3)
        >>> short, padded = ({"token_ids": np.array([ids]), "padding_mask": np.sign([ids])}
        ...                  for ids in ([4, 7, 9], [4, 7, 9, 0]))
        >>> logits = [np.array(model(inputs)["logits"]) for inputs in (short, padded)]
        >>> print(logits[0].shape, np.abs(logits[0] - logits[1]).max().round(4))
        (1, 3) 0.0
    """

    ACTIVATION, DROPS_INPUT = "relu", False

    def __init__(
        self,
        backbone: keras.Model,
        num_classes: int,
        dropout: float = 0.2,
        pooling: str | None = None,
        name: str | None = "distilbert_classifier",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, num_classes, dropout, pooling, name=name, **kwargs)
