"""Steps with Muon are the same for any split of the batch, and follow float32 in half precision."""

import numpy as np
import pytest

from keras_attn.data.batches import StreamBatches
from keras_attn.models import BertEncoder, BertPretrainer
from keras_attn.training.engines import make_engine
from tests.support.quick import THOROUGH
from tests.support.regression import ROWS, BertRows

pytestmark = pytest.mark.runs


class Rows(BertRows):
    """Rows that do not depend on how a batch is split."""

    def rows(self, start, stop):
        whole = super().rows(0, self.num_examples)
        return {name: array[start:stop] for name, array in whole.items()}


def _three_steps(replicas=1, accumulate=1, dtype="float32", **options):
    """Returns the records, and the changes of the fused kernels."""
    engine = make_engine(strategy="one_device" if replicas == 1 else "mirrored")
    with engine.scope():
        backbone = BertEncoder(50, 1, 8, 2, dropout=0.0, max_length=16, seed=1, dtype=dtype)
        model = BertPretrainer(backbone, dtype=dtype)
        model.build()
        optimizer = engine.make_optimizer("muon", model)
    step = engine.make_step(model, optimizer, accumulate=accumulate, **options)
    kernel = model.backbone.encoder_layers[0].attention.query_key_value_kernel
    before = kernel.numpy()
    rows = step.run(step.feed(StreamBatches(Rows(), ROWS), 0), 0, np.full(3, 0.02))
    parts = [kernel.value]
    if replicas > 1:
        parts = engine.strategy.experimental_local_results(kernel.value)
    assert len(parts) == replicas
    return rows, [part.numpy() - before for part in parts]


@pytest.fixture(scope="module")
def single():
    return _three_steps()


@pytest.mark.parametrize(
    ("replicas", "accumulate", "jit"),
    [(2, 2, False), pytest.param(1, 2, True, marks=THOROUGH)],
)
def test_replicas_and_micro_batches_do_not_change_the_steps(replicas, accumulate, jit, single):
    rows, changes = _three_steps(replicas, accumulate, jit=jit)
    for row, wanted in zip(rows, single[0], strict=True):
        assert row["loss"] == pytest.approx(wanted["loss"], rel=1e-4)
    for change in changes:
        np.testing.assert_array_equal(change, changes[0])
        np.testing.assert_allclose(change, single[1][0], atol=2e-4)
    assert np.abs(single[1][0]).max() > 0.02


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_steps_in_half_precision_follow_those_in_float32(dtype, single):
    rows, (change,) = _three_steps(dtype=dtype)
    for row, wanted in zip(rows, single[0], strict=True):
        assert row["loss"] == pytest.approx(wanted["loss"], rel=0.01)
    assert not any(row.get("skipped") for row in rows)
    # Rounding of small gradients changes directions with small singular values most.
    assert np.linalg.norm(change - single[1][0]) < 0.5 * np.linalg.norm(single[1][0])
