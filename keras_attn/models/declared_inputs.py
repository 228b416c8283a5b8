"""The dictionary of inputs of a model."""

import contextvars
import importlib.util
import os
from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from keras_attn.layers.shapes import require_axes, require_tensor, shape_of
from keras_attn.ops import kernels
from keras_attn.ops.masks import require_mask
from keras_attn.types import Tensor

# Whether a model is being exported, so that its calls are traced into a file.
_EXPORTING = contextvars.ContextVar("exporting", default=False)
_KERNELS = kernels.of_backend("tensorflow")


# For type checkers, the mixin has the members of the class that it is mixed into.
if TYPE_CHECKING:
    from keras import Model as _Model
else:
    _Model = object


class DeclaredInputs(_Model):
    """Mixin that declares the inputs of a model; precedes `keras.Model` in the bases.

    A call raises an error that names the input if a required input is missing or its shape does not
    fit the others, and `export` needs no signature.

    A model defines:

    - `INPUTS`: `{name: axes}` of all inputs except labels and weights, in the notation of
      `require_axes`: `"BT"` is a batch of sequences.
    - `SAME_BATCH`: Names of the inputs whose batch axis does not broadcast.
    - `REQUIRED`: Names of the required inputs.
    - `input_spec_of(name)`, if an input is not a tensor of integers with unknown sizes.
    """

    INPUTS: dict[str, str] = {"token_ids": "BT", "padding_mask": "BT"}
    SAME_BATCH: tuple[str, ...] = ()
    REQUIRED: tuple[str, ...] = ("token_ids",)

    def __call__(self, inputs: dict[str, Tensor], *args: Any, **kwargs: Any) -> Any:
        require_entries(self, inputs, self.REQUIRED)
        require_axes(
            type(self).__name__,
            self.INPUTS,
            {name: shape_of(inputs.get(name)) for name in self.INPUTS},
            self.SAME_BATCH,
        )
        for name in self.INPUTS:
            if name.endswith("_mask") and hasattr(inputs.get(name), "dtype"):
                require_mask(inputs[name], name)
        # If Keras exports a model around this one, ids are floats, which are cast as in Embedding.
        floats = {
            name: ops.cast(x, "int32")
            for name, x in inputs.items()
            if name.endswith("_ids")
            and hasattr(x, "dtype")
            and keras.backend.is_float_dtype(keras.backend.standardize_dtype(x.dtype))
        }
        inputs = {**inputs, **floats} if floats else inputs
        # A tuple, as Keras tracks lists.
        self.latest_inputs = tuple(name for name in self.INPUTS if name in inputs)
        outputs = super().__call__(inputs, *args, **kwargs)
        return flat_outputs(outputs) if _EXPORTING.get() else outputs

    def select_inputs(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Returns the entries of a batch that are inputs of this model."""
        return {name: batch[name] for name in self.INPUTS if name in batch}

    def export(
        self,
        filepath: str | os.PathLike[str],
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Exports the model for inference like `keras.Model.export`, with any batch size and
        length.

        Args:
            filepath: Path of the folder or file to write.
            format: `"tf_saved_model"`, `"onnx"`, which on TensorFlow requires tf2onnx
                (`pip install 'keras-attn[onnx]'`), or another format of Keras. ONNX Runtime cannot
                load the ONNX file of `XLNetPretrainer`.
            verbose: Whether to print the endpoints.
            input_signature: Structure of `keras.InputSpec`. By default, the inputs of the latest
                call except labels and weights, with ids and masks as int32; if the model was never
                called, the required inputs. The latest call is saved with the model.
            **kwargs: Other arguments of `keras.Model.export`.
        """
        if not self.built:
            self.build()
        signature = [self.export_specs()] if input_signature is None else input_signature
        if format == "onnx" and _KERNELS is not None and importlib.util.find_spec("tf2onnx"):
            importlib.import_module(f"{kernels.__name__}.tensorflow_onnx")
        token = _EXPORTING.set(True)
        try:
            return super().export(
                filepath, format=format, verbose=verbose, input_signature=signature, **kwargs
            )
        finally:
            _EXPORTING.reset(token)

    def export_specs(self) -> dict[str, keras.InputSpec | list[keras.InputSpec]]:
        """Returns `{name: keras.InputSpec}` of the inputs of an exported model."""
        names = getattr(self, "latest_inputs", ()) or self.REQUIRED
        return {name: self.input_spec_of(name) for name in names}

    def input_spec_of(self, name: str) -> keras.InputSpec | list[keras.InputSpec]:
        """Returns the `keras.InputSpec` of an input."""
        return keras.InputSpec(shape=(None,) * len(self.INPUTS[name]), dtype="int32", name=name)

    @property
    def _default_save_signature(self):
        # The signature for `tf.saved_model.save`. It is not used in an export, which would trace
        # it as well. Keras's own signature treats ids as floats.
        if _KERNELS is None or _EXPORTING.get() or not self.built:
            return None
        return _KERNELS.graphs.serving_function(
            lambda inputs: flat_outputs(self(inputs)), self.export_specs()
        )

    def get_build_config(self) -> dict[str, Any]:
        # In the format of Keras for a model that was built by a call.
        return {
            "input_shape": {
                name: (None,) * len(self.INPUTS[name])
                for name in getattr(self, "latest_inputs", ())
            }
        }

    def build_from_config(self, config: dict[str, Any]) -> None:
        self.build()
        shapes = config.get("input_shape")  # in files of older versions, a list or missing
        if isinstance(shapes, dict):
            self.latest_inputs = tuple(name for name in self.INPUTS if name in shapes)


def flat_outputs(outputs):
    """Flattens lists of outputs to one entry per tensor, as a SavedModel requires.

    `memory` becomes `memory_0`, `memory_1`, …. Outputs that are not a dictionary are returned
    unchanged.
    """
    if not isinstance(outputs, dict):
        return outputs
    flat = {}
    for name, value in outputs.items():
        parts = (
            {f"{name}_{i}": part for i, part in enumerate(value)}
            if isinstance(value, (list, tuple))
            else {name: value}
        )
        flat.update(parts)
    return flat


def require_entries(model, inputs, names):
    """Raises a ValueError unless `inputs` is a dictionary of dense tensors with these entries."""
    kind = type(model).__name__
    if not hasattr(inputs, "keys"):
        raise ValueError(
            f"{kind}: inputs must be a dictionary with {', '.join(names)}. "
            f"Received: inputs of type {type(inputs).__name__}"
        )
    for name in inputs:
        if inputs[name] is not None:
            require_tensor(kind, name, inputs[name])
    missing = [name for name in names if inputs.get(name) is None]
    if missing:
        raise ValueError(
            f"{kind}: inputs lack {', '.join(missing)}. "
            f"Received: inputs with {', '.join(inputs) or 'no entries'}"
        )
