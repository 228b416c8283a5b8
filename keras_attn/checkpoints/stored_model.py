"""A GPT-2 or an XLNet in a folder of any format."""

import dataclasses
from collections.abc import Mapping

from keras_attn.errors import UserError
from keras_attn.families import Family


@dataclasses.dataclass(frozen=True)
class StoredModel:
    """What a folder holds, whatever its format; `StoredBert` is that of a BERT.

    Attributes:
        family: `Family`.
        kind: Of the run that it is, or would be.
        architecture: Arguments of the backbone.
        heads: Further arguments of the classifier.
        tokenizer: Its tokenizer; None if the folder has none.
        weights: Our paths below the task model, such as `gpt2/token_embedding`, and arrays, which
            may be read only when they are used.
        lowercase: Whether text is lower-cased; None if the folder does not say.
        labels: Names of the classes; [] for regression, None without a classifier.
        pairs: Whether a classifier takes pairs of texts; None if the folder does not say.
        config: Of the run, if there was one.
        released: Whether the weights are, or began as, those of a released model.
    """

    family: Family
    kind: str
    architecture: dict
    heads: dict
    tokenizer: object
    weights: Mapping
    lowercase: bool | None = False
    labels: list | None = None
    pairs: bool | None = None
    config: dict | None = None
    released: bool = True

    @property
    def is_classifier(self):
        return self.kind == self.family.kind


def with_tokenizer(stored, lowercase, source, name="lowercase"):
    """A `StoredModel` that says how text is treated: as it said itself, or as the user says.

    Without a word of either, text keeps its case: that of the published models.

    Args:
        stored: A `StoredModel`.
        lowercase: What the user says; None for nothing.
        source, name: What messages call the folder and the user's argument.

    Raises:
        UserError: If it has no tokenizer, or user and folder contradict each other.
    """
    if stored.tokenizer is None:
        raise UserError(f"A folder with {' and '.join(stored.family.tokenizers.files)} is needed. "
                        f"Received: {source}")
    said = stored.lowercase
    if lowercase not in (None, said) and said is not None:
        raise UserError(f"{name} must be that of the model, or be left out. "
                        f"Received: {name}={lowercase}, {source} has {said}")
    lowercase = bool(lowercase if said is None else said)
    tokenizer = stored.tokenizer
    if tokenizer.lowercase != lowercase:
        if not hasattr(tokenizer, "model"):
            raise UserError(f"{name} must be {tokenizer.lowercase} with a tokenizer of "
                            f"{stored.family.backbone.__name__}. Received: {name}={lowercase}, "
                            f"{source}")
        tokenizer = type(tokenizer)(tokenizer.model, lowercase)
    return dataclasses.replace(stored, lowercase=lowercase, tokenizer=tokenizer)
