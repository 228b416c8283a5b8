"""Memory-efficient attention and cross-entropy on PyTorch.

Attention uses PyTorch's fused kernel (on CPUs Dao et al., FlashAttention, 2022), with memory that
grows with the length, not with its square. It supports either a mask or causal attention, and
copies the mask as floats. So if queries see different keys, they are passed to it block by block,
and each block is recomputed in the backward pass.
"""

import functools

import keras
import numpy as np
import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from keras_attn.ops.block_losses import block_count, block_gradient, block_statistics

# Queries per block. Their mask for 16,384 keys takes 50 MB as floats. For fewer queries the kernel
# uses smaller blocks internally, which is slower.
QUERIES = 768


def attend_in_blocks(query, key, value, mask=None, causal_offset=None):
    """`softmax(query @ key^T) @ value`, with at most one block of weights in memory at a time.

    Args:
        query: `(..., T, K)`, already scaled.
        key: `(..., S, K)`.
        value: `(..., S, V)`.
        mask: Boolean `(..., T or 1, S or 1)`, True where a query may attend to a key, or None.
        causal_offset: Integer: query i sees keys up to i plus this offset; None: all keys.

    Returns:
        `(..., T, V)`; 0 for a query that sees no key.
    """
    leading, width = query.shape[:-2], value.shape[-1]
    if mask is not None:
        mask = _mask_of_heads(mask, leading)
    # On CPUs the fused kernel requires inputs of equal depth whose last axis is contiguous.
    widest = max(query.shape[-1], width)
    query, key, value = (
        functional.pad(_of_heads(x, leading), (0, widest - x.shape[-1])).contiguous()
        if widest > x.shape[-1] or x.stride(-1) != 1
        else _of_heads(x, leading)
        for x in (query, key, value)
    )
    if causal_offset is None and (mask is None or mask.shape[-2] == 1):
        output = _attend(query, key, value, mask)
    elif causal_offset == 0 and mask is None:
        output = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=1.0
        )
    else:
        output = _by_queries(query, key, value, mask, causal_offset)
    return output[..., :width].reshape(*leading, query.shape[-2], width)


def _by_queries(query, key, value, mask, offset):
    outputs = []
    for first in range(0, query.shape[-2], QUERIES):
        q = query[..., first : first + QUERIES, :]
        last = key.shape[-2] if offset is None else first + q.shape[-2] + offset
        if last <= 0:
            outputs.append(torch.zeros_like(q))
            continue
        part = mask
        if mask is not None and mask.shape[-2] != 1:
            part = part[..., first : first + QUERIES, :]
        if mask is not None and mask.shape[-1] != 1:
            part = part[..., :last]
        # Otherwise the masks of all blocks would be stored for the gradient.
        outputs.append(
            checkpoint(
                _attend,
                q,
                key[..., :last, :],
                value[..., :last, :],
                part,
                None if offset is None else first + offset,
                use_reentrant=False,
                preserve_rng_state=False,
            )
        )
    return torch.cat(outputs, -2)


def _attend(query, key, value, mask, offset=None):
    if offset is not None:
        rows = torch.arange(query.shape[-2], device=query.device)[:, None] + offset
        causal = torch.arange(key.shape[-2], device=query.device) <= rows
        mask = causal[None, None] if mask is None else mask & causal
    if mask is None:
        return functional.scaled_dot_product_attention(query, key, value, scale=1.0)
    # The kernel does not define the output of a query without visible keys: let it see all keys,
    # and set its output to 0.
    attending = mask.any(-1, keepdim=True)
    output = functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask | ~attending, scale=1.0
    )
    return torch.where(attending, output, 0.0)


def _of_heads(x, leading):
    """(..., T, K) -> (N, H, T, K)."""
    return x if len(leading) == 2 else x.reshape(-1, (1, *leading)[-1], *x.shape[-2:])


def _mask_of_heads(mask, leading):
    """(..., T, S) -> (N or 1, H or 1, T, S)."""
    if len(leading) > 2 and any(size != 1 for size in mask.shape[:-3]):
        mask = mask.expand(*leading[:-1], *mask.shape[-3:]).flatten(0, -4)
    missing = 4 - mask.ndim
    return (
        mask.reshape(*[1] * missing, *mask.shape)
        if missing > 0
        else mask.reshape(-1, *mask.shape[-3:])
    )


def rematerialize(function, inputs, weights, states, options):
    """See `rematerialize` on TensorFlow."""
    states = [state.clone() for state in states]  # variables are assigned in place
    return checkpoint(
        function, inputs, weights, states, options, use_reentrant=False, preserve_rng_state=False
    )


def linear_cross_entropy(
    labels, hidden, table, bias, label_smoothing, most, teacher=None, distillation=None
):
    """See `linear_cross_entropy` on TensorFlow."""
    options = label_smoothing, most, teacher, distillation
    return _LinearCrossEntropy.apply(labels, hidden, table, bias, options)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(context, labels, hidden, table, bias, options):
        label_smoothing, most, teacher, distillation = options
        size = -(-len(labels) // block_count(len(labels), len(table), most)) or 1
        taught = _teacher_blocks(teacher, labels, size)
        found = torch.cat(
            [
                block_statistics(own, rows @ table.T, bias, label_smoothing, wanted(), distillation)
                for own, rows, wanted in zip(
                    labels.split(size), hidden.split(size), taught, strict=True
                )
            ],
            1,
        )
        context.save_for_backward(labels, hidden, table, bias, found)
        context.size, context.taught = size, taught
        context.label_smoothing, context.distillation = label_smoothing, distillation
        return found

    @staticmethod
    def backward(context, upstream):
        labels, hidden, table, bias, statistics = context.saved_tensors
        of_table = torch.zeros_like(table, dtype=torch.float32)
        of_bias = None if bias is None else torch.zeros_like(bias)
        of_hidden, size = [], context.size
        for own, rows, known, factor, wanted in zip(
            labels.split(size),
            hidden.split(size),
            statistics.split(size, 1),
            upstream[0].split(size),
            context.taught,
            strict=True,
        ):
            change = block_gradient(
                own,
                rows @ table.T,
                bias,
                known,
                factor,
                context.label_smoothing,
                wanted(),
                context.distillation,
            )
            if bias is not None:
                of_bias += change.sum(0)
            change = change.to(rows.dtype)
            of_hidden.append(change @ table)
            of_table += change.T @ rows
        return None, torch.cat(of_hidden), of_table.to(table.dtype), of_bias, None


def _teacher_blocks(teacher, labels, size):
    """Returns a function for each block of rows, of the logits of the teacher and their bias."""
    if teacher is None:
        return [lambda: None for _ in labels.split(size)]
    hidden, table, bias = teacher
    return [lambda rows=rows: (rows @ table.T, bias) for rows in hidden.split(size)]


def inference_function(function, model, reduce_retracing=False):
    """As `keras_attn.ops.inference.inference_function`; not compiled, and without gradients."""

    def tensor(x):
        return keras.ops.convert_to_tensor(x) if isinstance(x, (np.ndarray, np.generic)) else x

    @functools.wraps(function)
    def called(*args, **kwargs):
        args, kwargs = keras.tree.map_structure(tensor, (args, kwargs))
        with torch.no_grad():
            return function(*args, **kwargs)

    return called
