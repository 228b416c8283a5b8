r"""MNLI: does the premise entail the hypothesis, contradict it, or neither?

    python -m finetune --config=configs/mnli.py --pretrained=runs/mini --workdir=runs/mnli \
        --config.data.train=MNLI/train.tsv --config.data.validation=MNLI/dev_matched.tsv

Without files the data are `tfds:glue/mnli`.
"""

from keras_attn.defaults import finetuning_defaults


def get_config():
    config = finetuning_defaults()
    config.data.task = "mnli"
    return config
