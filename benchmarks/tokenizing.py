"""Throughput of the tokenizer, compared with Hugging Face `tokenizers`.

python -m benchmarks.tokenizing --input='novels/train/*.txt.gz' --vocabulary=vocab.txt
"""

import time

import numpy as np
from absl import app, flags
from tokenizers import BertWordPieceTokenizer

from keras_attn.data.processes import available_cores
from keras_attn.data.shards.prepare import sample_texts
from keras_attn.text.wordpiece import WordPieceTokenizer

_INPUT = flags.DEFINE_string("input", None, "Text, as for pretrain.prepare.", required=True)
_VOCABULARY = flags.DEFINE_string("vocabulary", None, "Vocabulary file.", required=True)
_LOWERCASE = flags.DEFINE_bool("lowercase", True, "Whether the vocabulary is uncased.")
_MEGABYTES = flags.DEFINE_float("megabytes", 20.0, "Amount of text.")
_REPEATS = flags.DEFINE_integer("repeats", 7, "Number of measurements of each.")


def main(_):
    texts, megabytes = [], 0.0
    for text in sample_texts(_INPUT.value):
        texts.append(text)
        megabytes += len(text.encode()) / 1e6
        if megabytes >= _MEGABYTES.value:
            break
    cores = available_cores()
    ours = WordPieceTokenizer.from_file(_VOCABULARY.value, _LOWERCASE.value)
    peer = BertWordPieceTokenizer(_VOCABULARY.value, lowercase=_LOWERCASE.value)
    runs = {
        f"keras-attn, {cores} threads": lambda: ours.encode(texts, cores),
        "keras-attn, 1 thread": lambda: ours.encode(texts),
        "tokenizers, its own threads": lambda: peer.encode_batch(texts, add_special_tokens=False),
    }
    speeds = {name: [] for name in runs}
    for repeat in range(_REPEATS.value + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if repeat:  # the first warms up
                speeds[name].append(megabytes / (time.perf_counter() - start))
    print(f"{len(texts):,} sentences, {megabytes:.1f} MB, {cores} cores")
    for name, values in speeds.items():
        low, middle, high = np.quantile(values, [0, 0.5, 1])
        print(f"{name:30}{middle:8.1f} MB/s   ({low:.1f} to {high:.1f})")


if __name__ == "__main__":
    app.run(main)
