r"""Classification of the rows of a TSV, CSV, JSONL or Parquet file.

    python -m finetune --config=configs/classify.py --pretrained=runs/mini --workdir=runs/mine \
        --config.data.train=train.csv --config.data.validation=valid.csv \
        --config.data.text=review --config.data.label=stars

For sentence pairs, add `--config.data.text_pair=COLUMN`; for several labels per row, set
`--config.data.task=multilabel`; for numeric targets, `--config.data.task=regression`. Files whose
lines are `label text` require `--config.data.format=label_text`.
"""

from keras_attn.defaults import finetuning_defaults


def get_config():
    return finetuning_defaults()
