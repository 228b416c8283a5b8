"""Self-attention to a local window, in time and memory linear in the length."""

import itertools

from keras import ops

from keras_attn.ops.dropout import dropout as drop
from keras_attn.ops.masks import as_mask
from keras_attn.ops.products import upcast_float16
from keras_attn.ops.weights import masked_softmax

# Minimum number of queries in a block; smaller matrix products would be slow.
BLOCK = 32
GRID_BLOCK = 4


def windowed_attention(
    query,
    key,
    value,
    left,
    right,
    mask=None,
    dilation=1,
    global_tokens=0,
    random_blocks=0,
    seed=0,
    causal=False,
    dropout=0.0,
    dropout_seed=None,
    global_heads=None,
    pack_ids=None,
):
    """Attention of each position to a window, and optionally to global tokens and random blocks.

    Query i sees key j if `(j - i) / dilation` is an integer in `[-left, right]`. The global tokens
    see all positions and all see them. The queries of a block also see `random_blocks` blocks,
    drawn from those that are not adjacent. `window_mask` is the equivalent mask.

    Args:
        query: `(B, H, T, K)`.
        key: `(B, H, T, K)`.
        value: `(B, H, T, V)`, finite.
        left: Number of keys seen before a query.
        right: Number of keys seen after a query.
        mask: Boolean or integer `(B, T)`, True at keys that may be attended to.
        dilation: Distance between neighbouring keys.
        global_tokens: Number of global tokens, the first positions.
        random_blocks: Number of random blocks per block; unsupported with dilation.
        seed: Integer seed of the random blocks.
        causal: Whether to mask all keys after a query; requires `right=0`.
        dropout: Dropout rate of the weights.
        dropout_seed: Integer or `keras.random.SeedGenerator`.
        global_heads: Query, key and value of the same shapes that the global tokens use to attend
            to all positions; defaults to the others.
        pack_ids: Integers `(B, T)`, the number of the example of each position; examples do not
            attend to each other. Unsupported with global tokens and random blocks.

    Returns:
        `(B, H, T, V)` in the dtype of the values; 0 for a query that sees no key.

    Raises:
        ValueError: If arguments are incompatible.

    Reference:
        Beltagy et al., Longformer, 2020, section 3.1; random blocks: Zaheer et
        al., Big Bird, 2020, section 2.
    """
    check_window(left, right, dilation, random_blocks, causal)
    if pack_ids is not None and (global_tokens or random_blocks):
        raise ValueError(
            "pack_ids are not supported with global tokens or random blocks. "
            f"Received: global_tokens={global_tokens}, random_blocks={random_blocks}"
        )
    query, key, value = (ops.convert_to_tensor(x) for x in (query, key, value))
    length, size = ops.shape(query)[2], block_size(left, right)
    if isinstance(length, int) and not length:  # nothing to divide into blocks
        return value
    single_block = isinstance(length, int) and length <= size * dilation
    if single_block:  # a single block without neighbours: no larger than the input
        size = max(-(-length // dilation), 1)
    elif ops.is_tensor(length):  # a graph for any length: neighbouring blocks may be all padding
        size = _clamp_size(size, (length + dilation - 1) // dilation)
    query = _scaled(query)
    real = ops.ones((1, length), "bool") if mask is None else as_mask(mask)
    places = _in_blocks(ops.arange(length, dtype="int32")[None, None, :, None], size, dilation)
    # Each (B, H, d, N, C, K): blocks of C among every d-th position, d the dilation.
    queries, keys, values = (_in_blocks(x, size, dilation) for x in (query, key, value))
    reals = _in_blocks(ops.cast(real, "int32")[:, None, :, None], size, dilation)
    sides = range(0, 1) if single_block else range(-1 if left else 0, 2 if right else 1)
    near = [_neighbours(x, sides) for x in (keys, values, reals, places)]
    seen = ops.logical_and(near[2] != 0, near[3] >= global_tokens)[..., 0]
    seen = ops.logical_and(seen[..., None, :], _band(size, sides, left, right))
    if pack_ids is not None:
        packs = ops.cast(ops.convert_to_tensor(pack_ids), "int32")[:, None, :, None]
        packs = _in_blocks(packs, size, dilation)  # (B, 1, d, N, C, 1)
        same = ops.equal(packs, ops.swapaxes(_neighbours(packs, sides), -1, -2))
        seen = ops.logical_and(seen, same)
    parts = [(near[0], near[1], seen)]
    if random_blocks:
        chosen, valid = draw_random_blocks(ops.shape(queries)[3], random_blocks, seed)
        others = [_take_blocks(x, chosen) for x in (keys, values, reals, places)]
        others_seen = ops.logical_and(others[2] != 0, others[3] >= global_tokens)[..., 0]
        valid = ops.repeat(valid, size, axis=-1)  # (N, R) -> (N, R C)
        others_seen = ops.logical_and(others_seen, valid)
        parts.append((others[0], others[1], others_seen[..., None, :]))
    if global_tokens:  # last, as their number may be unknown if the length is
        global_positions = ops.arange(global_tokens, dtype="int32")[:length]
        global_seen = real[:, None, None, None, None, :global_tokens]
        if causal:
            global_seen = ops.logical_and(global_seen, places >= global_positions)
        parts.append(
            (
                key[:, :, None, None, :global_tokens],
                value[:, :, None, None, :global_tokens],
                global_seen,
            )
        )
    output = _attend(queries, parts, dropout, dropout_seed)
    output = _from_blocks(output, length)
    if not global_tokens:
        return output
    seen = real[:, None, None, :]
    if causal:
        seen = ops.logical_and(seen, ops.arange(length, dtype="int32") <= global_positions[:, None])
    if global_heads is not None:
        query, key, value = (ops.convert_to_tensor(x) for x in global_heads)
        query = _scaled(query)
    everywhere = _attend(query[:, :, :global_tokens], [(key, value, seen)], dropout, dropout_seed)
    return ops.concatenate([everywhere, output[:, :, global_tokens:]], axis=2)


def window_mask(
    length,
    left,
    right,
    dilation=1,
    global_tokens=0,
    random_blocks=0,
    seed=0,
    causal=False,
    rows=None,
):
    """Dense mask equivalent to `windowed_attention`.

    Arguments not listed here are those of `windowed_attention`.

    Args:
        length: Number of positions T.
        rows: Integers `(R,)`, the query positions; defaults to all.

    Returns:
        Boolean `(T, T)` or `(R, T)`, True where a query sees a key.
    """
    check_window(left, right, dilation, random_blocks, causal)
    keys = ops.arange(length, dtype="int32")
    queries = keys if rows is None else rows
    distance = keys[None, :] - queries[:, None]
    seen = ops.logical_and(distance >= -left * dilation, distance <= right * dilation)
    if dilation > 1:
        seen = ops.logical_and(seen, ops.equal(ops.mod(distance, dilation), 0))
    if random_blocks:
        size = block_size(left, right)
        chosen, valid = draw_random_blocks((length + size - 1) // size, random_blocks, seed)
        # (R, N, 1) and (T,) -> (R, T)
        drawn = ops.logical_and(
            ops.equal(ops.take(chosen, queries // size, axis=0)[..., None], keys // size),
            ops.take(valid, queries // size, axis=0)[..., None],
        )
        seen = ops.logical_or(seen, ops.any(drawn, axis=1))
    if global_tokens:
        of_global = ops.logical_or(
            (keys < global_tokens)[None, :], (queries < global_tokens)[:, None]
        )
        seen = ops.logical_or(seen, of_global)
    return ops.logical_and(seen, distance <= 0) if causal else seen


def windowed_attention_2d(query, key, value, radius, mask=None, dropout=0.0, dropout_seed=None):
    """Attention of each position of a 2D grid to a rectangle around it.

    The query at (y, x) sees keys at most `radius[0]` rows and `radius[1]` columns away.

    Args:
        query: `(B, H, Y, X, K)`.
        key: `(B, H, Y, X, K)`.
        value: `(B, H, Y, X, V)`, finite.
        radius: Two integers.
        mask: Boolean or integer `(B, Y, X)`, True at keys that may be attended to.
        dropout: Dropout rate of the weights.
        dropout_seed: Integer or `keras.random.SeedGenerator`.

    Returns:
        `(B, H, Y, X, V)` in the dtype of the values; 0 for a query that sees no key.
    """
    query, key, value = (ops.convert_to_tensor(x) for x in (query, key, value))
    rows, columns = ops.shape(query)[2:4]
    sizes, sides = [], []
    for length, r in zip((rows, columns), radius, strict=True):
        size = max(r, GRID_BLOCK)
        single_block = isinstance(length, int) and length <= size
        size = max(length, 1) if single_block else size
        sizes.append(_clamp_size(size, length) if ops.is_tensor(length) else size)
        sides.append(range(0, 1) if single_block else range(-1 if r else 0, 2 if r else 1))
    query = _scaled(query)
    real = ops.ones((1, rows, columns), "bool") if mask is None else as_mask(mask)
    queries, keys, values, reals = (
        _in_grid_blocks(x, sizes)
        for x in (query, key, value, ops.cast(real, "int32")[:, None, ..., None])
    )
    keys, values, reals = (_grid_neighbours(x, sides) for x in (keys, values, reals))
    seen = ops.logical_and(reals[..., 0][..., None, :] != 0, _grid_band(sizes, sides, radius))
    output = _attend(queries, [(keys, values, seen)], dropout, dropout_seed)
    # (B, H, Ny, Nx, Cy Cx, V) -> (B, H, Y, X, V)
    batch, heads, tall, wide, _, depth = ops.shape(output)
    output = ops.reshape(output, (batch, heads, tall, wide, *sizes, depth))
    output = ops.transpose(output, (0, 1, 2, 4, 3, 5, 6))
    output = ops.reshape(output, (batch, heads, tall * sizes[0], wide * sizes[1], depth))
    return output[:, :, :rows, :columns]


def grid_window_mask(rows, columns, radius):
    """Dense mask equivalent to `windowed_attention_2d`, `(Y X, Y X)`."""
    places = ops.arange(rows * columns, dtype="int32")
    near = ops.ones((), "bool")
    for places_along, reach in ((places // columns, radius[0]), (places % columns, radius[1])):
        distance = ops.abs(places_along[None, :] - places_along[:, None])
        near = ops.logical_and(near, distance <= reach)
    return near


def check_window(left, right, dilation, random_blocks, causal):
    """Raises a ValueError for an invalid window."""
    if left < 0 or right < 0 or dilation < 1 or random_blocks < 0:
        raise ValueError(
            "left, right and random_blocks of a window must be non-negative, and dilation "
            f"positive. Received: left={left}, right={right}, dilation={dilation}, "
            f"random_blocks={random_blocks}"
        )
    if random_blocks and (dilation > 1 or causal):
        raise ValueError(
            "random_blocks are not supported with dilation or a causal window. "
            f"Received: dilation={dilation}, causal={causal}"
        )
    if causal and right:
        raise ValueError(f"A causal window must have right=0. Received: right={right}")


def block_size(left, right):
    """Number of queries in a block; all keys they see are in the block or an adjacent one."""
    return max(left, right, BLOCK)


def draw_random_blocks(number, count, seed):
    """Draws distinct blocks for each block, excluding itself and adjacent ones.

    Args:
        number: Number of blocks N.
        count: Number of draws R per block.
        seed: Integer.

    Returns:
        int32 `(N, R)`, the drawn blocks; and boolean `(N, R)`, False where there are not enough
        blocks.
    """
    far = ops.convert_to_tensor(number, "int32") - 3  # without itself and its neighbours, in a ring
    block = ops.arange(number, dtype="int32")[:, None]
    draw = ops.arange(count, dtype="int32")[None]
    # One distance from each of R ranges, selected by a hash.
    starts, ends = draw * far // count, (draw + 1) * far // count
    mixed = block * 1103515245 + draw * 747796405 + int(seed) % 65521 * 32717 + 12345
    mixed = ops.bitwise_xor(mixed, ops.right_shift(mixed, 15)) * 739982445
    mixed = ops.bitwise_and(ops.bitwise_xor(mixed, ops.right_shift(mixed, 13)), 0x7FFFFFFF)
    distance = 2 + starts + mixed % ops.maximum(ends - starts, 1)
    chosen = (block + distance) % ops.maximum(ops.convert_to_tensor(number, "int32"), 1)
    # In a ring the first and last blocks are adjacent: this excludes at least what a line does.
    return chosen, ops.broadcast_to(ends > starts, ops.shape(chosen))


def _scaled(query):
    return query * ops.cast(query.shape[-1] ** -0.5, query.dtype)


def _clamp_size(size, length):
    """The smaller of the two, but at least 1, for a length only known at run time."""
    return ops.minimum(size, ops.maximum(length, 1))


def _in_blocks(x, size, dilation):
    """`(B, H, T, K)` -> `(B, H, d, N, C, K)`, padded with 0."""
    whole = size * dilation
    batch, heads, length, depth = ops.shape(x)
    number = (length + whole - 1) // whole
    x = ops.pad(x, ((0, 0), (0, 0), (0, whole - 1), (0, 0)))[:, :, : number * whole]
    x = ops.reshape(x, (batch, heads, number, size, dilation, depth))
    return ops.transpose(x, (0, 1, 4, 2, 3, 5))


def _from_blocks(x, length):
    batch, heads, dilation, number, size, depth = ops.shape(x)
    x = ops.transpose(x, (0, 1, 3, 4, 2, 5))
    return ops.reshape(x, (batch, heads, number * size * dilation, depth))[:, :, :length]


def _neighbours(x, sides, axis=3):
    """Concatenates each block with adjacent ones: `(…, N, m C, K)`."""
    return ops.concatenate([_shifted(x, side, axis) for side in sides], axis=-2)


def _shifted(x, side, axis):
    """The previous (-1) or next (1) block of each block, 0 where there is none."""
    if not side:
        return x
    padding = [(0, 0)] * len(x.shape)
    padding[axis] = (1, 0) if side < 0 else (0, 1)
    x = ops.pad(x, padding)
    cut = [slice(None)] * len(x.shape)
    cut[axis] = slice(None, -1) if side < 0 else slice(1, None)
    return x[tuple(cut)]


def _band(size, sides, left, right):
    """Boolean `(C, m C)`: which keys of a block and adjacent blocks a query sees."""
    # Computed in the graph: a constant would have the size of the window squared.
    places = ops.arange(len(sides) * size, dtype="int32") + sides[0] * size
    distance = places[None] - ops.arange(size, dtype="int32")[:, None]
    return ops.logical_and(-left <= distance, distance <= right)


def _take_blocks(x, chosen):
    """`(B, H, 1, N, C, K)` and `(N, R)` -> `(B, H, 1, N, R C, K)`."""
    taken = ops.take(x, chosen, axis=3)
    batch, heads, one, number, count, size, depth = ops.shape(taken)
    return ops.reshape(taken, (batch, heads, one, number, count * size, depth))


def _attend(query, parts, dropout, seed):
    """Attention over several groups of keys with a joint softmax.

    Args:
        query: `(…, C, K)`, scaled.
        parts: List of keys `(…, S, K)`, values `(…, S, V)` and masks `(…, C or 1, S)`.
    """
    logits = [ops.matmul(*upcast_float16(query, ops.swapaxes(key, -1, -2))) for key, _, _ in parts]
    masks = [
        ops.broadcast_to(mask, ops.shape(x)) for x, (_, _, mask) in zip(logits, parts, strict=True)
    ]
    logits, masks = ops.concatenate(logits, axis=-1), ops.concatenate(masks, axis=-1)
    shape = ops.shape(logits)
    # TensorFlow's softmax supports at most five dimensions.
    weights = ops.reshape(
        masked_softmax(*(ops.reshape(x, (-1, shape[-1])) for x in (logits, masks))), shape
    )
    if dropout:
        weights = drop(weights, dropout, seed)
    weights = ops.cast(weights, parts[0][1].dtype)
    ends = [*itertools.accumulate(ops.shape(key)[-2] for key, _, _ in parts[:-1]), None]
    return sum(
        ops.matmul(weights[..., start:end], value)
        for start, end, (_, value, _) in zip([0, *ends], ends, parts, strict=False)
    )


def _in_grid_blocks(x, sizes):
    """`(B, H, Y, X, K)` -> `(B, H, Ny, Nx, Cy Cx, K)`, padded with 0."""
    batch, heads, rows, columns, depth = ops.shape(x)
    tall, wide = ((n + size - 1) // size for n, size in zip((rows, columns), sizes, strict=True))
    x = ops.pad(x, ((0, 0), (0, 0), (0, sizes[0] - 1), (0, sizes[1] - 1), (0, 0)))
    x = x[:, :, : tall * sizes[0], : wide * sizes[1]]
    x = ops.reshape(x, (batch, heads, tall, sizes[0], wide, sizes[1], depth))
    x = ops.transpose(x, (0, 1, 2, 4, 3, 5, 6))
    return ops.reshape(x, (batch, heads, tall, wide, sizes[0] * sizes[1], depth))


def _grid_neighbours(x, sides):
    return ops.concatenate(
        [_shifted(_shifted(x, down, 2), aside, 3) for down in sides[0] for aside in sides[1]],
        axis=-2,
    )


def _grid_band(sizes, sides, radius):
    """Boolean `(Cy Cx, m Cy Cx)`: which keys of a block and adjacent blocks a query sees."""
    (tall, wide), across = sizes, len(sides[1])
    query = ops.arange(tall * wide, dtype="int32")[:, None]
    key = ops.arange(len(sides[0]) * across * tall * wide, dtype="int32")[None]
    block = key // (tall * wide)
    down = (block // across + sides[0][0]) * tall + key // wide % tall - query // wide
    aside = (block % across + sides[1][0]) * wide + key % wide - query % wide
    return ops.logical_and(ops.abs(down) <= radius[0], ops.abs(aside) <= radius[1])
