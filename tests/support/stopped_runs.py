"""Runs that are stopped after their first checkpoint."""

import pytest

from keras_attn.training.checkpoints import Checkpoints


def stop_at_first_checkpoint(train, config, workdir):
    """Calls `finetune` or `pretrain`, which is interrupted after it has written a checkpoint."""
    save = Checkpoints.save

    def stopped(self, step, *args, **kwargs):
        save(self, step, *args, **kwargs)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Checkpoints, "save", stopped)
        train(config, workdir=str(workdir))
