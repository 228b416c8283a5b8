"""The contract of engines is sufficient: the trainer runs on an engine of NumPy."""

import dataclasses
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_attn import pretrain
from keras_attn.data.batches import StreamBatches
from keras_attn.defaults import finetuning_defaults, pretraining_defaults
from keras_attn.errors import UserError
from keras_attn.registry import ENGINES
from keras_attn.runs.run_task import finetune
from keras_attn.training.engines import make_engine
from keras_attn.training.trainer import Stopped, Trainer
from tests.support.fake_step import checkpoints_of, records_of
from tests.support.numpy_engine import fields as numpy_fields
from tests.support.numpy_engine.engine import NumPyEngine
from tests.support.regression import ROWS, SGD, Examples, Regression


def _train(engine, folder, steps, stop_at=None):
    with engine.scope():
        model = Regression(name="regression")
        model.build()
        if isinstance(engine, NumPyEngine):
            optimizer = engine.make_optimizer("sgd", model)
        else:
            optimizer = SGD(0.5)
            optimizer.build(model.trainable_variables)
    step = engine.make_step(model, optimizer, clip_norm=1.0)
    evaluator = engine.make_evaluator(model)
    validation = StreamBatches(Examples(), ROWS, once=True, limit=12 * ROWS)

    def evaluate(stop):
        if trainer.step == stop_at:
            raise Stopped(trainer.step, 15)
        found = evaluator.run(validation, stop)
        return found and found[0]

    trainer = Trainer(
        step,
        StreamBatches(Examples(), ROWS),
        str(folder),
        total_steps=steps,
        peak=0.1,
        evaluate=evaluate,
        evaluate_every=4,
        checkpoint_every=2,
    )
    trainer.run()
    return trainer


def test_numpy_trains_like_tensorflow(tmp_path):
    found = [
        _train(engine, tmp_path / name, 12)
        for name, engine in (
            ("numpy", NumPyEngine()),
            ("tensorflow", make_engine(strategy="mirrored")),
        )
    ]
    numpy, tensorflow = (records_of(tmp_path / name) for name in ("numpy", "tensorflow"))
    names = (
        "step",
        "loss",
        "gradient_norm",
        "accuracy",
        "learning_rate",
        "validation_loss",
        "validation_accuracy",
    )
    for name in names:
        np.testing.assert_allclose(
            [record.get(name, 0) for record in numpy],
            [record.get(name, 0) for record in tensorflow],
            1e-5,
        )
    slopes = [keras.ops.convert_to_numpy(trainer.step_function.model.slope) for trainer in found]
    np.testing.assert_allclose(*slopes, 1e-5)


def test_a_resumed_run_of_any_engine_ends_with_the_same_weights(tmp_path):
    whole = _train(NumPyEngine(), tmp_path / "whole", 12).digest()
    with pytest.raises(Stopped):
        _train(NumPyEngine(), tmp_path / "halves", 12, stop_at=8)
    assert checkpoints_of(tmp_path / "halves")[-1] < 8
    assert _train(NumPyEngine(), tmp_path / "halves", 12).digest() == whole


@pytest.fixture
def numpy_engine(monkeypatch):
    monkeypatch.setitem(ENGINES._packages, "numpy", "tests.support.numpy_engine")
    return numpy_fields


def test_an_engine_is_registered_by_one_line(numpy_engine):
    with pytest.raises(UserError, match="engine must be one of tensorflow.*Did you mean tensorf"):
        make_engine("tensorflw")
    engine = make_engine("numpy", floats="float32")
    assert engine.describe() == "1 x NumPy" and engine.floats == "float32"


@pytest.mark.parametrize(
    ("engine", "options", "message"),
    [
        (
            "numpy",
            {"strategy": "mirrored"},
            "The engine numpy has no option 'strategy'. It has floats",
        ),
        ("tensorflow", {"strateg": "auto"}, "no option 'strateg'.*Did you mean strategy"),
        ("numpy", {"floats": "float8"}, "floats must be one of float32, float64"),
        ("tensorflow", {"virtual_devices": -1}, "virtual_devices must be at least 0"),
    ],
)
def test_options_are_checked_by_the_declaration_of_the_engine(
    numpy_engine, engine, options, message, tmp_path
):
    config = finetuning_defaults()
    config.train.seeds = 2
    for run, one in ((pretrain, pretraining_defaults()), (finetune, config)):
        with pytest.raises(UserError, match=message):
            run(one, tmp_path / "run", engine=engine, **options)
    assert not (tmp_path / "run").exists()


def test_an_engine_of_another_backend_is_an_error(numpy_engine, monkeypatch):
    monkeypatch.setattr(
        numpy_engine, "FIELDS", dataclasses.replace(numpy_engine.FIELDS, backend="jax")
    )
    with pytest.raises(UserError, match="numpy requires Keras on jax.*KERAS_BACKEND=tensorflow"):
        make_engine("numpy")


def _pretrain(*arguments):
    """Runs the command with the NumPy engine on another backend; it prints its options."""
    program = (
        "import os, pretrain.__main__ as command\n"
        "from keras_attn.cli import command_line\n"
        "from keras_attn.registry import ENGINES\n"
        "ENGINES.register('numpy', 'tests.support.numpy_engine')\n"
        "from tests.support.numpy_engine import fields\n"
        "import dataclasses\n"
        "fields.FIELDS = dataclasses.replace(fields.FIELDS, backend='jax')\n"
        "command_line.import_tensorflow = lambda: None\n"
        "command.main = lambda: print(os.environ['KERAS_BACKEND'], "
        "sorted(command.run_options().items())[2:])\n"
        "command.command()\n"
    )
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        text=True,
        capture_output=True,
        env={**os.environ, "KERAS_BACKEND": "torch"},
    )


def test_a_command_has_the_flags_and_the_backend_of_its_engine():
    for arguments in (
        ["--engine=numpy", "--floats=float32"],
        ["-engine", "numpy", "--floats", "float32"],
    ):
        assert _pretrain(*arguments).stdout == (
            "jax [('engine', 'numpy'), ('floats', 'float32'), ('pretrained', None), "
            "('workdir', None)]\n"
        )
    assert _pretrain().stdout == (
        "tensorflow [('engine', 'tensorflow'), ('pretrained', None), ('strategy', 'auto'), "
        "('tpu', None), ('virtual_devices', 0), ('workdir', None)]\n"
    )
    text = _pretrain("--engine=numpy", "--help").stdout
    assert "--floats  <float32|float64>: Floats to compute in." in text and "--strategy" not in text
    for arguments, message in (
        (["--engine=numpy", "--strategy=mirrored"], "flag --strategy"),
        (["--engine=nunpy"], "Did you mean numpy"),
    ):
        done = _pretrain(*arguments)
        assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1
