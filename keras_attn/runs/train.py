"""Training a run from its plan to its results: model, optimizer, step, trainer, results.json."""

from keras_attn.counts import counted
from keras_attn.errors import UserError
from keras_attn.runs.dry_run import measure
from keras_attn.training.trainer import Trainer
from keras_attn.workdir import versions


def train(run, plan, hashes):
    """Builds the model, trains it to the end of the budget, and writes the results.

    Args:
        run: `Run`.
        plan: `keras_attn.tasks.contract.Plan`.
        hashes: SHA-256 of the data by name, for results.json.

    Returns:
        Dict with the entries of results.json; for a dry run the result of `dry_run.measure`.
    """
    options, batches = run.config.train, plan.train
    with run.engine.scope():
        model = _build_model(run, plan)
        optimizer = run.engine.make_optimizer(
            options.optimizer,
            model,
            weight_decay=options.weight_decay,
            beta_2=options.get("beta_2", 0.999),
            layer_decay=options.get("layer_decay", 1.0),
            rate_factors={name: rate / options.learning_rate for name, rate in plan.rates.items()},
        )
    steps = total_steps(options, batches.num_batches)
    _print_summary(run, plan, model, steps)
    step = run.engine.make_step(
        model,
        optimizer,
        accumulate=options.accumulate,
        clip_norm=options.clip_norm,
        jit=options.jit,
        seed=options.seed,
    )
    if run.dry_run:
        found = measure(step, batches, steps, options.minutes, run.say)
        run.barrier()  # the other workers may still read files of the chief
        return found
    trainer = Trainer(
        step,
        batches,
        run.workdir.path,
        total_steps=steps,
        minutes=options.minutes,
        peak=options.learning_rate,
        warmup_fraction=options.warmup_fraction,
        schedule=options.schedule,
        decay_fraction=options.decay_fraction,
        evaluate=plan.validation and _evaluation(run, model, plan),
        evaluate_every=run.config.eval.every,
        checkpoint_every=run.config.checkpoint.every,
        keep=run.config.checkpoint.keep,
        first_weights=lambda model: _initialize(run, model, plan),
        best=plan.best,
        average=run.config.checkpoint.get("average", 1),
        average_fraction=options.get("average_fraction", 0.0),
    )
    trainer.run()
    notes = plan.notes() if plan.notes else {}
    return _write_results(run, trainer, batches, {"data_sha256": hashes}, notes)


def total_steps(options, batches_per_epoch):
    """Returns the number of steps of the whole run; None if `train.minutes` ends it.

    Args:
        options: `config.train`.
        batches_per_epoch: Number of training batches.
    """
    if options.minutes is not None:
        return None
    if options.steps is not None:
        return options.steps
    if options.epochs is None:
        raise UserError(
            "One of train.steps, train.epochs and train.minutes must be set. Received: none"
        )
    return max(1, round(options.epochs * batches_per_epoch))


def _build_model(run, plan):
    """Builds the model, with its lowest layers frozen according to `train.freeze`."""
    options = run.config.train
    model = run.family.build(
        run.task.name, plan.architecture, plan.heads, options.precision, options.seed
    )
    model.build()
    model.remat = options.remat
    if plan.teacher:
        model.set_teacher(plan.teacher.make_model(options.precision))
    backbone, frozen = getattr(model, "backbone", model), options.get("freeze", 0)
    # The embeddings come before the lowest layer.
    for variables in backbone.variables_by_depth()[: frozen + 1] if frozen else ():
        for variable in variables:
            variable.trainable = False
    return model


def _print_summary(run, plan, model, steps):
    batches, best, every = plan.train, plan.best, run.config.eval.every
    digits = 0 if batches.mean_rows % 1 == 0 else 1
    run.say(
        f"{counted(model.count_params(), 'parameter')} · "
        f"{counted(batches.num_examples, 'example')} per epoch · "
        f"batch size {batches.mean_rows:,.{digits}f} · {run.engine.describe()}"
    )
    if best and steps and not 0 < every < steps:
        run.say(
            f"warning: eval.metric={best.metric} can only select the last weights, because the "
            f"run has one evaluation: eval.every={every}, {counted(steps, 'step')}"
        )


def _initialize(run, model, plan):
    """Sets the weights before the first step."""
    if run.pretrained:
        run.pretrained.assign(model, plan.new_heads)
        run.release_pretrained()
    if plan.initialize:
        plan.initialize(model)


def _evaluation(run, model, plan):
    evaluator = run.engine.make_evaluator(model, jit=run.config.train.jit, rows=plan.outputs)

    def evaluate(stop):
        found = evaluator.run(plan.validation, stop)
        return found and (plan.metrics(model, *found, stop) if plan.metrics else found[0])

    return evaluate


def _write_results(run, trainer, batches, data, notes):
    """Writes results.json and model.keras, and returns the results."""
    examples = round(trainer.step * batches.mean_rows)
    metrics = trainer.validation or {}
    selected = trainer.best and trainer.average == 1
    results = {
        **metrics,
        "steps": trainer.step,
        **({"best_step": trainer.best.state["step"]} if selected else {}),
        "examples": examples,
        "examples_per_second": examples / max(trainer.seconds, 1e-9),
        "seconds": trainer.seconds,
        "weights_sha256": trainer.digest(),
        **data,
        "versions": versions(),
        **notes,
    }
    if run.chief:
        run.write_results(results)  # first: it may fit on a disk that is too full for the model
        run.workdir.save_model(trainer.step_function.model)
        listed = " · ".join(f"{name} {value:.4f}" for name, value in metrics.items())
        run.say(f"{run.workdir / 'results.json'} · {listed}")
    run.barrier()  # a worker that exits earlier would look lost to the chief
    return results
