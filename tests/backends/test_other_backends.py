"""Ops, layers and models on JAX and PyTorch, without TensorFlow; trained models, with TensorFlow
for files and text.
"""

import json
import sys

import pytest

from tests.support.environments import PROJECT, ROOT, environment, run, run_tests, with_tensorflow
from tests.support.started_commands import write_corpus

pytestmark = pytest.mark.slow

# What depends on Keras alone.
LIBRARY = ("tests/ops", "tests/layers", "tests/models", "tests/generation")

# Of PyTorch, a CPU build of this version is found more often than of others; a build for CUDA works
# as well, but takes gigabytes. Other versions of JAX may not know the flags of XLA below.
PACKAGES = {"jax": "jax==0.10.2", "torch": "torch==2.13.0"}


# What commands on JAX require of text that is already prepared.
COMMANDS = ("absl-py", "ml-collections", "sentencepiece", "tokenizers")


@pytest.fixture
def python(backend):
    names = ("keras", *(COMMANDS if backend == "jax" else ()))
    own = [line for line in PROJECT["dependencies"] if line.startswith(names)]
    return environment(backend, [*own, PACKAGES[backend], "scipy", "pytest>=8"])


# JAX compiles each operation for each shape, which takes ten times as long as all of PyTorch's.
@pytest.mark.slow(minutes=15)
@pytest.mark.parametrize(
    "backend, part",
    [("torch", LIBRARY), ("jax", LIBRARY[:2]), ("jax", LIBRARY[2:])],
    ids=["torch", "jax-layers", "jax-models"],
)
def test_ops_layers_and_models_pass_on(backend, part, python):
    markers = ("slow", "browser", "thorough", *(["runs"] if backend == "jax" else []))
    run_tests(
        python,
        *part,
        "-m",
        " and ".join(f"not {marker}" for marker in markers),
        KERAS_BACKEND=backend,
        OMP_NUM_THREADS="1",  # PyTorch's threads wait for each other at full speed
        # Compiling takes most of the time of the tests on JAX.
        XLA_FLAGS="--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false",
    )


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_importing_needs_keras_alone_and_changes_no_global_state(backend, python):
    program = """
import sys
import keras
before = (keras.config.floatx(), keras.config.dtype_policy().name, len(sys.path))
import keras_attn
new = {name.partition('.')[0] for name in sys.modules}
assert keras_attn.__version__
import keras_attn.generation, keras_attn.layers, keras_attn.models, keras_attn.ops
loaded = {name.partition('.')[0] for name in sys.modules}
for name in ('tensorflow', 'tensorflow_text', 'tensorflow_datasets', 'absl.flags', 'tokenizers'):
    assert name not in loaded, name
assert before == (keras.config.floatx(), keras.config.dtype_policy().name, len(sys.path))
"""
    run([python, "-c", program], ROOT, KERAS_BACKEND=backend)


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_trained_models_predict_what_they_predict_on_tensorflow(backend, python):
    files = (
        "integration/test_workdirs_0_1.py",
        "training/test_muon.py",
        "training/test_optimizers.py",
    )
    run(
        [with_tensorflow(python), "-m", "pytest", *(f"tests/{file}" for file in files)],
        ROOT,
        KERAS_BACKEND=backend,
    )


@pytest.mark.parametrize("backend", ["jax"])
def test_steps_equal_those_of_tensorflow_and_numpy_on(backend, python):
    files = ("test_step.py", "test_loss_scale.py", "test_evaluation.py")
    # Collected only if they are named.
    files += tuple(
        f"jax_only/{name}.py" for name in ("compilation", "layouts", "options", "random_numbers")
    )
    run(
        [with_tensorflow(python), "-m", "pytest"]
        + [f"tests/training/engines/{file}" for file in files],
        ROOT,
        KERAS_BACKEND=backend,
        XLA_FLAGS="--xla_force_host_platform_device_count=2",
    )


@pytest.mark.parametrize("backend", ["jax"])
@pytest.mark.parametrize(
    "family, tokenizer",
    [("bert", "wordpiece"), ("gpt2", "bpe"), ("xlnet", "sentencepiece")],
)
def test_prepared_text_trains_without_tensorflow_on(backend, family, tokenizer, python, tmp_path):
    write_corpus(tmp_path / "text.txt", 0, 60)
    prepare = ["--input=text.txt", "--output=prepared", f"--tokenizer={tokenizer}"]
    prepare += ["--vocab_size=300", "--format=lines"]
    variables = {"PYTHONPATH": str(ROOT), "KERAS_BACKEND": backend}
    run([sys.executable, "-m", "pretrain.prepare", *prepare], tmp_path, PYTHONPATH=str(ROOT))
    flags = ["--config=pretrain", f"--config.model.family={family}", "--config.model.size=tiny"]
    flags += ["--config.data.train=prepared", "--config.train.steps=2"]
    flags += ["--config.train.batch_size=4", "--config.data.length=32", f"--engine={backend}"]
    found = []
    for one, name in ((python, "without"), (with_tensorflow(python), "with")):
        run([one, "-m", "pretrain", *flags, f"--workdir={name}"], tmp_path, **variables)
        lines = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        found.append([json.loads(line)["loss"] for line in lines])
    assert found[0] == found[1]
    events = tmp_path / "with" / "events"
    assert events.is_dir() and not (tmp_path / "without" / "events").exists()


@pytest.mark.parametrize("backend", ["jax"])
def test_what_requires_tensorflow_is_reported_on(backend, python, tmp_path):
    write_corpus(tmp_path / "text.txt", 0, 60)
    flags = ["--config=bert_tiny", "--config.data.train=text.txt", "--workdir=run"]
    with pytest.raises(
        AssertionError, match="error: This command requires tensorflow.*, which is not"
    ):
        run(
            [python, "-m", "pretrain", f"--engine={backend}", *flags],
            tmp_path,
            PYTHONPATH=str(ROOT),
        )


@pytest.mark.slow(minutes=25)
@pytest.mark.parametrize("backend", ["jax"])
def test_commands_train_on(backend, python):
    run(
        [with_tensorflow(python), "-m", "pytest", "-m", "slow", "-n", "2"]
        + ["tests/integration/jax_engine.py"],
        ROOT,
        timeout=1500,
        KERAS_BACKEND=backend,
    )
