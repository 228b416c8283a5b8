"""Trains a translator on two aligned files for a few minutes and translates with it.

    python examples/translate.py --source=train.en --target=train.de --minutes=10 \
        --text='A man in a red shirt is standing on a ladder.'

Of the sentences the last 500, or a tenth if they are fewer than 5,000, are for validation.
"""

import os

from absl import flags

from keras_attn.errors import UserError
from keras_attn.jobs.command_line import find_config, load_config, run_command

FLAGS = flags.FLAGS
flags.DEFINE_string("source", None, "Sentences, one a line.", required=True)
flags.DEFINE_string("target", None, "Their translations, line by line.", required=True)
flags.DEFINE_string("workdir", "runs/translate", "Folder for all results.")
flags.DEFINE_float("minutes", 10.0, "Minutes of training.")
flags.DEFINE_multi_string("text", ["A man in a red shirt is standing on a ladder."],
                          "What to translate.")


def main():
    from keras_attn import finetune, load

    config = load_config(find_config("multi30k"))
    for side in ("source", "target"):
        for split, path in zip(("train", "validation"), split_lines(side), strict=True):
            config.data[split][side] = path
    config.train.update(minutes=FLAGS.minutes, epochs=None)
    finetune(config, workdir=f"{FLAGS.workdir}/run")
    translator = load(f"{FLAGS.workdir}/run")
    for text, translation in zip(FLAGS.text, translator.translate(FLAGS.text), strict=True):
        print(f"\n{text}\n{translation}")


def split_lines(side):
    """Writes the lines of a side to two files, the last of them for validation."""
    with open(FLAGS[side].value, encoding="utf-8", newline="\n") as file:
        lines = file.readlines()
    if len(lines) < 10:
        raise UserError("At least 10 lines are needed. "
                        f"Received: {len(lines)} in {FLAGS[side].value}")
    first = len(lines) - min(500, len(lines) // 10)
    os.makedirs(FLAGS.workdir, exist_ok=True)
    paths = [f"{FLAGS.workdir}/{name}.{side}" for name in ("train", "validation")]
    for path, own in zip(paths, (lines[:first], lines[first:]), strict=True):
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(own)
    return paths


if __name__ == "__main__":
    run_command(main, __doc__)
