r"""Tagging of words: named entities, parts of speech, chunks.

    python -m finetune --config=configs/tagging.py --pretrained=runs/mini --workdir=runs/ner \
        --config.data.train=train.conll --config.data.validation=dev.conll

Files are CoNLL, CoNLL-U or JSONL. For a conditional random field on top, add `--config.model.crf`.
"""

from keras_attn.defaults import finetuning_defaults


def get_config():
    config = finetuning_defaults()
    config.data.task = "tagging"
    return config
