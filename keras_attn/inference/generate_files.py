"""Generation of texts for prompts and files of prompts."""

import json

from keras_attn.convert import read_ready
from keras_attn.data.sources.files import find_files
from keras_attn.data.sources.streams import display_name
from keras_attn.data.sources.table_formats import (
    BadRow,
    Lines,
    describe_location,
    is_text,
    without_end,
)
from keras_attn.errors import UserError
from keras_attn.inference.outputs import opened
from keras_attn.registry import TASKS
from keras_attn.tasks.generator import check_options

CHUNK = 256  # prompts between writes of the results
SEPARATOR = "-" * 20  # after each printed text


def generate_texts(workdir, prompts, output="-", precision="float32", **options):
    """Writes continuations of prompts: plain text to standard output, or JSON lines to a file.

    Args:
        workdir: Working directory of a language model that generates text.
        prompts: List of strings, or a text file with one prompt per line, or `-` for standard
            input.
        output: .jsonl file; `-` for standard output.
        precision: See `keras_attn.load`.
        **options: Options of `Generator.generate`.
    """
    if options.get("nbest") is None:
        options["nbest"] = 1
    check_options(**options)
    trained = read_ready(workdir)  # before the output is opened
    if not TASKS[trained.task].generates:
        raise UserError(
            "--workdir must contain a language model that generates text. "
            f"Received: {workdir}, a model of {trained.family.name} ({trained.kind})"
        )
    source = prompts if isinstance(prompts, str) else None
    prompts = (
        list(prompts)
        if source is None
        else [prompt for path in find_files(source) for prompt in _read_prompts(path)]
    )
    with opened(output, (".jsonl",), inputs=(source,), workdir=workdir) as file:
        generator = TASKS[trained.task].load(trained, precision)
        del trained  # frees the memory of its weights
        chunks = [
            (prompts[start : start + CHUNK], start) for start in range(0, len(prompts), CHUNK)
        ]
        for chunk, number in chunks:  # checks all prompts before generation starts
            generator.encode(chunk, options.get("max_tokens"), options.get("min_tokens", 0), number)
        for chunk, number in chunks:
            for found in generator.generate(chunk, number=number, **options):
                if output == "-":
                    file.write("".join(f"{one['text']}\n{SEPARATOR}\n" for one in found))
                else:
                    file.write(json.dumps(found, ensure_ascii=False) + "\n")
            file.flush()


def _read_prompts(path):
    prompts = []
    for number, line in enumerate(Lines(path, "utf-8"), 1):
        if isinstance(line, BadRow):
            raise UserError(
                f"The prompt in line {number:,} of {display_name(path)} is too long. Shorten it"
            )
        if not is_text(line):
            raise UserError(
                "Prompts must be UTF-8 text. Convert the file. "
                f"Received: {describe_location(path, number)}"
            )
        prompts.append(without_end(line))
    return prompts
