"""Type aliases for the signatures of operations, layers and models."""

from collections.abc import Callable
from typing import Any, TypeAlias

import keras

# A backend tensor, a `keras.KerasTensor` or a NumPy array; they have no common base class.
Tensor: TypeAlias = Any
# Nested lists, tuples and dictionaries of tensors, as in `keras.tree`, or None.
Nest: TypeAlias = Any
# A value that may be None, but that callers may use without checking.
MaybeNone: TypeAlias = Any
Shape: TypeAlias = tuple[int | MaybeNone, ...]  # None: unknown size

# Keras objects, and the names and configs from which Keras creates them.
Config: TypeAlias = dict[str, Any]
Activation: TypeAlias = str | Config | Callable[[Tensor], Tensor]
Constraint: TypeAlias = str | Config | keras.constraints.Constraint
Initializer: TypeAlias = str | Config | keras.initializers.Initializer
Regularizer: TypeAlias = str | Config | keras.regularizers.Regularizer
LayerLike: TypeAlias = Config | keras.Layer
