"""Random checkpoints under the names and shapes of openai/gpt-2 and zihangdai/xlnet."""

import json

import numpy as np
import tensorflow as tf


def drawn(shapes):
    random = np.random.default_rng(3)
    return {
        name: (float(name.endswith(("/g", "gamma"))) + 0.3 * random.standard_normal(shape)).astype(
            "float32"
        )
        for name, shape in shapes.items()
    }


def openai_weights(rows, width=12, layers=2, positions=16):
    """Those of openai/gpt-2@9b63575e, src/model.py."""
    shapes = {
        "model/wte": (rows, width),
        "model/wpe": (positions, width),
        "model/ln_f/g": (width,),
        "model/ln_f/b": (width,),
    }
    for layer in range(layers):
        name = f"model/h{layer}"
        for part, size, inner in (
            ("attn/c_attn", 3 * width, width),
            ("attn/c_proj", width, width),
            ("mlp/c_fc", 4 * width, width),
            ("mlp/c_proj", width, 4 * width),
        ):
            shapes |= {f"{name}/{part}/w": (1, inner, size), f"{name}/{part}/b": (size,)}
        for part in ("ln_1", "ln_2"):
            shapes |= {f"{name}/{part}/g": (width,), f"{name}/{part}/b": (width,)}
    return drawn(shapes)


def xlnet_weights(rows, width=12, heads=3, inner=20, layers=2):
    """Those of zihangdai/xlnet@bbaa3a6f, modeling.py."""
    by_head = heads, width // heads
    shapes = {
        "model/transformer/word_embedding/lookup_table": (rows, width),
        "model/transformer/mask_emb/mask_emb": (1, 1, width),
        "model/transformer/seg_embed": (layers, 2, *by_head),
        **{f"model/transformer/r_{x}_bias": (layers, *by_head) for x in "wrs"},
        "model/lm_loss/bias": (rows,),
    }
    for layer in range(layers):
        name = f"model/transformer/layer_{layer}"
        shapes |= {f"{name}/rel_attn/{x}/kernel": (width, *by_head) for x in "qkvor"}
        shapes |= {
            f"{name}/ff/layer_1/kernel": (width, inner),
            f"{name}/ff/layer_1/bias": (inner,),
            f"{name}/ff/layer_2/kernel": (inner, width),
            f"{name}/ff/layer_2/bias": (width,),
        }
        for part in ("rel_attn", "ff"):
            shapes |= {f"{name}/{part}/LayerNorm/{x}": (width,) for x in ("gamma", "beta")}
    return drawn(shapes)


def write_checkpoint(folder, name, weights, config, fields, slots=()):
    """A folder as the authors' training leaves it: a checkpoint and its config."""
    folder.mkdir()
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        for path, value in weights.items():
            v1.get_variable(path, initializer=value)
            for slot in slots:
                v1.get_variable(f"{path}/{slot}", initializer=np.zeros_like(value))
        v1.train.get_or_create_global_step()
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(folder / name), write_state=False)
    (folder / config).write_text(json.dumps(fields))
    return folder


def write_openai(folder, tokenizer):
    """A small GPT-2 as OpenAI publishes it."""
    size = tokenizer.vocabulary_size
    fields = {"n_vocab": size, "n_ctx": 16, "n_embd": 12, "n_head": 3, "n_layer": 2}
    write_checkpoint(folder, "model.ckpt", openai_weights(size), "hparams.json", fields)
    tokenizer.without_padding_rows().write(folder, ("encoder.json", "vocab.bpe"))
    return folder


def weights_of(prefix):
    """All float tensors of a checkpoint."""
    reader = tf.train.load_checkpoint(str(prefix))
    found = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    return {name: value for name, value in found.items() if value.dtype == np.float32}
