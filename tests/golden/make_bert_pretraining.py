"""Makes bert_pretraining.npz: Hugging Face's BertForPreTraining with random weights.

Run with `torch` and `transformers` installed:

    python tests/golden/make_bert_pretraining.py
"""

import pathlib

import numpy as np
import torch
from transformers import BertConfig, BertForPreTraining

ACTIVATIONS = {"gelu_erf": "gelu", "gelu_tanh": "gelu_new"}


def make_inputs():
    """Returns three sequences of 13, 7 and 10 real tokens in two segments, padded with 0."""
    random = np.random.default_rng(1)
    inputs = {
        "token_ids": random.integers(1, 89, (3, 13)),
        "segment_ids": np.zeros((3, 13), int),
        "padding_mask": np.zeros((3, 13), int),
        "mask_positions": np.array([[1, 4, 8, 11], [2, 5, 0, 0], [3, 6, 9, 0]]),
        "mask_weights": np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]]),
        "mask_ids": random.integers(1, 89, (3, 4)),
        "next_sentence_label": np.array([0, 1, 1]),
    }
    for row, (first, length) in enumerate([(6, 13), (3, 7), (5, 10)]):
        inputs["segment_ids"][row, first:length] = 1
        inputs["padding_mask"][row, :length] = 1
        inputs["token_ids"][row, length:] = 0
    return inputs


def make_model(activation, weights=None):
    config = BertConfig(
        vocab_size=89,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=56,
        max_position_embeddings=20,
        hidden_act=activation,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        attn_implementation="eager",
    )
    model = BertForPreTraining(config).double()
    if weights is None:
        torch.manual_seed(0)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                weight.copy_(0.3 * torch.randn_like(weight) + float("LayerNorm.weight" in name))
    else:
        model.load_state_dict(weights)
    return model


def run(model, inputs):
    """Returns outputs, loss and gradients of all weights as a flat dictionary."""
    rows, slots = np.nonzero(inputs["mask_weights"])
    labels = np.full(inputs["token_ids"].shape, -100)
    labels[rows, inputs["mask_positions"][rows, slots]] = inputs["mask_ids"][rows, slots]
    outputs = model(
        input_ids=torch.tensor(inputs["token_ids"]),
        token_type_ids=torch.tensor(inputs["segment_ids"]),
        attention_mask=torch.tensor(inputs["padding_mask"]),
        labels=torch.tensor(labels),
        next_sentence_label=torch.tensor(inputs["next_sentence_label"]),
        output_hidden_states=True,
    )
    outputs.loss.backward()
    positions = torch.tensor(inputs["mask_positions"])[..., None].expand(-1, -1, 89)
    hidden = outputs.hidden_states[-1]
    results = {
        "loss": outputs.loss,
        "sequence_output": hidden,
        "pooled_output": model.bert.pooler(hidden),
        "mlm_logits": outputs.prediction_logits.gather(1, positions),
        "nsp_logits": outputs.seq_relationship_logits,
    }
    results |= {f"gradients/{name}": weight.grad for name, weight in model.named_parameters()}
    return {name: value.detach().numpy().astype("float32") for name, value in results.items()}


def main():
    inputs = make_inputs()
    arrays = {f"inputs/{name}": value.astype("int32") for name, value in inputs.items()}
    weights = make_model("gelu").state_dict()
    # Rounded to float32, so that the test starts from the same weights.
    weights = {name: weight.float().double() for name, weight in weights.items()}
    for activation, hidden_act in ACTIVATIONS.items():
        model = make_model(hidden_act, weights)
        arrays |= {f"{activation}/{name}": value for name, value in run(model, inputs).items()}
    names = [name for name, _ in model.named_parameters()]
    arrays |= {f"weights/{name}": weights[name].numpy().astype("float32") for name in names}
    np.savez_compressed(pathlib.Path(__file__).with_name("bert_pretraining.npz"), **arrays)


if __name__ == "__main__":
    main()
