"""The loop around the steps: clock, records, evaluation, checkpoints, signals."""

import math
import signal
import threading
import time

import numpy as np

from keras_attn.errors import DivergedError, UserError, first_line, warn_once
from keras_attn.training import checkpoints as ckpt
from keras_attn.training.records import ProgressLine, Records
from keras_attn.training.schedules import learning_rates
from keras_attn.training.variables import assign_values, digest, read_values, variables_by_path

# A call of the compiled loop lasts about this long, so that signals are
# answered soon; its length in steps does not change the result.
SECONDS_PER_CALL = 2.0
SECONDS_PER_CHECKPOINT = 300.0


class Stopped(Exception):
    """A signal ended the run after everything was saved."""

    def __init__(self, step, signal_number):
        super().__init__(f"stopped at step {step:,}; the same command goes on from there")
        self.signal_number = signal_number


class Trainer:
    """Trains a task model to the end of its budget, from wherever it was left.

    Args:
        step: `Step` of an engine.
        batches: `StreamBatches` or `TableBatches` of the global batch size.
        folder: The workdir.
        total_steps: Steps of the whole run, or None when `minutes` ends it.
        minutes: Training time of the whole run, over all restarts.
        peak, warmup_fraction, schedule: See `learning_rates`.
        evaluate: Function that returns a dict of validation metrics, or None if its argument, a
            function, came to say that a signal asks the run to stop. None: no validation. Its last
            call is with the weights that the run ends with.
        evaluate_every: Steps between evaluations; 0 for only at the end.
        checkpoint_every: Steps between checkpoints; None for every 5 minutes.
        keep: Checkpoints to keep.
        first_weights: Function that sets the weights of a model that no checkpoint is restored to.
        best: `Best`; the run ends with the weights of its best evaluation, and when that has no
            patience left. None: with the last ones.
        average: The run ends with the mean of the weights of that many newest checkpoints of
            multiples of `checkpoint_every`, the last step's among them; 1: with what `best` says.
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
        evaluate=None,
        evaluate_every=0,
        checkpoint_every=None,
        keep=2,
        first_weights=None,
        best=None,
        average=1,
    ):
        self.step_function = step
        self.engine = step.engine
        self.batches = batches
        self.total_steps = total_steps
        self.total_seconds = None if minutes is None else 60.0 * minutes
        self.first_weights = first_weights
        self.best = best
        self._rate = {"peak": peak, "warmup_fraction": warmup_fraction, "schedule": schedule}
        self.evaluate = evaluate
        self.evaluate_every = evaluate_every or 0
        self.checkpoint_every = checkpoint_every
        self.chief = self.engine.is_chief
        self.progress = ProgressLine(total_steps, active=self.chief)
        self.average = average
        self.checkpoints = ckpt.Checkpoints(
            f"{folder}/checkpoints",
            max(keep, average),
            self._warn,
            regular=checkpoint_every if average > 1 else 1,
        )
        self.folder, self.records = folder, None
        self.step = 0
        self.seconds = 0.0
        self.validation = None
        self._pending = None  # the record of a step whose validation a signal cut off
        self._signal = 0
        self._saved = (None, time.monotonic())

    def run(self):
        """Trains to the end; `step`, `seconds`, `validation` tell the outcome.

        Raises:
            Stopped: After SIGTERM or SIGINT, when all is saved.
            UserError: If a loss or gradient is not finite, or the data are damaged.
        """
        self.restore()
        written = self.step - 1 if self._pending else self.step
        self.records = Records(self.folder, written, self.chief)
        handlers = self._catch_signals()
        try:
            if self._pending:
                if not self._evaluate(self._pending):
                    raise self._stopped()
                self._is_best()
            again = self._finished() and self._saved[0] == self.step
            if not self._finished():
                self._train()
            if self._saved[0] != self.step:
                self.save()
            moved = self._take_mean() if self.average > 1 else self._take_best()
            # A finished run is evaluated again: eval.* may have changed.
            if self.evaluate and (again or moved and self.average > 1):
                if not self._evaluate():
                    raise self._stopped()
            # What was found is known; the rows behind it may be those of other weights.
            elif moved and self.average == 1 and self.evaluate(self._must_stop) is None:
                raise self._stopped()
        finally:
            self.records.close()
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _train(self):
        feed = self.step_function.feed(self.batches, self.step)
        seconds_per_step = None
        while not self._finished():
            plan = self.engine.agree(
                [self._steps_per_call(seconds_per_step), self.seconds, seconds_per_step or 0.0]
            )
            steps, self.seconds, guess = int(plan[0]), plan[1], plan[2]
            rates = self._rates(steps, guess)
            begin = time.monotonic()
            rows = self.step_function.run(feed, self.step, rates)
            took = time.monotonic() - begin
            # The first call compiles: its time says nothing about the next.
            seconds_per_step = took / len(rows) if seconds_per_step is not None else 0.0
            self._check_finite(rows, rates, took)
            self._record(rows, rates, took)

    def _steps_per_call(self, seconds_per_step):
        steps = int(SECONDS_PER_CALL / seconds_per_step) if seconds_per_step else 1
        marks = [self.evaluate_every, self.checkpoint_every]
        limits = [
            self.step_function.max_steps,
            *(every - self.step % every for every in marks if every),
        ]
        if self.total_steps is not None:
            limits.append(self.total_steps - self.step)
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
        kept = self.checkpoints.steps()
        raise DivergedError(
            "Training needs finite losses and gradients; a lower train.learning_rate or a longer "
            "train.warmup_fraction may help, in another --workdir. Received: "
            f"step={self.step + len(rows)}, "
            f"loss={last['loss']}, gradient_norm={last['gradient_norm']}. "
            f"Last good checkpoint: {f'step {kept[-1]}' if kept else 'none yet'}"
        )

    def _record(self, rows, rates, took):
        records = self._as_records(rows, rates, took)
        self.step += len(rows)
        self.seconds += took
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
        best = False
        self.progress.show(records[-1], self._seconds_left(), final=finished)
        # Records come before the checkpoint of their step: a restart drops the
        # ones after its checkpoint, and could not make up for missing ones.
        if self.evaluate and due:
            self.records.write(records[:-1])
            best = self._evaluate(records[-1]) and self._is_best()
            finished = self._finished()
        else:
            self.records.write(records)
        stop = self._must_stop()
        if finished or stop or best or self._checkpoint_due():
            self.save()
        if stop and (self._pending or not finished):
            raise self._stopped()

    def _evaluate(self, record=None):
        """Validates, and writes the record of the step, if there is one, with what was found.

        Returns:
            False if a signal came first; the record then goes into the checkpoint, and the next
            run begins with this validation.
        """
        found = None if self._must_stop() else self.evaluate(self._must_stop)
        self._pending = record if found is None else None
        if found is None:
            return False
        if self.best:  # workers that differ in the last bit may not choose differently
            found = dict(zip(found, self.engine.agree(list(found.values())).tolist(), strict=True))
        self.validation = found
        self.progress.interrupt(
            f"validation at step {self.step:,}: "
            + ", ".join(f"{name} {value:.4f}" for name, value in found.items())
        )
        if record:
            found = {f"validation_{name}": value for name, value in found.items()}
            self.records.write([{**record, **found}])
        return True

    def _is_best(self):
        """Whether the evaluation just made is the best one so far."""
        best = self.best and self.best.add(self.step, self.validation)
        if self.best and self.best.exhausted:
            self.progress.interrupt(
                f"{self.best.metric} was best at step {self.best.state['step']:,}: ending after "
                f"{self.best.patience} evaluations that were no better (eval.patience)"
            )
        return best

    def _take_best(self):
        """Goes from the last weights, which the newest checkpoint has, to the best ones.

        Returns:
            Whether these are others.
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
                "The checkpoint with the best weights must be whole; choose another "
                f"--workdir. Received: {self.checkpoints.folder}, step {step}: "
                f"{first_line(error)}"
            ) from error
        assign_values(variables_by_path(model), values, f"Checkpoint of step {step}")
        self.validation = self.best.state["found"]
        self.progress.interrupt(
            f"taking the weights of step {step:,}, where {self.best.metric} was best"
        )
        return True

    def _take_mean(self):
        """Goes to the mean of the weights of the newest checkpoints.

        Returns:
            Whether there are several.
        """
        values, count = self.checkpoints.read_mean(self.average)
        if count < 2:
            return False
        assign_values(
            variables_by_path(self.step_function.model), values, "The mean of the checkpoints"
        )
        self.progress.interrupt(f"taking the mean of {count} checkpoints")
        return True

    def _stopped(self):
        return Stopped(self.step, self._signal or signal.SIGTERM)

    def _must_stop(self):
        return self.engine.any(self._signal)

    def _checkpoint_due(self):
        if self.checkpoint_every:
            return self.step % self.checkpoint_every == 0
        late = time.monotonic() - self._saved[1] > SECONDS_PER_CHECKPOINT
        return bool(self.engine.agree([late])[0])

    def _finished(self):
        if self.best and self.engine.agree([self.best.exhausted])[0]:
            return True
        if self.total_steps is not None:
            return self.step >= self.total_steps
        return bool(self.engine.agree([self.seconds >= self.total_seconds])[0])

    def _seconds_left(self):
        if self.total_seconds is not None:
            return self.total_seconds - self.seconds
        return (self.total_steps - self.step) * self.seconds / max(1, self.step)

    def restore(self):
        """Goes to the newest whole checkpoint; the chief chooses which.

        Raises:
            UserError: If there are checkpoints, but none is whole.
        """
        found = self.checkpoints.read_newest() if self.chief else None
        if self.chief and not found and self.checkpoints.steps():
            raise UserError(
                "One of the checkpoints must be whole; to train anew, remove the "
                f"folder. Received: {self.checkpoints.folder}, where none is"
            )
        step = int(self.engine.agree([found[1]["step"] if found else -1])[0])
        values, state = found or (self.checkpoints.read(step) if step >= 0 else (None, {}))
        if self.best:
            self.best.restore(state.get("best"))
        if self.chief:
            self.checkpoints.go_back_to(step)
        if step < 0:
            if self.first_weights:
                self.first_weights(self.step_function.model)
            return
        assign_values(self.step_function.variables(), values, f"Checkpoint of step {step}")
        self.step, self.seconds = step, float(state["seconds"])
        self.validation, self._pending = state.get("validation"), state.get("pending")
        # A checkpoint with a pending record is replaced once that is written.
        self._saved = (None if self._pending else step, time.monotonic())
        self.progress.interrupt(f"going on from the checkpoint of step {step:,}")

    def save(self):
        """Writes a checkpoint of the current step (the chief does)."""
        if self.chief:
            state = {
                "seconds": self.seconds,
                "validation": self.validation,
                "pending": self._pending,
                "best": self.best and self.best.state,
            }
            self.checkpoints.save(
                self.step,
                read_values(self.step_function.variables()),
                state,
                also=self.best and self.best.state["step"],
            )
        self._saved = (self.step, time.monotonic())
        self.engine.meet()  # whoever ends before the chief has written may end it, too

    def digest(self):
        """SHA-256 of weights and optimizer slots."""
        return digest(read_values(self.step_function.variables()))

    def _warn(self, line):
        warn_once(line, self.progress.interrupt)

    def _catch_signals(self):
        if threading.current_thread() is not threading.main_thread():
            return {}

        def remember(number, frame):
            if self._signal:  # the second one does not wait for the save
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)
            self._signal = number

        return {
            number: signal.signal(number, remember) for number in (signal.SIGTERM, signal.SIGINT)
        }


def check_batch_size(batch_size, accumulate, replicas):
    """Checks that the global batch divides over replicas and micro-batches."""
    parts = replicas * accumulate
    if batch_size < 1 or accumulate < 1 or batch_size % parts:
        raise UserError(
            "train.batch_size must be a multiple of train.accumulate times the number of "
            f"replicas. Received: train.batch_size={batch_size}, train.accumulate={accumulate}, "
            f"replicas={replicas}"
        )
