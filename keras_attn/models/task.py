"""Base classes of task models, and their use with `fit`."""

import functools
from typing import Any, Self

import keras
from keras import ops

from keras_attn.models.declared_inputs import DeclaredInputs
from keras_attn.ops import kernels
from keras_attn.types import Tensor

_KERNELS = kernels.of_backend("tensorflow")


class Losses(DeclaredInputs):
    """Mixin for losses and metrics that are summed over devices; precedes `keras.Model` in the
    bases.

    The model receives a dictionary of its inputs, labels and weights, and returns a dictionary.
    `fit` requires a dataset of such dictionaries, without y. The loss is the sum over names of
    error / weight, both summed over the global batch; a name with weight 0 contributes 0. So `fit`
    under `tf.distribute.MirroredStrategy` computes the same as on a single device.

    A model implements:

    - `loss_weights(batch)`: `{name: weight}` from the batch alone, so that the weight of a global
      batch is known before any gradient.
    - `loss_errors(outputs, batch)`: `{name: error}`, weighted and summed.
    - `metric_sums(outputs, batch)`: `{name: (sum, weight)}`.
    - `metric_names`: names that `fit` reports: `<loss>_loss` and the names of metrics.

    `constants` are the variables of other models that `call` reads, such as those of a teacher.

    Weights of the model may only be read in `call`, which puts what the loss needs of them into its
    outputs: the log-likelihood of a conditional random field, or its transitions. The engines
    differentiate `loss_errors` by the outputs; weights that it reads itself would not be trained.

    If the loss of a row depends on other rows, `gathered_outputs` names the outputs that the loss
    requires of the global batch. `loss_errors` and `metric_sums` then receive a batch with
    `gathered_<name>` of all rows for these outputs and for the entries `gathered_inputs` of the
    batch, and `gathered_start`, the number of the first row of their part of it. The gradient of
    the error of a part must be that of the error of all rows.

    Sums and weights are float32 scalars. `sample_weight (B,)` in the batch multiplies all errors
    and weights of a row; 0 excludes the row. If rows contain several examples
    (`keras_attn.data.packing.pack`), it is `(B, E)`, like labels.
    """

    gathered_inputs: tuple[str, ...] = ("sample_weight", "label")

    def compile(self, *args: Any, **kwargs: Any) -> None:
        # The model is built here, where the scope of a strategy is active. `fit` would call an
        # unbuilt model with floats instead of distributed integers, and create metrics that are
        # not summed over devices.
        if not self.built:
            self.build()
        self._means  # noqa: B018
        super().compile(*args, **kwargs)

    def compile_from_config(self, config: dict[str, Any]) -> None:
        # The same as Keras's method, which skips models that override `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.optimizer is not None:
            self.optimizer.build(self.trainable_variables)

    def compute_loss(
        self,
        x: dict[str, Tensor] | None = None,
        y: None = None,
        y_pred: dict[str, Tensor] | None = None,
        sample_weight: None = None,
        training: bool = True,
    ) -> Tensor:
        if y is not None or sample_weight is not None:
            raise ValueError(
                f"{type(self).__name__}: labels and weights must be entries of the input "
                f"dictionary: fit(x=batches). Received: y={y}, sample_weight={sample_weight}"
            )
        x = _Batch(self, x)
        weights, devices = self.loss_weights(x), 1
        if _KERNELS is not None:
            devices, weights = _KERNELS.replicas.count(), _KERNELS.replicas.summed(weights)
        if devices > 1 and self.gathered_outputs:
            raise ValueError(
                f"{type(self).__name__}: fit supports losses over the batch on one device only. "
                f"Use keras_attn.finetune. Received: {devices} devices"
            )
        errors = self.loss_errors(y_pred, x)
        terms = [ops.divide_no_nan(errors[name], weights[name]) for name in weights]
        # Keras sums the gradients over devices.
        loss = sum([*terms, *(penalty / devices for penalty in self.losses)])
        if devices == 1:
            return loss
        # Keras reports the mean over devices of (loss x number of devices), weighted by rows. This
        # equals the loss of the global batch if each device returns an equal share of it.
        share = _KERNELS.replicas.summed(loss) / devices
        return loss + ops.stop_gradient(share - loss)

    def compute_metrics(
        self, x: dict[str, Tensor], y: None, y_pred: dict[str, Tensor], sample_weight: None = None
    ) -> dict[str, Tensor]:
        x = _Batch(self, x)
        weights = self.loss_weights(x)
        errors = self.loss_errors(y_pred, x)
        sums = {f"{name}_loss": (errors[name], weights[name]) for name in weights}
        for name, (total, weight) in (sums | self.metric_sums(y_pred, x)).items():
            self._means[name].update_state(ops.divide_no_nan(total, weight), sample_weight=weight)
        return self.get_metrics_result()

    @property
    def gathered_outputs(self) -> tuple[str, ...]:
        """Names of the outputs whose rows of the global batch `loss_errors` reads."""
        return ()

    @property
    def constants(self) -> list[keras.Variable]:
        """Variables that `call` reads and that are not part of the model; none by default."""
        return []

    @property
    def metrics(self) -> list[keras.Metric]:
        return [*super().metrics, *self._means.values()]

    @functools.cached_property
    def _means(self):
        # Created by the first `fit` and not tracked by Keras, so that models that are only called,
        # or trained by another loop, have no such state.
        return {name: keras.metrics.Mean(name=name) for name in self.metric_names}


class _Batch(dict):
    """A batch that raises an error with the name of a missing entry, such as labels."""

    def __init__(self, model, batch):
        super().__init__(batch)
        self.model = type(model).__name__

    def __missing__(self, name):
        raise ValueError(
            f"{self.model}: losses and metrics require {name} in the inputs. "
            f"Received: inputs with {', '.join(self)}"
        )


class TaskModel(Losses):
    """Mixin for a backbone with a task head; precedes `keras.Model` in the bases.

    Its `INPUTS` are those of the backbone and `OWN_INPUTS`. The backbone has the attributes
    `BACKBONE_ATTRIBUTES`.
    """

    OWN_INPUTS: dict[str, str] = {}
    BACKBONE_ATTRIBUTES: tuple[str, ...] = ()

    def __init__(self, backbone: keras.Model, seed: int | None, **kwargs: Any) -> None:
        if not isinstance(backbone, keras.Model):
            raise ValueError(
                f"{type(self).__name__}: backbone must be a model. Received: backbone={backbone!r}"
            )
        missing = [name for name in self.BACKBONE_ATTRIBUTES if not hasattr(backbone, name)]
        if missing:
            raise ValueError(
                f"{type(self).__name__}: backbone must be a model with {', '.join(missing)}. "
                f"Received: backbone={backbone!r}"
            )
        kwargs.setdefault("dtype", backbone.dtype_policy)
        super().__init__(**kwargs)
        self.backbone = backbone
        self.seed = seed

    @property
    def INPUTS(self) -> dict[str, str]:  # type: ignore[override]
        return {**self.backbone.INPUTS, **self.OWN_INPUTS}

    @property
    def remat(self) -> bool:
        """Whether training recomputes the activations of each layer of the backbone.

        A model with several backbones sets it for all of them.
        """
        return self.backbone.remat

    @remat.setter
    def remat(self, value: bool) -> None:
        self.backbone.remat = value

    def input_spec_of(self, name: str) -> keras.InputSpec | list[keras.InputSpec]:
        if name in self.OWN_INPUTS:
            return super().input_spec_of(name)
        return self.backbone.input_spec_of(name)

    def build_backbone(self) -> keras.Model:
        """Builds the backbone if necessary, and returns it."""
        if not self.backbone.built:
            self.backbone.build()
        return self.backbone

    @classmethod
    def head_names(cls, **heads: Any) -> list[str]:
        """Returns the names of the layers and weights that the model adds to the backbone.

        They are newly initialized if the run starts from a model without them.

        Args:
            **heads: Arguments of the constructor, all optional.
        """
        return []

    @classmethod
    def uses_pooler(cls, **heads: Any) -> bool:
        """Returns whether the head reads the `pooled_output` of the backbone.

        Args:
            **heads: See `head_names`.
        """
        return False

    @property
    def head_seed(self) -> int | None:
        """Seed of the head: the task's seed, or else the backbone's."""
        return self.backbone.seed if self.seed is None else self.seed

    def get_config(self) -> dict[str, Any]:
        # The task builds its backbone, so that variable paths stay the same.
        backbone = keras.saving.serialize_keras_object(self.backbone)
        backbone.pop("build_config", None)
        return {**super().get_config(), "backbone": backbone, "seed": self.seed}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        backbone = keras.saving.deserialize_keras_object(config["backbone"])
        return cls(**{**config, "backbone": backbone})


def mask_weights(batch):
    """Returns the `mask_weights` of a batch times the `sample_weight` of its rows: float32
    `(B, P)`.
    """
    weights = ops.cast(batch["mask_weights"], "float32")
    rows = batch.get("sample_weight")
    if rows is None or len(rows.shape) == 2:
        return weights
    return weights * ops.expand_dims(ops.cast(rows, "float32"), 1)


def label_weights(batch, labels):
    """Returns the `sample_weight` of a batch, or ones, in the shape of its labels: float32.

    Row weights, `(B,)` or `(B, 1)`, apply to all labels of the row.

    Raises:
        ValueError: If the weights are neither per label nor per row.
    """
    if "sample_weight" not in batch:
        return ops.ones(ops.shape(labels), "float32")
    weights = ops.cast(batch["sample_weight"], "float32")
    given, wanted = tuple(weights.shape), tuple(labels.shape)
    if _may_be_equal(given, wanted):
        return weights
    if given[1:] in ((), (1,)) and _may_be_equal(given[:1], wanted[:1]):
        weights = ops.reshape(weights, (-1, *[1] * (len(wanted) - 1)))
        return ops.broadcast_to(weights, ops.shape(labels))
    raise ValueError(
        "sample_weight must have one weight per label or per row. "
        f"Received: sample_weight of shape {given}, labels of shape {wanted}"
    )


def _may_be_equal(shape, other):
    return len(shape) == len(other) and all(
        None in pair or pair[0] == pair[1] for pair in zip(shape, other, strict=True)
    )
