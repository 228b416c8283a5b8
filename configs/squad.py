r"""SQuAD 1.1 or 2.0: which part of a passage answers a question?

    python -m finetune --config=configs/squad.py --pretrained=runs/mini --workdir=runs/squad \
        --config.data.train=train-v2.0.json --config.data.validation=dev-v2.0.json

Rows are shorter where the position table of the model is: `--config.data.length=128`.
"""

from keras_attn.defaults import finetuning_defaults


def get_config():
    config = finetuning_defaults()
    config.data.update(task="reading_comprehension", length=384)
    config.eval.metric = "f1"
    return config
