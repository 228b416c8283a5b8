"""A hundred steps of finetuning have the losses of transformers with AdamW of PyTorch."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from keras_attn.convert import read_ready
from keras_attn.training.engines import make_engine
from keras_attn.training.engines.tensorflow.feed import Feed
from keras_attn.training.optimizers import make_optimizer
from tests.support.environments import ROOT, TRANSFORMERS, environment, run

SIDE = pathlib.Path(__file__).with_name("transformers_run.py")


@pytest.mark.slow(minutes=12)  # installs packages
def test_losses_equal_those_of_transformers(tmp_path):
    run([environment("transformers", TRANSFORMERS), SIDE, tmp_path], ROOT)
    theirs = np.load(tmp_path / "run.npz")
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{k}" for k in range(35))]
    (tmp_path / "start/vocab.txt").write_text("\n".join(names) + "\n")
    model = read_ready(tmp_path / "start", lowercase=True).make_model()
    step = make_engine(strategy="one_device").make_step(model, make_optimizer("adamw", model))
    batches = tf.data.Dataset.from_tensor_slices(
        {
            "token_ids": theirs["ids"].astype(np.int32)[:, None],
            "segment_ids": np.zeros_like(theirs["ids"], np.int32)[:, None],
            "padding_mask": theirs["mask"].astype(np.int32)[:, None],
            "label": theirs["labels"].astype(np.int32)[:, None],
            "sample_weight": np.ones_like(theirs["labels"], np.float32)[:, None],
        }
    )
    losses = [record["loss"] for record in step.run(Feed(batches), 0, theirs["rates"])]
    assert np.mean(losses[-10:]) < 0.7 * losses[0], "it must have learned"
    np.testing.assert_allclose(losses, theirs["losses"], rtol=0, atol=2e-5)
