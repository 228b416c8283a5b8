"""Throughput from prepared shards to pretraining batches, and statistics of the batches.

python -m benchmarks.examples --folder=runs/novels --vocabulary=vocab.txt
"""

import time

from absl import app, flags

from keras_attn.tasks.pretraining.masked_examples import PretrainingExamples
from keras_attn.text.wordpiece import WordPieceTokenizer

_FOLDER = flags.DEFINE_string("folder", None, "Folder with prepared shards.", required=True)
_VOCABULARY = flags.DEFINE_string("vocabulary", None, "Vocabulary of the shards.", required=True)
_LOWERCASE = flags.DEFINE_bool("lowercase", True, "Whether the vocabulary is uncased.")
_LENGTHS = flags.DEFINE_multi_integer("length", [128, 512], "Sequence length.")
_BATCHES = flags.DEFINE_multi_integer("batch", [32, 256], "Batch size.")
_SECONDS = flags.DEFINE_float("seconds", 5.0, "Seconds per row of the table.")


def measure(examples, batch):
    """Reads examples in order for --seconds and returns statistics by column of the table."""
    rows = longest = random = tokens = masked = 0
    start = now = time.perf_counter()
    while now - start < _SECONDS.value:
        before = now
        made = examples.rows(rows, rows + batch)
        now = time.perf_counter()
        longest = max(longest, now - before)
        rows += batch
        random += made["next_sentence_label"].sum()
        tokens += made["padding_mask"].sum()
        masked += made["mask_weights"].sum()
    return {
        "examples/s": f"{rows / (now - start):,.0f}",
        "slowest batch": f"{longest * 1000:.0f} ms",
        "random next": f"{random / rows:.3f}",
        "mean length": f"{tokens / rows:.1f}",
        "padding": f"{1 - tokens / rows / examples.length:.3f}",
        "masked": f"{masked / tokens:.3f}",
    }


def main(_):
    tokenizer = WordPieceTokenizer.from_file(_VOCABULARY.value, _LOWERCASE.value)
    header = None
    for length in _LENGTHS.value:
        for whole_words in (False, True):
            start = time.perf_counter()
            examples = PretrainingExamples(
                _FOLDER.value,
                tokenizer,
                length=length,
                max_predictions=round(0.15 * length) + 1,
                whole_words=whole_words,
            )
            ready = time.perf_counter() - start
            for batch in _BATCHES.value:
                columns = {
                    "length": length,
                    "whole words": "yes" if whole_words else "no",
                    "batch": batch,
                    "examples": f"{examples.num_examples:,}",
                    "opened in": f"{ready:.2f} s",
                    **measure(examples, batch),
                }
                if header is None:
                    header = list(columns)
                    print("| " + " | ".join(header) + " |")
                    print("|" + " --- |" * len(header))
                print("| " + " | ".join(str(value) for value in columns.values()) + " |")


if __name__ == "__main__":
    app.run(main)
