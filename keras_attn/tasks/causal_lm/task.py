"""Pretraining a GPT-2: text in, a workdir that goes on with a text out."""

import functools
import math
import re

import numpy as np

from keras_attn.data.batches import StreamBatches
from keras_attn.data.sources.files import file_sha256
from keras_attn.defaults import PRETRAINING_MINUTES
from keras_attn.errors import UserError
from keras_attn.families import GPT_2
from keras_attn.families.architecture_choice import choose_architecture, hashes_of_splits
from keras_attn.models import GPT2
from keras_attn.models.gpt2 import GPT2_SIZES
from keras_attn.runs.run import Run
from keras_attn.tasks.causal_lm.examples import NextTokenExamples
from keras_attn.tasks.tokenizer_choice import choose_tokenizer
from keras_attn.tasks.unlabelled_text import prepared_folder, validation_of

_LATER = bytes(range(0x80, 0xC0))  # those that begin no character, in UTF-8
_WORD = re.compile(r"(?<!\S)\S")  # its first character
_USUAL = {"dropout": 0.0, "initializer_range": 0.02}


def pretrain_gpt2(config, workdir, pretrained, dry_run, *, strategy, virtual_devices, tpu):
    """Trains a GPT-2 to tell the next token.

    Args:
        config, workdir, pretrained, dry_run, strategy, virtual_devices, tpu: See `pretrain`.

    Returns:
        Dict, as `pretrain`; the metrics are `token_accuracy`, `token_loss`, `perplexity` of a
        token, `word_perplexity` and `character_perplexity`, `loss_per_character`, by which
        vocabularies compare, and `loss_per_visible_character`, without blanks, by which BERT and
        XLNet do.
    """
    run = Run(GPT_2.pretraining, config, {"workdir": workdir, "pretrained": pretrained},
              {"minutes": PRETRAINING_MINUTES}, dry_run, strategy, virtual_devices, tpu)
    with run.locked():
        config, data = run.config, run.config.data
        architecture = _architecture(run)  # before the work of reading
        tokenizer = choose_tokenizer(run, GPT_2)
        architecture["vocabulary_size"] = tokenizer.vocabulary_size
        run.fit_memory(architecture)
        # The smaller first: a mistake in it shows before the larger is worked through.
        validation = _examples(run, "validation", validation_of(data), tokenizer)
        train = _examples(run, "train", data.train, tokenizer)
        if not validation:
            run.say("no data.validation: the results will hold no metrics")
        tokenizers = {name: file_sha256(run.workdir / name) for name in GPT_2.tokenizers.files}
        run.start(architecture, {}, tokenizers | hashes_of_splits(run))

        def make_model():
            return GPT_2.build_pretrainer(architecture, config.train.precision, config.train.seed)

        validation = validation and StreamBatches(
            validation, config.eval.batch_size, once=True, limit=config.eval.limit)
        sizes = functools.cache(lambda: _sizes(validation, tokenizer))

        def metrics(results, rows, _):
            loss, (words, characters, visible) = results["token_loss"], sizes()
            return {**results, "perplexity": _exp(loss), "word_perplexity": _exp(loss / words),
                    "character_perplexity": _exp(loss / characters),
                    "loss_per_character": loss / characters,
                    "loss_per_visible_character": loss / visible}

        return run.train(
            make_model, run.assign_pretrained, StreamBatches(train, config.train.batch_size),
            validation, metrics=metrics)


def _architecture(run):
    length = run.config.data.length
    # More positions would stay as they are drawn, and texts that come to them go on at random.
    architecture = choose_architecture(run, GPT2, GPT2_SIZES, {"max_length": length, **_USUAL})
    positions = architecture["max_length"]
    if length > positions:
        raise UserError("data.length must be at most the positions of the model, model.max_length. "
                        f"Received: data.length={length}, it has {positions}")
    if length < positions and not (run.resumed or run.pretrained):
        run.say(f"positions {length + 1} to {positions} are not trained: data.length={length}")
    return architecture


def _examples(run, split, source, tokenizer):
    """Rows of a split; None without source."""
    if not source:
        return None
    return NextTokenExamples(
        prepared_folder(run, split, source, tokenizer), tokenizer, length=run.config.data.length,
        seed=run.config.train.seed, exact=split == "validation")


def _sizes(batches, tokenizer):
    """Mean number of words, of characters, and of those without blanks, of the tokens to tell.

    A word and a character are told where they begin: the bytes of a character may lie in two rows.
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
                told = tokenizer.to_bytes(part[part != tokenizer.end_id])
                begun = told.lstrip(_LATER)
                before += told[:len(told) - len(begun)]
                before, text = before.decode(errors="replace")[-1:], begun.decode(errors="replace")
                words += len(_WORD.findall(before + text, len(before)))
                characters += len(text)
                visible += len("".join(text.split()))
                before = b""
    return tuple(max(count, 1) / tokens for count in (words, characters, visible))


def _exp(loss):
    return math.exp(min(loss, 88.0))  # TensorBoard's numbers are float32
