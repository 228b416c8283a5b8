"""Makes gpt2.npz: Hugging Face's GPT2LMHeadModel with random weights.

Run with `torch` and `transformers` installed:

    python tests/golden/make_gpt2.py
"""

import pathlib

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel

LENGTHS = 13, 7, 10


def make_inputs():
    """Returns three sequences of 13, 7 and 10 real tokens, padded to 13."""
    token_ids = np.random.default_rng(1).integers(1, 88, (3, 13))
    padding_mask = np.arange(13) < np.array(LENGTHS)[:, None]
    return {"token_ids": token_ids * padding_mask, "padding_mask": padding_mask.astype(int)}


def make_model():
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=89,
            n_positions=20,
            n_embd=24,
            n_layer=2,
            n_head=3,
            n_inner=56,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            attn_implementation="eager",
            bos_token_id=88,
            eos_token_id=88,
            pad_token_id=88,
        )
    )
    torch.manual_seed(0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            gamma = ".ln_" in name and name.endswith("weight")
            weight.copy_(0.3 * torch.randn_like(weight) + float(gamma))
    return model.double().eval()


def run(model, inputs):
    """Returns outputs, loss and gradients of all weights as a flat dictionary."""
    labels = np.where(inputs["padding_mask"] > 0, inputs["token_ids"], -100)
    outputs = model(
        input_ids=torch.tensor(inputs["token_ids"]),
        attention_mask=torch.tensor(inputs["padding_mask"]),
        labels=torch.tensor(labels),
        output_hidden_states=True,
    )
    outputs.loss.backward()
    results = {
        "loss": outputs.loss,
        "sequence_output": outputs.hidden_states[-1],
        "logits": outputs.logits,
    }
    return results | {f"gradients/{name}": weight.grad for name, weight in model.named_parameters()}


def generate(model, token_ids):
    """Returns continuations of the first tokens of the first row, greedy and by beam search."""
    prompt = torch.tensor(token_ids[:1, :4])
    options = {"attention_mask": torch.ones_like(prompt), "max_new_tokens": 12}
    return {
        "greedy": model.generate(prompt, do_sample=False, **options)[:, 4:],
        "beams": model.generate(
            prompt,
            do_sample=False,
            num_beams=4,
            num_return_sequences=4,
            length_penalty=0.0,
            **options,
        )[:, 4:],
    }


def main():
    inputs, model = make_inputs(), make_model()
    arrays = {f"inputs/{name}": value.astype("int32") for name, value in inputs.items()}
    found = run(model, inputs) | generate(model, inputs["token_ids"])
    found |= {f"weights/{name}": weight for name, weight in model.named_parameters()}
    for name, value in found.items():
        value = value.detach().numpy()
        arrays[name] = value.astype("float32" if value.dtype.kind == "f" else "int32")
    np.savez_compressed(pathlib.Path(__file__).with_name("gpt2.npz"), **arrays)


if __name__ == "__main__":
    main()
