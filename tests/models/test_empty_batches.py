"""Every model on batches without a row, and BERT, GPT-2 and XLNet on texts without a token."""

import keras
import numpy as np
import pytest

from tests.support.every_model import BACKBONES, EVERY_MODEL, ONE_OF_EACH_KIND, make
from tests.support.quick import quick

TOKENLESS = [*BACKBONES, "BertClassifier", "GPT2Classifier", "GPT2LanguageModel", "XLNetClassifier"]


def shapes(model, inputs):
    """Those of all outputs, which must be finite."""
    outputs = keras.tree.flatten(model(inputs))
    assert all(np.isfinite(keras.ops.convert_to_numpy(x)).all() for x in outputs)
    return [tuple(x.shape) for x in outputs]


@pytest.mark.parametrize("name", quick(EVERY_MODEL, *ONE_OF_EACH_KIND))
def test_no_row_gives_no_output(name):
    model, inputs = make(name)
    wanted = shapes(model, inputs)
    found = shapes(model, {key: x[:0] for key, x in inputs.items()})
    assert [x[1:] for x in found] == [x[1:] for x in wanted]
    assert {x[0] for x in found} == {0}


@pytest.mark.parametrize("masked", quick([False, True], True))
@pytest.mark.parametrize("name", TOKENLESS)
def test_a_text_without_tokens_has_a_pooled_output(name, masked):
    model, inputs = make(name)
    kept = {*model.REQUIRED, "padding_mask"} if masked else set(model.REQUIRED)
    inputs = {key: x for key, x in inputs.items() if key in kept}
    wanted = shapes(model, inputs)
    found = shapes(model, {key: x[:, :0] for key, x in inputs.items()})
    tokens = inputs["token_ids"].shape[1]
    assert found == [tuple(0 if n == tokens and i else n for i, n in enumerate(x)) for x in wanted]
