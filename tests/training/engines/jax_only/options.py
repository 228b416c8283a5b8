"""Errors of the options of the JAX engine. Run by tests/backends, on JAX."""

import pytest

from keras_attn.errors import UserError
from keras_attn.training.engines import check_several_runs, make_engine

ADDRESS = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"devices": 9}, "--devices must be at most 2, the number of local devices"),
        ({"process": 1}, "must be set together.*coordinator=None, processes=None, process=1"),
        ({"coordinator": ADDRESS, "processes": 2}, "must be set together.*process=None"),
        ({"distributed": True, "processes": 2}, "without --distributed"),
        (
            {"distributed": True, "coordinator": ADDRESS, "processes": 2, "process": 0},
            "without --distributed. Received: distributed=True",
        ),
        ({"coordinator": "host", "processes": 2, "process": 0}, "HOST:PORT. Received: host"),
        ({"coordinator": ADDRESS, "processes": 2, "process": 2}, "--process must be below"),
        ({"distributed": True}, "Cannot connect the processes of the run"),
    ],
)
def test_wrong_options_are_errors(options, message):
    with pytest.raises(UserError, match=message):
        make_engine("jax", **options)


@pytest.mark.parametrize("options", [{"distributed": True}, {"coordinator": ADDRESS}])
def test_several_runs_require_a_single_process(options):
    check_several_runs("jax")
    with pytest.raises(UserError, match="require a single process. Received: distributed="):
        check_several_runs("jax", **options)
