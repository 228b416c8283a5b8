"""A run: its config, workdir, engine and training."""

import contextlib
import functools
import hashlib
import json
import os
import tempfile

import keras

from keras_attn.convert import read_ready
from keras_attn.counts import counted
from keras_attn.data.shards.shard_files import is_prepared, read_index
from keras_attn.data.sources.files import file_sha256
from keras_attn.data.sources.streams import check_streams_differ, display_name
from keras_attn.defaults import ENDS, declared, fields, match_task
from keras_attn.errors import UserError, forget_warnings
from keras_attn.registry import kind_of
from keras_attn.runs.config_checks import check_fields
from keras_attn.runs.dry_run import measure
from keras_attn.runs.step_memory import choose_sizes
from keras_attn.saved_config import check_same, fields_to_keep
from keras_attn.training.engines import make_engine
from keras_attn.training.trainer import Trainer, check_batch_size
from keras_attn.workdir import Workdir, began_as_released, versions


class Run:
    """One run: its config checked, its workdir locked, its engine made.

    Args:
        task: `keras_attn.tasks.contract.Task`.
        family: `keras_attn.families.contract.Family`.
        config: ConfigDict; it is copied.
        workdir, pretrained: Replace these fields of the config if not None.
        dry_run: Only measure what the run will cost.
        compared: Whether the run is one of several.
        engine: Arguments of `make_engine`.

    Attributes:
        task, family, config, workdir, dry_run, compared: As given.
        kind: What config.json calls the pair of family and task.
        engine: The `Engine`.
        chief: Whether this process writes files and prints.
        saved: Content of the config.json of the run to resume; None for a new one.
        resumed: Whether there is a run to resume.
        resolved: The config as config.json holds it.
        hashes: SHA-256 of the data by name.
    """

    def __init__(self, task, family, config, workdir, pretrained, dry_run, compared, engine):
        forget_warnings()
        self.task, self.family = task, family
        self.kind = kind_of(family.name, task.name)
        self.dry_run, self.compared = dry_run, compared
        config = config.copy_and_resolve_references()
        for name, value in {"workdir": workdir, "pretrained": pretrained}.items():
            if value is not None:
                config[name] = os.fspath(value)
        match_task(config, task.name, family.name)
        if all(config.train[name] is None for name in ENDS):
            config.train.update(task.default_end)
        check_fields(config, task.name, family.name)
        check_streams_differ(
            {
                path: source
                for path, source in fields(config)
                if path.startswith(("data.train", "data.validation"))
            }
        )
        self._temporary = None
        if dry_run and config.workdir is None:
            self._temporary = tempfile.TemporaryDirectory()
            config.workdir = self._temporary.name
        self.config = config
        self.workdir = Workdir(config.workdir)
        # What `locked` finds in the workdir, and `start` in the data.
        self.saved, self.resumed, self.resolved, self.hashes = None, False, {}, {}
        # Before anything else uses TensorFlow: a cluster and virtual devices are set up once.
        self.engine = make_engine(**engine)
        self.chief = self.engine.is_chief
        check_batch_size(
            config.train.get("batch_size", self.multiple),
            config.train.accumulate or 1,
            self.engine.num_replicas,
        )
        if not task.decodes:
            check_eval_batch_size(config.eval.batch_size, self.engine.num_replicas)
        keras.utils.set_random_seed(config.train.seed)

    @property
    def multiple(self):
        """What the number of rows of a batch is a multiple of."""
        return (self.config.train.accumulate or 1) * self.engine.num_replicas

    @functools.cached_property
    def pretrained(self):
        """The `TrainedModel` whose weights to start from, or None."""
        source = self.config.pretrained
        if not source:
            return None
        trained = read_ready(source, self.config.data.get("lowercase"), "data.lowercase")
        tasks = self.task.starts_from
        if trained.family is not self.family or tasks and trained.task not in tasks:
            wanted = "pretrained " * bool(tasks) + f"model of {self.family.title}"
            raise UserError(
                f"A {wanted} is needed. Received: {source}, "
                f"of {trained.family.title} ({trained.kind})"
            )
        return trained

    @contextlib.contextmanager
    def locked(self):
        """Holds the workdir; what an error or a dry run leaves in one that was new is removed."""
        if self.chief:
            self.workdir.create()
            self.workdir.lock()
        unused = self.dry_run
        try:
            self._look_back()
            yield
        except UserError:
            unused = True
            raise
        finally:
            if unused and self.chief:
                self.workdir.remove_if_unused()
            self.workdir.unlock()
            if self._temporary:
                self._temporary.cleanup()

    def _look_back(self):
        """Finds the run to go on with: it needs neither `pretrained` nor `data.vocab` again."""
        data = self.config.data
        self.saved = self.workdir.saved_run(self.kind)
        if not self.saved and (self.workdir.read_json("results.json") or {}).get("best_run"):
            raise UserError(
                "A folder without runs is needed; choose another --workdir. "
                f"Received: workdir={self.workdir.path}, which holds several"
            )
        self.resumed = self.saved is not None
        if self.resumed:
            self.workdir.check_tokenizer(self.saved, self.family.tokenizers.files)
        if "lowercase" not in data:
            pass
        elif not self.resumed:
            data.lowercase = _lowercase(data, self.pretrained, self.family.tokenizers.lowercase)
        elif data.lowercase is None:
            data.lowercase = self.saved["config"]["data"]["lowercase"]
        self.resolved = self.config.to_dict()
        self.resolved.pop("workdir")
        self.resolved["data"].update(self._tokenizer_settings())
        if self.resumed:
            known = declared(self.task.name, self.family.name)
            configs = self.saved["config"], self.resolved, known
            for path, value in fields_to_keep(*configs).items():
                self.set_field(path, value)
            check_same(*configs)

    def _tokenizer_settings(self):
        """Fields of `data` that `Family.read_tokenizer` needs besides those of the config."""
        if self.resumed:
            data = self.saved["config"]["data"]
            return {name: data[name] for name in self.family.tokenizer_fields if name in data}
        return self.family.tokenizer_settings(self.pretrained.tokenizer) if self.pretrained else {}

    def tokenizer_hashes(self):
        """SHA-256 of the files of the tokenizer in the workdir, by name."""
        return {name: file_sha256(self.workdir / name) for name in self.family.tokenizers.files}

    def set_field(self, path, value):
        """Sets a field of the config and of the resolved config that config.json holds.

        Args:
            path: Dotted name, such as "train.learning_rate".
            value: JSON-able.
        """
        group, name = path.split(".")
        self.config[group][name] = self.resolved[group][name] = value

    def fit_memory(self, architecture, heads=None):
        """Chooses `train.accumulate` and lowers `eval.batch_size` by the memory that is free.

        Args:
            architecture: Arguments of the backbone, with `vocabulary_size`.
            heads: Arguments of the head; None: its parameters are not counted.
        """
        chosen = choose_sizes(
            self.task, self.family, architecture, self.config, self.engine, self.say, heads
        )
        chosen = [int(number) for number in self.engine.agree(chosen)]  # the chief's
        for path, value in zip(("train.accumulate", "eval.batch_size"), chosen, strict=True):
            self.set_field(path, value)

    def start(self, architecture, heads, hashes):
        """Writes config.json: from here on the folder belongs to this run, unless it is a dry one.

        Args:
            architecture: Arguments of the backbone.
            heads: Further arguments of the task model.
            hashes: Dict from the name of a data file to its SHA-256.

        Raises:
            UserError: If the run goes on and its data have changed, or this worker's differ.
        """
        if self.resumed:
            kept, released = (
                self.saved["data_sha256"].get("pretrained"),
                began_as_released(self.saved),
            )
        else:
            kept = self.pretrained and self.pretrained.sha256
            released = bool(self.pretrained) and self.pretrained.released
        if kept:
            hashes = {**hashes, "pretrained": kept}
        # Copies of standard input and of pipes have another path in every process.
        self.hashes = hashes = {display_name(name): sha256 for name, sha256 in hashes.items()}
        own = int(hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest()[:12], 16)
        if self.engine.agree([own])[0] != own:  # 48 bits: a float64 holds them
            raise UserError(
                "Every worker must have the same data. Received: data.train, "
                "data.validation or pretrained that differ from those of the chief"
            )
        if self.resumed:
            old = self.saved["data_sha256"]
            changed = sorted(name for name in {*old, *hashes} if old.get(name) != hashes.get(name))
            if changed:
                raise UserError(
                    "A resumed run must keep its data; choose another --workdir, or "
                    f"the old data. Received: {changed[0]}, which has changed"
                )
        if self.chief and not self.dry_run:
            self.workdir.start(
                self.kind, self.resolved, architecture, hashes, heads, released=released
            )

    def match_heads(self, wanted, anew=()):
        """The heads that start at random, of those wanted; says which, and which are left out.

        Args:
            wanted: Names of the heads that the run needs.
            anew: Those that start at random even if `pretrained` has them.

        Raises:
            UserError: If `pretrained` lacks some and `model.new_heads` is not set.
        """
        if self.resumed or not self.pretrained:
            return wanted
        new, left = self.pretrained.match_heads(wanted, self.config.model.get("new_heads", False))
        new = sorted({*new, *set(wanted).intersection(anew)})
        if new:
            self.say(f"heads that start at random: {', '.join(new)}")
        if left and self.task.pretrains:
            self.say(f"heads that are left out: {', '.join(left)}")
        return new

    def say(self, line):
        """Prints a line (the chief does)."""
        if self.chief:
            print(line, flush=True)

    def train(self, plan):
        """Makes the model, trains it to the end of the budget and writes its results.

        Args:
            plan: `keras_attn.tasks.contract.Plan`.

        Returns:
            Dict, as in results.json; for a dry run what `dry_run.measure` returns.
        """
        train, config, batches, best = self.config.train, self.config, plan.train, plan.best
        with self.engine.scope():
            model = self._make_model(plan)
            optimizer = self.engine.make_optimizer(
                train.optimizer,
                model,
                weight_decay=train.weight_decay,
                beta_2=train.get("beta_2", 0.999),
                layer_decay=train.get("layer_decay", 1.0),
            )
        digits = 0 if batches.mean_rows % 1 == 0 else 1
        self.say(
            f"{counted(model.count_params(), 'parameter')} · "
            f"{counted(batches.num_examples, 'example')} an epoch · "
            f"batch {batches.mean_rows:,.{digits}f} · {self.engine.describe()}"
        )
        steps = total_steps(train, batches.num_batches)
        if best and steps and not 0 < config.eval.every < steps:
            self.say(
                f"{best.metric} chooses among one evaluation: eval.every="
                f"{config.eval.every} is not below the length of the run, "
                f"{counted(steps, 'step')}"
            )
        step = self.engine.make_step(
            model,
            optimizer,
            accumulate=train.accumulate,
            clip_norm=train.clip_norm,
            jit=train.jit,
            seed=train.seed,
        )
        if self.dry_run:
            found = measure(step, batches, steps, train.minutes, self.say)
            self.meet()  # the chief's data are read to the end
            return found
        trainer = Trainer(
            step,
            batches,
            self.workdir.path,
            total_steps=steps,
            minutes=train.minutes,
            peak=train.learning_rate,
            warmup_fraction=train.warmup_fraction,
            schedule=train.schedule,
            evaluate=plan.validation and self._evaluator(model, plan),
            evaluate_every=config.eval.every,
            checkpoint_every=config.checkpoint.every,
            keep=config.checkpoint.keep,
            first_weights=lambda model: self._first_weights(model, plan),
            best=best,
            average=config.checkpoint.get("average", 1),
        )
        trainer.run()
        return self._finish(trainer, batches, plan.notes() if plan.notes else {})

    def _make_model(self, plan):
        """The built model, with its lowest layers frozen as `train.freeze` says."""
        train = self.config.train
        model = self.family.build(
            self.task.name, plan.architecture, plan.heads, train.precision, train.seed
        )
        model.build()
        backbone, frozen = getattr(model, "backbone", model), train.get("freeze", 0)
        backbone.remat = train.remat
        # The embeddings are below the lowest layer.
        for part in backbone.variables_by_depth()[: frozen + 1] if frozen else ():
            for variable in part:
                variable.trainable = False
        return model

    def _first_weights(self, model, plan):
        """Sets the weights that the first step begins with."""
        if self.pretrained:
            self.pretrained.assign(model, plan.new_heads)
            del self.pretrained  # and with it the memory of its weights
        if plan.initialize:
            plan.initialize(model)

    def _evaluator(self, model, plan):
        evaluator = self.engine.make_evaluator(model, jit=self.config.train.jit, rows=plan.outputs)

        def evaluate(stop):
            found = evaluator.run(plan.validation, stop)
            return found and (plan.metrics(model, *found, stop) if plan.metrics else found[0])

        return evaluate

    def _finish(self, trainer, batches, notes):
        """Writes results.json and model.keras, and returns the results."""
        examples = round(trainer.step * batches.mean_rows)
        results = {
            **(trainer.validation or {}),
            "steps": trainer.step,
            **(
                {"best_step": trainer.best.state["step"]}
                if trainer.best and trainer.average == 1
                else {}
            ),
            "examples": examples,
            "examples_per_second": examples / max(trainer.seconds, 1e-9),
            "seconds": trainer.seconds,
            "weights_sha256": trainer.digest(),
            "data_sha256": self.hashes,
            "versions": versions(),
            **notes,
        }
        if self.chief:
            self.write_results(results)  # first: a disk too full for the model may hold them
            self.workdir.save_model(trainer.step_function.model)
            self.say(
                f"{self.workdir / 'results.json'} · "
                + " · ".join(
                    f"{name} {value:.4f}" for name, value in (trainer.validation or {}).items()
                )
            )
        self.meet()  # a worker that ended before would look lost to the chief
        return results

    def write_results(self, results):
        """Writes results.json (the chief does)."""
        if self.chief:
            self.workdir.write_json("results.json", results)

    def meet(self):
        """Waits, on every worker, until all are here: for files that the chief makes."""
        self.engine.meet()


def _lowercase(data, pretrained, usual):
    """Whether text is lower-cased: as the pretrained model's or the prepared text was."""
    if pretrained:
        # With which data.lowercase was compared.
        return pretrained.lowercase
    if not (data.train and is_prepared(data.train)):
        return usual if data.lowercase is None else data.lowercase
    used = read_index(data.train)["lowercase"]
    if data.lowercase not in (None, used):
        raise UserError(
            "data.lowercase must be that of the prepared text, or be left out. "
            f"Received: data.lowercase={data.lowercase}, {data.train} has {used}"
        )
    return used


def check_eval_batch_size(batch_size, replicas):
    """Checks that the evaluation batch divides over the replicas."""
    if batch_size < 1 or batch_size % replicas:
        raise UserError(
            "eval.batch_size must be a multiple of the number of replicas. Received: "
            f"eval.batch_size={batch_size}, replicas={replicas}"
        )


def total_steps(train, batches_per_epoch):
    """Steps of the whole run, or None if a clock ends it."""
    if train.minutes is not None:
        return None
    if train.steps is not None:
        return train.steps
    if train.epochs is None:
        raise UserError(
            "One of train.steps, train.epochs and train.minutes must be set. Received: none"
        )
    return max(1, round(train.epochs * batches_per_epoch))
