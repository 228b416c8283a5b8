r"""Any labelled TSV, CSV, JSONL or Parquet file.

    python -m finetune --config=configs/classify.py --pretrained=runs/mini --workdir=runs/mine \
        --config.data.train=train.csv --config.data.validation=valid.csv \
        --config.data.text=review --config.data.label=stars

Sentence pairs also take `--config.data.text_pair=COLUMN`, any number of labels a row
`--config.data.task=multilabel`, numbers to predict `--config.data.task=regression`. Files of
`label text` lines need `--config.data.format=label_text`.
"""

from keras_attn.defaults import finetuning_defaults


def get_config():
    return finetuning_defaults()
