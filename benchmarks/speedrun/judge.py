"""The judge of the speedrun: held-out nats per character of masked words, for any tokenizer.

    python -m benchmarks.speedrun.judge --workdir=runs/mini --held_out='novels/valid/*.txt.gz'

The text is divided into rows of at most 300 characters, so that they fit into 128 tokens. A hash of
file, position and seed selects 15 % of the words, which are everything between spaces. All subwords
of a selected word are replaced by mask tokens, without the 10 % of random and 10 % of unchanged
tokens of training. Its loss is the sum over its subwords, so that the same characters are predicted
whatever the vocabulary.
Models with another lower-casing are not comparable.
"""

import hashlib
import json
import math
import re

import numpy as np
from absl import flags

from keras_attn.errors import UserError

FRACTION, CHARACTERS, ROWS = 0.15, 300, 1024
UNKNOWN = math.log(256)  # nats per character of an unknown subword, as of random bytes


def selected(name, position, seed=0, fraction=FRACTION):
    """Returns whether the word at a position of a file is masked."""
    digest = hashlib.blake2b(f"{seed}/{name}/{position}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") < fraction * 2**64


def rows_of(documents, seed=0, characters=CHARACTERS, most=ROWS):
    """Divides documents into rows of whole words.

    Args:
        documents: Dict from names to texts.
        seed: Seed of the masked words.
        characters: Maximum number of characters of a row, unless a single word has more.
        most: Maximum number of rows, evenly spaced over all.

    Returns:
        List of pairs: the text of a row, and the `(start, end)` of each masked word in it.
    """
    rows = []
    for name, text in documents.items():
        row, spans = "", []
        for position, word in enumerate(re.findall(r"\S+", text)):
            if row and len(row) + 1 + len(word) > characters:
                rows.append((row, spans))
                row, spans = "", []
            row = f"{row} {word}" if row else word
            if selected(name, position, seed):
                spans.append((len(row) - len(word), len(row)))
        rows.append((row, spans))
    step = max(1.0, len(rows) / most)
    return [rows[int(number * step)] for number in range(min(len(rows), most))]


def nats_per_character(predict, tokenizer, rows, length=128, batch_size=32):
    """Returns the mean loss of the masked words.

    Args:
        predict: Function of a batch of a masked language model, with `mask_ids`, that returns the
            cross-entropy `(B, P)` of the masked tokens.
        tokenizer: The tokenizer of the model.
        rows: Result of `rows_of`.
        length: Maximum number of tokens of a row, including special tokens.
        batch_size: Rows per batch.

    Returns:
        Dict of `nats_per_character`, and the numbers of masked `characters` and `subwords`.

    Raises:
        UserError: If a row has more tokens than `length`.
    """
    examples = [_example(tokenizer, row) for row in _encoded(tokenizer, rows)]
    longest = max(len(ids) for ids, _, _ in examples)
    if longest > length:
        raise UserError(f"Rows must have at most {length} tokens. Received: {longest} tokens")
    slots = max(len(positions) for _, positions, _ in examples)
    nats = sum(unknown for _, _, unknown in examples)
    for first in range(0, len(examples), batch_size):
        batch = _batch(tokenizer, examples[first : first + batch_size], length, slots)
        nats += float(np.sum(np.asarray(predict(batch), np.float64) * batch["mask_weights"]))
    characters = sum(end - start for _, spans in rows for start, end in spans)
    subwords = sum(len(positions) for _, positions, _ in examples)
    return {
        "nats_per_character": nats / characters,
        "characters": characters,
        "subwords": subwords,
    }


def _encoded(tokenizer, rows):
    """Yields the ids of each row, the span of each token, and the spans of the masked words."""
    ids, ends, spans = tokenizer.encode_with_spans([text for text, _ in rows])
    starts = [0, *ends[:-1]]
    for (_, words), start, end in zip(rows, starts, ends, strict=True):
        yield ids[start:end], spans[start:end], words


def _example(tokenizer, encoded):
    """Returns the ids of a row, the masked positions, and the nats of unknown subwords."""
    ids, spans, words = encoded
    before, after = tokenizer.row_layout.before, tokenizer.row_layout.after
    positions, unknown = [], 0.0
    for start, end in words:
        for token in np.flatnonzero((spans[:, 0] < end) & (spans[:, 1] > start)).tolist():
            positions.append(token + len(before))
            if ids[token] == tokenizer.unk_id:
                unknown += UNKNOWN * (min(spans[token, 1], end) - max(spans[token, 0], start))
    return np.array([*before, *ids.tolist(), *after], np.int32), positions, unknown


def _batch(tokenizer, examples, length, slots):
    count = len(examples)
    batch = {
        "token_ids": np.full((count, length), tokenizer.pad_id, np.int32),
        "padding_mask": np.zeros((count, length), np.int32),
        "segment_ids": np.zeros((count, length), np.int32),
        "mask_positions": np.zeros((count, slots), np.int32),
        "mask_ids": np.zeros((count, slots), np.int32),
        "mask_weights": np.zeros((count, slots), np.float32),
    }
    for row, (ids, positions, _) in enumerate(examples):
        used = slice(len(positions))
        batch["token_ids"][row, : len(ids)] = ids
        batch["padding_mask"][row, : len(ids)] = 1
        batch["mask_positions"][row, used] = positions
        batch["mask_ids"][row, used] = ids[positions]
        batch["mask_weights"][row, used] = 1.0
        batch["token_ids"][row, positions] = tokenizer.mask_id
    return batch


def read_texts(pattern):
    """Returns the texts of files by name, without their folders."""
    import gzip
    import os

    from keras_attn.data.sources.files import find_files

    texts = {}
    for path in find_files(pattern):
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
            texts[os.path.basename(path)] = file.read().decode("utf-8-sig")
    return texts


def judge(workdir, held_out, seed=0):
    """Returns the result of `nats_per_character` for a masked language model.

    Args:
        workdir: Workdir of the model, or a checkpoint of another library.
        held_out: Files of the held-out text.
        seed: Seed of the masked words.
    """
    from keras import ops

    from keras_attn.convert import read_ready

    trained = read_ready(workdir)
    model = trained.make_model()

    def predict(batch):
        return ops.convert_to_numpy(model(batch, training=False)["mlm_errors"])

    return nats_per_character(predict, trained.tokenizer, rows_of(read_texts(held_out), seed))


def main():
    print(json.dumps(judge(flags.FLAGS.workdir, flags.FLAGS.held_out)))


if __name__ == "__main__":
    from keras_attn.cli.command_line import run_command

    flags.DEFINE_string("workdir", None, "Workdir of the model.", required=True)
    flags.DEFINE_string("held_out", None, "Files of the held-out text.", required=True)
    run_command(main, __doc__)
