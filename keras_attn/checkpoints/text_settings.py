"""How an embedding model reads its texts: maximum length, prompts and lower-casing."""

import dataclasses
from collections.abc import Mapping
from reprlib import repr as shorten
from typing import Any, Self

from keras_attn.errors import UserError

MIN_LENGTH = 3  # a token between two special tokens


@dataclasses.dataclass(frozen=True)
class TextSettings:
    """Settings of an embedding model that its weights do not contain.

    Attributes:
        max_length: Maximum number of tokens of a text, with special tokens; None: that of the
            backbone.
        prompts: Dict from names to texts that are put before a text.
        default_prompt: Name of the prompt that is used by default; None: no prompt.
        include_prompt: Whether the tokens of the prompt, and the special tokens before it, are
            pooled.
        lowercase: Whether texts are lower-cased before a tokenizer that does not lower-case.
    """

    max_length: int | None = None
    prompts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    default_prompt: str | None = None
    include_prompt: bool = True
    lowercase: bool = False

    @classmethod
    def from_json(cls, found: Mapping[str, Any], path: str) -> Self:
        """Returns the settings of `to_json`, checked.

        Args:
            found: Content of a JSON file; missing fields have their defaults.
            path: Path of the file, for messages.

        Raises:
            UserError: Names the first invalid field.
        """
        known = {field.name for field in dataclasses.fields(cls)}
        settings = cls(**{name: value for name, value in found.items() if name in known})
        check_length(settings.max_length, "max_length", path)
        for name in ("include_prompt", "lowercase"):
            check_bool(getattr(settings, name), name, path)
        check_prompts(settings.prompts, settings.default_prompt, path)
        return settings

    def cased(self, text: str, tokenizer: Any) -> str:
        """Returns a text as the tokenizer receives it."""
        lowers = self.lowercase and not getattr(tokenizer, "lowercase", False)
        return text.lower() if lowers else text

    def to_json(self) -> dict[str, Any]:
        """Returns the settings as JSON-serializable values."""
        return dataclasses.asdict(self)


def check_length(length, name, path):
    """Raises a `UserError` unless a maximum length is an integer that is large enough, or None."""
    if length is not None and (type(length) is not int or length < MIN_LENGTH):
        raise UserError(
            f"{name} must be an integer of at least {MIN_LENGTH}. "
            f"Received: {shorten(length)} in {path}"
        )


def check_bool(value, name, path):
    """Raises a `UserError` unless a value in a file is a boolean."""
    if not isinstance(value, bool):
        raise UserError(f"{name} must be true or false. Received: {shorten(value)} in {path}")


def check_prompts(prompts, default, path, field="default_prompt"):
    """Raises a `UserError` unless prompts are texts by name, and the default is one of the names.

    Args:
        prompts: The value of `prompts`.
        default: Name of the default prompt, or None.
        path: Path of the file.
        field: Name of the field with the default.
    """
    if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
        raise UserError(
            f"prompts must be an object of texts by name. Received: {shorten(prompts)} in {path}"
        )
    if default is not None and not (isinstance(default, str) and default in prompts):
        raise UserError(
            f"{field} must be one of the prompts. Received: {shorten(default)} in {path}"
        )
