"""Types in the signatures of operations, layers and models."""

from collections.abc import Callable
from typing import Any, TypeAlias

import keras

# A tensor of the backend, a `keras.KerasTensor` or a NumPy array; they have no class in common.
Tensor: TypeAlias = Any
# Tensors in lists, tuples and dictionaries, as `keras.tree` takes them, or None.
Nest: TypeAlias = Any
# What may be None, and which callers who know better need not check.
MaybeNone: TypeAlias = Any
Shape: TypeAlias = tuple[int | MaybeNone, ...]  # None: a size that is unknown

# Objects of Keras, and the names and configs from which Keras makes them.
Config: TypeAlias = dict[str, Any]
Activation: TypeAlias = str | Config | Callable[[Tensor], Tensor]
Constraint: TypeAlias = str | Config | keras.constraints.Constraint
Initializer: TypeAlias = str | Config | keras.initializers.Initializer
Regularizer: TypeAlias = str | Config | keras.regularizers.Regularizer
LayerLike: TypeAlias = Config | keras.Layer
