"""The toy family, registered by `FAMILIES.register("toy", "tests.support.toy_family")`."""

import keras
from keras import ops

from keras_attn.families.contract import Family
from keras_attn.families.layer_memory import LayerMemory
from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.models import BertPretrainer
from keras_attn.models.classifier import Classifier
from keras_attn.models.declared_inputs import DeclaredInputs
from keras_attn.text.tokenizer_types import TOKENIZER_TYPES


@keras.saving.register_keras_serializable(package="toy")
class ToyEncoder(DeclaredInputs, keras.Model):
    """Token embeddings plus a dense layer of their mean over real tokens."""

    INPUTS = {"token_ids": "BT", "segment_ids": "BT", "padding_mask": "BT"}
    activation, initializer_range, layer_norm_epsilon, use_pooler = "tanh", 0.05, 1e-6, False

    def __init__(self, vocabulary_size, hidden_dim=16, seed=None, name="toy_encoder", **kwargs):
        super().__init__(name=name, **kwargs)
        self.vocabulary_size, self.hidden_dim, self.seed = vocabulary_size, hidden_dim, seed

    def build(self, input_shape=None):
        seeds = split_seed(self.seed, 2)
        normal = keras.initializers.RandomNormal(stddev=self.initializer_range)
        self.token_embedding = self.add_weight(
            name="token_embedding",
            shape=(self.vocabulary_size, self.hidden_dim),
            initializer=seeded_initializer(normal, seeds[0]),
            autocast=False,
        )
        self.mixing = keras.layers.Dense(
            self.hidden_dim,
            kernel_initializer=seeded_initializer(normal, seeds[1]),
            dtype=self.dtype_policy,
            name="mixing",
        )
        self.mixing.build((None, self.hidden_dim))
        self.built = True

    def select_inputs(self, inputs):
        return {name: inputs[name] for name in self.INPUTS if name in inputs}

    def variables_by_depth(self):
        return [[self.token_embedding], self.mixing.variables]

    def call(self, inputs, training=None):
        x = ops.cast(
            ops.take(self.token_embedding, inputs["token_ids"], axis=0), self.compute_dtype
        )
        real = ops.cast(inputs.get("padding_mask", ops.ones_like(inputs["token_ids"])), x.dtype)
        mean = ops.sum(x * real[:, :, None], 1) / ops.maximum(ops.sum(real, 1), 1)[:, None]
        x = x + self.mixing(mean)[:, None]
        return {"sequence_output": x, "pooled_output": x[:, 0]}

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
            "seed": self.seed,
        }


@keras.saving.register_keras_serializable(package="toy")
class ToyClassifier(Classifier):
    def __init__(
        self, backbone, num_classes, dropout=0.1, pooling=None, name="toy_classifier", **kwargs
    ):
        super().__init__(backbone, num_classes, dropout, pooling, name=name, **kwargs)


class ToyFamily(Family):
    name, title = "toy", "Toy"
    backbone, backbone_name = ToyEncoder, "toy_encoder"
    task_models = {"masked_lm": BertPretrainer, "classification": ToyClassifier}
    tokenizers = TOKENIZER_TYPES["wordpiece"]
    sizes = {}

    def min_parameters(self, architecture):
        return architecture["hidden_dim"] * architecture["vocabulary_size"]

    def memory(self, task, architecture, heads, length, targets):
        size = length * architecture["hidden_dim"]
        return LayerMemory(self.min_parameters(architecture), size, 2 * size, size)


FAMILY = ToyFamily()
