"""Replaced-token detection."""

import dataclasses

from keras_attn.tasks.contract import Plan, Task
from keras_attn.tasks.model_arguments import require_float32, with_defaults
from keras_attn.tasks.pretraining.initial_weights import initializer_of
from keras_attn.tasks.pretraining.masked_splits import (
    check_masking,
    losses_per_character,
    max_predictions,
    read_masked_splits,
    text_sources,
)
from keras_attn.tasks.pretraining.segments import choose_segments
from keras_attn.tasks.pretraining.splits import PRETRAINING_MINUTES, hashes_of_splits
from keras_attn.tasks.replaced_tokens.detector import ReplacedTokenDetector
from keras_attn.tasks.tokenizer_choice import choose_tokenizer

_DEFAULTS = {"generator_fraction": 0.25, "discriminator_weight": 50.0, "temperature": 1.0}
_GENERATOR = "generator/"


class ReplacedTokens(Task):
    """Replaced-token detection, with a generator and a discriminator that are trained together.

    The metrics are those of `keras_attn.models.ElectraPretrainer` and `mlm_loss_per_character` of
    the generator, which is comparable between vocabularies.
    """

    name = "replaced_tokens"
    default_end = {"minutes": PRETRAINING_MINUTES}
    command = "keras_attn.load"

    def plan(self, run):
        check_masking(run)
        architecture = run.family.choose_architecture(run)
        heads = _heads(run)
        new = run.match_heads(run.family.head_names(self.name, heads))
        tokenizer = choose_tokenizer(run)
        architecture.update(run.family.tokenizer_arguments(tokenizer))
        if run.config.data.segments is None:
            choose_segments(run, text_sources(run.config.data), tokenizer)
        run.fit_memory(architecture, heads)
        # All masked tokens are [MASK]: the discriminator never reads them.
        train, validation = read_masked_splits(run, tokenizer, mask_rate=1.0, random_rate=0.0)
        bias = [run.family.model_class(self.name).OUTPUT_BIAS] if "generator" in new else []
        return Plan(
            architecture,
            heads,
            run.tokenizer_hashes() | hashes_of_splits(run),
            train,
            validation,
            new_heads=new,
            initialize=initializer_of(run, train.source, tokenizer, bias),
            metrics=losses_per_character(validation, tokenizer),
        )

    def targets(self, data):
        return max_predictions(data)

    def complete_heads(self, heads, config, files):
        return with_defaults(heads, _DEFAULTS)

    def load(self, trained, precision):
        require_float32(trained, precision)
        return ReplacedTokenDetector(trained)

    def read_head(self, config, path, dropout=None):
        return {**_DEFAULTS, "generator_fraction": None}, {}

    def for_task(self, trained, task):
        fraction = trained.heads["generator_fraction"]
        model, backbone = trained.family.model_class(self.name), trained.family.backbone_name
        if task != model.GENERATOR_TASK or fraction is None:
            return trained
        paths = {f"{backbone}/{name}": f"{backbone}/{name}" for name in model.SHARED}
        paths |= {
            path.removeprefix(_GENERATOR): path
            for path in trained.weights
            if path.startswith(_GENERATOR)
        }
        return dataclasses.replace(
            trained,
            task=task,
            architecture=model.generator_arguments(trained.architecture, fraction),
            heads={"mlm_activation": "gelu_erf"},
            weights={ours: trained.weights[p] for ours, p in paths.items() if p in trained.weights},
            config=None,
        )

    def for_other_libraries(self, trained):
        # There, generator and discriminator are two models.
        return dataclasses.replace(
            trained,
            heads={**trained.heads, "generator_fraction": None},
            weights={
                path: trained.weights[path]
                for path in trained.weights
                if not path.startswith(_GENERATOR)
            },
        )


def _heads(run):
    """Returns the arguments of the head."""
    if run.resumed:
        return run.saved["heads"]
    start = run.pretrained
    known = start.heads if start and start.task == "replaced_tokens" else {}
    heads = {**_DEFAULTS, **{name: x for name, x in known.items() if x is not None}}
    given = {name: run.config.model[name] for name in heads if name in run.config.model}
    return {**heads, **{name: x for name, x in given.items() if x is not None}}


TASK = ReplacedTokens()
