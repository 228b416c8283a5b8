"""Declaration of config fields."""

import dataclasses
import math
from typing import Any, Literal

from keras_attn.errors import UserError, check_choice


@dataclasses.dataclass(frozen=True)
class Field:
    """A config field, declared once: its default, its help and the values that it accepts.

    Attributes:
        default: Default value, or the type if the field is unset by default.
        help: Description with the unit, shown as one line of `--help`.
        choices: Valid values; empty: no restriction.
        low: Inclusive lower bound, or None.
        high: Inclusive upper bound, or None.
        above: Exclusive lower bound, or None.
        below: Exclusive upper bound, or None.
        chosen: Whether a run chooses the value if it is unset. A resumed run keeps the choice.
        resume: Which values a resumed run accepts: "same", only the value of the first start;
            "any", any value; "first", any value, but the value of the first start is used.
        before: Value that stands for the field in workdirs of versions without it; None: the
            default.
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
        """Type of the values."""
        return self.default if isinstance(self.default, type) else type(self.default)

    @property
    def value(self) -> Any:
        """Default value; None if the field is unset by default."""
        return None if isinstance(self.default, type) else self.default

    @property
    def value_if_missing(self) -> Any:
        """Value that stands for the field in a saved config without it."""
        return self.value if self.before is None else self.before

    def violated_bound(self, value: float) -> str | None:
        """Returns the bounds, such as `above 0` or `in [0, 1)`, if a number violates them."""
        lowest = self.low if self.above is None else self.above
        highest = self.high if self.below is None else self.below
        valid = (
            (self.low is None or self.low <= value)
            and (self.above is None or self.above < value)
            and (self.high is None or value <= self.high)
            and (self.below is None or value < self.below)
        )
        if valid:
            return "finite" if lowest is not None and not math.isfinite(value) else None
        if lowest is None:
            return f"at most {highest}" if self.below is None else f"below {highest}"
        if highest is None:
            return f"at least {lowest}" if self.above is None else f"above {lowest}"
        left, right = "[" if self.above is None else "(", "]" if self.below is None else ")"
        return f"in {left}{lowest}, {highest}{right}"

    def check(self, name: str, value: Any) -> None:
        """Checks a value.

        Args:
            name: Dotted name of the field.
            value: Value of the type `value_type`, or None if unset.

        Raises:
            UserError: If the value is not among the choices or violates a bound.
        """
        if value is None:
            return
        if self.choices:
            check_choice(name, value, self.choices)
        if isinstance(value, (int, float)) and (bound := self.violated_bound(value)):
            raise UserError(f"{name} must be {bound}. Received: {name}={value}")
