"""Multi-head attention."""

import itertools

import keras
from keras import ops

from keras_attn.layers.neighbours import RANDOM_SHARE, neighbour_kernels
from keras_attn.layers.seeds import dropout_generator, seeded_initializer, split_seed
from keras_attn.ops import as_mask, causal_mask, combine_masks, scaled_dot_product_attention
from keras_attn.ops.attention import short_self_attention, suits_short
from keras_attn.ops.products import by_rows

# Which inputs share a kernel, and so a matrix product where they are one tensor.
_FUSED = {
    "qkv": (("query", "key", "value"),),
    "kv": (("query",), ("key", "value")),
    None: (("query",), ("key",), ("value",)),
}


@keras.saving.register_keras_serializable(package="keras_attn")
class MultiHeadAttention(keras.layers.Layer):
    """Attention of several heads, each with its own projections.

    `head_h = softmax(Q W_h^Q (K W_h^K)^T / sqrt(key_dim)) V W_h^V`, and the
    output is `concat(heads) W^O`.

    A query that may attend to no key gets weights 0 and heads 0, so its output
    is the output bias.

    Args:
        num_heads: Number of heads H.
        key_dim: Depth of queries and keys in a head.
        value_dim: Depth of values in a head; `key_dim` if None.
        output_dim: Depth of the output; that of the query if None.
        dropout: Share of attention weights dropped in training.
        use_bias: Whether the projections have biases.
        fused: `"qkv"`: one kernel for query, key and value, one matrix product
            for self-attention; all inputs need one depth. `"kv"`: one kernel
            for the query, one for key and value. None: three kernels. The
            result does not depend on it, the weights' shapes do.
        causal_align: Where `use_causal_mask` puts the diagonal: `"end"` (query
            i sees keys up to `i + S - T`) or `"start"` (up to i).
        initial_shifts: None, or H integers: head h starts by looking that many
            positions ahead, where the inputs hold `NeighbourPositions`.
        kernel_initializer, bias_initializer: Initializers.
        seed: Integer for initial weights and dropout.

    Call arguments:
        query: `(B, T, D)`.
        value: `(B, S, D)`; the query itself for self-attention; None with `memory`.
        key: `(B, S, D)`; the value if None.
        query_mask: Boolean or integer `(B, T)`; False queries attend to nothing.
        value_mask: Boolean or integer `(B, S)`; False keys are not attended.
        attention_mask: Boolean or integer mask that broadcasts to `(B, T, S)`,
            or `(B, 1 or H, T, S)`; True where a query may attend to a key.
        use_causal_mask: Whether keys after the query are hidden.
        return_attention_scores: Also return the weights, before dropout.
        cache: None, or keys and values of earlier positions as made by
            `make_cache`. The T new ones are written at `cache_index`, and
            query i sees positions up to `cache_index + i`. S is then the
            length of the cache in every mask.
        cache_index: Integer scalar, the position of the first query.
        memory: Keys and values as `project_memory` made them, in place of `value` and `key`.
        training: Whether dropout is on.

    Masks that Keras attaches to query and value (`Embedding(mask_zero=True)`)
    serve as `query_mask` and `value_mask` where these are None. With a cache,
    the value's does not: it is of the T new positions. Pass `value_mask` to
    hide padding.

    Returns:
        Output `(B, T, output_dim)`; then the weights `(B, H, T, S)` if asked
        for, then the cache if one was given.

    Raises:
        ValueError: If an argument is out of range, the inputs' depths do not
            fit `fused`, a mask is float, one of `cache` and `cache_index` is
            missing, or `value_mask` has another length than the cache.

    Reference:
        Vaswani et al., Attention Is All You Need, 2017, section 3.2.2.
    """

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim=None,
        output_dim=None,
        dropout=0.0,
        use_bias=True,
        fused="qkv",
        causal_align="end",
        initial_shifts=None,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        sizes = {"num_heads": num_heads, "key_dim": key_dim}
        sizes |= {"value_dim": value_dim, "output_dim": output_dim}
        for name, size in sizes.items():
            if size is not None and size < 1:
                raise ValueError(f"{name} must be positive. Received: {name}={size}")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be in [0, 1). Received: dropout={dropout}")
        if fused not in _FUSED:
            raise ValueError(f"fused must be 'qkv', 'kv' or None. Received: fused={fused!r}")
        if causal_align not in ("end", "start"):
            raise ValueError(
                f"causal_align must be 'end' or 'start'. Received: causal_align={causal_align!r}"
            )
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = key_dim if value_dim is None else value_dim
        self.output_dim = output_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self.fused = fused
        if initial_shifts is not None and len(initial_shifts) != num_heads:
            raise ValueError(
                "initial_shifts must be one integer a head. "
                f"Received: initial_shifts={initial_shifts}, num_heads={num_heads}"
            )
        self.causal_align = causal_align
        self.initial_shifts = None if initial_shifts is None else list(initial_shifts)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.seed = seed
        self.supports_masking = True

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = value_shape if key_shape is None else key_shape
        depths = {"query": query_shape[-1], "key": key_shape[-1], "value": value_shape[-1]}
        self._widths = {
            "query": self.num_heads * self.key_dim,
            "key": self.num_heads * self.key_dim,
            "value": self.num_heads * self.value_dim,
        }
        *kernel_seeds, output_seed, dropout_seed = split_seed(self.seed, 5)
        seeds = dict(zip(depths, kernel_seeds, strict=True))
        self.kernels, self._biases = [], []
        for members in _FUSED[self.fused]:
            if len({depths[m] for m in members}) > 1:
                raise ValueError(
                    f"fused={self.fused!r} needs {', '.join(members)} of one depth; fused='kv' "
                    "lets the query differ, fused=None all three. Received: "
                    f"query_shape={query_shape}, value_shape={value_shape}, key_shape={key_shape}"
                )
            self._add_projection("_".join(members), depths[members[0]], members, seeds)
        heads = self.num_heads * self.value_dim
        output_dim = self.output_dim or query_shape[-1]
        self.output_kernel = self.add_weight(
            name="output_kernel",
            shape=(heads, output_dim),
            initializer=seeded_initializer(self.kernel_initializer, output_seed),
        )
        self.output_bias = None
        if self.use_bias:
            self.output_bias = self.add_weight(
                name="output_bias", shape=(output_dim,), initializer=self.bias_initializer
            )
        self.seed_generator = dropout_generator(self.dropout, dropout_seed, "dropout")
        self.built = True

    def _add_projection(self, name, depth, members, seeds):
        initializers = [seeded_initializer(self.kernel_initializer, seeds[m]) for m in members]
        widths = [self._widths[m] for m in members]

        shifted = self._shifted_kernels(depth)

        # Each part starts as it would alone: Glorot's limit depends on the shape.
        def initializer(shape, dtype=None):
            parts = []
            for member, init, width in zip(members, initializers, widths, strict=True):
                part = init((shape[0], width), dtype=dtype)
                if member in shifted:
                    part = RANDOM_SHARE * part + ops.cast(shifted[member], part.dtype)
                parts.append(part)
            return ops.concatenate(parts, axis=-1)

        kernel = self.add_weight(
            name=f"{name}_kernel", shape=(depth, sum(widths)),
            initializer=seeded_initializer(initializer, None),
        )
        self.kernels.append(kernel)
        bias = None
        if self.use_bias:
            bias = self.add_weight(
                name=f"{name}_bias", shape=(sum(widths),), initializer=self.bias_initializer
            )
        self._biases.append(bias)

    def _shifted_kernels(self, depth):
        if self.initial_shifts is None:
            return {}
        kernels = neighbour_kernels(depth, self.key_dim, self.initial_shifts, self.seed)
        return dict(zip(("query", "key"), kernels, strict=True))

    def __call__(self, *args, **kwargs):
        given = len(args) > 4 or kwargs.get("value_mask") is not None
        if kwargs.get("cache") is not None and not given:
            # Else Keras would pass the mask of the new values, of another length than the cache.
            kwargs["value_mask"] = True
        return super().__call__(*args, **kwargs)

    def call(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        attention_mask=None,
        use_causal_mask=False,
        return_attention_scores=False,
        cache=None,
        cache_index=None,
        memory=None,
        training=None,
    ):
        if (cache is None) != (cache_index is None):
            raise ValueError(
                "cache and cache_index go together. "
                f"Received: cache={cache}, cache_index={cache_index}"
            )
        if memory is not None and cache is not None:
            raise ValueError("memory and cache exclude each other. Received: both")
        key = value if key is None else key
        causal = self.causal_align if use_causal_mask else None
        dropout = self.dropout if training else 0.0
        mask = self._head_mask(attention_mask)
        if value_mask is not None and value_mask is not True:
            value_mask = as_mask(value_mask, "value_mask")
            _check_length(value_mask, cache)
            mask = combine_masks(mask, value_mask[:, None, None, :])
        plain = causal is None and cache is None and query_mask is None and memory is None
        if plain and not return_attention_scores and query is key and query is value:
            shape = self._packed_shape(query)
            if shape and suits_short(shape, self.compute_dtype, mask, dropout,
                                     self.seed_generator):
                packed = ops.reshape(_linear(query, self.kernels[0], None), shape)
                bias = self._biases[0]
                bias = None if bias is None else ops.reshape(bias, shape[2:])
                heads = short_self_attention(packed, bias, mask, dropout, self.seed_generator)
                return self._output(heads)
        sources = {"query": query}
        if memory is None:
            sources |= {"key": key, "value": value}
        heads = self._project(sources)
        query = heads["query"]
        if memory is None:
            key, value = heads["key"], heads["value"]
        else:
            key, value = memory
        if cache is not None:
            causal = None
            key, value, cache = self._update_cache(cache, cache_index, key, value)
            visible = causal_mask(
                ops.shape(query)[2], ops.shape(key)[2], align="start", offset=cache_index
            )
            mask = combine_masks(mask, visible)
        if query_mask is not None:
            query_mask = as_mask(query_mask, "query_mask")[:, None, :]
        attended = scaled_dot_product_attention(
            query,
            key,
            value,
            mask=mask,
            causal=causal,
            dropout=dropout,
            seed=self.seed_generator,
            query_mask=query_mask,
            return_scores=return_attention_scores,
        )
        heads, *results = attended if return_attention_scores else (attended,)
        if cache is not None:
            results.append(cache)
        output = self._output(ops.transpose(heads, (0, 2, 1, 3)))
        return (output, *results) if results else output

    def make_cache(self, batch_size, length, dtype=None):
        """Empty cache for decoding up to `length` positions.

        Returns:
            (keys, values): zeros `(B, H, length, key_dim)` and `(B, H, length, value_dim)`.
        """
        return tuple(ops.zeros((batch_size, self.num_heads, length, depth),
                               dtype or self.compute_dtype)
                     for depth in (self.key_dim, self.value_dim))

    def _update_cache(self, cache, cache_index, key, value):
        end = cache_index + key.shape[2] if key.shape[2] is not None else cache_index
        length = cache[0].shape[2]
        if isinstance(end, int) and length is not None and end > length:
            raise ValueError(f"cache must hold the positions up to {end}. "
                             f"Received: a cache of length {length}")
        keys, values = cache = tuple(
            ops.slice_update(old, (0, 0, cache_index, 0), ops.cast(new, old.dtype))
            for old, new in zip(cache, (key, value), strict=True))
        return ops.cast(keys, key.dtype), ops.cast(values, value.dtype), cache

    def project_memory(self, value, key=None):
        """Keys and values of all heads, to be attended to again and again.

        Args:
            value, key: As in a call.

        Returns:
            (keys, values): `(B, H, S, key_dim)` and `(B, H, S, value_dim)`, what a call takes as
            `memory`.
        """
        heads = self._project({"key": value if key is None else key, "value": value})
        # Outside of a call Keras casts no weights.
        return tuple(ops.cast(heads[name], self.compute_dtype) for name in ("key", "value"))

    def _project(self, sources):
        """Heads of each input by name; what is one tensor goes through one product."""
        heads = {}
        for members, kernel, bias in zip(
            _FUSED[self.fused], self.kernels, self._biases, strict=True
        ):
            starts = dict(zip(members, itertools.accumulate(
                (self._widths[m] for m in members), initial=0), strict=False))
            present = [m for m in members if m in sources]
            for _, run in itertools.groupby(present, key=lambda m: id(sources[m])):
                run = list(run)
                part = slice(starts[run[0]], starts[run[-1]] + self._widths[run[-1]])
                if len(run) < len(members):
                    kernel_part, bias_part = kernel[:, part], None if bias is None else bias[part]
                else:
                    kernel_part, bias_part = kernel, bias
                projected = _linear(sources[run[0]], kernel_part, bias_part)
                heads.update(zip(run, self._split_heads(projected, run), strict=True))
        return heads

    def _split_heads(self, x, members):
        widths = [self._widths[m] for m in members]
        if len(set(widths)) > 1:
            ends = [sum(widths[: i + 1]) for i in range(len(widths) - 1)]
            parts = zip(ops.split(x, ends, axis=-1), members, strict=True)
            return [self._split_heads(part, [m])[0] for part, m in parts]
        batch, length = ops.shape(x)[:2]
        number, width = len(members), widths[0] // self.num_heads
        # (B, T, N H K) -> N x (B, H, T, K)
        x = ops.reshape(x, (batch, length, number, self.num_heads, width))
        return ops.unstack(ops.transpose(x, (2, 0, 3, 1, 4)), num=number, axis=0)

    def _packed_shape(self, x):
        """`(B, T, 3, H, K)` of the projected x, if one kernel makes it and sizes are known."""
        if self.fused != "qkv" or self.key_dim != self.value_dim or None in x.shape:
            return None
        return *x.shape[:2], 3, self.num_heads, self.key_dim

    def _output(self, heads):
        # (B, T, H, V) -> (B, T, H V)
        heads = ops.reshape(heads, (*ops.shape(heads)[:2], self._widths["value"]))
        return _linear(heads, self.output_kernel, self.output_bias)

    def _head_mask(self, mask):
        mask = as_mask(mask, "attention_mask")
        return mask[:, None] if mask is not None and len(mask.shape) == 3 else mask

    def compute_output_shape(self, query_shape, value_shape, key_shape=None):
        return (*query_shape[:-1], self.output_dim or query_shape[-1])

    def compute_output_spec(self, *args, **kwargs):
        # By tracing: the number of outputs depends on the arguments.
        return keras.Operation.compute_output_spec(self, *args, **kwargs)

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "output_dim": self.output_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "fused": self.fused,
            "causal_align": self.causal_align,
            "initial_shifts": self.initial_shifts,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "seed": self.seed,
        }


def _linear(x, kernel, bias):
    def product(x):
        x = ops.matmul(x, kernel)
        return x if bias is None else ops.add(x, bias)

    return by_rows(product, x)


def _check_length(value_mask, cache):
    length = None if cache is None else cache[0].shape[2]
    if None not in (length, value_mask.shape[1]) and value_mask.shape[1] != length:
        raise ValueError(
            "value_mask must be as long as the cache. "
            f"Received: value_mask.shape={tuple(value_mask.shape)}, a cache of length {length}"
        )
