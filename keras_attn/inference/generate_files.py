"""Generating from prompts: texts and files in, files out."""

import json

from keras_attn.convert import read_ready
from keras_attn.data.sources.files import find_files
from keras_attn.data.sources.streams import display_name
from keras_attn.data.sources.table_formats import BadRow, Lines, without_end
from keras_attn.errors import UserError
from keras_attn.inference.outputs import opened
from keras_attn.registry import TASKS
from keras_attn.tasks.causal_lm.generator import Generator, check_options

CHUNK = 256  # prompts worked through before what was found is written
BETWEEN = "-" * 20  # texts that are printed


def generate_texts(workdir, prompts, output="-", precision="float32", **options):
    """Writes what may follow each prompt: plain, or a line of JSON each to a .jsonl.

    Args:
        workdir: Of a language model.
        prompts: List of strings, or a text file of one a line, or `-` for standard input.
        output: File that ends in .jsonl; `-` for standard output.
        precision: See `keras_attn.load`.
        **options: Of `Generator.generate`.
    """
    if options.get("nbest") is None:
        options["nbest"] = 1
    check_options(**options)
    trained = read_ready(workdir)  # before the output is opened
    if trained.task != Generator.task:
        raise UserError(
            "A causal language model is needed. "
            f"Received: {workdir}, of {trained.family.name} ({trained.kind})"
        )
    source = prompts if isinstance(prompts, str) else None
    prompts = (
        list(prompts)
        if source is None
        else [prompt for path in find_files(source) for prompt in _read_prompts(path)]
    )
    with opened(output, (".jsonl",), inputs=(source,), workdir=workdir) as file:
        generator = TASKS[trained.task].load(trained, precision)
        del trained  # its weights are in the model now
        chunks = [
            (prompts[start : start + CHUNK], start) for start in range(0, len(prompts), CHUNK)
        ]
        for chunk, number in chunks:  # the last one, too, before the work on the first
            generator.encode(chunk, options.get("max_tokens"), options.get("min_tokens", 0), number)
        for chunk, number in chunks:
            for found in generator.generate(chunk, number=number, **options):
                if output == "-":
                    file.write("".join(f"{one['text']}\n{BETWEEN}\n" for one in found))
                else:
                    file.write(json.dumps(found, ensure_ascii=False) + "\n")
            file.flush()


def _read_prompts(path):
    prompts = []
    for number, line in enumerate(Lines(path, "utf-8"), 1):
        if isinstance(line, BadRow):
            raise UserError(
                f"Line {number:,} of {display_name(path)} is too long for a prompt; "
                "shorten it to what the model can read"
            )
        prompts.append(without_end(line))
    return prompts
