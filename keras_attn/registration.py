"""Registration of classes with Keras before the modules that define them are imported.

After `import keras, keras_attn`, `keras.saving.load_model` must find all classes. But the classes
register themselves when their modules are imported, which is slow because it imports Keras and its
backend, while commands import this package to print `--help`. Keras has no hook for unknown names.
Therefore its registry receives a placeholder for each name, which imports the class on first use.
The placeholders are registered now if Keras is already imported, else right after its import.
"""

import importlib
import importlib.abc
import sys

CLASSES = {
    "keras_attn.layers": (
        "ABCNN1Attention",
        "ABCNN2Pooling",
        "AdditiveScore",
        "AlibiBias",
        "Attention",
        "AttentionCell",
        "AttentionPooling",
        "AttentionalInteraction",
        "AttentiveConvPooling",
        "BahdanauDecoderCell",
        "BilinearScore",
        "CRF",
        "ConcatScore",
        "CopyDistribution",
        "CosineScore",
        "DotScore",
        "ExpandedWindowAttention",
        "HardAttention",
        "HierarchicalAttention",
        "IntraAttentionLSTMCell",
        "LearnedPositionEmbedding",
        "LocalAttention",
        "LocationScore",
        "LuongAttention",
        "MixedAttention",
        "MultiHeadAttention",
        "PointerAttention",
        "PositionwiseFeedForward",
        "RecurrentDecoder",
        "RelativeAttention",
        "RelativePositionBias",
        "RotaryEmbedding",
        "SequenceToSequence",
        "SequenceToVector",
        "SinusoidalPositionEncoding",
        "TransformerDecoderLayer",
        "TransformerEncoderLayer",
        "TwoStreamAttention",
        "VectorToSequence",
        "WindowAttention",
    ),
    "keras_attn.layers.neighbours": ("NeighbourPositions", "NeighbourProjection"),
    "keras_attn.layers.seeds": ("_Seeded",),
    "keras_attn.models": (
        "ABCNN",
        "ABCNNClassifier",
        "ABCNNEncoder",
        "AttentionalFactorizationMachine",
        "AttentiveCNN",
        "AttentiveLSTMClassifier",
        "AttentiveReader",
        "BahdanauSeq2Seq",
        "BertClassifier",
        "BertEncoder",
        "BertPretrainer",
        "BertQuestionAnswerer",
        "DistilBertClassifier",
        "ElectraClassifier",
        "ElectraEncoder",
        "ElectraPretrainer",
        "GPT2",
        "GPT2Classifier",
        "GPT2LanguageModel",
        "HierarchicalAttentionNetwork",
        "HierarchicalEncoder",
        "LuongSeq2Seq",
        "ModernBertClassifier",
        "ModernBertEncoder",
        "ModernBertPretrainer",
        "ModernBertQuestionAnswerer",
        "ModernBertTokenClassifier",
        "PointerGenerator",
        "PointerNetwork",
        "RecurrentClassifier",
        "RecurrentEncoder",
        "RecurrentLanguageModel",
        "RobertaClassifier",
        "TokenClassifier",
        "Transformer",
        "XLNet",
        "XLNetClassifier",
        "XLNetPretrainer",
    ),
    "keras_attn.models.xlnet.layer": ("XLNetLayer",),
    "keras_attn.training.optimizers": ("AdamW", "LAMB"),
}
FUNCTIONS = {
    "keras_attn.ops.activations": ("gelu_erf", "gelu_tanh", "relu2"),
    "keras_attn.ops.crf": ("crf_loss",),
}


def register_with_keras(classes_of_members=dict):
    """Registers a placeholder for each name, now or once Keras is imported.

    Args:
        classes_of_members: Function that returns the classes that families and tasks declare, in
            the form of `CLASSES`.
    """
    if "keras" in sys.modules:
        _register(sys.modules["keras"], classes_of_members)
    else:
        sys.meta_path.insert(0, _AfterKeras(classes_of_members))


def _register(keras, classes_of_members=dict):
    registry = keras.saving.get_custom_objects()
    for placeholder, modules in (
        (_UnloadedClass, CLASSES | classes_of_members()),
        (_unloaded_function, FUNCTIONS),
    ):
        for module, names in modules.items():
            for name in names:
                package, _, name = name.rpartition(">")
                registry.setdefault(f"{package or 'keras_attn'}>{name}", placeholder(module, name))


class _UnloadedClass:
    """Placeholder in the registry until the module of a class is imported."""

    def __init__(self, module, name):
        self.module, self.name = module, name

    def from_config(self, config):
        return getattr(importlib.import_module(self.module), self.name).from_config(config)


def _unloaded_function(module, name):
    def function(*args, **kwargs):
        return getattr(importlib.import_module(module), name)(*args, **kwargs)

    function.__name__ = f"keras_attn>{name}"  # the name in the files of Keras
    return function


class _AfterKeras(importlib.abc.MetaPathFinder):
    """Import hook that registers the placeholders after the import of Keras."""

    def __init__(self, classes_of_members):
        self._classes_of_members = classes_of_members

    def find_spec(self, fullname, path=None, target=None):
        if fullname != "keras":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                sys.meta_path.remove(self)
                _register(module, self._classes_of_members)

            spec.loader.exec_module = exec_module
        return spec
