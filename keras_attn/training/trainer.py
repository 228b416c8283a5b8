"""The training loop: calls of the step, records, evaluation, checkpoints, signals."""

import math
import signal
import time

import numpy as np

from keras_attn.errors import DivergedError, UserError, first_line, warn_once
from keras_attn.training import checkpoints as ckpt
from keras_attn.training.records import ProgressLine, Records
from keras_attn.training.schedules import learning_rates
from keras_attn.training.signals import StopSignals
from keras_attn.training.variables import assign_values, digest, variables_by_path
from keras_attn.training.weight_mean import WeightMean

# Target duration of a call of the compiled loop, after which signals are handled. The number of
# steps per call does not change the result.
SECONDS_PER_CALL = 2.0
SECONDS_PER_CHECKPOINT = 300.0


class Stopped(Exception):
    """A signal ended the run after a checkpoint was saved."""

    def __init__(self, step, signal_number):
        super().__init__(f"stopped at step {step:,}; run the same command to resume")
        self.signal_number = signal_number


class Trainer:
    """Trains a task model to the end of its budget, from its newest checkpoint if there is one.

    Args:
        step: `Step` of an engine.
        batches: `StreamBatches` or `TableBatches` of the global batch size.
        folder: The workdir.
        total_steps: Number of steps of the whole run; None if `minutes` ends it.
        minutes: Training time of the whole run, over all restarts.
        peak, warmup_fraction, schedule, decay_fraction: See `learning_rates`.
        evaluate: Function that returns a dict of validation metrics. Its argument is a function
            that returns whether a signal stops the run; it then returns None. The last call uses
            the final weights. None: no validation.
        evaluate_every: Steps between evaluations; 0: only at the end.
        checkpoint_every: Steps between checkpoints; None: every 5 minutes.
        keep: Number of checkpoints to keep.
        first_weights: Function that initializes the weights of a model without a checkpoint.
        best: `Best`, which selects the evaluation with the final weights and ends the run when its
            patience is exhausted. None: the last weights are the final ones.
        average: Number of newest checkpoints at multiples of `checkpoint_every`, including that of
            the last step, whose mean weights are the final ones; 1: `best` selects the weights.
        average_fraction: Fraction of the run at its end, over which the mean weights are the final
            ones; see `WeightMean`. 0: no mean. It excludes `best` and `average`.
    """

    def __init__(
        self,
        step,
        batches,
        folder,
        *,
        total_steps=None,
        minutes=None,
        peak=1e-4,
        warmup_fraction=0.1,
        schedule="linear",
        decay_fraction=0.1,
        evaluate=None,
        evaluate_every=0,
        checkpoint_every=None,
        keep=2,
        first_weights=None,
        best=None,
        average=1,
        average_fraction=0.0,
    ):
        self.step_function = step
        self.engine = step.engine
        self.batches = batches
        self.total_steps = total_steps
        self.total_seconds = None if minutes is None else 60.0 * minutes
        self.first_weights = first_weights
        self.best = best
        self._rate = {
            "peak": peak,
            "warmup_fraction": warmup_fraction,
            "schedule": schedule,
            "decay_fraction": decay_fraction,
        }
        self.evaluate = evaluate
        self.evaluate_every = evaluate_every or 0
        self.checkpoint_every = checkpoint_every
        self.chief = self.engine.is_chief
        self.progress = ProgressLine(total_steps, active=self.chief)
        self.average = average
        self.mean = (
            WeightMean(average_fraction, total_steps, self.total_seconds)
            if average_fraction
            else None
        )
        self.checkpoints = ckpt.Checkpoints(
            f"{folder}/checkpoints",
            max(keep, average),
            self._warn,
            regular=checkpoint_every if average > 1 else 1,
        )
        self.folder, self.records = folder, None
        self.step = 0
        self.seconds = 0.0
        self._compiled = None  # step and seconds after the first call, which includes compilation
        self.validation = None
        self._pending = None  # record of a step whose validation was interrupted by a signal
        self._signals = StopSignals()
        self._saved = (None, time.monotonic())

    def run(self):
        """Trains to the end; sets `step`, `seconds` and `validation`.

        Raises:
            Stopped: After SIGTERM or SIGINT, once a checkpoint is saved.
            UserError: If a loss or gradient is not finite, or the data are damaged.
        """
        self.restore()
        written = self.step - 1 if self._pending else self.step
        self.records = Records(self.folder, written, self.chief)
        with self._signals:
            try:
                self._run()
                self.engine.gather(self.step_function.model)
            finally:
                self.records.close()

    def _run(self):
        if self._pending:
            if not self._evaluate(self._pending):
                raise self._stopped()
            self._update_best()
        was_finished = self._finished() and self._saved[0] == self.step
        if not self._finished():
            self._train()
        if self._saved[0] != self.step:
            self.save()
        averaged = self.average > 1 or self.mean is not None
        changed = self._restore_mean() if averaged else self._restore_best()
        # A finished run is evaluated again, because eval.* may have changed.
        if self.evaluate and (was_finished or changed and averaged):
            if not self._evaluate():
                raise self._stopped()
        # The metrics are known, but the rows of the last evaluation are from other weights.
        elif changed and not averaged and self.evaluate(self._must_stop) is None:
            raise self._stopped()

    def _train(self):
        self._estimate_steps()
        feed = self.step_function.feed(self.batches, self.step)
        seconds_per_step = None
        while not self._finished():
            plan = self.engine.broadcast(
                [self._steps_per_call(seconds_per_step), self.seconds, seconds_per_step or 0.0]
            )
            steps, self.seconds, estimate = int(plan[0]), plan[1], plan[2]
            rates = self._rates(steps, estimate)
            begin = time.monotonic()
            rows = self.step_function.run(feed, self.step, rates)
            # All workers must agree on the time that has passed.
            took = float(self.engine.broadcast([time.monotonic() - begin])[0])
            # The time of the first call includes compilation.
            seconds_per_step = took / len(rows) if seconds_per_step is not None else 0.0
            self._check_finite(rows, rates, took)
            self._record(rows, rates, took)
            self._estimate_steps()

    def _estimate_steps(self):
        """Sets the number of steps of the run, on which batches may depend."""
        steps = self.total_steps
        if steps is None and self.seconds:
            steps = round(self.step * self.total_seconds / self.seconds)
        self.batches.expected_steps = steps

    def _steps_per_call(self, seconds_per_step):
        steps = int(SECONDS_PER_CALL / seconds_per_step) if seconds_per_step else 1
        intervals = [self.evaluate_every, self.checkpoint_every]
        limits = [
            self.step_function.max_steps,
            *(every - self.step % every for every in intervals if every),
        ]
        if self.total_steps is not None:
            limits.append(self.total_steps - self.step)
        if self.mean and (left := self.mean.steps_left(self.step)) is not None:
            limits.append(left)
        return max(1, min([steps, *limits]))

    def _rates(self, steps, seconds_per_step):
        numbers = np.arange(self.step, self.step + steps)
        if self.total_steps is not None:
            at = (numbers + 1) / (self.total_steps + 1)
        else:
            at = self.seconds + (numbers - self.step + 0.5) * seconds_per_step
            at = at / self.total_seconds
        return learning_rates(at, **self._rate)

    def _check_finite(self, rows, rates, took):
        last = rows[-1]
        if math.isfinite(last["loss"]) and math.isfinite(last["gradient_norm"]):
            return
        self.records.write(self._as_records(rows[:-1], rates, took))
        saved = self.checkpoints.steps()
        raise DivergedError(
            f"Training diverged at step {self.step + len(rows)}: loss={last['loss']}, "
            f"gradient_norm={last['gradient_norm']}. Start again in another --workdir with a lower "
            "train.learning_rate or a higher train.warmup_fraction. "
            f"Last checkpoint: {f'step {saved[-1]}' if saved else 'none'}"
        )

    def _record(self, rows, rates, took):
        records = self._as_records(rows, rates, took)
        self.step += len(rows)
        self.seconds += took
        self._compiled = self._compiled or (self.step, self.seconds)
        if self.mean:
            weights = variables_by_path(self.step_function.model)
            self.mean.add(self.step, self.seconds, lambda: self.engine.read_values(weights))
        self._after_call(records)

    def _as_records(self, rows, rates, took):
        speed = {
            "sequences_per_second": self.batches.mean_rows * len(rows) / took,
            "tokens_per_second": sum(row["tokens"] for row in rows) / took,
        }
        return [
            {
                "step": self.step + k,
                **{name: value for name, value in row.items() if name != "tokens"},
                "learning_rate": float(rate),
                **speed,
                "seconds": self.seconds + took * k / len(rows),
            }
            for k, (row, rate) in enumerate(zip(rows, rates, strict=False), 1)
        ]

    def _after_call(self, records):
        finished = self._finished()
        due = finished or (self.evaluate_every and self.step % self.evaluate_every == 0)
        is_best = False
        self.progress.show(records[-1], self._seconds_left(), final=finished)
        # Records are written before the checkpoint of their step: a resumed run drops the records
        # after its checkpoint, but cannot restore missing ones.
        if self.evaluate and due:
            self.records.write(records[:-1])
            is_best = self._evaluate(records[-1]) and self._update_best()
            finished = self._finished()
        else:
            self.records.write(records)
        stop = self._must_stop()
        if finished or stop or is_best or self._checkpoint_due():
            self.save()
        if stop and (self._pending or not finished):
            raise self._stopped()

    def _evaluate(self, record=None):
        """Evaluates, and writes the record of the step, if given, with the validation metrics.

        Returns:
            False if a signal interrupted the evaluation; the record then goes into the checkpoint,
            and the resumed run begins with this evaluation.
        """
        found = None if self._must_stop() else self.evaluate(self._must_stop)
        self._pending = record if found is None else None
        if found is None:
            return False
        if self.best:  # workers whose metrics differ by rounding must select the same weights
            found = dict(
                zip(found, self.engine.broadcast(list(found.values())).tolist(), strict=True)
            )
        self.validation = found
        self.progress.interrupt(
            f"validation at step {self.step:,}: "
            + ", ".join(f"{name} {value:.4f}" for name, value in found.items())
        )
        if record:
            found = {f"validation_{name}": value for name, value in found.items()}
            self.records.write([{**record, **found}])
        return True

    def _update_best(self):
        """Adds the last evaluation to `best`; returns whether it is the best one so far."""
        best = self.best and self.best.add(self.step, self.validation)
        if self.best and self.best.exhausted:
            self.progress.interrupt(
                f"early stopping: {self.best.metric} was best at step "
                f"{self.best.state['step']:,}, and not better in the next "
                f"{self.best.patience} evaluations (eval.patience)"
            )
        return best

    def _restore_best(self):
        """Restores the weights of the best evaluation, after the last ones are saved.

        Returns:
            Whether the weights have changed.
        """
        step = self.best and self.best.state["step"]
        if step in (None, self.step):
            return False
        model = self.step_function.model
        try:
            values, _ = self.checkpoints.read(step, prefix="model/")
        except UserError:
            raise
        except ckpt.DAMAGE as error:
            raise UserError(
                f"The checkpoint of step {step} in {self.checkpoints.folder}, with the best "
                f"weights, is damaged. Choose another --workdir. Received: {first_line(error)}"
            ) from error
        self._assign(variables_by_path(model), values, f"Checkpoint of step {step}")
        self.validation = self.best.state["found"]
        self.progress.interrupt(
            f"restored the weights of step {step:,}, with the best {self.best.metric}"
        )
        return True

    def _restore_mean(self):
        """Sets the weights to their mean over the newest checkpoints, or the end of the run.

        Returns:
            Whether there are several checkpoints, or steps of `average_fraction`.
        """
        if self.mean:
            values, count, of = self.mean.values, self.mean.count, "step"
        else:
            (values, count), of = self.checkpoints.read_mean(self.average), "checkpoint"
        if count < 2:
            return False
        weights = variables_by_path(self.step_function.model)
        self._assign(weights, values, f"The mean of the {of}s")
        self.progress.interrupt(f"restored the mean weights of {count} {of}s")
        return True

    def _stopped(self):
        return Stopped(self.step, self._signals.received or signal.SIGTERM)

    def _must_stop(self):
        return self.engine.any(self._signals.received)

    def _checkpoint_due(self):
        if self.checkpoint_every:
            return self.step % self.checkpoint_every == 0
        late = time.monotonic() - self._saved[1] > SECONDS_PER_CHECKPOINT
        return bool(self.engine.broadcast([late])[0])

    def _finished(self):
        if self.best and self.engine.broadcast([self.best.exhausted])[0]:
            return True
        if self.total_steps is not None:
            return self.step >= self.total_steps
        return bool(self.engine.broadcast([self.seconds >= self.total_seconds])[0])

    def _seconds_left(self):
        if self.total_seconds is not None:
            return self.total_seconds - self.seconds
        steps, seconds = self.step - self._compiled[0], self.seconds - self._compiled[1]
        return (self.total_steps - self.step) * seconds / steps if steps else None

    def restore(self):
        """Restores the newest complete checkpoint, which the chief selects.

        Raises:
            UserError: If there are checkpoints, but all are damaged.
        """
        found = self.checkpoints.read_newest() if self.chief else None
        if self.chief and not found and self.checkpoints.steps():
            raise UserError(
                f"All checkpoints in {self.checkpoints.folder} are damaged. Remove the folder to "
                "train from the beginning"
            )
        step = int(self.engine.broadcast([found[1]["step"] if found else -1])[0])
        values, state = found or (self.checkpoints.read(step) if step >= 0 else (None, {}))
        if self.best:
            self.best.restore(state.get("best"))
        if self.chief:
            self.checkpoints.drop_after(step)
        if step < 0:
            if self.first_weights:
                with self.engine.scope():
                    self.first_weights(self.step_function.model)
            return
        if self.mean:
            self.mean.restore(values, state.get("mean_of", 0))
        self._assign(self.step_function.variables(), values, f"Checkpoint of step {step}")
        self.step, self.seconds = step, float(state["seconds"])
        self.validation, self._pending = state.get("validation"), state.get("pending")
        # A checkpoint with a pending record is replaced once the record is written.
        self._saved = (None if self._pending else step, time.monotonic())
        self.progress.interrupt(f"resuming from the checkpoint of step {step:,}")

    def save(self):
        """Writes a checkpoint of the current step on the chief."""
        values = self.engine.read_values(self.step_function.variables(), everywhere=False)
        if self.chief:
            state = {
                "seconds": self.seconds,
                "validation": self.validation,
                "pending": self._pending,
                "best": self.best and self.best.state,
            }
            if self.mean:
                values |= self.mean.in_checkpoint()
                state["mean_of"] = self.mean.count
            self.checkpoints.save(
                self.step,
                values,
                state,
                also=self.best and self.best.state["step"],
            )
        self._saved = (self.step, time.monotonic())
        self.engine.barrier()  # a worker that exits earlier may end the chief while it writes

    def digest(self):
        """Returns the SHA-256 of weights and optimizer slots."""
        return digest(self.engine.read_values(self.step_function.variables()))

    def _assign(self, variables, values, source):
        with self.engine.scope():
            assign_values(variables, values, source)

    def _warn(self, line):
        warn_once(line, self.progress.interrupt)
