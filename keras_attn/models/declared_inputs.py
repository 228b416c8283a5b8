"""The dictionary of inputs that a model takes."""

import contextvars
import os
from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from keras_attn.layers.shapes import require_axes, require_tensor, shape_of
from keras_attn.ops import kernels
from keras_attn.types import Tensor

# Whether a model is being exported, and what its calls return goes into a file.
_EXPORTING = contextvars.ContextVar("exporting", default=False)
_KERNELS = kernels.of_backend("tensorflow")


# To a type checker a mixin has what the class that it is mixed into has.
if TYPE_CHECKING:
    from keras import Model as _Model
else:
    _Model = object


class DeclaredInputs(_Model):
    """Declares the inputs of a model; a mixin before `keras.Model`.

    A call without a required input, or with one whose shape does not fit the others, raises an
    error that names it, and `export` needs no signature.

    A model has:

    - `INPUTS`: `{name: axes}` of all inputs but labels and weights, as `require_axes` takes them:
      `"BT"` is a batch of sequences.
    - `SAME_BATCH`: The names of those whose batch does not broadcast.
    - `REQUIRED`: The names of those without which a call is an error.
    - `input_spec_of(name)`, where an input is not integers of unknown sizes.
    """

    INPUTS: dict[str, str] = {"token_ids": "BT", "padding_mask": "BT"}
    SAME_BATCH: tuple[str, ...] = ()
    REQUIRED: tuple[str, ...] = ("token_ids",)

    def __call__(self, inputs: dict[str, Tensor], *args: Any, **kwargs: Any) -> Any:
        require_entries(self, inputs, self.REQUIRED)
        require_axes(type(self).__name__, self.INPUTS,
                     {name: shape_of(inputs.get(name)) for name in self.INPUTS}, self.SAME_BATCH)
        # Float ids, as Keras exports a model around this one with, are cast as by its Embedding.
        floats = {name: ops.cast(x, "int32") for name, x in inputs.items()
                  if name.endswith("_ids") and hasattr(x, "dtype")
                  and keras.backend.is_float_dtype(keras.backend.standardize_dtype(x.dtype))}
        inputs = {**inputs, **floats} if floats else inputs
        # A tuple: Keras tracks lists.
        self.latest_inputs = tuple(name for name in self.INPUTS if name in inputs)
        outputs = super().__call__(inputs, *args, **kwargs)
        return flat_outputs(outputs) if _EXPORTING.get() else outputs

    def export(self, filepath: str | os.PathLike[str], format: str = "tf_saved_model",
               verbose: bool | None = None, input_signature: Any = None, **kwargs: Any) -> Any:
        """Exports the model for inference, as `keras.Model.export`, with any batch and length.

        Args:
            filepath: Path of the folder or file to write.
            format: `"tf_saved_model"`, or `"onnx"`, which on TensorFlow requires tf2onnx
                (`pip install 'keras-attn[onnx]'`); others as in Keras. ONNX Runtime cannot load
                the ONNX files of `GPT2LanguageModel` and `XLNetPretrainer`.
            verbose: Whether to print the endpoints.
            input_signature: Structure of `keras.InputSpec`. If None, the inputs of the latest
                call without labels and weights, ids and masks as int32; of a model that has not
                been called, the required inputs. A reloaded model remembers its latest call.
            **kwargs: Others of `keras.Model.export`.
        """
        if not self.built:
            self.build()
        signature = [self.export_specs()] if input_signature is None else input_signature
        token = _EXPORTING.set(True)
        try:
            return super().export(filepath, format=format, verbose=verbose,
                                  input_signature=signature, **kwargs)
        finally:
            _EXPORTING.reset(token)

    def export_specs(self) -> dict[str, keras.InputSpec | list[keras.InputSpec]]:
        """`{name: keras.InputSpec}` of the inputs that an exported model takes."""
        names = getattr(self, "latest_inputs", ()) or self.REQUIRED
        return {name: self.input_spec_of(name) for name in names}

    def input_spec_of(self, name: str) -> keras.InputSpec | list[keras.InputSpec]:
        """`keras.InputSpec` of an input."""
        return keras.InputSpec(shape=(None,) * len(self.INPUTS[name]), dtype="int32", name=name)

    @property
    def _default_save_signature(self):
        # `tf.saved_model.save` takes its signature from here, and an export that has one would
        # trace it too. Keras's own takes ids for floats.
        if _KERNELS is None or _EXPORTING.get() or not self.built:
            return None
        return _KERNELS.graphs.serving_function(
            lambda inputs: flat_outputs(self(inputs)), self.export_specs())

    def get_build_config(self) -> dict[str, Any]:
        # As Keras's own of a model that was built by a call.
        return {"input_shape": {name: (None,) * len(self.INPUTS[name])
                                for name in getattr(self, "latest_inputs", ())}}

    def build_from_config(self, config: dict[str, Any]) -> None:
        self.build()
        shapes = config.get("input_shape")  # of released versions also a list, or none
        if isinstance(shapes, dict):
            self.latest_inputs = tuple(name for name in self.INPUTS if name in shapes)


def flat_outputs(outputs):
    """The outputs of a model with an entry for each tensor of a list, as a SavedModel needs them:
    `memory_0`, … for `memory`. Those of a subclass that returns no dictionary stay as they are."""
    if not isinstance(outputs, dict):
        return outputs
    flat = {}
    for name, value in outputs.items():
        parts = {f"{name}_{i}": part for i, part in enumerate(value)} if isinstance(
            value, (list, tuple)) else {name: value}
        flat.update(parts)
    return flat


def require_entries(model, inputs, names):
    """Raises a ValueError unless the inputs of a model are a dictionary of dense tensors that has
    entries of these names."""
    kind = type(model).__name__
    if not hasattr(inputs, "keys"):
        raise ValueError(f"{kind}: inputs must be a dictionary with {', '.join(names)}. "
                         f"Received: inputs of type {type(inputs).__name__}")
    for name in inputs:
        if inputs[name] is not None:
            require_tensor(kind, name, inputs[name])
    missing = [name for name in names if inputs.get(name) is None]
    if missing:
        raise ValueError(f"{kind}: inputs lack {', '.join(missing)}. "
                         f"Received: inputs with {', '.join(inputs) or 'no entry'}")
