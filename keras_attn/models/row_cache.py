"""What models share whose cache is a row of each tensor for each target."""

import keras
from keras import ops

from keras_attn.types import Nest, Tensor


class RowCache:
    """Mixin of a model that decodes with such a cache."""

    def reorder_cache(self, cache: Nest, targets: Tensor) -> Nest:
        """Cache of targets that go on from others of the same source; for `beam_search`.

        Args:
            cache: Of `start_decoding` or `decode`.
            targets: Integers `(B R,)`, the one that each goes on from.
        """
        return keras.tree.map_structure(lambda x: ops.take(x, targets, axis=0), cache)
