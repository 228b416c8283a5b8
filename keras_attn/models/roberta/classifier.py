"""RoBERTa for classification and regression."""

from typing import Any

import keras

from keras_attn.models.first_token_classifier import FirstTokenClassifier


@keras.saving.register_keras_serializable(package="keras_attn")
class RobertaClassifier(FirstTokenClassifier):
    """A classifier with the head of RoBERTa: a hidden layer with tanh on the first token.

    The backbone of RoBERTa is a `BertEncoder` with `num_segments=1`.

    Args:
        backbone: `BertEncoder`, or another encoder of rows that begin with `<s>`.
        num_classes: Number of classes C; 1 for regression.
        dropout: Dropout rate of the first token and of the hidden layer.
        pooling: `"cls"`, the default: the first token, as in RoBERTa; `"mean"`: the mean of the
            sequence output over real tokens, without the hidden layer.
        **kwargs: Further arguments of `keras_attn.models.classifier.Classifier`, which also
            documents calls, losses and metrics.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        Liu et al., RoBERTa, 2019; facebookresearch/fairseq, roberta/model.py, classification head.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import BertEncoder, RobertaClassifier
        >>> backbone = BertEncoder.from_size(
        ...     "tiny", vocabulary_size=50, num_segments=1, use_pooler=False, seed=0
        ... )
        >>> model = RobertaClassifier(backbone, 3)
        >>> short, padded = ({"token_ids": np.array([ids]), "padding_mask": np.sign([ids])}
        ...                  for ids in ([4, 7, 9], [4, 7, 9, 0]))
        >>> logits = [np.array(model(inputs)["logits"]) for inputs in (short, padded)]
        >>> print(logits[0].shape, np.abs(logits[0] - logits[1]).max().round(4))
        (1, 3) 0.0
    """

    ACTIVATION, DROPS_INPUT = "tanh", True

    def __init__(
        self,
        backbone: keras.Model,
        num_classes: int,
        dropout: float = 0.1,
        pooling: str | None = None,
        name: str | None = "roberta_classifier",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, num_classes, dropout, pooling, name=name, **kwargs)
