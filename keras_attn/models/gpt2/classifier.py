"""GPT-2 for classification and regression."""

from typing import Any

import keras

from keras_attn.models.classifier import Classifier
from keras_attn.models.gpt2.decoder import GPT2


@keras.saving.register_keras_serializable(package="keras_attn")
class GPT2Classifier(Classifier):
    """GPT-2 with a dense layer on the vector of the last real token, which attends to all others.

    Args:
        backbone: `GPT2`.
        num_classes: Number of classes C; 1 for regression.
        dropout: Dropout rate of the pooled output.
        pooling: `"last"`, the default, or `"mean"`: the mean over real tokens.
        **kwargs: Further arguments of `keras_attn.models.classifier.Classifier`, which also
            documents calls, losses and metrics.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        Radford et al., Improving Language Understanding by Generative Pre-Training, 2018, section
        3.2.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import GPT2, GPT2Classifier
        >>> model = GPT2Classifier(GPT2.from_size("tiny", vocabulary_size=50, seed=0), 3)
        >>> short, padded = ({"token_ids": np.array([ids]), "padding_mask": np.sign([ids])}
        ...                  for ids in ([4, 7, 9], [4, 7, 9, 0]))
        >>> logits = [np.array(model(inputs)["logits"]) for inputs in (short, padded)]
        >>> print(logits[0].shape, np.abs(logits[0] - logits[1]).max().round(4))
        (1, 3) 0.0
    """

    OWN = "last"

    def __init__(
        self,
        backbone: GPT2,
        num_classes: int,
        dropout: float = 0.1,
        pooling: str | None = None,
        name: str | None = "gpt2_classifier",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, num_classes, dropout, pooling, name=name, **kwargs)
