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
        high: Inclusive upper bound, used with `low` or `above`, or None.
        above: Exclusive lower bound, or None.
        below: Exclusive upper bound, or None.
        chosen: Whether a run chooses the value if it is unset. A resumed run keeps the choice.
        resume: Which values a resumed run accepts: "same", only the value of the first start;
            "any", any value; "first", any value, but the value of the first start is used.
        before: Value in workdirs of versions without the field; None: the default.
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
