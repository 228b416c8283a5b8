r"""Embeddings of texts, for search and similarity.

    python -m finetune --config=configs/embedding.py --pretrained=runs/mini --workdir=runs/search \
        --config.data.train=pairs.tsv --config.data.text=question --config.data.text_pair=answer

Hard negatives are in the column `--config.data.negative`, scores of pairs in `--config.data.label`.
Without pairs, the model is trained on single texts (SimCSE).
"""

from keras_attn.defaults import finetuning_defaults


def get_config():
    config = finetuning_defaults()
    config.data.task = "embedding"
    return config
