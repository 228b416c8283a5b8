"""Makes modernbert.npz: ModernBertForMaskedLM of `transformers` with random weights.

Run with `torch` and `transformers` installed:

    python tests/golden/make_modernbert.py
"""

import pathlib

import numpy as np
import torch
from transformers import ModernBertConfig, ModernBertForMaskedLM

LENGTHS = (90, 41, 70)


def make_inputs():
    """Returns three sequences with tokens to predict, padded with 0."""
    random = np.random.default_rng(1)
    inputs = {
        "token_ids": random.integers(1, 53, (len(LENGTHS), max(LENGTHS))),
        "padding_mask": np.zeros((len(LENGTHS), max(LENGTHS)), int),
        "mask_positions": np.stack([random.choice(length, 5, False) for length in LENGTHS]),
        "mask_weights": np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]),
        "mask_ids": random.integers(1, 53, (len(LENGTHS), 5)),
    }
    for row, length in enumerate(LENGTHS):
        inputs["padding_mask"][row, :length] = 1
        inputs["token_ids"][row, length:] = 0
    return inputs


def make_model():
    config = ModernBertConfig(
        vocab_size=53,
        hidden_size=24,
        num_hidden_layers=4,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=128,
        local_attention=14,
        global_attn_every_n_layers=3,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        cls_token_id=1,
        sep_token_id=2,
        # "eager" gives NaN at padding out of reach of all tokens, and then everywhere.
        attn_implementation="sdpa",
    )
    model = ModernBertForMaskedLM(config).double()
    torch.manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            # Rounded to float32, so that the test starts from the same weights.
            drawn = 0.2 * torch.randn_like(weight) + float("norm.weight" in name)
            weight.copy_(drawn.float().double())
    return model


def run(model, inputs):
    """Returns outputs, loss and gradients of all weights as a flat dictionary."""
    rows, slots = np.nonzero(inputs["mask_weights"])
    labels = np.full(inputs["token_ids"].shape, -100)
    labels[rows, inputs["mask_positions"][rows, slots]] = inputs["mask_ids"][rows, slots]
    outputs = model(
        input_ids=torch.tensor(inputs["token_ids"]),
        attention_mask=torch.tensor(inputs["padding_mask"]),
        labels=torch.tensor(labels),
        output_hidden_states=True,
    )
    outputs.loss.backward()
    positions = torch.tensor(inputs["mask_positions"])[..., None].expand(-1, -1, 53)
    results = {
        "loss": outputs.loss,
        "sequence_output": outputs.hidden_states[-1],
        "mlm_logits": outputs.logits.gather(1, positions),
    }
    results |= {f"gradients/{name}": weight.grad for name, weight in model.named_parameters()}
    return {name: value.detach().numpy().astype("float32") for name, value in results.items()}


def main():
    inputs = make_inputs()
    arrays = {f"inputs/{name}": value.astype("int32") for name, value in inputs.items()}
    model = make_model()
    weights = {f"weights/{name}": weight for name, weight in model.named_parameters()}
    arrays |= {n: weight.detach().numpy().astype("float32") for n, weight in weights.items()}
    arrays |= run(model, inputs)
    np.savez_compressed(pathlib.Path(__file__).with_name("modernbert.npz"), **arrays)


if __name__ == "__main__":
    main()
