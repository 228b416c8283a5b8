"""Keras models that run on any Keras backend."""

from keras_attn.models.abcnn import ABCNN, ABCNNClassifier, ABCNNEncoder
from keras_attn.models.attentional_factorization_machine import AttentionalFactorizationMachine
from keras_attn.models.attentive_lstm_classifier import AttentiveLSTMClassifier
from keras_attn.models.bert import (
    BertClassifier,
    BertEncoder,
    BertPretrainer,
    BertQuestionAnswerer,
)
from keras_attn.models.distilbert import DistilBertClassifier
from keras_attn.models.electra import ElectraClassifier, ElectraEncoder, ElectraPretrainer
from keras_attn.models.gpt2 import GPT2, GPT2Classifier, GPT2LanguageModel
from keras_attn.models.hierarchical_attention_network import HierarchicalAttentionNetwork
from keras_attn.models.modernbert import (
    ModernBertClassifier,
    ModernBertEncoder,
    ModernBertPretrainer,
    ModernBertQuestionAnswerer,
    ModernBertTokenClassifier,
)
from keras_attn.models.pointer_generator import PointerGenerator
from keras_attn.models.pointer_network import PointerNetwork
from keras_attn.models.recurrent import (
    AttentiveCNN,
    AttentiveReader,
    BahdanauSeq2Seq,
    HierarchicalEncoder,
    LuongSeq2Seq,
    RecurrentClassifier,
    RecurrentEncoder,
    RecurrentLanguageModel,
)
from keras_attn.models.roberta import RobertaClassifier
from keras_attn.models.token_classifier import TokenClassifier
from keras_attn.models.transformer import Transformer
from keras_attn.models.xlnet import XLNet, XLNetClassifier, XLNetPretrainer

__all__ = [
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
]
