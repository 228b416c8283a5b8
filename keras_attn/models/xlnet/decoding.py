"""Left-to-right decoding with a permutation language model."""

from typing import TYPE_CHECKING, Any

import keras
from keras import ops

from keras_attn.models.building import needs_weights
from keras_attn.models.row_cache import RowCache
from keras_attn.types import Nest, Tensor

# For type checkers, the mixin has the members of the class that it is mixed into.
if TYPE_CHECKING:
    from keras import Model as _Model
else:
    _Model = object


class XLNetDecoding(RowCache, _Model):
    """Mixin of `XLNetPretrainer` that predicts one position after the other, from left to right.

    A position is predicted by the query stream from the content of all tokens before it.

    - Without memory, each step recomputes the whole row, in which all tokens before the position
      attend to each other, as in the context of a training row.
    - With a memory of M tokens, each step computes the content of the new tokens only. They attend
      to each other and to the M tokens before them, whose content does not change any more. As long
      as the row has at most M tokens, this is the permutation order of a row in which the tokens of
      the first call are context, and all others follow from left to right. The backbone's
      `reuse_length` has no effect.
    """

    backbone: Any

    @needs_weights
    def make_cache(
        self, batch_size: int, length: int, memory_length: int | None = None
    ) -> dict[str, Nest]:
        """Creates an empty cache for `decode`.

        Args:
            batch_size: B.
            length: Maximum number of tokens of a row.
            memory_length: M; 0: without memory. None: that of the backbone.
        """
        backbone = self.backbone
        memory_length = backbone.memory_length if memory_length is None else memory_length
        if not memory_length:
            # One more position, the last to be predicted.
            rows = ops.zeros((batch_size, length + 1), "int32")
            return {"token_ids": rows, "padding_mask": rows}
        shape = batch_size, min(memory_length, length)
        return {
            "memory": [
                ops.zeros((*shape, backbone.hidden_dim), backbone.compute_dtype)
                for _ in range(backbone.num_layers)
            ],
            "memory_mask": ops.zeros(shape, "int32"),
        }

    @needs_weights
    def decode(
        self,
        token_ids: Tensor,
        index: Tensor | int,
        cache: dict[str, Nest],
        padding_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        logits_kernel: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Nest]]:
        """Returns the logits `(B, V)` of the position after the given tokens.

        Args:
            token_ids: Integers `(B, T)`, the tokens from index `index` of their rows.
            index: Integer scalar.
            cache: As returned by `make_cache` or the previous call.
            padding_mask: Integers `(B, length)`, 0 for padding in the row and 1 otherwise, also
                for future tokens. None: no padding.
            position_ids: Unused, as positions are relative.
            logits_kernel: Result of the backbone's method; computing it once pays off for many
                steps.

        Returns:
            (logits, cache).
        """
        token_ids = ops.cast(token_ids, "int32")
        batch, length = ops.shape(token_ids)
        if padding_mask is None:
            real = ops.ones((batch, length), "int32")
        else:
            real = ops.slice(ops.cast(padding_mask, "int32"), (0, index), (batch, length))
        advance = self._decode_with_memory if "memory" in cache else self._decode_whole_rows
        hidden, cache = advance(token_ids, real, index, cache)
        return self.token_logits(hidden, logits_kernel), cache

    def _decode_whole_rows(self, token_ids, real, index, cache):
        ids, mask = (
            ops.slice_update(cache[name], (0, index), new)
            for name, new in (("token_ids", token_ids), ("padding_mask", real))
        )
        batch, length = ops.shape(token_ids)
        target = ops.zeros((batch, 1), "int32") + index + length
        # Later positions are padding, which no other position attends to.
        inputs = {"token_ids": ids, "padding_mask": mask}
        _, _, query = self.backbone.run_layers({**inputs, "mask_positions": target})
        return query[:, 0], inputs

    def _decode_with_memory(self, token_ids, real, index, cache):
        batch, length = ops.shape(token_ids)
        inputs = {
            # The target is padding for the content stream.
            "token_ids": ops.pad(token_ids, [(0, 0), (0, 1)]),
            "padding_mask": ops.pad(real, [(0, 0), (0, 1)]),
            "mask_positions": ops.full((batch, 1), length, "int32"),
        }
        content, _, query = self.backbone.run_layers({**inputs, **cache})

        def append(before, new):
            return ops.concatenate([before, ops.cast(new, before.dtype)], axis=1)[:, length:]

        return query[:, 0], {
            "memory": [
                append(old, new[:, :length])
                for old, new in zip(cache["memory"], content, strict=True)
            ],
            "memory_mask": append(cache["memory_mask"], real),
        }

    def share_cache(self, cache: dict[str, Nest], beams: int, length: int) -> dict[str, Nest]:
        """Copies the cache of each prompt for K hypotheses that continue it.

        Args:
            cache: As returned by `decode`, with room for K `length` tokens after the prompt.
            beams: K.
            length: Maximum number of tokens of a hypothesis.
        """
        if "token_ids" in cache:
            unused = (beams - 1) * length
            cache = {name: x[:, : x.shape[1] - unused] for name, x in cache.items()}
            begin = cache["token_ids"].shape[1] - 1 - length
        else:
            begin = 0  # positions are relative
        rows = keras.tree.map_structure(lambda x: ops.repeat(x, beams, axis=0), cache)
        mask = rows.get("padding_mask", rows.get("memory_mask"))
        return {"rows": rows, "begin": ops.full_like(mask[:, 0], begin)}

    @needs_weights
    def decode_beams(
        self,
        token_ids: Tensor,
        index: Tensor | int,
        cache: dict[str, Nest],
        padding_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        logits_kernel: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Nest]]:
        """Like `decode`, for one token of each hypothesis.

        Args:
            token_ids: Integers `(B K,)`.
            index: Integer scalar, the step.
            cache: As returned by `share_cache` or the previous call.
            padding_mask: Padding of the prompt, which the cache contains; unused.
            position_ids: Unused.
            logits_kernel: See `decode`.

        Returns:
            (logits `(B K, V)`, cache).
        """
        place = cache["begin"][0] + index
        logits, rows = self.decode(
            token_ids[:, None], place, cache["rows"], logits_kernel=logits_kernel
        )
        return logits, {**cache, "rows": rows}
