"""Inference with language models: text generation."""

import collections
import inspect
import math
import numbers
import secrets
from collections.abc import Iterable

import keras
import numpy as np
from keras import ops

from keras_attn.data.sources.table_formats import is_text
from keras_attn.errors import UserError, check_counts
from keras_attn.generation import beam_search, sample
from keras_attn.generation.constraints import IMPOSSIBLE
from keras_attn.generation.sampling import MIN_TEMPERATURE
from keras_attn.io.finite import check_outputs
from keras_attn.ops.inference import inference_function

MAX_TOKENS = 64  # default of max_tokens
STEP = 16  # the prompts of a batch are padded to a multiple of it


class Generator:
    """Generates continuations of texts.

    Args:
        model: Model with the decoding of `keras_attn.models.GPT2LanguageModel`: `make_cache`,
            `decode`, `share_cache`, `reorder_cache` and `decode_beams`.
        tokenizer: Tokenizer with `end_id` and `never_generated`.
        path: Folder of the model, for messages.
        task: Name of the task of the model.
        memory_length: Default of the argument of `generate`; None: the model has no memory.

    Attributes:
        max_length: Maximum number of tokens of a prompt with its continuation; infinite for models
            without positions.
        found: Compiled `search`.
    """

    def __init__(self, model, tokenizer, path=None, task=None, memory_length=None):
        self.model, self.tokenizer, self.path, self.task = model, tokenizer, path, task
        self.memory_length = memory_length
        self.cut = collections.Counter()  # longer prompts are errors
        self.max_length = getattr(model.backbone, "max_length", math.inf)
        self._possible = np.ones(tokenizer.vocabulary_size, bool)
        self._possible[np.array(tokenizer.never_generated, int)] = False
        self.found = inference_function(self.search, model)

    def __repr__(self):
        return f"<{type(self).__name__} of {self.path}>"

    def generate(
        self,
        prompts,
        max_tokens=None,
        *,
        temperature=1.0,
        top_k=None,
        top_p=0.9,
        seed=0,
        beam=None,
        length_penalty=0.0,
        nbest=None,
        min_tokens=0,
        no_repeat=0,
        batch_size=16,
        number=0,
        memory_length=None,
    ):
        """Generates continuations of texts.

        Args:
            prompts: String, or list of strings; an empty string begins a new text. The text of a
                prompt is that of its tokens, in which some tokenizers normalize white space.
            max_tokens: Maximum number of new tokens, with the end-of-sequence token; None: 64, or
                as many as the positions of the model allow.
            temperature: See `sample`; 0 decodes greedily, without `top_k`, `top_p` and `seed`. Not
                with `beam`.
            top_k: See `sample`. Not with `beam`.
            top_p: See `sample`. Not with `beam`.
            seed: Integer seed of sampling, of which 32 bits count. The same seed generates the same
                texts; None generates others each time.
            beam: Number of beams of a beam search; None: sample. Finished hypotheses rank above
                unfinished ones.
            length_penalty: See `beam_search`; only with `beam`.
            nbest: Number of continuations of each prompt; None: one, returned as a string.
            min_tokens: Minimum number of tokens before the end-of-sequence token.
            no_repeat: Size of n-grams that may not occur twice, including those of the prompt; 0:
                no restriction.
            batch_size: Number of texts in a batch; the results do not depend on it.
            number: Index of the first prompt; each prompt samples by its index.
            memory_length: Number of preceding tokens whose hidden states each step reuses, for
                models with memory; 0: each step recomputes the whole row. None: as in training.

        Returns:
            The prompt and its continuation, a string or a list of strings. With `nbest`, a list of
            dicts in place of each string, best first with `beam`: `text`; `continuation`, the new
            text; `log_probability` of the continuation; and `finished`, whether it ended with the
            end-of-sequence token.

        Raises:
            UserError: If an argument is out of range or not supported with another one, or a prompt
                has too many tokens.
        """
        given = check_options(
            max_tokens=max_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
            beam=beam,
            length_penalty=length_penalty,
            nbest=nbest,
            min_tokens=min_tokens,
            no_repeat=no_repeat,
            batch_size=batch_size,
            number=number,
            memory_length=memory_length,
        )
        if isinstance(prompts, str):
            return self.generate([prompts], **given)[0]
        if not isinstance(prompts, Iterable):
            raise UserError(f"prompts must be a string or a list. Received: {prompts!a:.50}")
        options = {"min_length": given["min_tokens"], "no_repeat": given["no_repeat"]}
        options |= self._memory(given["memory_length"])
        if beam:
            options |= {"beams": given["beam"], "length_penalty": given["length_penalty"]}
        else:
            options |= {name: given[name] for name in ("temperature", "top_k", "top_p")}
        max_tokens, seed, number = (given[name] for name in ("max_tokens", "seed", "number"))
        seed = secrets.randbits(32) if seed is None else seed & 0xFFFFFFFF
        seed = np.uint32(seed).astype(np.int32)
        rows = self.encode(list(prompts), max_tokens, given["min_tokens"], number)
        copies = 1 if beam else nbest or 1
        # A row per sample; rows of a batch have similar lengths and the same number of new tokens.
        order = sorted(range(len(rows) * copies), key=lambda n: len(rows[n // copies]))
        groups = {}
        for n in order:
            most = max_tokens or min(MAX_TOKENS, self.max_length - len(rows[n // copies]))
            groups.setdefault(most, []).append(n)
        found = [[] for _ in rows]
        for most, chosen in groups.items():
            for start in range(0, len(chosen), batch_size):
                numbers = np.array(chosen[start : start + batch_size], np.int32)
                owners = numbers // copies
                batch = self._batch(
                    [rows[n] for n in owners], numbers + number * copies, most, seed, options
                )
                for owner, some in zip(owners, batch, strict=True):
                    found[owner] += some
        best = [some[: nbest or 1] for some in found]
        return best if nbest else [some[0]["text"] for some in best]

    def encode(self, prompts, max_tokens=None, min_tokens=0, number=0):
        """Returns the token ids of each prompt; for an empty one, the beginning-of-text token.

        Args:
            prompts: List of strings.
            max_tokens: See `generate`.
            min_tokens: See `generate`.
            number: See `generate`.

        Returns:
            List of int32 arrays.

        Raises:
            UserError: If a prompt is not a string, or leaves too few positions for new tokens.
        """
        for n, text in enumerate(prompts, number + 1):
            if not isinstance(text, str) or not is_text(text):
                raise UserError(f"Prompts must be strings. Received: {text!a:.50} as text {n}")
        ids, ends = self.tokenizer.encode(prompts)
        rows = [
            row if len(row) else np.array([self.tokenizer.end_id], np.int32)
            for row in np.split(ids, ends[:-1])[: len(prompts)]
        ]
        fewest = max_tokens or max(min_tokens, 1)
        for n, row in enumerate(rows, number + 1):
            if len(row) + fewest > self.max_length:
                raise UserError(
                    f"A prompt and its continuation must have at most {self.max_length} tokens, "
                    f"the positions of the model. Received: {len(row)} in text {n}, "
                    + (f"max_tokens={max_tokens}" if max_tokens else f"at least {fewest} new ones")
                )
        return rows

    def _memory(self, length):
        """Returns the arguments of `make_cache` besides the size."""
        if self.memory_length is None and length is not None:
            raise UserError(
                "memory_length must be unset for a model without memory. "
                f"Received: memory_length={length}, {self.path}, a {type(self.model).__name__}"
            )
        length = self.memory_length if length is None else length
        return {} if length is None else {"memory_length": length}

    def _batch(self, rows, numbers, max_tokens, seed, options):
        """Generates a list of dicts for each row."""
        length = -(-max(map(len, rows)) // STEP) * STEP
        ids = np.full((len(rows), length), self.tokenizer.end_id, np.int32)
        real = np.zeros_like(ids)
        for number, row in enumerate(rows):
            ids[number, length - len(row) :] = row
            real[number, length - len(row) :] = 1
        found = self.found(ids, real, numbers, seed, max_tokens, **options)
        found = keras.tree.map_structure(ops.convert_to_numpy, found)
        return [
            self._hypotheses(rows[n], {name: value[n] for name, value in found.items()})
            for n in range(len(rows))
        ]

    def _hypotheses(self, prompt, found):
        beams = (
            found
            if found["token_ids"].ndim == 2
            else {name: value[None] for name, value in found.items()}
        )
        end, hypotheses = self.tokenizer.end_id, []
        begin = prompt[:0] if prompt[0] == end and len(prompt) == 1 else prompt
        check_outputs(beams["log_probabilities"], "the language model")
        for number, length in enumerate(beams["lengths"]):
            if "scores" in beams and beams["scores"][number] < -1e29:
                continue  # an unused beam
            new = beams["token_ids"][number, :length]
            finished = bool(beams["finished"][number])
            new = new[:-1] if finished else new
            # The first bytes of a character may be in the prompt, so they are decoded together.
            text, continuation, before = self.tokenizer.decode([[*begin, *new], new, begin])
            if not self.tokenizer.verbatim:  # a text loses its first space
                continuation = text[len(before) :]
            hypotheses.append(
                {
                    "text": text,
                    "continuation": continuation,
                    "log_probability": float(beams["log_probabilities"][number]),
                    "finished": finished,
                }
            )
        return hypotheses

    def search(
        self, ids, real, numbers, seed, max_tokens, beams=None, memory_length=None, **options
    ):
        """Decodes a batch.

        Args:
            ids: Prompts with padding on the left, int32 `(B, T)`.
            real: Padding mask, int32 `(B, T)`; 0 is padding.
            numbers: Sample index of each row, int32 `(B,)`.
            seed: Integer seed of sampling.
            max_tokens: Maximum number of steps.
            beams: Number of beams of a beam search; None: sample.
            memory_length: Argument of the model's `make_cache`; None: it has none.
            **options: Options of `sample` or `beam_search`.

        Returns:
            Dict that `sample` or `beam_search` returned.
        """
        end, (rows, length) = self.tokenizer.end_id, ids.shape
        # The end-of-sequence token, which no text contains, is also padding and an empty prompt.
        options["prompt"] = ops.where(ids == end, -1, ids)
        positions = ops.maximum(ops.cumsum(real, axis=1) - 1, 0)
        last, real = positions[:, -1], real[:, :-1]
        each = beams or 1
        kernel = self.model.backbone.logits_kernel(rows * each)
        before = length - 1  # the first step takes the last token

        def mask_logits(logits):
            return logits if self._possible.all() else ops.where(self._possible, logits, IMPOSSIBLE)

        memory = {} if memory_length is None else {"memory_length": memory_length}
        cache = self.model.make_cache(rows, before + max_tokens * each, **memory)
        mask = ops.pad(real, [[0, 0], [0, max_tokens * each]], constant_values=1)
        if before:
            _, cache = self.model.decode(ids[:, :-1], 0, cache, mask, positions[:, :-1])

        def step(token_ids, index, cache):
            logits, cache = self.model.decode(
                token_ids[:, None], before + index, cache, mask, (last + index)[:, None], kernel
            )
            return mask_logits(logits), cache

        def step_beams(token_ids, index, cache):
            logits, cache = self.model.decode_beams(
                token_ids, index, cache, real, last + index, kernel
            )
            return mask_logits(logits), cache

        if beams:
            return beam_search(
                step_beams,
                self.model.share_cache(cache, beams, max_tokens),
                ids[:, -1],
                beams,
                max_tokens,
                end,
                pad_id=end,
                reorder=self.model.reorder_cache,
                **options,
            )
        return sample(
            step,
            cache,
            ids[:, -1],
            max_tokens,
            end,
            pad_id=end,
            seed=seed,
            numbers=numbers,
            **options,
        )


_DEFAULTS = {
    name: one.default
    for name, one in inspect.signature(Generator.generate).parameters.items()
    if name not in ("self", "prompts")
}
_SAMPLING = "temperature", "top_k", "top_p", "seed"


def check_options(**options):
    """Checks arguments of `Generator.generate`.

    Args:
        **options: Arguments except the prompts; missing ones have their defaults.

    Returns:
        Dict of all arguments, as Python numbers.

    Raises:
        UserError: If an argument is out of range or not supported with another one.
    """
    given = {**_DEFAULTS, **options}
    check_counts(
        batch_size=given["batch_size"],
        **{
            name: given[name]
            for name in ("max_tokens", "beam", "nbest", "top_k")
            if given[name] is not None
        },
    )
    most, beam = given["max_tokens"] or MAX_TOKENS, given["beam"]
    for name, kind, holds, needed in (
        ("temperature", numbers.Real, lambda x: 0 <= x < math.inf, "a number of at least 0"),
        ("top_p", numbers.Real, lambda x: 0 < x <= 1, "a number in (0, 1]"),
        ("length_penalty", numbers.Real, math.isfinite, "a finite number"),
        (
            "min_tokens",
            numbers.Integral,
            lambda x: 0 <= x <= most,
            f"an integer in [0, {most}], at most max_tokens",
        ),
        ("no_repeat", numbers.Integral, lambda x: x >= 0, "an integer of at least 0"),
        ("number", numbers.Integral, lambda x: x >= 0, "an integer of at least 0"),
        ("memory_length", numbers.Integral, lambda x: x >= 0, "an integer of at least 0"),
        ("seed", numbers.Integral, lambda _: True, "an integer"),
    ):
        value = given[name]
        if value is None and name in ("top_p", "seed", "memory_length"):
            continue
        if isinstance(value, bool) or not isinstance(value, kind) or not holds(value):
            raise UserError(f"{name} must be {needed}. Received: {name}={value}")
    if beam and (given["nbest"] or 1) > beam:
        raise UserError(f"nbest must be in [1, beam={beam}]. Received: nbest={given['nbest']}")
    greedy = not beam and given["temperature"] < MIN_TEMPERATURE
    if greedy and (given["nbest"] or 1) > 1:
        raise UserError(
            "nbest must be 1 with temperature=0, which is deterministic. "
            f"Received: nbest={given['nbest']}"
        )
    decoding = f"beam={beam}" if beam else f"temperature={given['temperature']}"
    for name in _SAMPLING[greedy:] if beam or greedy else ():
        if given[name] not in (None, _DEFAULTS[name]):
            raise UserError(
                f"{name} must be left out with {'beam' if beam else 'temperature=0'}, which does "
                f"not sample. Received: {name}={given[name]}, {decoding}"
            )
    if given["length_penalty"] and not beam:
        raise UserError(
            f"length_penalty requires beam. Received: length_penalty={given['length_penalty']}"
        )
    # NumPy numbers would be tensors in the graph.
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in given.items()
    }
