"""Random checkpoints under the names and shapes of google-research/bert."""

import json

import numpy as np
import tensorflow as tf


def google_weights(width=12, inner=20, layers=2, vocabulary=31, positions=16):
    """Random weights under the names and shapes of google-research/bert."""
    shapes = {
        "bert/embeddings/word_embeddings": (vocabulary, width),
        "bert/embeddings/token_type_embeddings": (2, width),
        "bert/embeddings/position_embeddings": (positions, width),
        "bert/embeddings/LayerNorm/beta": (width,),
        "bert/embeddings/LayerNorm/gamma": (width,),
        "bert/pooler/dense/kernel": (width, width),
        "bert/pooler/dense/bias": (width,),
        "cls/predictions/transform/dense/kernel": (width, width),
        "cls/predictions/transform/dense/bias": (width,),
        "cls/predictions/transform/LayerNorm/beta": (width,),
        "cls/predictions/transform/LayerNorm/gamma": (width,),
        "cls/predictions/output_bias": (vocabulary,),
        "cls/seq_relationship/output_weights": (2, width),
        "cls/seq_relationship/output_bias": (2,),
    }
    for layer in range(layers):
        name = f"bert/encoder/layer_{layer}"
        for part, shape in {
            "attention/self/query": (width, width),
            "attention/self/key": (width, width),
            "attention/self/value": (width, width),
            "attention/output/dense": (width, width),
            "intermediate/dense": (width, inner),
            "output/dense": (inner, width),
        }.items():
            shapes |= {f"{name}/{part}/kernel": shape, f"{name}/{part}/bias": shape[-1:]}
        for part in ("attention/output", "output"):
            shapes |= {
                f"{name}/{part}/LayerNorm/beta": (width,),
                f"{name}/{part}/LayerNorm/gamma": (width,),
            }
    random = np.random.default_rng(3)
    return {
        name: (float("gamma" in name) + 0.3 * random.standard_normal(shape)).astype("float32")
        for name, shape in shapes.items()
    }


def write_google(folder, weights, **fields):
    """Writes a folder like run_pretraining.py of google-research/bert, with slots of Adam."""
    folder.mkdir()
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        for name, value in weights.items():
            v1.get_variable(name, initializer=value)
            for slot in ("adam_m", "adam_v"):
                v1.get_variable(f"{name}/{slot}", initializer=np.zeros_like(value))
        v1.train.get_or_create_global_step()
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(folder / "bert_model.ckpt"), write_state=False)
    (folder / "bert_config.json").write_text(
        json.dumps(
            {
                "attention_probs_dropout_prob": 0.1,
                "hidden_act": "gelu",
                "hidden_dropout_prob": 0.1,
                "hidden_size": 12,
                "initializer_range": 0.02,
                "intermediate_size": 20,
                "max_position_embeddings": 16,
                "num_attention_heads": 3,
                "num_hidden_layers": 2,
                "type_vocab_size": 2,
                "vocab_size": 31,
                **fields,
            }
        )
    )
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(chr(97 + n) for n in range(26))]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    return folder
