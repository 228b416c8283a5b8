"""Workdirs to start from whose models are of one kind alone."""

import functools

import tensorflow as tf

from keras_attn.errors import UserError
from keras_attn.training.checkpoints import Checkpoints
from keras_attn.training.variables import assign_values, digest, variables_by_path
from keras_attn.workdir import Workdir, began_as_released


class SavedRun:
    """A trained model in a workdir.

    Args:
        path: The workdir.
        kinds: Those of its run.
        name: What errors call such a model.

    Attributes:
        saved: Its config.json.
        config: Of the run.
        architecture: Arguments of the model.

    Raises:
        UserError: If it is none.
    """

    def __init__(self, path, kinds, name):
        self.path = path
        workdir = Workdir(path)
        saved = workdir.read_config()
        if saved is None or saved["kind"] not in kinds:
            held = f"of {saved['kind']}" if saved else (
                "without config.json" if tf.io.gfile.exists(path) else "which does not exist")
            raise UserError(f"A workdir of {name} is needed. Received: {path}, {held}")
        self.saved = saved
        self.config, self.architecture = saved["config"], saved["architecture"]
        regular = 1 if self.average < 2 else self.config["checkpoint"]["every"]
        if not regular:
            raise UserError("checkpoint.every must be set with checkpoint.average above 1. "
                            f"Received: {regular} in {workdir / 'config.json'}")
        self.checkpoints = Checkpoints(workdir / "checkpoints", regular=regular)

    @property
    def released(self):
        """Whether the weights began as those of a released model."""
        return began_as_released(self.saved)

    @property
    def average(self):
        """How many of the newest checkpoints the weights are the mean of."""
        return self.config.get("checkpoint", {}).get("average", 1)

    @functools.cached_property
    def weights(self):
        """Arrays by path: the mean of the newest checkpoints, or the best, as the run chose."""
        if self.average > 1:
            found, count = self.checkpoints.read_mean(self.average)
            if count:
                return found
        best = self.checkpoints.read_best("model/")
        if best is None:
            raise UserError(f"A whole checkpoint is needed. Received: {self.path}")
        return best[0]

    @property
    def sha256(self):
        """Of all weights."""
        return digest(self.weights)

    def assign(self, model):
        """Sets the weights of a model of the same architecture."""
        assign_values(variables_by_path(model), self.weights, f"The checkpoint of {self.path}")
