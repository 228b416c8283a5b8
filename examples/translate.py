r"""Trains a translator on two aligned files for a few minutes and translates with it.

    python examples/translate.py --source=train.en --target=train.de --minutes=10 \
        --text='A man in a red shirt is standing on a ladder.'

The last 500 sentence pairs, or the last tenth if there are fewer than 5,000, are used for
validation.
"""

import os

from absl import flags

from keras_attn.cli.command_line import run_command
from keras_attn.cli.config_files import find_config, load_config
from keras_attn.errors import UserError

FLAGS = flags.FLAGS
flags.DEFINE_string("source", None, "Source sentences, one per line.", required=True)
flags.DEFINE_string("target", None, "Their translations, one per line.", required=True)
flags.DEFINE_string("workdir", "runs/translate", "Folder of all results.")
flags.DEFINE_float("minutes", 10.0, "Minutes of training.")
flags.DEFINE_integer("vocab_size", 4000, "Vocabulary size; lower it for a few thousand sentences.")
flags.DEFINE_multi_string(
    "text", ["A man in a red shirt is standing on a ladder."], "Text to translate; may be repeated."
)


def main():
    from keras_attn import finetune, load

    config = load_config(*find_config("multi30k"))
    for split, paths in split_pairs().items():
        config.data[split].update(paths)
    config.train.update(minutes=FLAGS.minutes, epochs=None)
    config.data.vocab_size = FLAGS.vocab_size
    config.checkpoint.every = 20  # the last ones are averaged: keep them close in a short run
    finetune(config, workdir=f"{FLAGS.workdir}/run")
    translator = load(f"{FLAGS.workdir}/run")
    for text, translation in zip(FLAGS.text, translator.translate(FLAGS.text), strict=True):
        print(f"\n{text}\n{translation}")


def split_pairs():
    """Writes training and validation files and returns their paths, `{split: {side: path}}`."""
    from keras_attn.tasks.translation.parallel_text import read_parallel

    texts = read_parallel(FLAGS.source, FLAGS.target)
    if len(texts) < 10:
        raise UserError(
            f"At least 10 sentence pairs are required. Received: {len(texts)} in {FLAGS.source}"
        )
    first = len(texts) - min(500, len(texts) // 10)
    os.makedirs(FLAGS.workdir, exist_ok=True)
    paths = {
        split: {side: f"{FLAGS.workdir}/{split}.{side}" for side in ("source", "target")}
        for split in ("train", "validation")
    }
    for side, lines in (("source", texts.sources), ("target", texts.targets)):
        for split, own in (("train", lines[:first]), ("validation", lines[first:])):
            write_once(paths[split][side], "".join(f"{line}\n" for line in own))
    return paths


def write_once(path, text):
    """Writes a file; an existing one must have the same content, so that the run can resume."""
    if os.path.exists(path):
        with open(path, encoding="utf-8", newline="\n") as file:
            if file.read() == text:
                return
        raise UserError(
            f"{path} holds other sentences. Choose another --workdir. "
            f"Received: --workdir={FLAGS.workdir}"
        )
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


if __name__ == "__main__":
    run_command(main, __doc__)
