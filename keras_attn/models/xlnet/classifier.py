"""XLNet for classification and regression."""

from typing import Any

import keras

from keras_attn.models.classifier import Classifier
from keras_attn.models.xlnet.encoder import XLNet


@keras.saving.register_keras_serializable(package="keras_attn")
class XLNetClassifier(Classifier):
    """XLNet with a dense layer on the vector of the last real token, `<cls>`.

    The released code applies a dense layer with tanh first, as a backbone with `use_pooler` does.

    Args:
        backbone: `XLNet`.
        num_classes: Number of classes C; 1 for regression.
        dropout: Dropout rate of the pooled output.
        pooling: `"last"`, the default, or `"mean"`: the mean over real tokens.
        **kwargs: Further arguments of `keras_attn.models.classifier.Classifier`, which also
            documents calls, losses and metrics.

    Raises:
        ValueError: If an argument is out of range.

    Reference:
        Yang et al., XLNet, 2019, section 3; released code: zihangdai/xlnet, `summarize_sequence`.

    Examples:
        >>> import numpy as np
        >>> from keras_attn.models import XLNet, XLNetClassifier
        >>> model = XLNetClassifier(
        ...     XLNet.from_size("tiny", vocabulary_size=50, use_pooler=True, seed=0), 3)
        >>> short, padded = ({"token_ids": np.array([ids]), "padding_mask": np.sign([ids])}
        ...                  for ids in ([4, 7, 9], [4, 7, 9, 0]))
        >>> logits = [np.array(model(inputs)["logits"]) for inputs in (short, padded)]
        >>> print(logits[0].shape, np.abs(logits[0] - logits[1]).max().round(4))
        (1, 3) 0.0
    """

    OWN = "last"

    def __init__(
        self,
        backbone: XLNet,
        num_classes: int,
        dropout: float = 0.1,
        pooling: str | None = None,
        name: str | None = "xlnet_classifier",
        **kwargs: Any,
    ) -> None:
        super().__init__(backbone, num_classes, dropout, pooling, name=name, **kwargs)
