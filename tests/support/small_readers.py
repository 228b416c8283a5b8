"""Small runs of question answering."""

from keras_attn.defaults import finetuning_defaults
from tests.support import squad_files


def reader_config(folder, impossible=False, passages=12, **fields):
    path = squad_files.write(
        folder / "train.json", *squad_files.made_up(passages, impossible=impossible)
    )
    config = finetuning_defaults()
    config.update_from_flattened_dict(
        {
            "data.task": "reading_comprehension",
            "data.train": path,
            "data.length": 32,
            "data.max_question": 8,
            "data.stride": 10,
            "data.vocab_size": 300,
            "train.steps": 2,
            "train.batch_size": 12,
            "train.learning_rate": 0.002,
            "model.dropout": 0.0,
            **fields,
        }
    )
    return config
