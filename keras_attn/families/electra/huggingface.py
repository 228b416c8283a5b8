"""Checkpoints of `transformers`: config.json, safetensors and the files of the tokenizer."""

from keras_attn.checkpoints.encoder_config import FIELDS
from keras_attn.families.electra.family import FAMILY
from keras_attn.families.electra.tensors import MASKED_LM, PREFIX, model_tensors
from keras_attn.families.encoder_folders import DEFAULTS, NEEDED, EncoderFolders

# The defaults of `transformers` that differ from those of BERT.
_DEFAULTS = {
    "embedding_size": 128,
    "hidden_size": 256,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
}


_FOLDERS = EncoderFolders(
    family=FAMILY,
    model_type="electra",
    classes="Electra",
    own={"ElectraForMaskedLM": "masked_lm", "ElectraModel": "backbone"},
    tensors=model_tensors,
    prefix=PREFIX,
    masked_lm=MASKED_LM,
    defaults={**DEFAULTS, **_DEFAULTS},
    needed=NEEDED,
    fields={**FIELDS, "embedding_dim": "embedding_size"},
    dropout="classifier_dropout",
    mlm_activation="gelu_erf",  # whatever `hidden_act`
)
read, write, layout_of = _FOLDERS.read, _FOLDERS.write, _FOLDERS.layout_of
