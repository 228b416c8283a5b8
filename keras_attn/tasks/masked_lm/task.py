"""Masked language modeling: text in, a model that fills masks out."""

import functools
import math
import re
import time

import numpy as np
from keras import ops

from keras_attn.data.sources.files import file_sha256, find_files
from keras_attn.errors import UserError
from keras_attn.tasks.contract import Plan, Task
from keras_attn.tasks.masked_lm.mask_filler import MaskFiller
from keras_attn.tasks.model_arguments import require_float32, with_defaults
from keras_attn.tasks.pretraining.cooccurrences import cooccurrence_vectors
from keras_attn.tasks.pretraining.masked_examples import PretrainingExamples, check_options
from keras_attn.tasks.pretraining.segments import choose_segments
from keras_attn.tasks.pretraining.splits import (
    PRETRAINING_MINUTES,
    check_targets,
    hashes_of_shards,
    prepared_folder,
    read_splits,
    validation_of,
)
from keras_attn.tasks.pretraining.tfrecords import TFRecordExamples
from keras_attn.tasks.tokenizer_choice import choose_tokenizer

ROWS_COUNTED = 16_384
TOKENS_COUNTED = 2**24  # for the first embeddings


class MaskedLM(Task):
    """Masked language modeling, with next-sentence or sentence-order prediction.

    The metrics are `mlm_accuracy`, `mlm_loss`, `nsp_accuracy`, … and `mlm_loss_per_character`, of
    the characters of masked tokens, by which vocabularies compare.
    """

    name = "masked_lm"
    pretrains = True
    default_end = {"minutes": PRETRAINING_MINUTES}
    command = "python -m pretrain.fill_mask"

    def plan(self, run):
        config, data = run.config, run.config.data
        check_options(data.length, _max_predictions(data), data.masked_fraction,
                      data.short_fraction, config.train.seed)
        heads = _heads(run)
        architecture = run.family.choose_architecture(run, use_pooler=heads["next_sentence"])
        new = run.match_heads(_names(heads), anew=_other_question(run))
        if _is_tfrecord(data, data.train) and not (run.resumed or run.pretrained or data.vocab):
            raise UserError("data.vocab is needed with TFRecords, which hold token ids. "
                            f"Received: data.vocab=None, data.train={data.train}")
        tokenizer = choose_tokenizer(run)
        architecture["vocabulary_size"] = tokenizer.vocabulary_size
        if choose_segments(run, _texts(data), tokenizer) and heads["next_sentence"]:
            heads = _heads(run)
            architecture["use_pooler"] = heads["next_sentence"]
            new = [name for name in new if name in _names(heads)]
        run.fit_memory(architecture)
        train, validation = read_splits(
            run, lambda split, source: _examples(run, split, source, tokenizer))
        check_targets(data, train, validation)
        pretrained = not run.resumed and bool(run.pretrained)

        def initialize(model):
            if not pretrained and config.model.get("initial_embeddings") == "cooccurrences":
                _place_tokens(run, model.backbone, train.source, tokenizer)
            if config.model.get("initial_bias") == "frequencies" and "mlm_bias" in new:
                model.mlm_bias.assign(_log_frequencies(train.source, tokenizer))

        length = functools.cache(lambda: _characters_of_a_mask(validation, tokenizer))

        def metrics(model, results, rows, stop):
            return {**results, "mlm_loss_per_character": results["mlm_loss"] / length()}

        return Plan(architecture, heads, _hashes(run), train, validation, new_heads=new,
                    initialize=initialize, metrics=metrics)

    def targets(self, data):
        return _max_predictions(data)

    def complete_heads(self, heads, config, files):
        return with_defaults(heads, {"next_sentence": True, "tie_embeddings": True})

    def load(self, trained, precision):
        require_float32(trained, precision)
        return MaskFiller(trained)


def _texts(data):
    """The splits that are text, not TFRecords, and their sources, the smaller first."""
    sources = {"validation": validation_of(data), "train": data.train}
    return {split: source for split, source in sources.items()
            if source and not _is_tfrecord(data, source)}


def _heads(run):
    """Arguments of `BertPretrainer` besides the backbone."""
    if run.resumed:
        return run.saved.get("heads", {"next_sentence": True, "tie_embeddings": True})
    start, two = run.pretrained, run.config.data.segments != "full_sentences"
    known = start.heads if start and start.task == "masked_lm" else {}
    next_sentence, ordered = run.config.model.get("next_sentence", False), _ordered(run.config)
    if next_sentence is None:
        next_sentence = two and (ordered or known.get("next_sentence", True))
    if next_sentence and not two:
        raise UserError("model.next_sentence needs rows of two segments. Received: "
                        "model.next_sentence=True, data.segments=full_sentences")
    if ordered and not next_sentence:
        raise UserError("data.segments=sentence_order needs the head that tells the order. "
                        "Received: model.next_sentence=False")
    return {"next_sentence": next_sentence, "tie_embeddings": known.get("tie_embeddings", True)}


def _other_question(run):
    """The head that learned another question about two segments than this run asks, if any."""
    start = None if run.resumed else run.pretrained
    return ["nsp_dense"] if start and _ordered(start.config) != _ordered(run.config) else []


def _ordered(config):
    return config["data"].get("segments") == "sentence_order"


def _names(heads):
    """Names of the heads that these arguments make."""
    names = ["mlm_dense", "mlm_norm", "mlm_bias"]
    names += [] if heads["tie_embeddings"] else ["mlm_embedding"]
    return names + (["nsp_dense", "pooler"] if heads["next_sentence"] else [])


def _is_tfrecord(data, source):
    return data.format == "tfrecord" or bool(re.search(r"\.tf_?records?(\.gz)?(\W|$)", source))


def _examples(run, split, source, tokenizer):
    """Examples of a split, made from whatever the source is."""
    data = run.config.data
    exact = split == "validation"
    if _is_tfrecord(data, source):
        if data.spans or data.segments not in (None, "next_sentence"):
            raise UserError("TFRecords hold rows and masks that are made already. Received: "
                            f"data.segments={data.segments}, data.spans={data.spans}")
        if data.pack > 1:
            raise UserError("TFRecords hold rows that are laid out already. Received: "
                            f"data.pack={data.pack}")
        examples = TFRecordExamples(source, tokenizer, seed=run.config.train.seed, exact=exact)
        if examples.length != data.length:
            raise UserError("data.length must be that of the TFRecords. Received: "
                            f"data.length={data.length}, {source} has {examples.length}")
        return examples
    return PretrainingExamples(
        prepared_folder(run, split, source, tokenizer), tokenizer, length=data.length,
        max_predictions=_max_predictions(data),
        masked_fraction=data.masked_fraction, short_fraction=data.short_fraction,
        whole_words=data.whole_words, spans=data.spans, segments=data.segments,
        pack=1 if exact else data.pack,  # validation has a row for each example
        seed=run.config.train.seed, exact=exact,
    )


def _max_predictions(data):
    if data.max_predictions is None:
        return math.ceil(data.masked_fraction * data.length)
    return data.max_predictions


def _log_frequencies(examples, tokenizer):
    """Logarithm of each token's share, so that the first steps need not learn it.

    Counted in the first rows; each token counts once more, the special ones only so.
    """
    rows = examples.rows(0, min(examples.num_examples, ROWS_COUNTED))
    counts = np.bincount(rows["token_ids"].ravel(), minlength=tokenizer.vocabulary_size)
    counts[tokenizer.special_ids] = 0
    return np.log((counts + 1.0) / (counts + 1.0).sum())


def _place_tokens(run, backbone, examples, tokenizer):
    """Starts the token table near to what it will be; as long vectors as at random."""
    begin, table = time.monotonic(), ops.convert_to_numpy(backbone.token_embedding)
    if run.chief:
        rows = min(examples.num_examples, -(-TOKENS_COUNTED // examples.length))
        vectors = cooccurrence_vectors(true_ids(examples.rows(0, rows)), *table.shape,
                                       tokenizer.special_ids, run.config.train.seed)
        vectors *= np.linalg.norm(table, axis=1).mean()
        table = np.where(vectors.any(axis=1, keepdims=True), vectors, table)
    # Sums differ by machine in their last bits.
    backbone.token_embedding.assign(run.engine.agree(table.ravel()).reshape(table.shape))
    run.say("counted which tokens occur near each other, for their first embeddings: "
            f"{time.monotonic() - begin:.1f} s")


def true_ids(batch):
    """Token ids as they were before they were masked."""
    ids, used = batch["token_ids"].copy(), batch["mask_weights"] > 0
    ids[np.nonzero(used)[0], batch["mask_positions"][used]] = batch["mask_ids"][used]
    return ids


def _characters_of_a_mask(batches, tokenizer):
    """Mean number of characters of the tokens to predict."""
    lengths = np.array([len(piece.removeprefix("##")) for piece in tokenizer.vocabulary])
    characters = masks = 0.0
    for number in range(batches.num_batches):
        batch = batches.batch(number, 0, batches.batch_size)
        weights = batch["mask_weights"] * batch["sample_weight"][:, None]
        characters += np.sum(lengths[batch["mask_ids"]] * weights, dtype=np.float64)
        masks += np.sum(weights, dtype=np.float64)
    return max(characters, 1) / masks


def _hashes(run):
    """SHA-256 of the vocabulary, and of each split's TFRecords or of its text and its shards."""
    hashes, data = run.tokenizer_hashes(), run.config.data
    for split, source in (("train", data.train), ("validation", validation_of(data))):
        if source and _is_tfrecord(data, source):
            hashes.update({name: file_sha256(name) for name in find_files(source)})
        elif source:
            hashes.update(hashes_of_shards(run, split, source))
    return hashes


TASK = MaskedLM()
