"""Masked language modeling."""

from keras_attn.errors import UserError
from keras_attn.tasks.contract import Plan, Task
from keras_attn.tasks.mask_filler import MaskFiller
from keras_attn.tasks.masked_lm.teacher import check_teacher, tokenizer_of
from keras_attn.tasks.model_arguments import require_float32, with_defaults
from keras_attn.tasks.pretraining.initial_weights import initializer_of
from keras_attn.tasks.pretraining.masked_examples import ONE_SEGMENT
from keras_attn.tasks.pretraining.masked_splits import (
    check_masking,
    losses_per_character,
    max_predictions,
    read_masked_splits,
    text_sources,
)
from keras_attn.tasks.pretraining.segments import choose_segments
from keras_attn.tasks.pretraining.splits import PRETRAINING_MINUTES, hashes_of_splits
from keras_attn.tasks.teacher import WITHOUT_TEACHER, distillation, read_teacher, teacher_hash
from keras_attn.tasks.tokenizer_choice import choose_tokenizer

_OPTIONAL = ("mlm_activation", "logit_cap")  # arguments of the head


class MaskedLM(Task):
    """Masked language modeling, with next-sentence or sentence-order prediction.

    The metrics are `mlm_accuracy`, `mlm_loss`, `nsp_accuracy`, … and `mlm_loss_per_character`, the
    loss per character of the masked tokens, which is comparable between vocabularies.
    """

    name = "masked_lm"
    default_end = {"minutes": PRETRAINING_MINUTES}
    command = "python -m pretrain.fill_mask"

    def plan(self, run):
        check_masking(run)
        teacher, model = read_teacher(run), run.family.model_class(self.name)
        heads = _heads(run)
        architecture = run.family.choose_architecture(run, use_pooler=model.uses_pooler(**heads))
        wanted = run.family.head_names(self.name, heads)
        new = run.match_heads(wanted, reset=_changed_segment_head(run, model))
        tokenizer = choose_tokenizer(run, default=tokenizer_of(run, teacher))
        architecture.update(run.family.tokenizer_arguments(tokenizer))
        if teacher:
            check_teacher(run, teacher, architecture, tokenizer)
            _reject_cap(heads, teacher)
        single = choose_segments(run, text_sources(run.config.data), tokenizer)
        if single and heads["next_sentence"]:
            heads = _heads(run)
            if run.family.has_pooler:
                architecture["use_pooler"] = model.uses_pooler(**heads)
            new = [name for name in new if name in run.family.head_names(self.name, heads)]
        run.fit_memory(architecture, heads, teacher)
        train, validation = read_masked_splits(run, tokenizer)
        hashes = run.tokenizer_hashes() | hashes_of_splits(run) | teacher_hash(teacher)
        return Plan(
            architecture,
            heads,
            hashes,
            train,
            validation,
            new_heads=new,
            initialize=initializer_of(run, train.source, tokenizer, new),
            metrics=losses_per_character(validation, tokenizer),
            teacher=teacher,
        )

    def targets(self, data):
        return max_predictions(data)

    def complete_heads(self, heads, config, files):
        known = {"next_sentence": True, "tie_embeddings": True, "mlm_activation": None}
        known["logit_cap"] = None
        return with_defaults(heads, {**known, **WITHOUT_TEACHER})

    def load(self, trained, precision):
        require_float32(trained, precision)
        return MaskFiller(trained)


def _heads(run):
    """Returns the arguments of the head."""
    if run.resumed:
        return run.saved.get("heads", {"next_sentence": True, "tie_embeddings": True})
    start, segments = run.pretrained, run.config.data.segments
    two = segments not in ONE_SEGMENT
    known = start.heads if start and start.task == "masked_lm" else {}
    next_sentence, ordered = run.config.model.get("next_sentence", False), _ordered(run.config)
    if next_sentence is None:
        next_sentence = two and (ordered or known.get("next_sentence", True))
    if next_sentence and not two:
        raise UserError(
            "model.next_sentence=True requires two segments per row. "
            f"Received: data.segments={segments}"
        )
    if ordered and not next_sentence:
        raise UserError(
            "data.segments=sentence_order requires the head of model.next_sentence. "
            "Received: model.next_sentence=False"
        )
    given = {**known, "logit_cap": run.config.model.get("logit_cap") or known.get("logit_cap")}
    kept = {name: given[name] for name in _OPTIONAL if given.get(name) is not None}
    tied = known.get("tie_embeddings", True)
    kept |= distillation(run.config.train) if run.config.train.teacher else {}
    return {"next_sentence": next_sentence, "tie_embeddings": tied, **kept}


def _reject_cap(heads, teacher):
    for name, known in (("the teacher has ", teacher.heads), ("", heads)):
        if known.get("logit_cap") is not None:
            raise UserError(
                "train.teacher is not supported with model.logit_cap. "
                f"Received: {name}model.logit_cap={known['logit_cap']}"
            )


def _changed_segment_head(run, model):
    """Returns the segment head if it was pretrained for another task than this run's, in a list."""
    start = None if run.resumed else run.pretrained
    return [model.SEGMENT_HEAD] if start and _ordered(start.config) != _ordered(run.config) else []


def _ordered(config):
    return config["data"].get("segments") == "sentence_order"


TASK = MaskedLM()
