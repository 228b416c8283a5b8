"""Pretraining an XLNet: text in, a workdir to finetune from out."""

import functools

import numpy as np

from keras_attn.data.batches import StreamBatches
from keras_attn.data.sources.files import file_sha256
from keras_attn.defaults import PRETRAINING_MINUTES
from keras_attn.errors import UserError
from keras_attn.families import XL_NET
from keras_attn.families.architecture_choice import choose_architecture, hashes_of_splits
from keras_attn.models import XLNet
from keras_attn.models.xlnet import XLNET_SIZES
from keras_attn.runs.run import Run
from keras_attn.tasks.permutation_lm.examples import PermutationExamples
from keras_attn.tasks.tokenizer_choice import choose_tokenizer
from keras_attn.tasks.unlabelled_text import check_targets, prepared_folder, validation_of
from keras_attn.text.sentence_pieces import BLANK, FILE

_USUAL = {"dropout": 0.0, "memory_length": 0, "initializer_range": 0.02}
_FREE = ("memory_length", "max_distance")  # no weight depends on them


def pretrain_xlnet(config, workdir, pretrained, dry_run, *, strategy, virtual_devices, tpu):
    """Trains an XLNet to tell tokens in any order.

    Args:
        config, workdir, pretrained, dry_run, strategy, virtual_devices, tpu: See `pretrain`.

    Returns:
        Dict, as `pretrain`; the metrics are `plm_accuracy`, `plm_loss` of a token, and
        `plm_loss_per_character`, by which vocabularies compare, and
        `plm_loss_per_visible_character`, without blanks, by which BERT and GPT-2 do.
    """
    run = Run(XL_NET.pretraining, config, {"workdir": workdir, "pretrained": pretrained},
              {"minutes": PRETRAINING_MINUTES}, dry_run, strategy, virtual_devices, tpu)
    with run.locked():
        config, data = run.config, run.config.data
        _check(data)
        architecture = choose_architecture(run, XLNet, XLNET_SIZES, _USUAL, _FREE)
        tokenizer = choose_tokenizer(run, XL_NET)
        architecture["vocabulary_size"] = tokenizer.vocabulary_size
        run.fit_memory(architecture)

        def examples(split, source):
            if not source:
                return None
            return PermutationExamples(
                prepared_folder(run, split, source, tokenizer), tokenizer, length=data.length,
                fraction=data.predicted_fraction, spans=data.spans,
                bidirectional=data.bidirectional, memory=architecture["memory_length"],
                seed=config.train.seed, exact=split == "validation")

        # The smaller first: a mistake in it shows before the larger is worked through.
        validation = examples("validation", validation_of(data))
        train = examples("train", data.train)
        if not validation:
            run.say("no data.validation: the results will hold no metrics")
        train = StreamBatches(train, config.train.batch_size)
        validation = validation and StreamBatches(
            validation, config.eval.batch_size, once=True, limit=config.eval.limit)
        check_targets(data, train, validation)
        run.start(architecture, {},
                  {FILE: file_sha256(run.workdir / FILE), **hashes_of_splits(run)})

        characters = functools.cache(lambda: _characters_of_a_target(validation, tokenizer))

        def metrics(results, rows, _):
            loss, (every, visible) = results["plm_loss"], characters()
            return {**results, "plm_loss_per_character": loss / every,
                    "plm_loss_per_visible_character": loss / visible}

        return run.train(
            lambda: XL_NET.build_pretrainer(architecture, config.train.precision,
                                            config.train.seed),
            run.assign_pretrained, train, validation, metrics=metrics)


def _check(data):
    if data.length < 5:
        raise UserError("data.length must be at least 5: 3 marks and a token on each side. "
                        f"Received: data.length={data.length}")
    if not 0 < data.predicted_fraction < 1:
        raise UserError("data.predicted_fraction must be in (0, 1). "
                        f"Received: data.predicted_fraction={data.predicted_fraction}")


def _characters_of_a_target(batches, tokenizer):
    """Mean number of characters, and of those without blanks, of the tokens to tell."""
    lengths = [(len(piece), len(piece.removeprefix(BLANK))) for piece in tokenizer.vocabulary]
    tokens, characters = 0, np.zeros(2)
    for number in range(batches.num_batches):
        batch = batches.batch(number, 0, batches.batch_size)
        told = batch["mask_weights"] * batch["sample_weight"][:, None] > 0
        tokens += told.sum()
        characters += np.sum([lengths[token] for token in batch["mask_ids"][told]], axis=0)
    return np.maximum(characters, 1) / tokens
