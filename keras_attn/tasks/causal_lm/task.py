"""Causal language modeling."""

import functools
import math
import re

import numpy as np

from keras_attn.errors import check_precision
from keras_attn.tasks.causal_lm.examples import NextTokenExamples
from keras_attn.tasks.contract import Plan, Task
from keras_attn.tasks.generator import Generator
from keras_attn.tasks.pretraining.splits import (
    PRETRAINING_MINUTES,
    hashes_of_splits,
    prepared_folder,
    read_splits,
)
from keras_attn.tasks.tokenizer_choice import choose_tokenizer

_CONTINUATION = bytes(range(0x80, 0xC0))  # bytes of UTF-8 that do not start a character
_WORD = re.compile(r"(?<!\S)\S")  # the first character of a word


class CausalLM(Task):
    """Causal language modeling.

    The metrics are `token_accuracy`, `token_loss`, `perplexity` per token, `word_perplexity`,
    `character_perplexity`, `loss_per_character`, which is comparable between vocabularies, and
    `loss_per_visible_character`, without white space, which is comparable with XLNet.
    """

    name = "causal_lm"
    starts_from = ("causal_lm",)
    default_end = {"minutes": PRETRAINING_MINUTES}
    generates = True
    command = "python -m pretrain.generate"

    def plan(self, run):
        config = run.config
        architecture = run.family.choose_architecture(run)  # errors before the data are read
        tokenizer = choose_tokenizer(run)
        architecture.update(run.family.tokenizer_arguments(tokenizer))
        run.fit_memory(architecture, heads={})

        def examples(split, source):
            return NextTokenExamples(
                prepared_folder(run, split, source, tokenizer),
                tokenizer,
                length=config.data.length,
                seed=config.train.seed,
                exact=split == "validation",
            )

        train, validation = read_splits(run, examples)
        sizes = functools.cache(lambda: _sizes(validation, tokenizer))

        def metrics(model, results, rows, stop):
            loss, (words, characters, visible) = results["token_loss"], sizes()
            return {
                **results,
                "perplexity": _exp(loss),
                "word_perplexity": _exp(loss / words),
                "character_perplexity": _exp(loss / characters),
                "loss_per_character": loss / characters,
                "loss_per_visible_character": loss / visible,
            }

        hashes = run.tokenizer_hashes() | hashes_of_splits(run)
        return Plan(architecture, {}, hashes, train, validation, metrics=metrics)

    def targets(self, data):
        return data.length

    def load(self, trained, precision):
        check_precision(precision)
        model = trained.make_model(precision)
        return Generator(model, trained.tokenizer, trained.path, self.name)


def _sizes(batches, tokenizer):
    """Returns the mean numbers of words, characters and non-space characters per predicted token.

    A word and a character count in the row in which they start, because the bytes of a character
    may be in two rows.
    """
    tokens = words = characters = visible = 0
    for number in range(batches.num_batches):
        batch = batches.batch(number, 0, batches.batch_size)
        for row in np.flatnonzero(batch["sample_weight"]):
            real = batch["padding_mask"][row] > 0
            ids, label = batch["token_ids"][row][real], batch["label"][row][real]
            tokens += len(label)
            before = tokenizer.to_bytes(ids[:1][ids[:1] != tokenizer.end_id])
            for part in np.split(label, np.flatnonzero(label == tokenizer.end_id)):
                encoded = tokenizer.to_bytes(part[part != tokenizer.end_id])
                started = encoded.lstrip(_CONTINUATION)
                before += encoded[: len(encoded) - len(started)]
                before = before.decode(errors="replace")[-1:]
                text = started.decode(errors="replace")
                words += len(_WORD.findall(before + text, len(before)))
                characters += len(text)
                visible += len("".join(text.split()))
                before = b""
    return tuple(max(count, 1) / tokens for count in (words, characters, visible))


def _exp(loss):
    return math.exp(min(loss, 88.0))  # the range of float32 in TensorBoard


TASK = CausalLM()
