"""Makes xlnet_generation.npz: continuations of Hugging Face's XLNetLMHeadModel of make_xlnet.py.

Run with `torch` and `transformers` installed:

    python tests/golden/make_xlnet_generation.py
"""

import functools
import pathlib

import numpy as np
import torch
from make_xlnet import make_inputs, make_model

FOLDER = pathlib.Path(__file__).parent
PROMPT, NEW, MEMORY = 5, 8, 7
END = 2


def use_float64(model):
    """Lets `generate` make float64 masks, as the weights are."""
    prepare = model.prepare_inputs_for_generation

    @functools.wraps(prepare)
    def prepared(*args, **kwargs):
        inputs = prepare(*args, **kwargs)
        return inputs | {name: inputs[name].double() for name in ("perm_mask", "target_mapping")}

    model.prepare_inputs_for_generation = prepared


def generate(model, prompt):
    """Returns greedy continuations with the logits of each step, and those of a beam search."""
    options = {
        "attention_mask": torch.ones_like(prompt),
        "max_new_tokens": NEW,
        "do_sample": False,
        "use_mems": False,
        "eos_token_id": END,
        "pad_token_id": 5,
    }
    greedy = model.generate(prompt, output_logits=True, return_dict_in_generate=True, **options)
    beams = model.generate(
        prompt[:1], num_beams=4, num_return_sequences=4, length_penalty=0.0, **options
    )
    return {
        "greedy/token_ids": greedy.sequences[:, PROMPT:],
        "greedy/logits": torch.stack(greedy.logits, dim=1),
        "beams/token_ids": beams[:, PROMPT:],
    }


def steps_with_memory(model, token_ids):
    """Returns the logits after the prompt and after each further token, which is given with a
    position to predict; the memory has the last tokens before it.
    """
    begins = [0, *range(PROMPT, token_ids.shape[1])]
    memory, found = None, []
    for begin, end in zip(begins, [*begins[1:], token_ids.shape[1]], strict=True):
        count = end - begin
        ids = torch.nn.functional.pad(token_ids[:, begin:end], (0, 1))
        hidden = torch.zeros(len(ids), count + 1, count + 1, dtype=torch.double)
        hidden[:, :, -1] = 1.0
        mapping = torch.zeros(len(ids), 1, count + 1, dtype=torch.double)
        mapping[:, 0, -1] = 1.0
        outputs = model(
            input_ids=ids, perm_mask=hidden, target_mapping=mapping, mems=memory, use_mems=True
        )
        # The model's memory length includes the position to predict.
        memory = [one[:-1][-MEMORY:] for one in outputs.mems]
        found.append(outputs.logits[:, 0])
    return torch.stack(found, dim=1)


def main():
    model = make_model()
    with np.load(FOLDER / "xlnet.npz", allow_pickle=False) as known:
        for name, weight in model.named_parameters():
            wanted = known[f"weights/{name}"]
            np.testing.assert_array_equal(weight.detach().numpy().astype("float32"), wanted)
    token_ids = torch.tensor(make_inputs()["token_ids"])
    token_ids = token_ids[[0, 2], :9]  # without padding
    use_float64(model)
    with torch.no_grad():
        found = generate(model, token_ids[:, :PROMPT])
        model.transformer.mem_len = MEMORY + 1
        found["memory/logits"] = steps_with_memory(model, token_ids)
    found = {name: value.numpy() for name, value in found.items()}
    np.savez_compressed(
        FOLDER / "xlnet_generation.npz",
        token_ids=token_ids.numpy().astype("int32"),
        **{
            name: value.astype("float32" if value.dtype.kind == "f" else "int32")
            for name, value in found.items()
        },
    )


if __name__ == "__main__":
    main()
