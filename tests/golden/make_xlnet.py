"""Makes xlnet.npz: Hugging Face's XLNetLMHeadModel with random weights.

Run with `torch` and `transformers` installed:

    python tests/golden/make_xlnet.py
"""

import pathlib

import numpy as np
import torch
from transformers import XLNetConfig, XLNetLMHeadModel

LENGTHS = 11, 6, 9
KEEP_PROBABILITY = 0.8
TARGETS = np.array([[1, 4, 8], [2, 5, 0], [3, 6, 7]])


def make_inputs():
    """Returns three sequences of 11, 6 and 9 real tokens in two segments, with permutations."""
    random = np.random.default_rng(1)
    length = np.array(LENGTHS)[:, None]
    real = np.arange(11) < length
    ranks = np.full((3, 11), -1)
    for row, targets in enumerate(TARGETS):
        ranks[row, targets] = random.permutation(len(targets))
    return {
        "token_ids": random.integers(1, 89, (3, 11)) * real,
        "padding_mask": real.astype(int),
        "segment_ids": ((np.arange(11) >= length // 2) & real).astype(int),
        "permutation_ranks": ranks,
        # No position sees itself: its query stream must not see its own token.
        "permutation_mask": ((random.random((3, 11, 11)) < 0.6) & ~np.eye(11, dtype=bool)).astype(
            int
        ),
        "mask_positions": TARGETS,
        "mask_ids": random.integers(1, 89, (3, 3)),
        "memory_ids": random.integers(1, 89, (3, 5)),
    }


def make_model(**options):
    model = XLNetLMHeadModel(
        XLNetConfig(
            vocab_size=89,
            d_model=24,
            n_layer=2,
            n_head=3,
            d_inner=56,
            ff_activation="gelu_new",
            dropout=0.0,
            mem_len=7,
            use_mems_train=True,
            **options,
        )
    )
    torch.manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            gamma = "layer_norm" in name and name.endswith("weight")
            weight.copy_(0.3 * torch.randn_like(weight) + float(gamma))
    positions = model.transformer.relative_positional_encoding
    model.transformer.relative_positional_encoding = (  # computed in float32
        lambda *args, **kwargs: positions(*args, **kwargs).double()
    )
    return model.double().eval()


class SeededDropout(torch.nn.Module):
    """Dropout whose mask NumPy draws by call number, in the order (batch, position, depth)."""

    calls = 0

    def forward(self, x):
        # Theirs are (position, batch, depth), and attention weights (batch, head, query, key). All
        # queries share a mask, as the query stream has rows here that ours has not.
        axes = (0, 1, 2, 3) if x.ndim == 4 else (1, 0, 2)
        shape = (*x.shape[:2], 1, x.shape[3]) if x.ndim == 4 else [x.shape[axis] for axis in axes]
        kept = np.random.default_rng(SeededDropout.calls).random(shape) < KEEP_PROBABILITY
        SeededDropout.calls += 1
        return x * torch.tensor(kept / KEEP_PROBABILITY).permute(axes)


def with_dropout(model):
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, torch.nn.Dropout):
                setattr(module, name, SeededDropout())
    return model


def visible_positions(ranks):
    """Returns the visible positions: targets predicted earlier, and context for context."""
    queries, keys = ranks[:, :, None], ranks[:, None, :]
    return (keys < queries) | ((queries == -1) & (keys == -1))


def run(model, inputs, seen, memory=None):
    """Returns outputs, loss and gradients of all weights as a flat dictionary."""
    model.zero_grad()
    mapping = torch.nn.functional.one_hot(torch.tensor(inputs["mask_positions"]), 11).double()
    outputs = model(
        input_ids=torch.tensor(inputs["token_ids"]),
        attention_mask=torch.tensor(inputs["padding_mask"]).double(),
        token_type_ids=torch.tensor(inputs["segment_ids"]),
        perm_mask=torch.tensor(1.0 - seen, dtype=torch.double),
        target_mapping=mapping,
        labels=torch.tensor(inputs["mask_ids"]),
        mems=memory,
        output_hidden_states=True,
    )
    outputs.loss.backward()
    # Content and query stream of each layer; the last pair is the output.
    content, query = outputs.hidden_states[-2:]
    results = {
        "loss": outputs.loss,
        "logits": outputs.logits,
        "sequence_output": content,
        "query_output": query,
        **{f"memory/{n}": value.transpose(0, 1) for n, value in enumerate(outputs.mems)},
    }
    return results | {
        f"gradients/{name}": weight.grad
        for name, weight in model.named_parameters()
        if weight.grad is not None
    }


def main():
    inputs, model = make_inputs(), make_model()
    arrays = {f"inputs/{name}": value.astype("int32") for name, value in inputs.items()}
    with torch.no_grad():
        before = model(input_ids=torch.tensor(inputs["memory_ids"])).mems
    found = {f"weights/{name}": weight for name, weight in model.named_parameters()}
    visible = visible_positions(inputs["permutation_ranks"])
    cases = {
        "ranks": (model, visible, None),
        "mask": (model, inputs["permutation_mask"], None),
        "memory": (model, inputs["permutation_mask"], before),
        "clamped": (make_model(clamp_len=3), visible, None),
    }
    for case, (which, seen, memory) in cases.items():
        found |= {
            f"{case}/{name}": value
            for name, value in run(which, inputs, seen.astype(float), memory).items()
        }
    dropped = run(
        with_dropout(make_model()), inputs, inputs["permutation_mask"].astype(float), before
    )
    found |= {
        f"dropped/{name}": dropped[name]
        for name in (
            "logits",
            *(f"gradients/transformer.layer.{number}.rel_attn.r" for number in (0, 1)),
        )
    }
    reversed_model = make_model(bi_data=True)
    doubled = {name: np.concatenate([value, value]) for name, value in inputs.items()}
    visible = visible_positions(doubled["permutation_ranks"]).astype(float)
    found |= {
        f"reversed/{name}": value
        for name, value in run(reversed_model, doubled, visible).items()
        if not name.startswith("gradients")
    }
    plain = model(
        input_ids=torch.tensor(inputs["token_ids"]),
        attention_mask=torch.tensor(inputs["padding_mask"]).double(),
    )
    found["plain/logits"] = plain.logits
    for name, value in found.items():
        value = value.detach().numpy()
        arrays[name] = value.astype("float32" if value.dtype.kind == "f" else "int32")
    np.savez_compressed(pathlib.Path(__file__).with_name("xlnet.npz"), **arrays)


if __name__ == "__main__":
    main()
