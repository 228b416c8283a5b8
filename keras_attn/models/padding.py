"""Which inputs of a model are real."""

from keras_attn.ops.masks import as_mask


def real_tokens(inputs, ids="token_ids", mask="padding_mask"):
    """`padding_mask` of a dictionary of inputs; without one every token but id 0 is real.

    Returns:
        Boolean, of the shape of the ids.
    """
    return as_mask(inputs[mask] if mask in inputs else inputs[ids], mask)
