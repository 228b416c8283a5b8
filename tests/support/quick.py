"""Which cases of a parametrized test `make test` runs; `make test-thorough` runs the others."""

import pytest

from tests.support.layer_checks import check_layer, check_values

THOROUGH = pytest.mark.thorough


def quick(cases, *chosen):
    """Marks all cases but the chosen ones as `thorough`.

    Args:
        cases: Values of a parameter, or tuples of values of several.
        chosen: Those that `make test` runs, too: one of each path through the code.
    """
    _reject_unknown(cases, chosen)
    return [
        case if case in chosen else pytest.param(*_values(case), marks=THOROUGH) for case in cases
    ]


def one_of_each(cases):
    """Marks as `thorough` all but the first case of each class, which its name begins with."""
    return quick(cases, *{name.split()[0]: name for name in reversed(list(cases))}.values())


def each_check(cases, *chosen):
    """Parameters `check, ...`: `check_layer` of the chosen cases, `check_values` of the others.

    `make test-thorough` runs `check_layer` of the others.
    """
    _reject_unknown(cases, chosen)
    found = []
    for case in cases:
        values = _values(case)
        if case in chosen:
            found.append((check_layer, *values))
        else:
            found.append((check_values, *values))
            found.append(pytest.param(check_layer, *values, marks=THOROUGH))
    return found


def _reject_unknown(cases, chosen):
    unknown = [one for one in chosen if one not in cases]
    assert not unknown, unknown


def _values(case):
    return case if isinstance(case, tuple) else (case,)
