"""Checkpoints of `transformers`: config.json, safetensors and the files of the tokenizer."""

from keras_attn.checkpoints import roberta_files
from keras_attn.families.encoder_folders import DEFAULTS, NEEDED, EncoderFolders
from keras_attn.families.roberta.family import FAMILY
from keras_attn.families.roberta.tensors import MASKED_LM, PREFIX, model_tensors


class _Roberta(EncoderFolders):
    def has_pooler(self, task, heads, header):
        return task == "backbone" and bool(_poolers(header))

    def unused(self, task, header):
        # Released masked language models have an untrained pooler.
        return set() if task == "backbone" else _poolers(header)

    def read_tokenizer(self, folder, rows):
        return roberta_files.read_tokenizer(folder, rows), False

    def write_tokenizer(self, folder, trained):
        length = trained.architecture["max_length"]
        roberta_files.write_tokenizer(folder, trained.tokenizer, length)

    def settings(self, trained):
        tokenizer = trained.tokenizer
        return {
            **super().settings(trained),
            "bos_token_id": tokenizer.cls_id,
            "eos_token_id": tokenizer.sep_id,
        }


def _poolers(header):
    return {name for name in header if ".pooler.dense." in f".{name}"}


_FOLDERS = _Roberta(
    family=FAMILY,
    model_type="roberta",
    classes="Roberta",
    own={"RobertaForMaskedLM": "masked_lm", "RobertaModel": "backbone"},
    tensors=model_tensors,
    prefix=PREFIX,
    masked_lm=MASKED_LM,
    defaults={**DEFAULTS, "vocab_size": 50265, "pad_token_id": 1},
    needed=NEEDED,
    dropout="classifier_dropout",
    fixed={"norm_first": False},
    mlm_activation="gelu_erf",  # whatever `hidden_act`
    skips_positions=True,
)
read, write, layout_of = _FOLDERS.read, _FOLDERS.write, _FOLDERS.layout_of
