r"""Extractive question answering on SQuAD 1.1 or 2.0.

    python -m finetune --config=configs/squad.py --pretrained=runs/mini --workdir=runs/squad \
        --config.data.train=train-v2.0.json --config.data.validation=dev-v2.0.json

If the model has fewer than 384 positions, lower `--config.data.length`, for example to 128.
"""

from keras_attn.defaults import finetuning_defaults


def get_config():
    config = finetuning_defaults()
    config.data.update(task="reading_comprehension", length=384)
    config.eval.metric = "f1"
    return config
