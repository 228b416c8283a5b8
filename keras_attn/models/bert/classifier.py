"""BERT for classification and regression."""

from typing import Any

import keras

from keras_attn.models.bert.encoder import BertEncoder
from keras_attn.models.classifier import Classifier


@keras.saving.register_keras_serializable(package="keras_attn")
class BertClassifier(Classifier):
    """BERT with a dense layer on a vector that represents the text.

    Args:
        backbone: `BertEncoder`.
        num_classes: Number of classes C; 1 for regression.
        dropout: Dropout rate of the pooled output.
        pooling: `"cls"`, the default: the pooled output, as in BERT; `"mean"`: the mean of the
            sequence output over real tokens, which is better after short pretraining.
        **kwargs: Further arguments of `keras_attn.models.classifier.Classifier`, which also
            documents calls, losses and metrics.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        Devlin et al., BERT, 2018, section 4.1.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import BertClassifier, BertEncoder
        >>> model = BertClassifier(BertEncoder.from_size("tiny", vocabulary_size=50, seed=0), 3)
        >>> short, padded = ({"token_ids": np.array([ids]), "padding_mask": np.sign([ids])}
        ...                  for ids in ([4, 7, 9], [4, 7, 9, 0]))
        >>> logits = [np.array(model(inputs)["logits"]) for inputs in (short, padded)]
        >>> print(logits[0].shape, np.abs(logits[0] - logits[1]).max().round(4))
        (1, 3) 0.0
    """

    BACKBONE_ATTRIBUTES = ("use_pooler",)
    OWN = "cls"

    def __init__(
        self,
        backbone: BertEncoder,
        num_classes: int,
        dropout: float = 0.1,
        pooling: str | None = None,
        name: str | None = "bert_classifier",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, num_classes, dropout, pooling, name=name, **kwargs)
        if self.pooling == "cls" and not backbone.use_pooler:
            raise ValueError(
                "BertClassifier: pooling='cls' requires a backbone with a pooler. "
                f"Received: pooling={self.pooling!r}, use_pooler={backbone.use_pooler}"
            )
