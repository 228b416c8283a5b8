"""Training a translator: parallel text in, a workdir that translates out."""

import hashlib

import numpy as np

from keras_attn.data.files import file_sha256
from keras_attn.data.parallel import read_parallel
from keras_attn.data.translation import TranslationBatches
from keras_attn.errors import UserError
from keras_attn.jobs.finetuning_choices import choose_best, rows_drawn
from keras_attn.jobs.run import Run
from keras_attn.jobs.translators import SUBWORDS, Translator
from keras_attn.models.transformer import TRANSFORMER_SIZES, Transformer
from keras_attn.text.subwords import Subwords, train_subwords
from keras_attn.training.translation_metrics import check_sacrebleu, translation_metrics

TRANSLATION_EPOCHS = 30.0  # if none of train.steps, train.epochs and train.minutes is given
METRICS = ("bleu", "chrf")
_SHAPE = ("num_layers", "hidden_dim", "num_heads", "intermediate_dim")


def train_translator(config, workdir, pretrained, dry_run, *, strategy, virtual_devices, tpu,
                     compared=False):
    """Trains a Transformer to translate.

    Args:
        config, workdir, pretrained, dry_run, strategy, virtual_devices, tpu: See `finetune`.
        compared: Whether the run is one of several.

    Returns:
        Dict, as `finetune`; the metrics are BLEU and chrF of sacrebleu, with their signatures, on
        the validation sentences.
    """
    run = Run("translation", config, {"workdir": workdir, "pretrained": pretrained},
              {"epochs": TRANSLATION_EPOCHS}, dry_run, strategy, virtual_devices, tpu)
    with run.locked():
        config, data = run.config, run.config.data
        texts = {split: _read(data, split) for split in ("train", "validation")}
        if texts["validation"]:
            check_sacrebleu()
        best = choose_best(config.eval, METRICS, texts["validation"], compared)
        if best and config.checkpoint.average > 1 and config.eval.metric:
            raise UserError("eval.metric keeps one checkpoint, so checkpoint.average must be 1. "
                            f"Received: checkpoint.average={config.checkpoint.average}")
        train = texts["train"]
        texts["train"] = train.take(rows_drawn(len(train), data.limit, config.train.seed))
        subwords = _choose_subwords(run, texts["train"])
        ids, texts = _encode(run, texts, subwords)
        architecture = _architecture(run, subwords)
        run.start(architecture, {}, _hashes(run, texts))
        translator = None

        def make_model():
            nonlocal translator
            model = Transformer(**architecture, dtype=config.train.precision,
                                seed=config.train.seed)
            model.build()
            translator = Translator(model, subwords, data.length)
            return model

        def first_weights(model):
            if run.pretrained:
                run.pretrained.assign(model)
                del run.pretrained  # and with it the memory of its weights

        def metrics(results, _):
            found = translator.translate(
                texts["validation"].sources, config.eval.beam, batch_size=config.eval.batch_size,
                length_penalty=config.eval.length_penalty)
            return {**translation_metrics(found, texts["validation"].targets), **results}

        def batches(split, shuffle):
            return ids[split] and TranslationBatches(
                *ids[split], batch_tokens=config.train.batch_tokens,
                multiple=run.multiple if shuffle else run.strategy.num_replicas_in_sync,
                seed=config.train.seed, shuffle=shuffle)

        return run.train(make_model, first_weights, batches("train", True),
                         batches("validation", False), None, metrics, best)


def _read(data, split):
    """`ParallelText` of a split; None if there is no validation."""
    given = data[split]
    if not given.source:
        if split == "train" or given.target:
            raise UserError(f"data.{split}.source must name the sentences: a file, a glob, or "
                            f"tfds:NAME. Received: data.{split}.source=None")
        return None
    return read_parallel(
        given.source, given.target, columns=(data.source_column, data.target_column),
        format=data.format, header=data.header, encoding=data.encoding,
        on_bad_text=data.on_bad_text, split=split)


def _choose_subwords(run, texts):
    """Writes the subwords of a new run and returns them."""
    path, data = run.workdir / SUBWORDS, run.config.data
    if not run.resumed and run.chief:
        if run.pretrained:
            chosen = run.pretrained.subwords
            if data.vocab and Subwords.from_file(data.vocab).model != chosen.model:
                raise UserError("data.vocab must be that of the pretrained model, or be left out. "
                                f"Received: data.vocab={data.vocab}")
        elif data.vocab:
            chosen = Subwords.from_file(data.vocab)
        else:
            run.say(f"training {data.vocab_size:,} subwords ({data.subwords})")
            chosen = Subwords(train_subwords(
                [*texts.sources, *texts.targets], data.vocab_size, data.subwords))
        chosen.write(path)
    run.meet()
    return Subwords.from_file(path)


def _encode(run, texts, subwords):
    """Token ids of both sides of each split, and the texts without those that are too long."""
    data, ids, kept = run.config.data, {}, {}
    for split, own in texts.items():
        ids[split] = kept[split] = None
        if own is None:
            continue
        sides = []
        for side in (own.sources, own.targets):
            flat, ends = subwords.encode(side)
            sides.append(np.split(flat, ends[:-1]))
        lengths = np.array([max(map(len, pair)) + 1 for pair in zip(*sides, strict=True)])
        long = np.flatnonzero(lengths > data.length)
        if len(long) and data.on_bad_text == "error":
            raise UserError(
                f"A sentence of at most {data.length - 1} tokens is needed; on_bad_text=skip "
                "leaves longer ones out. Received: "
                f"{lengths[long[0]] - 1} at {own.where(long[0])}")
        rows = np.flatnonzero(lengths <= data.length)
        if not len(rows):
            raise UserError("At least one sentence of at most data.length tokens is needed. "
                            f"Received: data.length={data.length}")
        ids[split] = [[side[row] for row in rows] for side in sides]
        kept[split] = own.take(rows)
        skipped = {**own.skipped, **({"too long": len(long)} if len(long) else {})}
        told = "".join(f" · {count:,} left out: {reason}" for reason, count in skipped.items())
        run.say(f"{len(rows):,} {'training' if split == 'train' else split} sentences · "
                f"{np.mean(lengths[rows]):.1f} tokens on the longer side{told}")
    if not kept["validation"]:
        run.say("no validation sentences: the results will hold no metrics")
    elif shared := {*zip(kept["train"].sources, kept["train"].targets, strict=True)}.intersection(
            zip(kept["validation"].sources, kept["validation"].targets, strict=True)):
        run.say(f"warning: {len(shared):,} of the validation sentences are training sentences, too")
    return ids, kept


def _architecture(run, subwords):
    """Arguments of the `Transformer`."""
    fields = run.config.model.to_dict()
    size = fields.pop("size")
    shape = {name: fields.pop(name) for name in _SHAPE}
    shape = {name: value for name, value in shape.items() if value is not None}
    if run.resumed:
        return dict(run.saved["architecture"])
    if run.pretrained:
        known = run.pretrained.architecture
        given = dict(zip(_SHAPE, TRANSFORMER_SIZES[size], strict=True)) if size else {}
        for name, value in {**given, **shape}.items():
            if known[name] != value:
                raise UserError("The architecture must be that of the pretrained model; leave its "
                                f"fields out. Received: {name}={value}, it has {known[name]}")
        free = ("dropout", "attention_dropout", "label_smoothing")
        return {**known, **{name: fields[name] for name in free}}
    size = size or "tiny"
    if size not in TRANSFORMER_SIZES:
        raise UserError(f"model.size must be one of {', '.join(TRANSFORMER_SIZES)}. "
                        f"Received: model.size={size}")
    architecture = {"vocabulary_size": subwords.vocabulary_size,
                    **dict(zip(_SHAPE, TRANSFORMER_SIZES[size], strict=True)), **shape, **fields,
                    "max_length": run.config.data.length}
    try:
        Transformer(**architecture)
    except ValueError as error:
        raise UserError(f"model.* must describe a Transformer. {error}") from error
    return architecture


def _hashes(run, texts):
    """SHA-256 of the subwords, of files and of each split's sentences."""
    hashes = {SUBWORDS: file_sha256(run.workdir / SUBWORDS)}
    for split, own in texts.items():
        if own:
            hashes.update({name: file_sha256(name) for name in own.files
                           if not name.startswith("tfds:")})
            sha = hashlib.sha256()
            for pair in zip(own.sources, own.targets, strict=True):
                sha.update("\0".join(pair).encode("utf-8", "surrogatepass") + b"\1")
            hashes[f"{split} sentences"] = sha.hexdigest()
    return hashes
