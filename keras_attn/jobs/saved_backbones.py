"""GPT-2 and XLNet to finetune from, and their classifiers."""

import functools

from keras_attn.jobs.saved_run import SavedRun
from keras_attn.training.checkpoints import check_values, variables_by_path
from keras_attn.workdir import Workdir, run_folder


class SavedBackbone(SavedRun):
    """A pretrained model, or a classifier made of it; as `Saved` of a BERT.

    Args:
        path: Its workdir, or a folder of several runs.
        family: `Family`.

    Attributes:
        kind: "finetuning" of a classifier, else "pretraining".
        labels, pairs: Of a classifier: names of its classes, and whether it takes pairs.
        heads: Further arguments of the classifier.
        tokenizer, lowercase: How text is read.
    """

    def __init__(self, path, family):
        self.KINDS = (family.kind, family.pretraining)
        self.NAME = family.backbone.__name__
        super().__init__(run_folder(path))
        workdir = Workdir(self.path)
        self.family = family
        self.kind = "finetuning" if self.saved["kind"] == family.kind else "pretraining"
        self.heads = self.saved.get("heads", {})
        self.labels = self.pairs = None
        if self.kind == "finetuning":
            found = workdir.read_labels()
            self.labels, self.pairs = found["names"], found["pairs"]
        self.lowercase = bool(self.config["data"].get("lowercase"))
        self.tokenizer = family.read(self.path, self.lowercase)

    @functools.cached_property
    def by_part(self):
        """Arrays by path below the task model."""
        return {_part(path): array for path, array in self.weights.items()}

    def match_heads(self, wanted, new):
        """The wanted heads that start at random: no pretraining has them."""
        here = {part for path in self.by_part for part in path.split("/")}
        return sorted(set(wanted) - here), []

    def assign(self, model, new=()):
        """Sets the weights of a classifier.

        Args:
            model: The classifier.
            new: Names of the heads that keep the weights they have.
        """
        wanted = {_part(path): variable for path, variable in variables_by_path(model).items()
                  if not set(new).intersection(path.split("/"))}
        values = {path: self.by_part[path] for path in wanted if path in self.by_part}
        check_values(wanted, values, f"The checkpoint of {self.path}")
        for path, value in values.items():
            wanted[path].assign(value)

    def make_model(self, dtype="float32"):
        """The trained classifier."""
        backbone = self.family.backbone(**self.architecture, dtype=dtype, name=self.family.name)
        model = self.family.classifier(backbone, **self.heads, dtype=dtype)
        model.build()
        self.assign(model)
        return model


def _part(path):
    """model/TASK/backbone/… without the first two."""
    return path.split("/", 2)[2]
