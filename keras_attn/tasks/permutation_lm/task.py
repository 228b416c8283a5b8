"""Permutation language modeling."""

import functools
import math

from keras_attn.errors import UserError, check_precision
from keras_attn.tasks.contract import Plan, Task
from keras_attn.tasks.generator import Generator
from keras_attn.tasks.permutation_lm.examples import PermutationExamples
from keras_attn.tasks.pretraining.splits import (
    PRETRAINING_MINUTES,
    characters_per_target,
    check_targets,
    hashes_of_splits,
    prepared_folder,
    read_splits,
)
from keras_attn.tasks.tokenizer_choice import choose_tokenizer


class PermutationLM(Task):
    """Permutation language modeling.

    The metrics are `plm_accuracy`, `plm_loss` per token, `plm_loss_per_character`, which is
    comparable between vocabularies, and `plm_loss_per_visible_character`, without white space,
    which is comparable with GPT-2.
    """

    name = "permutation_lm"
    starts_from = ("permutation_lm",)
    default_end = {"minutes": PRETRAINING_MINUTES}
    generates = True
    command = "python -m pretrain.generate"

    def plan(self, run):
        config, data = run.config, run.config.data
        _check(data)
        architecture = run.family.choose_architecture(run)
        tokenizer = choose_tokenizer(run)
        architecture.update(run.family.tokenizer_arguments(tokenizer))
        run.fit_memory(architecture, heads={})

        def examples(split, source):
            return PermutationExamples(
                prepared_folder(run, split, source, tokenizer),
                tokenizer,
                length=data.length,
                fraction=data.predicted_fraction,
                spans=data.spans,
                bidirectional=data.bidirectional,
                memory=architecture["memory_length"],
                seed=config.train.seed,
                exact=split == "validation",
            )

        train, validation = read_splits(run, examples)
        check_targets(data, train, validation)

        @functools.cache
        def characters():
            return characters_per_target(
                validation,
                [(len(piece), len(tokenizer.surface(piece))) for piece in tokenizer.vocabulary],
            )

        def metrics(model, results, rows, stop):
            loss, (every, visible) = results["plm_loss"], characters()
            return {
                **results,
                "plm_loss_per_character": loss / every,
                "plm_loss_per_visible_character": loss / visible,
            }

        hashes = run.tokenizer_hashes() | hashes_of_splits(run)
        return Plan(architecture, {}, hashes, train, validation, metrics=metrics)

    def targets(self, data):
        return math.ceil(data.predicted_fraction * data.length)

    def load(self, trained, precision):
        check_precision(precision)
        memory = trained.architecture["memory_length"]
        if memory and trained.config:  # a training row attends to its own tokens, too
            memory += trained.config["data"]["length"]
        return Generator(
            trained.make_model(precision), trained.tokenizer, trained.path, self.name, memory
        )


def _check(data):
    if data.length < 5:
        raise UserError(
            "data.length must be at least 5: 3 special tokens and a token of each segment. "
            f"Received: data.length={data.length}"
        )
    if not 0 < data.predicted_fraction < 1:
        raise UserError(
            "data.predicted_fraction must be in (0, 1). "
            f"Received: data.predicted_fraction={data.predicted_fraction}"
        )


TASK = PermutationLM()
