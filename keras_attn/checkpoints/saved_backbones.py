"""GPT-2 and XLNet to start from or to use, and their classifiers."""

from keras_attn import convert
from keras_attn.checkpoints.architectures import check_size
from keras_attn.checkpoints.stored_model import StoredModel, with_tokenizer
from keras_attn.convert.workdirs import config_of
from keras_attn.errors import UserError
from keras_attn.training.variables import check_values, digest, variables_by_path


class SavedBackbone:
    """A pretrained model, or a classifier made of it; as `Saved` of a BERT.

    Args:
        path: A workdir, a folder of several runs, or a folder of another library; see
            `keras_attn.convert`.
        family: `Family`.
        lowercase: Whether text is lower-cased, for a folder that does not say.
        name: What messages call `lowercase`.
        pretrained: Whether a classifier is refused.

    Attributes:
        kind: "finetuning" of a classifier, else "pretraining".
        labels, pairs: Of a classifier: names of its classes, and whether it takes pairs.
        config: Of the run, or what a run would have.
        architecture, heads: Arguments of the backbone, and further ones of the classifier.
        tokenizer, lowercase: How text is read.
        weights: Arrays by path below the task model.

    Raises:
        UserError: If it is none of the family.
    """

    def __init__(self, path, family, lowercase=None, name="lowercase", pretrained=False):
        stored = convert.read(path)
        if not isinstance(stored, StoredModel) or stored.family is not family or \
                pretrained and stored.is_classifier:
            wanted = family.backbone.__name__
            found = stored.family.backbone.__name__ if isinstance(stored, StoredModel) else "BERT"
            raise UserError(f"A {'pretrained ' * pretrained}model of {wanted} is needed. "
                            f"Received: {path}, of {found} ({stored.kind})")
        stored = with_tokenizer(stored, lowercase, path, name)
        self.path, self.family = path, family
        self.kind = "finetuning" if stored.is_classifier else "pretraining"
        self.config = config_of(stored)
        self.architecture, self.heads = stored.architecture, stored.heads
        self.labels, self.pairs = stored.labels, stored.pairs
        self.lowercase, self.tokenizer = stored.lowercase, stored.tokenizer
        self.weights, self.released = stored.weights, stored.released

    @property
    def sha256(self):
        """Of all weights."""
        return digest(self.weights)

    def match_heads(self, wanted, new):
        """The wanted heads that start at random: no pretraining has them."""
        here = {part for path in self.weights for part in path.split("/")}
        return sorted(set(wanted) - here), []

    def assign(self, model, new=()):
        """Sets the weights of a model.

        Args:
            model: One of the family's task models.
            new: Names of the heads that keep the weights they have.
        """
        wanted = {path.split("/", 2)[2]: variable  # model/TASK/
                  for path, variable in variables_by_path(model).items()
                  if not set(new).intersection(path.split("/"))}
        values = {path: self.weights[path] for path in wanted if path in self.weights}
        check_values(wanted, values, f"The checkpoint of {self.path}")
        for path, value in values.items():
            wanted[path].assign(value)

    def make_model(self, dtype="float32"):
        """The trained model."""
        check_size(self.architecture, self.weights, self.path)
        backbone = self.family.backbone(**self.architecture, dtype=dtype, name=self.family.name)
        if self.kind == "finetuning":
            model = self.family.classifier(backbone, **self.heads, dtype=dtype)
        else:
            model = self.family.pretrainer(backbone, dtype=dtype)
        model.build()
        self.assign(model)
        return model
