"""Attention in NumPy, by the formulas of the papers."""

import numpy as np


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def band(length, left, right):
    """Which keys are in the window around each query, `(T, T)`."""
    distance = np.arange(length) - np.arange(length)[:, None]
    return (-left <= distance) & (distance <= right)


def softmax(logits, mask=True):
    """Over the last axis; 0 where masked, also in rows where all is."""
    logits = logits.astype("float64")
    mask = np.broadcast_to(mask, logits.shape)
    largest = np.where(mask, logits, -1e300).max(axis=-1, keepdims=True)
    e = np.where(mask, np.exp(np.minimum(logits - largest, 0)), 0.0)
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def turned(x):
    return x.swapaxes(-1, -2)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def concat(weights, query, key):
    scores = np.zeros((len(query), query.shape[1], key.shape[1]))
    for b, t, s in np.ndindex(scores.shape):
        hidden = np.tanh(np.concatenate([query[b, t], key[b, s]]) @ weights["kernel"])
        scores[b, t, s] = hidden @ weights["vector"][:, 0]
    return scores


def additive(weights, query, key):
    vector = weights["vector"][:, 0]
    if "length" in weights:
        vector = weights["length"] * vector / np.linalg.norm(vector)
    scores = np.zeros((len(query), query.shape[1], key.shape[1]))
    for b, t, s in np.ndindex(scores.shape):
        hidden = query[b, t] @ weights["query_kernel"] + key[b, s] @ weights["key_kernel"]
        scores[b, t, s] = np.tanh(hidden + weights.get("bias", 0.0)) @ vector
    return scores


SCORES = {
    "dot": lambda weights, query, key: query @ turned(key),
    "scaled_dot": lambda weights, query, key: query @ turned(key) / np.sqrt(query.shape[-1]),
    "bilinear": lambda weights, query, key: query @ weights["kernel"] @ turned(key),
    "general": lambda weights, query, key: query @ weights["kernel"] @ turned(key),
    "cosine": lambda weights, query, key: unit(query) @ turned(unit(key)),
    "concat": concat,
    "additive": additive,
    "location": lambda weights, query, key: query @ weights["kernel"][:, : key.shape[1]],
}


def attention_weights(score, weights, query, key, mask=True):
    """Weights `(B, T, S)`; those of the score are `score/...` or end in `/score/...`."""
    of_score = {name.rpartition("score/")[2]: w for name, w in weights.items()}
    return softmax(SCORES[score](of_score, query, key), mask)
