"""Declarations of config fields."""

import dataclasses
import math
from typing import Any, Literal

from keras_attn.errors import UserError, check_choice


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of a config, declared once: its default, its help and the values that it takes.

    Attributes:
        default: Its default, or its type if it is unset by default.
        help: What it is, with its unit; a line of `--help`.
        choices: Values that it may have; empty: any.
        low: Least value; None: no bound.
        high: Largest value, with `low` or `above`; None: no bound.
        above: Bound that a value must exceed; None: no bound.
        below: Bound that a value must not reach; None: no bound.
        chosen: Whether a run chooses the value where it is unset. A resumed run keeps that choice.
        resume: What a resumed run may have: the "same" value as before, "any" value, or "first",
            that of its beginning, whatever it is given.
        before: Value in the workdirs of versions without the field; None: the default.
    """

    default: Any
    help: str
    choices: tuple = ()
    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    chosen: bool = False
    resume: Literal["same", "any", "first"] = "same"
    before: Any = None

    @property
    def value_type(self) -> type:
        """The type of its values."""
        return self.default if isinstance(self.default, type) else type(self.default)

    @property
    def value(self) -> Any:
        """Its default; None if it is unset by default."""
        return None if isinstance(self.default, type) else self.default

    def violated_bound(self, value: float) -> str | None:
        """Returns the bound that a number violates, such as `above 0`, or None."""
        interval = None
        if self.high is not None:
            lowest = f"[{self.low}" if self.above is None else f"({self.above}"
            interval = f"in {lowest}, {self.high}]"
        if self.low is not None and not self.low <= value:
            return interval or f"at least {self.low}"
        if self.above is not None and not self.above < value:
            return interval or f"above {self.above}"
        if self.high is not None and not value <= self.high:
            return interval
        if self.below is not None and not value < self.below:
            return f"below {self.below}"
        bounded = self.low is not None or self.above is not None
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
