"""Translation of sentences."""

import collections
import dataclasses
import functools
import hashlib
import itertools

import numpy as np

from keras_attn.counts import counted
from keras_attn.data.shards.prepare import unknown_warning
from keras_attn.data.sources.files import file_sha256
from keras_attn.data.sources.text_lines import SKIP_ADVICE
from keras_attn.errors import UserError, check_precision
from keras_attn.tasks.contract import Plan, Task
from keras_attn.tasks.finetuning.choices import choose_best, rows_drawn
from keras_attn.tasks.tokenizer_choice import choose_tokenizer
from keras_attn.tasks.translation.batches import TranslationBatches
from keras_attn.tasks.translation.evaluate import evaluate_translator
from keras_attn.tasks.translation.fields import METRICS
from keras_attn.tasks.translation.metrics import translation_scores
from keras_attn.tasks.translation.translator import Translator, read_sentences
from keras_attn.text.subwords import UNKNOWN_ID

TRANSLATION_EPOCHS = 30.0  # default length of a run
MIN_USED = 0.8  # fraction of the subwords that the training data should contain


class Translation(Task):
    """Translation with an encoder-decoder model.

    The metrics are BLEU and chrF of sacrebleu; results.json contains their signatures.
    """

    name = "translation"
    starts_from = ("translation",)
    default_end = {"epochs": TRANSLATION_EPOCHS}
    decodes = True
    command = "python -m finetune.translate"

    def plan(self, run):
        config, data = run.config, run.config.data
        best = choose_best(run, METRICS, data.validation.source)
        _check_average(config)
        signatures = data.validation.source and translation_scores(["a"], ["a"], **_scoring(config))
        architecture = run.family.choose_architecture(run)  # errors before the data are read
        texts = {split: _read(data, split) for split in ("train", "validation")}
        texts["train"] = texts["train"].take(
            rows_drawn(len(texts["train"]), data.limit, config.train.seed)
        )
        subwords = _choose_subwords(run, texts["train"])
        ids, texts = _encode(run, texts, subwords)
        architecture.update(run.family.tokenizer_arguments(subwords))
        run.fit_memory(architecture, heads={})
        for name, (_, signature) in (signatures or {}).items():
            run.say(f"{name}: {signature}")
        validation = texts["validation"]
        translator = functools.cache(lambda model: Translator(model, subwords, data.length))

        def metrics(model, results, rows, stop):
            found = translator(model).translate(
                validation.sources,
                config.eval.beam,
                batch_size=config.eval.batch_size,
                length_penalty=config.eval.length_penalty,
                stop=stop,
            )
            if found is None:
                return None
            scores = translation_scores(found, validation.targets, **_scoring(config))
            return {**{name: score for name, (score, _) in scores.items()}, **results}

        def batches(split, shuffle):
            return ids[split] and TranslationBatches(
                *ids[split],
                batch_tokens=config.train.batch_tokens,
                multiple=run.multiple if shuffle else run.engine.num_replicas,
                seed=config.train.seed,
                shuffle=shuffle,
                few_shapes=config.train.jit,
            )

        notes = {
            f"{name}_signature": signature for name, (_, signature) in (signatures or {}).items()
        }
        return Plan(
            architecture,
            {},
            _hashes(run, texts),
            batches("train", True),
            batches("validation", False),
            metrics=metrics,
            best=best,
            notes=lambda: notes,
        )

    def targets(self, data):
        return data.length

    def load(self, trained, precision):
        check_precision(precision)
        defaults = trained.config["eval"]
        return Translator(
            trained.make_model(precision),
            trained.tokenizer,
            trained.config["data"]["length"],
            defaults["beam"],
            defaults["length_penalty"],
            trained.config,
            trained.path,
        )

    def evaluate(self, model, data, batch_size, reading, options):
        reading = {
            "format": reading["format"],
            "source_column": reading["text"],
            "target_column": reading["text_pair"],
            "on_bad_text": reading["on_bad_text"],
            "encoding": reading["encoding"],
            "max_line": reading["max_line"],
        }
        return evaluate_translator(model, data, batch_size=batch_size, reading=reading, **options)

    def exported(self, model, options):
        from keras_attn.tasks.translation.export import ExportedTranslator

        return ExportedTranslator(model, **options)


def _check_average(config):
    average = config.checkpoint.average
    if average > 1 and config.eval.metric:
        raise UserError(
            "checkpoint.average must be 1 with eval.metric, which keeps a single checkpoint. Use "
            "eval.patience without eval.metric for early stopping by BLEU. "
            f"Received: checkpoint.average={average}"
        )
    if average > 1 and not config.checkpoint.every:
        raise UserError(
            "checkpoint.average requires checkpoint.every, so that the mean does not depend on the "
            "speed of the machine. Received: checkpoint.every=None"
        )


def _scoring(config):
    return {"lowercase": config.eval.lowercase, "tokenize": config.eval.tokenize}


def _read(data, split):
    """`ParallelText` of a split; None if there is no validation."""
    given = data[split]
    if not given.source:
        if split == "train" or given.target:
            raise UserError(
                f"data.{split}.source must be set to a file, a glob or tfds:NAME. "
                f"Received: data.{split}.source=None"
            )
        return None
    return read_sentences(data, given.source, given.target, split)


def _choose_subwords(run, texts):
    """Writes the subword tokenizer of a new run and returns it."""
    data = run.config.data

    def both_sides():
        run.say(f"training a vocabulary of {data.vocab_size:,} subwords ({data.subwords})")
        return itertools.chain(texts.sources, texts.targets)

    return choose_tokenizer(run, both_sides, kind=data.subwords)


def _encode(run, texts, subwords):
    """Returns the token ids of both sides of each split, and the texts that are not skipped."""
    data, ids, kept = run.config.data, {}, {}
    for split, own in texts.items():
        ids[split] = kept[split] = None
        if own is None:
            continue
        ids[split], own = _encode_pairs(own, subwords, data.length, data.on_bad_text)
        kept[split] = own
        skipped = "".join(
            f" · {count:,} skipped: {reason}" for reason, count in own.skipped.items()
        )
        longer = np.mean([max(map(len, pair)) + 1 for pair in zip(*ids[split], strict=True)])
        name = "training" if split == "train" else split
        run.say(
            f"{counted(len(own), f'{name} sentence')} · {longer:.1f} tokens on the longer "
            f"side{skipped}"
        )
    ids_of_all = np.concatenate([row for side in ids["train"] for row in side])
    if warning := unknown_warning(np.mean(ids_of_all == UNKNOWN_ID)):
        run.say(warning)
    used = len(np.unique(ids_of_all))
    if used < MIN_USED * subwords.vocabulary_size:
        run.say(
            f"warning: the training sentences use {used:,} of {subwords.vocabulary_size:,} "
            "subwords; the others are not trained. Lower data.vocab_size"
        )
    if not kept["validation"]:
        run.say("no validation sentences: the results will have no metrics")
    elif shared := set(kept["validation"].pairs()).intersection(kept["train"].pairs()):
        overlap = counted(
            len(shared),
            "validation sentence is also a training sentence",
            "validation sentences are also training sentences",
        )
        run.say(f"warning: {overlap}")
    return ids, kept


def _encode_pairs(texts, subwords, length, on_bad_text):
    """Returns the token ids of both sides and the texts, without empty and long pairs."""
    sides = []
    for side in (texts.sources, texts.targets):
        flat, ends = subwords.encode(side)
        sides.append(np.split(flat, ends[:-1]))
    lengths = np.array([[len(row) for row in side] for side in sides])
    skipped, left = collections.Counter(texts.skipped), np.ones(len(texts), bool)
    for fault, wrong, needed in (
        ("too long", lengths >= length, f"at most {length - 1} tokens"),
        ("empty", lengths == 0, "at least one token"),
    ):
        faulty = wrong.any(axis=0)
        if faulty.any() and on_bad_text == "error":
            row = int(np.argmax(faulty))
            side = int(np.argmax(wrong[:, row]))
            raise UserError(
                f"A sentence must have {needed}. {SKIP_ADVICE} others. "
                f"Received: {lengths[side, row]} at {texts.where(row, side)}"
            )
        skipped[fault] += int(np.sum(left & faulty))
        left &= ~faulty
    rows = np.flatnonzero(left)
    if not len(rows):
        raise UserError(
            "At least one sentence pair must have 1 to data.length - 1 tokens on both sides. "
            f"Received: data.length={length}"
        )
    texts = dataclasses.replace(texts.take(rows), skipped=dict(+skipped))
    return [[side[row] for row in rows] for side in sides], texts


def _hashes(run, texts):
    """Returns the SHA-256 of the tokenizer, the data files and the sentences of each split."""
    hashes = run.tokenizer_hashes()
    for split, own in texts.items():
        if own:
            hashes.update(
                {name: file_sha256(name) for name in own.files if not name.startswith("tfds:")}
            )
            sha = hashlib.sha256()
            for pair in own.pairs():
                sha.update("\0".join(pair).encode("utf-8", "surrogatepass") + b"\1")
            hashes[f"{split} sentences"] = sha.hexdigest()
    return hashes


TASK = Translation()
