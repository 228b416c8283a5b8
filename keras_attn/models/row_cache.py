"""Cache reordering for models whose cache has one row per target in each tensor."""

import keras
from keras import ops

from keras_attn.types import Nest, Tensor


class RowCache:
    """Mixin of models that decode with such a cache."""

    def reorder_cache(self, cache: Nest, targets: Tensor) -> Nest:
        """Selects the cache of the parent of each target, for `beam_search`.

        Args:
            cache: As returned by `start_decoding` or `decode`.
            targets: Integers `(B R,)`, the index of the parent of each target.
        """
        return keras.tree.map_structure(lambda x: ops.take(x, targets, axis=0), cache)
