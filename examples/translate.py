"""Trains a translator on two aligned files for a few minutes and translates with it.

    python examples/translate.py --source=train.en --target=train.de --minutes=10 \
        --text='A man in a red shirt is standing on a ladder.'

Of the sentences the last 500, or a tenth if they are fewer than 5,000, are for validation.
"""

import os

from absl import flags

from keras_attn.cli.command_line import find_config, load_config, run_command
from keras_attn.errors import UserError

FLAGS = flags.FLAGS
flags.DEFINE_string("source", None, "Sentences, one a line.", required=True)
flags.DEFINE_string("target", None, "Their translations, line by line.", required=True)
flags.DEFINE_string("workdir", "runs/translate", "Folder for all results.")
flags.DEFINE_float("minutes", 10.0, "Minutes of training.")
flags.DEFINE_integer("vocab_size", 4000, "Subwords; fewer for a few thousand sentences.")
flags.DEFINE_multi_string("text", ["A man in a red shirt is standing on a ladder."],
                          "What to translate.")


def main():
    from keras_attn import finetune, load

    config = load_config(*find_config("multi30k"))
    for split, paths in split_pairs().items():
        config.data[split].update(paths)
    config.train.update(minutes=FLAGS.minutes, epochs=None)
    config.data.vocab_size = FLAGS.vocab_size
    config.checkpoint.every = 20  # the end is a mean of some: of a short run near ones
    finetune(config, workdir=f"{FLAGS.workdir}/run")
    translator = load(f"{FLAGS.workdir}/run")
    for text, translation in zip(FLAGS.text, translator.translate(FLAGS.text), strict=True):
        print(f"\n{text}\n{translation}")


def split_pairs():
    """Writes the pairs to files, the last of them for validation: `{split: {side: path}}`."""
    from keras_attn.tasks.translation.parallel_text import read_parallel

    texts = read_parallel(FLAGS.source, FLAGS.target)
    if len(texts) < 10:
        raise UserError("At least 10 lines are needed. "
                        f"Received: {len(texts)} in {FLAGS.source}")
    first = len(texts) - min(500, len(texts) // 10)
    os.makedirs(FLAGS.workdir, exist_ok=True)
    paths = {split: {side: f"{FLAGS.workdir}/{split}.{side}" for side in ("source", "target")}
             for split in ("train", "validation")}
    for side, lines in (("source", texts.sources), ("target", texts.targets)):
        for split, own in (("train", lines[:first]), ("validation", lines[first:])):
            write_once(paths[split][side], "".join(f"{line}\n" for line in own))
    return paths


def write_once(path, text):
    """Writes a file, or finds that it holds this already: a run resumes with the same data."""
    if os.path.exists(path):
        with open(path, encoding="utf-8", newline="\n") as file:
            if file.read() == text:
                return
        raise UserError("Other sentences need another --workdir. "
                        f"Received: {FLAGS.workdir}, with {path}")
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


if __name__ == "__main__":
    run_command(main, __doc__)
