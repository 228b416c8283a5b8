"""Masked examples in keras-attn, as `python -m pretrain` reads them."""

import os
import tempfile

import tensorflow as tf

from benchmarks.interleaved import serve
from keras_attn.data.batches import StreamBatches
from keras_attn.data.shards.prepare import prepare as prepare_text
from keras_attn.tasks.pretraining.masked_examples import PretrainingExamples
from keras_attn.text.wordpiece import WordPieceTokenizer
from keras_attn.training.engines.tensorflow.feed import distributed_batches


def prepare(options):
    tokenizer = WordPieceTokenizer.from_file(options["vocabulary"], True)
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    rows = options["rows"]

    def open_folder(folder):
        prepare_text(options["text"], tokenizer, folder, format="lines")
        return StreamBatches(
            PretrainingExamples(
                folder, tokenizer, length=options["length"], max_predictions=options["predictions"]
            ),
            rows,
        )

    def text_to_batches(count):
        made = 0
        for _ in range(count):
            with tempfile.TemporaryDirectory(dir=options["folder"]) as folder:
                batches = open_folder(folder)
                stop = batches.num_examples // rows  # full batches only
                for batch in distributed_batches(batches, strategy, start=0, stop=stop):
                    made += len(batch["token_ids"])
        return {"rows": made / count}

    if options["what"] == "text":
        return text_to_batches
    folder = os.path.join(options["folder"], "prepared")
    feed = iter(distributed_batches(open_folder(folder), strategy, start=0))

    def ids_to_batches(count):
        for _ in range(count):
            next(feed)
        return {"rows": rows}

    return ids_to_batches


if __name__ == "__main__":
    serve(prepare)
