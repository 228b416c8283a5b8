"""Projections of multi-head attention, shared by several layers."""

import itertools

import keras
from keras import ops

from keras_attn.layers.neighbours import RANDOM_SCALE, STRENGTH, neighbour_kernels
from keras_attn.layers.seeds import seeded_initializer, split_seed
from keras_attn.layers.shapes import require_sequences
from keras_attn.ops.arguments import (
    require_each,
    require_integers,
    require_lengths,
    require_sizes,
)
from keras_attn.ops.products import linear

# The inputs that share a kernel, and thus a matrix product if they are the same tensor.
FUSED = {
    "qkv": (("query", "key", "value"),),
    "kv": (("query",), ("key", "value")),
    None: (("query",), ("key",), ("value",)),
}

_RMS_EPSILON = 1e-6


class Heads:
    """Query, key, value and output projections of H attention heads, stored as weights of a layer.

    Args:
        num_heads: Number of heads H.
        key_dim: Depth of queries and keys in a head.
        value_dim: Depth of values in a head; defaults to `key_dim`.
        output_dim: Depth of the output; defaults to the query's.
        use_bias: Whether the projections have biases.
        fused: A key of `FUSED`.
        kernel_initializer: Initializer of the kernels.
        bias_initializer: Initializer of the biases.
        initial_shifts: See `MultiHeadAttention`.
        seed: Integer seed of the initial weights.
        prefix: Prefix of the weight names.
        output_initializer: Initializer of the output kernel; defaults to `kernel_initializer`.
        regularizers: Pair of regularizers, of the kernels and of the biases.
        constraints: Pair of constraints, of the kernels and of the biases.
        qk_norm: See `MultiHeadAttention`.

    Raises:
        ValueError: If a size is not positive or `fused` is unknown.
    """

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim=None,
        output_dim=None,
        use_bias=True,
        fused="qkv",
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        initial_shifts=None,
        seed=None,
        prefix="",
        output_initializer=None,
        regularizers=(None, None),
        constraints=(None, None),
        qk_norm=False,
    ):
        require_sizes(num_heads=num_heads, key_dim=key_dim)
        require_sizes(optional=True, value_dim=value_dim, output_dim=output_dim)
        if fused not in FUSED:
            raise ValueError(
                f"MultiHeadAttention: fused must be 'qkv', 'kv' or None. Received: fused={fused!r}"
            )
        if initial_shifts is not None:
            if not hasattr(initial_shifts, "__len__") or len(initial_shifts) != num_heads:
                raise ValueError(
                    "MultiHeadAttention: initial_shifts must have one integer per head. "
                    f"Received: initial_shifts={initial_shifts}, num_heads={num_heads}"
                )
            require_each(require_integers, "integers", initial_shifts=initial_shifts)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = key_dim if value_dim is None else value_dim
        self.output_dim = output_dim
        self.use_bias = use_bias
        self.fused = fused
        self.initial_shifts = None if initial_shifts is None else list(initial_shifts)
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.output_initializer = keras.initializers.get(output_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.regularizers = tuple(map(keras.regularizers.get, regularizers))
        self.constraints = tuple(map(keras.constraints.get, constraints))
        self.seed = seed
        self.prefix = prefix
        self.qk_norm = qk_norm
        self.scales = {}
        self.projection_dims = {
            "query": num_heads * key_dim,
            "key": num_heads * key_dim,
            "value": num_heads * self.value_dim,
        }

    def build(self, layer, query_shape, value_shape=None, key_shape=None, with_output=True):
        """Adds the weights to the layer.

        Args:
            layer: The Keras layer that is being built.
            query_shape: Shape of the query.
            value_shape: Shape of the value; defaults to the query's.
            key_shape: Shape of the key; defaults to the value's.
            with_output: Whether to create the output projection.

        Raises:
            ValueError: If an input has not three axes, or the depths do not match `fused`.
        """
        require_sequences(layer, query_shape, value_shape, key_shape)
        value_shape = query_shape if value_shape is None else value_shape
        key_shape = value_shape if key_shape is None else key_shape
        depths = {"query": query_shape[-1], "key": key_shape[-1], "value": value_shape[-1]}
        *kernel_seeds, output_seed, _ = split_seed(self.seed, 5)
        seeds = dict(zip(depths, kernel_seeds, strict=True))
        self.kernels, self.biases = [], []
        for members in FUSED[self.fused]:
            if len({depths[m] for m in members}) > 1:
                raise ValueError(
                    f"{type(layer).__name__}: fused={self.fused!r} requires {', '.join(members)} "
                    "of the same depth. Use fused='kv' if only the depth of the query differs, "
                    "else fused=None. Received: "
                    f"query_shape={query_shape}, value_shape={value_shape}, key_shape={key_shape}"
                )
            self._add_projection(layer, "_".join(members), depths[members[0]], members, seeds)
        if self.qk_norm:
            self._add_scales(layer)
        if not with_output:
            return
        output_dim = self.output_dim or query_shape[-1]
        self.output_kernel = self._add_weight(
            layer,
            "output_kernel",
            (self.projection_dims["value"], output_dim),
            self.output_initializer or self.kernel_initializer,
            output_seed,
        )
        self.output_kernel.projection_dims = (output_dim,)
        self.output_bias = self._add_bias(layer, "output", output_dim)

    def _add_projection(self, layer, name, depth, members, seeds):
        initializers = [seeded_initializer(self.kernel_initializer, seeds[m]) for m in members]
        widths = [self.projection_dims[m] for m in members]

        shifted = self._shifted_kernels(depth)

        # Each part is initialized separately: Glorot's limit depends on the shape.
        def initializer(shape, dtype=None):
            parts = []
            for member, init, width in zip(members, initializers, widths, strict=True):
                part = init((shape[0], width), dtype=dtype)
                if member in shifted:
                    part = RANDOM_SCALE * part + ops.cast(shifted[member], part.dtype)
                parts.append(part)
            return ops.concatenate(parts, axis=-1)

        self.kernels.append(
            self._add_weight(layer, f"{name}_kernel", (depth, sum(widths)), initializer, None)
        )
        self.kernels[-1].projection_dims = tuple(widths)  # read by optimizers.Muon
        self.biases.append(self._add_bias(layer, name, sum(widths)))

    def _add_scales(self, layer):
        # With shifts, the product of both has the strength that their kernels have without norms.
        value = 1.0 if self.initial_shifts is None else STRENGTH**0.5
        for member in ("query", "key"):
            name = f"{self.prefix}{member}_scale"
            initializer = keras.initializers.Constant(value)
            self.scales[member] = layer.add_weight(
                name=name, shape=(self.key_dim,), initializer=initializer
            )
            setattr(layer, name, self.scales[member])

    def _add_bias(self, layer, name, width):
        if not self.use_bias:
            return None
        seed = split_seed(self.seed, 4, stream=2)[len(self.biases)]
        return self._add_weight(layer, f"{name}_bias", (width,), self.bias_initializer, seed)

    def _add_weight(self, layer, name, shape, initializer, seed):
        name = f"{self.prefix}{name}"
        is_bias = len(shape) == 1
        weight = layer.add_weight(
            name=name,
            shape=shape,
            initializer=seeded_initializer(initializer, seed),
            regularizer=self.regularizers[is_bias],
            constraint=self.constraints[is_bias],
        )
        setattr(layer, name, weight)  # `tf.saved_model.save` only tracks attributes
        return weight

    def _shifted_kernels(self, depth):
        if self.initial_shifts is None:
            return {}
        kernels = neighbour_kernels(depth, self.key_dim, self.initial_shifts, self.seed)
        return dict(zip(("query", "key"), kernels, strict=True))

    def project(self, **sources):
        """Projects named inputs to heads `(B, H, T, K)`; equal tensors share a matrix product.

        Args:
            **sources: Any of `query`, `key` and `value`: `(B, T, D)`.
        """
        heads = {}
        for members, kernel, bias in zip(FUSED[self.fused], self.kernels, self.biases, strict=True):
            starts = dict(
                zip(
                    members,
                    itertools.accumulate((self.projection_dims[m] for m in members), initial=0),
                    strict=False,
                )
            )
            present = [m for m in members if m in sources]
            for _, run in itertools.groupby(present, key=lambda m: id(sources[m])):
                run = list(run)
                part = slice(starts[run[0]], starts[run[-1]] + self.projection_dims[run[-1]])
                if len(run) < len(members):
                    kernel_part, bias_part = kernel[:, part], None if bias is None else bias[part]
                else:
                    kernel_part, bias_part = kernel, bias
                source = sources[run[0]]
                projected = linear(source, kernel_part, bias_part)
                # Sizes of the source: tf2onnx merges two reshapes and drops the ops in between.
                outer = ops.shape(source)[:2]
                heads.update(zip(run, self._split(projected, run, outer), strict=True))
        for member in self.scales.keys() & heads.keys():
            heads[member] = self._normalized(heads[member], self.scales[member])
        return heads

    def _normalized(self, x, scale):
        """Divides each vector by its root mean square, in float32, as squares overflow float16."""
        long = ops.cast(x, "float32")
        inverse = ops.rsqrt(ops.mean(ops.square(long), axis=-1, keepdims=True) + _RMS_EPSILON)
        return ops.cast(long * inverse * ops.cast(scale, "float32"), x.dtype)

    def project_with_memory(self, x, memory=None):
        """Query heads `(B, H, T, K)`, and key and value heads `(B, H, M + T, K)`.

        Args:
            x: `(B, T, D)`.
            memory: None, or `(B, M, D)`, prepended to x for keys and values; it gets no gradient.
        """
        # No separate product for the queries: x would then be used there, here and in a residual,
        # and TensorFlow may sum its three gradients in a different order each time.
        heads = self.project(query=x, key=x, value=x)
        if memory is None:
            return heads
        memory = ops.cast(ops.stop_gradient(memory), x.dtype)
        before = self.project(key=memory, value=memory)
        return heads | {
            name: ops.concatenate([part, heads[name]], axis=2) for name, part in before.items()
        }

    def _split(self, x, members, outer):
        widths = [self.projection_dims[m] for m in members]
        if len(set(widths)) > 1:
            ends = [sum(widths[: i + 1]) for i in range(len(widths) - 1)]
            parts = zip(ops.split(x, ends, axis=-1), members, strict=True)
            return [self._split(part, [m], outer)[0] for part, m in parts]
        number, width = len(members), widths[0] // self.num_heads
        # (B, T, N H K) -> N x (B, H, T, K)
        x = ops.reshape(x, (*outer, number, self.num_heads, width))
        return ops.unstack(ops.transpose(x, (2, 0, 3, 1, 4)), num=number, axis=0)

    def packed_shape(self, x):
        """`(B, T, 3, H, K)`, or None if heads need more than a single fused kernel, or with unknown
        sizes.
        """
        if self.fused != "qkv" or self.qk_norm or self.key_dim != self.value_dim or None in x.shape:
            return None
        return *x.shape[:2], 3, self.num_heads, self.key_dim

    def output(self, heads):
        """Projects heads `(B, H, T, V)` to the output `(B, T, output_dim)`."""
        rows, _, length, _ = ops.shape(heads)
        # With one head, tf2onnx drops the transpose: sizes taken after it would be wrong.
        return self.merge_and_project(ops.transpose(heads, (0, 2, 1, 3)), (rows, length))

    def merge_and_project(self, heads, outer):
        """Projects heads `(B, T, H, V)` to the output `(B, T, output_dim)`; `outer` is (B, T)."""
        heads = ops.reshape(heads, (*outer, self.projection_dims["value"]))
        return linear(heads, self.output_kernel, self.output_bias)

    def make_cache(self, batch_size, length, dtype):
        """Creates an empty cache: zeros `(B, H, length, K)` and `(B, H, length, V)`."""
        require_lengths(batch_size=batch_size, length=length)
        return tuple(
            ops.zeros((batch_size, self.num_heads, length, depth), dtype)
            for depth in (self.key_dim, self.value_dim)
        )

    def self_attention_config(self):
        """The config of a layer whose value, output and key depths follow from its input."""
        config = self.get_config()
        return {name: config[name] for name in config.keys() - {"value_dim", "output_dim", "fused"}}

    def regularization_config(self):
        """The config entries of the regularizers and constraints."""
        kinds = {
            "regularizer": (keras.regularizers, self.regularizers),
            "constraint": (keras.constraints, self.constraints),
        }
        return {
            f"{weight}_{kind}": module.serialize(pair[number])
            for kind, (module, pair) in kinds.items()
            for number, weight in enumerate(("kernel", "bias"))
        }

    def get_config(self):
        return {
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "output_dim": self.output_dim,
            "use_bias": self.use_bias,
            "fused": self.fused,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "seed": self.seed,
        }


def head_mask(mask):
    """Adds a head axis to a mask `(B, T, S)`, so that it broadcasts to `(B, H, T, S)`."""
    return mask[:, None] if mask is not None and len(mask.shape) == 3 else mask
