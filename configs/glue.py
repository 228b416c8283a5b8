r"""The nine GLUE tasks (Wang et al., 2019): cola, mnli, mrpc, qnli, qqp, rte, sst2, stsb, wnli.

    python -m finetune --config=configs/glue.py:sst2 --pretrained=runs/mini --workdir=runs/sst2 \
        --config.data.train=SST-2/train.tsv --config.data.validation=SST-2/dev.tsv

If `data.train` is unset, the data come from TensorFlow Datasets (`tfds:glue/sst2`).
"""

from keras_attn.defaults import finetuning_defaults
from keras_attn.errors import check_choice
from keras_attn.tasks.classification.glue import GLUE_TASKS


def get_config(task):
    check_choice("task", task, tuple(sorted(GLUE_TASKS)))
    config = finetuning_defaults()
    config.data.update(task=task, on_bad_text=GLUE_TASKS[task].on_bad_text)
    return config
