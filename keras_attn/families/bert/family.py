"""The family of BERT."""

from keras_attn.families.bert.architecture import choose_architecture
from keras_attn.families.bert.heads import with_task
from keras_attn.families.bert.tensors import shapes
from keras_attn.families.contract import Family
from keras_attn.models import BertClassifier, BertEncoder, BertPretrainer, BertQuestionAnswerer
from keras_attn.models.bert import BERT_SIZES
from keras_attn.text.recipes import KINDS


class BertFamily(Family):
    """BERT (Devlin et al., 2018)."""

    name, title = "bert", "BERT"
    backbone, backbone_name = BertEncoder, "bert_encoder"
    task_models = {"masked_lm": BertPretrainer, "classification": BertClassifier,
                   "span_qa": BertQuestionAnswerer, "backbone": None}
    tokenizers = KINDS["word_pieces"]
    sizes = BERT_SIZES
    poolers = ("cls",)
    released_pooling = "mean"  # docs/finetuning_defaults.md
    position_table = "bert_encoder/position_embedding/embeddings"

    def choose_architecture(self, run, use_pooler=False):
        return choose_architecture(run, use_pooler)

    def shapes(self, task, architecture, heads):
        return shapes(architecture, task, heads) if task in self.task_models else None

    def with_task(self, trained, task, new_heads):
        return with_task(trained, task, new_heads)


FAMILY = BertFamily()
