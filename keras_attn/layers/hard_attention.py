"""Attention to one key."""

from typing import Any

import keras
from keras import ops

from keras_attn.layers.checked_layer import CheckedLayer
from keras_attn.layers.nested_layers import layer_config
from keras_attn.layers.output_spec import traced_output_spec
from keras_attn.layers.scores.by_name import build_score, make_score
from keras_attn.layers.seeds import split_seed
from keras_attn.layers.shapes import SEQUENCES
from keras_attn.layers.unused_arguments import reject_unused
from keras_attn.ops.arguments import require_numbers, require_positive, require_probabilities
from keras_attn.ops.masks import MASKED
from keras_attn.ops.weights import joint_mask, masked_softmax, weighted_average
from keras_attn.types import LayerLike, Shape, Tensor

ESTIMATORS = "straight_through", "gumbel", "reinforce"


@keras.saving.register_keras_serializable(package="keras_attn")
class HardAttention(CheckedLayer):
    """Takes the value of one key: in training by chance, else the likeliest.

    With `p = softmax(score(q, k))` and w the weights, a single 1:

    - `"straight_through"`: the likeliest key, `w = onehot(argmax p) + p - sg(p)`: the gradient is
      that of the softmax. No chance.
    - `"gumbel"`: `y = softmax((log p + g) / temperature)`, g of the Gumbel distribution;
      `w = onehot(argmax y) + y - sg(y)`: key j is taken with probability `p_j`.
    - `"reinforce"`: a key drawn from p; no gradient passes through the draw, but
      `reinforce_loss` has that of its probability. With probability `1 - sample_probability` a
      query takes the average by p instead.

    A query that may attend to no key gets weights 0 and output 0.

    Args:
        estimator: One of these.
        score: See `Attention`.
        units: Hidden units of `"concat"` and `"additive"`.
        temperature: Of `"gumbel"`.
        sample_probability: Of `"reinforce"`.
        baseline_momentum: Of `"reinforce"`, the share of the old baseline that a new one keeps.
            Only a training that keeps what a step does to untrained variables moves it: `fit`
            does, the trainer of `keras_attn.training` does not.
        entropy_weight: Of `"reinforce"`, that of the entropy of p in `reinforce_loss`.
        seed: Integer for initial weights and draws.

    Call arguments:
        query: `(B, T, Q)`.
        value: `(B, S, V)`.
        key: `(B, S, K)`; the value if None.
        return_draws: Also return what `reinforce_loss` needs: a dictionary of
            `log_probability`, of the key that was drawn, 0 where none was, and
            `entropy`, both float32 `(B, T)`.
        training: Whether keys are taken by chance.
        Others as of `Attention`, without a cache.

    Returns:
        Output `(B, T, V)`; then the weights `(B, T, S)` and the draws if asked for.

    Raises:
        ValueError: If an argument is out of range, unknown or given in vain, or a mask is float.

    Reference:
        Xu et al., Show, Attend and Tell, 2015, section 4.1, eq. 10-12; Bengio et
        al., Estimating or Propagating Gradients Through Stochastic Neurons, 2013;
        Jang et al., Categorical Reparameterization with Gumbel-Softmax, 2017.

    Examples:
        >>> import numpy as np
        >>> from keras import ops
        >>> from keras_attn.layers import HardAttention
        >>> query, value = np.array([[[1.0]]]), np.array([[[0.1], [0.3], [0.2]]])
        >>> print(ops.convert_to_numpy(HardAttention(score="dot")(query, value)))
        [[[0.3]]]
    """

    AXES = SEQUENCES

    def __init__(self, estimator: str = "straight_through", score: str | LayerLike = "scaled_dot",
                 units: int | None = None, temperature: float = 1.0,
                 sample_probability: float = 0.5, baseline_momentum: float = 0.9,
                 entropy_weight: float = 0.002, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if estimator not in ESTIMATORS:
            raise ValueError(f"estimator must be one of {', '.join(ESTIMATORS)}. "
                             f"Received: estimator={estimator!r}")
        require_positive(temperature=temperature)
        require_numbers(entropy_weight=entropy_weight)
        require_probabilities(sample_probability=sample_probability,
                              baseline_momentum=baseline_momentum)
        if estimator != "gumbel":
            reject_unused('estimator="gumbel"', temperature=(temperature, 1.0))
        if estimator != "reinforce":
            reject_unused('estimator="reinforce"', entropy_weight=(entropy_weight, 0.002),
                          sample_probability=(sample_probability, 0.5),
                          baseline_momentum=(baseline_momentum, 0.9))
        score_seed, self._draw_seed = split_seed(seed, 2)
        self.score = make_score(score, units, score_seed, self.dtype_policy)
        self._score_name = score if isinstance(score, str) else None
        self.estimator = estimator
        self.units = units
        self.temperature = temperature
        self.sample_probability = sample_probability
        self.baseline_momentum = baseline_momentum
        self.entropy_weight = entropy_weight
        self.seed = seed
        self.supports_masking = True

    def build(self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None) -> None:
        self.require_axes(query=query_shape, value=value_shape, key=key_shape)
        build_score(self.score, query_shape, value_shape if key_shape is None else key_shape)
        self.seed_generator = None
        if self.estimator != "straight_through":
            self.seed_generator = keras.random.SeedGenerator(self._draw_seed, name="draws")
        if self.estimator == "reinforce":
            self.baseline = self.add_weight(name="baseline", shape=(), initializer="zeros",
                                            trainable=False, dtype="float32", autocast=False)
        self.built = True

    def call(self, query: Tensor, value: Tensor, key: Tensor | None = None,
             query_mask: Tensor | None = None, value_mask: Tensor | None = None,
             attention_mask: Tensor | None = None, use_causal_mask: bool = False,
             return_attention_scores: bool = False, return_draws: bool = False,
             training: bool | None = None) -> Tensor | tuple[Tensor, ...]:
        key = value if key is None else key
        mask = joint_mask(query, key, query_mask, value_mask, attention_mask,
                          "end" if use_causal_mask else None)
        logits = ops.cast(self.score(query, key), "float32")
        if mask is not None:
            logits = ops.where(mask, logits, MASKED)
        soft = masked_softmax(logits, mask)
        weights, drawn = self._weights(logits, soft, mask, training)
        output = weighted_average(weights, value)
        results = []
        if return_attention_scores:
            results.append(ops.cast(weights, query.dtype))
        if return_draws:
            results.append(_draw_statistics(logits, soft, drawn))
        return (output, *results) if results else output

    def _weights(self, logits, soft, mask, training):
        """The weights, and those of a key that was drawn: 0 where none was."""
        if not training or self.estimator == "straight_through":
            hard = _one_hot(logits, mask)
            weights = hard + (soft - ops.stop_gradient(soft)) if training else hard
            return weights, ops.zeros_like(hard)
        noisy = logits + self._gumbel(ops.shape(logits))
        drawn = _one_hot(noisy, mask)
        if self.estimator == "gumbel":
            relaxed = masked_softmax(noisy / self.temperature, mask)
            return drawn + (relaxed - ops.stop_gradient(relaxed)), drawn
        chance = self._uniform((*ops.shape(logits)[:2], 1))
        sampled = chance < self.sample_probability
        return ops.where(sampled, drawn, soft), ops.where(sampled, drawn, 0.0)

    def _gumbel(self, shape):
        uniform = self._uniform(shape)
        # Neither end may be met: an infinite logit alone in its row would be NaN in a softmax.
        return -ops.log(-ops.log(ops.clip(uniform, 1e-20, 1.0 - 1e-7)))

    def _uniform(self, shape):
        return keras.random.uniform(shape, dtype="float32", seed=self.seed_generator)

    def reinforce_loss(self, log_likelihood: Tensor, draws: dict[str, Tensor],
                       update_baseline: bool = True) -> Tensor:
        """Loss whose gradient is that of the expected log-likelihood, by its sign.

        `-mean_b [l_b + sg(l_b - baseline) sum_t log p(drawn)_t + entropy_weight sum_t H_t]`,
        l_b the log-likelihood; then the baseline moves towards the mean of l.

        Args:
            log_likelihood: `(B,)`, of the labels of each row, from the output.
            draws: What the call returned.
            update_baseline: Whether the baseline moves.

        Returns:
            Scalar, to be minimised.

        Raises:
            ValueError: If the estimator is another.
        """
        if self.estimator != "reinforce":
            raise ValueError('reinforce_loss needs estimator="reinforce". '
                             f"Received: estimator={self.estimator!r}")
        reward = ops.cast(log_likelihood, "float32")
        surplus = ops.stop_gradient(reward) - ops.cast(self.baseline, "float32")
        chosen = ops.sum(draws["log_probability"], axis=-1)
        loss = -ops.mean(reward + surplus * chosen
                         + self.entropy_weight * ops.sum(draws["entropy"], axis=-1))
        if update_baseline:
            keep = self.baseline_momentum
            mean = ops.mean(ops.stop_gradient(reward))
            self.baseline.assign(keep * self.baseline + (1.0 - keep) * mean)
        return loss

    def compute_output_shape(self, query_shape: Shape, value_shape: Shape,
                             key_shape: Shape | None = None) -> Shape:
        return (*query_shape[:-1], value_shape[-1])

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(), "estimator": self.estimator,
            "score": self._score_name or layer_config(self.score, self), "units": self.units,
            "temperature": self.temperature,
            "sample_probability": self.sample_probability,
            "baseline_momentum": self.baseline_momentum, "entropy_weight": self.entropy_weight,
            "seed": self.seed}


def _one_hot(logits, mask):
    """1 at the largest of the last axis, 0 in rows where all is masked."""
    length = ops.shape(logits)[-1]
    if length == 0 if isinstance(length, int) else ops.is_tensor(length):
        # There may be no key: of one more, less likely than any, the column is not taken.
        padding = [(0, 0)] * (len(logits.shape) - 1) + [(0, 1)]
        logits = ops.pad(logits, padding, constant_values=2 * MASKED)
    hot = ops.one_hot(ops.argmax(logits, axis=-1), ops.shape(logits)[-1], dtype="float32")
    hot = hot[..., :length]
    return hot if mask is None else ops.where(mask, hot, 0.0)


def _draw_statistics(logits, soft, drawn):
    log_soft = ops.log_softmax(logits, axis=-1)
    log_probability = ops.sum(ops.where(drawn > 0, log_soft, 0.0), axis=-1)
    # p log p is 0 where p is, and so is its gradient.
    terms = ops.where(soft > 0, soft * ops.where(soft > 0, log_soft, 0.0), 0.0)
    return {"log_probability": log_probability, "entropy": -ops.sum(terms, axis=-1)}
