"""Checkpoints of `transformers`: config.json, safetensors and the files of the tokenizer."""

from keras_attn.checkpoints.word_piece_files import write_tokenizer
from keras_attn.families.distilbert.family import FAMILY, FIXED
from keras_attn.families.distilbert.tensors import MASKED_LM, PREFIX, model_tensors
from keras_attn.families.encoder_folders import EncoderFolders

_FIELDS = {
    "vocabulary_size": "vocab_size",
    "num_layers": "n_layers",
    "hidden_dim": "dim",
    "num_heads": "n_heads",
    "intermediate_dim": "hidden_dim",
    "max_length": "max_position_embeddings",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "initializer_range": "initializer_range",
}
# The defaults of `transformers` for fields that config.json lacks.
_DEFAULTS = {
    "vocab_size": 30522,
    "n_layers": 6,
    "dim": 768,
    "n_heads": 12,
    "hidden_dim": 3072,
    "max_position_embeddings": 512,
    "activation": "gelu",
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "initializer_range": 0.02,
    "seq_classif_dropout": 0.2,
    "tie_word_embeddings": True,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
}


class _DistilBert(EncoderFolders):
    def write_tokenizer(self, folder, trained):
        write_tokenizer(
            folder,
            trained.tokenizer.vocabulary,
            trained.lowercase,
            trained.architecture["max_length"],
            "DistilBertTokenizer",
        )

    def settings(self, trained):
        # The head of our question answering has no dropout.
        dropout = {"qa_dropout": 0.0} if trained.task == "span_qa" else {}
        return {**super().settings(trained), **dropout, "sinusoidal_pos_embds": False}


_FOLDERS = _DistilBert(
    family=FAMILY,
    model_type="distilbert",
    classes="DistilBert",
    own={"DistilBertForMaskedLM": "masked_lm", "DistilBertModel": "backbone"},
    tensors=model_tensors,
    prefix=PREFIX,
    masked_lm=MASKED_LM,
    defaults=_DEFAULTS,
    fields=_FIELDS,
    activation_field="activation",
    fixed=FIXED,
    dropouts={"classification": "seq_classif_dropout"},
)
read, write, layout_of = _FOLDERS.read, _FOLDERS.write, _FOLDERS.layout_of
