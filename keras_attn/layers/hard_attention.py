"""Hard attention: each query selects a single key."""

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
    """Selects the value of a single key per query: sampled in training, else the most likely.

    With `p = softmax(score(q, k))` and one-hot weights w, the estimators are:

    - `"straight_through"`: the most likely key, `w = onehot(argmax p) + p - sg(p)`; it has
      the gradient of the softmax. Deterministic.
    - `"gumbel"`: `y = softmax((log p + g) / temperature)` with Gumbel noise g,
      `w = onehot(argmax y) + y - sg(y)`: key j is selected with probability `p_j`.
    - `"reinforce"`: a key sampled from p. No gradient passes through the sample; `reinforce_loss`,
      or in a recurrent decoder `reinforce_errors`, has the gradient of its probability. With
      probability `1 - sample_probability` a query uses the average weighted by p instead.

    `sg` stops the gradient. A query without any visible key gets weights 0 and output 0.

    Args:
        estimator: `"straight_through"`, `"gumbel"` or `"reinforce"`.
        score: See `Attention`.
        units: Hidden units of the scores `"concat"` and `"additive"`.
        temperature: Temperature of `"gumbel"`.
        sample_probability: For `"reinforce"`, the probability of sampling.
        baseline_momentum: For `"reinforce"`, the momentum of the moving-average baseline of
            `reinforce_loss`. It is only updated if the training loop keeps updates of non-trainable
            variables: `fit` does, the trainer of `keras_attn.training` does not.
        entropy_weight: For `"reinforce"`, the weight of the entropy of p in the loss.
        seed: Integer seed of the initial weights and of sampling.

    Call arguments:
        query: `(B, T, Q)`.
        value: `(B, S, V)`.
        key: `(B, S, K)`; defaults to `value`.
        return_draws: Whether to also return the input of `reinforce_loss`: a dictionary of
            `log_probability` of the sampled key (0 without a sample) and `entropy`, both
            float32 `(B, T)`.
        training: Whether to sample keys.

    The other call arguments match `Attention`; a cache is not supported.

    Returns:
        Output `(B, T, V)`; then, if requested, the weights `(B, T, S)` and the draws.

    Raises:
        ValueError: If an argument is out of range, unknown or unused, or a mask is float.

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

    def __init__(
        self,
        estimator: str = "straight_through",
        score: str | LayerLike = "scaled_dot",
        units: int | None = None,
        temperature: float = 1.0,
        sample_probability: float = 0.5,
        baseline_momentum: float = 0.9,
        entropy_weight: float = 0.002,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if estimator not in ESTIMATORS:
            raise ValueError(
                f"HardAttention: estimator must be one of {', '.join(ESTIMATORS)}. "
                f"Received: estimator={estimator!r}"
            )
        require_positive(temperature=temperature)
        require_numbers(entropy_weight=entropy_weight)
        require_probabilities(
            sample_probability=sample_probability, baseline_momentum=baseline_momentum
        )
        if estimator != "gumbel":
            reject_unused('estimator="gumbel"', temperature=(temperature, 1.0))
        if estimator != "reinforce":
            reject_unused(
                'estimator="reinforce"',
                entropy_weight=(entropy_weight, 0.002),
                sample_probability=(sample_probability, 0.5),
                baseline_momentum=(baseline_momentum, 0.9),
            )
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
            self.baseline = self.add_weight(
                name="baseline",
                shape=(),
                initializer="zeros",
                trainable=False,
                dtype="float32",
                autocast=False,
            )
        self.built = True

    def call(
        self,
        query: Tensor,
        value: Tensor,
        key: Tensor | None = None,
        query_mask: Tensor | None = None,
        value_mask: Tensor | None = None,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        return_draws: bool = False,
        training: bool | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        key = value if key is None else key
        mask = joint_mask(
            query, key, query_mask, value_mask, attention_mask, "end" if use_causal_mask else None
        )
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
        """The attention weights, and the one-hot samples, 0 for queries without a sample."""
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
        # Both ends are excluded: the softmax of a single infinite logit would be NaN.
        return -ops.log(-ops.log(ops.clip(uniform, 1e-20, 1.0 - 1e-7)))

    def _uniform(self, shape):
        return keras.random.uniform(shape, dtype="float32", seed=self.seed_generator)

    def reinforce_loss(
        self, log_likelihood: Tensor, draws: dict[str, Tensor], update_baseline: bool = True
    ) -> Tensor:
        """REINFORCE loss: minimizing it maximizes the expected log-likelihood.

        `-mean_b [l_b + sg(l_b - baseline) sum_t log p(drawn)_t + entropy_weight sum_t H_t]`, with
        the log-likelihood l_b; afterwards the baseline moves towards the mean of l.

        Args:
            log_likelihood: `(B,)`, of the labels of each row, computed from the output.
            draws: The dictionary returned by the call.
            update_baseline: Whether to update the baseline.

        Returns:
            Scalar loss.

        Raises:
            ValueError: If the estimator is not `"reinforce"`.
        """
        self._require_reinforce("reinforce_loss")
        reward = ops.cast(log_likelihood, "float32")
        surplus = ops.stop_gradient(reward) - ops.cast(self.baseline, "float32")
        chosen = ops.sum(draws["log_probability"], axis=-1)
        loss = -ops.mean(
            reward + surplus * chosen + self.entropy_weight * ops.sum(draws["entropy"], axis=-1)
        )
        if update_baseline:
            keep = self.baseline_momentum
            mean = ops.mean(ops.stop_gradient(reward))
            self.baseline.assign(keep * self.baseline + (1.0 - keep) * mean)
        return loss

    def reinforce_errors(
        self,
        costs: Tensor,
        baselines: Tensor,
        draws: dict[str, Tensor],
        weights: Tensor,
        affects_later: bool = True,
    ) -> Tensor:
        """REINFORCE terms of the steps of a sequence, to be added to the weighted costs.

        `sg(R_t) (log p(drawn)_t - sg(log p(drawn)_t)) - entropy_weight w_t H_t`, with the costs c,
        baselines b and weights w of the steps and
        `R_t = sum_{u >= t} w_u (c_u - b_u) - entropy_weight sum_{u > t} w_u H_u`, or
        `w_t (c_t - b_t)` if a sample has no effect on later steps. The first term is 0, so the sum
        over any rows has the value of the objective, and the gradient of its expectation if the
        baselines do not depend on the samples.

        Args:
            costs: `(B, T)`, such as cross-entropies.
            baselines: `(B, T)`, such as the costs with the most likely keys.
            draws: The dictionary returned by the call.
            weights: `(B, T)`, 0 for padding.
            affects_later: Whether the output of a step has an effect on later steps.

        Returns:
            float32 `(B, T)`.

        Raises:
            ValueError: If the estimator is not `"reinforce"`.
        """
        self._require_reinforce("reinforce_errors")
        costs, baselines, weights = (ops.cast(x, "float32") for x in (costs, baselines, weights))
        surplus = weights * (costs - baselines)
        bonus = self.entropy_weight * weights * draws["entropy"]
        if affects_later:
            later = ops.flip(ops.cumsum(ops.flip(surplus - bonus, axis=1), axis=1), axis=1)
            surplus = later + bonus  # that of a step does not depend on its own sample
        chosen = draws["log_probability"]
        return ops.stop_gradient(surplus) * (chosen - ops.stop_gradient(chosen)) - bonus

    def _require_reinforce(self, method):
        if self.estimator != "reinforce":
            raise ValueError(
                f'HardAttention: {method} requires estimator="reinforce". '
                f"Received: estimator={self.estimator!r}"
            )

    def compute_output_shape(
        self, query_shape: Shape, value_shape: Shape, key_shape: Shape | None = None
    ) -> Shape:
        return (*query_shape[:-1], value_shape[-1])

    compute_output_spec = traced_output_spec

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "estimator": self.estimator,
            "score": self._score_name or layer_config(self.score, self),
            "units": self.units,
            "temperature": self.temperature,
            "sample_probability": self.sample_probability,
            "baseline_momentum": self.baseline_momentum,
            "entropy_weight": self.entropy_weight,
            "seed": self.seed,
        }


def _one_hot(logits, mask):
    """One-hot encoding of the argmax over the last axis, 0 in fully masked rows."""
    length = ops.shape(logits)[-1]
    if length == 0 if isinstance(length, int) else ops.is_tensor(length):
        # There may be no key: append one that is less likely than any, and drop its column.
        padding = [(0, 0)] * (len(logits.shape) - 1) + [(0, 1)]
        logits = ops.pad(logits, padding, constant_values=2 * MASKED)
    hot = ops.one_hot(ops.argmax(logits, axis=-1), ops.shape(logits)[-1], dtype="float32")
    hot = hot[..., :length]
    return hot if mask is None else ops.where(mask, hot, 0.0)


def _draw_statistics(logits, soft, drawn):
    log_soft = ops.log_softmax(logits, axis=-1)
    log_probability = ops.sum(ops.where(drawn > 0, log_soft, 0.0), axis=-1)
    # p log p is 0 where p is 0, and so is its gradient.
    terms = ops.where(soft > 0, soft * ops.where(soft > 0, log_soft, 0.0), 0.0)
    return {"log_probability": log_probability, "entropy": -ops.sum(terms, axis=-1)}
