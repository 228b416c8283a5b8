"""Declarations of config fields."""

import dataclasses
import math
from typing import Any

from keras_attn.errors import UserError, check_choice


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of a config, declared once: its default, its help and the values that it takes.

    Attributes:
        default: Its default, or its type if it is unset by default.
        help: What it is, with its unit; a line of `--help`.
        choices: Values that it may have; empty: any.
        low: Least value; None: no bound.
        above: Bound that a value must exceed; None: no bound.
        below: Bound that a value must not reach; None: no bound.
    """

    default: Any
    help: str
    choices: tuple = ()
    low: float | None = None
    above: float | None = None
    below: float | None = None

    def violated_bound(self, value: float) -> str | None:
        """Returns the bound that a number violates, such as `above 0`, or None."""
        bounded = self.low is not None or self.above is not None
        if self.low is not None and not self.low <= value:
            return f"at least {self.low}"
        if self.above is not None and not self.above < value:
            return f"above {self.above}"
        if self.below is not None and not value < self.below:
            return f"below {self.below}"
        return "finite" if bounded and not math.isfinite(value) else None

    def check(self, name: str, value: Any) -> None:
        """Raises a `UserError` for a value that the field cannot have; None is unset.

        Args:
            name: Dotted name of the field.
            value: A value of its type.
        """
        if value is None:
            return
        if self.choices:
            check_choice(name, value, self.choices)
        if isinstance(value, (int, float)) and (bound := self.violated_bound(value)):
            raise UserError(f"{name} must be {bound}. Received: {name}={value}")
