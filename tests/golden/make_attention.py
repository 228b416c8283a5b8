"""Makes attention.npz: public attention layers, scores and positions, random weights, in float64.

The repositories are not copied here; pass a folder that contains those listed in README.md under
their names, with `torch`, `transformers`, `tensorflow` and `tf_keras` installed:

    python tests/golden/make_attention.py repositories
"""

import importlib
import os
import pathlib
import sys
import types

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # TensorFlow Addons and DeepCTR require Keras 2

import numpy as np
import tensorflow as tf
import torch
from transformers.models.big_bird import modeling_big_bird as big_bird
from transformers.models.bloom import modeling_bloom as bloom
from transformers.models.llama import modeling_llama as llama
from transformers.models.longformer import modeling_longformer as longformer
from transformers.models.marian import modeling_marian as marian
from transformers.models.roformer import modeling_roformer as roformer
from transformers.models.t5 import modeling_t5 as t5
from transformers.models.xlnet import modeling_xlnet as xlnet

RANDOM = np.random.default_rng(1)
MASKED = -10000.0  # BigBird's and Longformer's value for masked keys


def normal(*shape):
    """Returns float64 normal random numbers that float32 represents exactly."""
    return RANDOM.normal(size=shape).astype("float32").astype("float64")


def fill(module):
    """Sets random weights and returns them by name."""
    module.double().eval()
    for weight in module.parameters():
        weight.data = torch.tensor(normal(*weight.shape) / 2)
    return {name: weight.data.numpy() for name, weight in module.named_parameters()}


def real(*lengths):
    """Returns the padding mask of sequences of these lengths, True for real tokens."""
    return np.arange(max(lengths)) < np.array(lengths)[:, None]


def causal_bias(length):
    """Returns the bias of logits that masks keys after the query."""
    hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
    return torch.zeros(1, 1, length, length, dtype=torch.double).masked_fill(hidden, -1e30)


def make_longformer():
    """No or two global tokens, a window of two keys on either side, and lengths 68 and 50."""
    config = longformer.LongformerConfig(
        hidden_size=4,
        num_attention_heads=2,
        attention_window=[4],
        num_hidden_layers=1,
        attention_probs_dropout_prob=0.0,
    )
    layer = longformer.LongformerSelfAttention(config, 0)
    found = fill(layer) | {"x": normal(2, 68, 4), "mask": real(68, 50)}
    for name, first in (("window", 0), ("global", 2)):
        codes = np.where(found["mask"], 0.0, MASKED)
        codes[:, :first] = -MASKED
        codes = torch.tensor(codes)
        (found[name],) = layer(torch.tensor(found["x"]), codes, codes < 0, codes > 0, bool(first))
    return found


def make_big_bird():
    """Blocks of one token: the first token is global; the last, also global, is padding.

    The random blocks, which in evaluation repeat the first block, are masked; lengths 19 and 13.
    """
    config = big_bird.BigBirdConfig(
        hidden_size=6, num_attention_heads=2, block_size=1, num_random_blocks=1, use_bias=True
    )
    layer = big_bird.BigBirdBlockSparseAttention(config)
    found = fill(layer) | {"x": normal(2, 20, 6), "mask": real(20, 19, 13)[1:]}
    mask = torch.tensor(found["mask"]).double()
    blocks, band, queries, keys = big_bird.BigBirdModel.create_masks_for_block_sparse_attn(mask, 1)
    found["output"], _ = layer(torch.tensor(found["x"]), band, queries, keys, blocks, 0 * blocks)
    return found


def make_t5():
    """Encoder and decoder self-attention to 20 positions; buckets of distances -300 to 300."""
    found = {"x": normal(2, 20, 4)}
    x = torch.tensor(found["x"])
    for name, mask in (("encoder", None), ("decoder", causal_bias(20))):
        config = t5.T5Config(
            d_model=4,
            d_kv=3,
            num_heads=2,
            relative_attention_num_buckets=8,
            dropout_rate=0.0,
            relative_attention_max_distance=16,
            is_decoder=mask is not None,
            attn_implementation="eager",
        )
        layer = t5.T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
        found |= {f"{name}/{key}": weight for key, weight in fill(layer).items()}
        found[f"{name}/output"], *_ = layer(x, mask)
        for buckets, distance in ((32, 128), (24, 300)):
            found[f"{name}/buckets_{buckets}_{distance}"] = layer._relative_position_bucket(
                torch.arange(-300, 301), mask is None, buckets, distance
            ).to(torch.int8)
    return found


def make_roformer():
    """Sequences of 7 and 4 keys."""
    config = roformer.RoFormerConfig(
        hidden_size=8, num_attention_heads=2, rotary_value=False, attention_probs_dropout_prob=0.0
    )
    layer = roformer.RoFormerSelfAttention(config)
    found = fill(layer) | {"x": normal(2, 7, 8), "mask": real(7, 4)}
    table = roformer.RoFormerSinusoidalPositionalEmbedding(7, 4)
    table.weight.data = table.create_weight()
    hidden = torch.tensor(np.where(found["mask"], 0.0, -1e30)[:, None, None])
    found["output"], _ = layer(torch.tensor(found["x"]), hidden, table((2, 7))[None, None].double())
    return found


def make_llama():
    """Causal attention with another wavelength, and rotation by given positions."""
    config = llama.LlamaConfig(
        hidden_size=8,
        num_attention_heads=2,
        num_key_value_heads=2,
        attention_dropout=0.0,
        rope_parameters={"rope_type": "default", "rope_theta": 500.0},
        attn_implementation="eager",
    )
    layer, rotary = llama.LlamaAttention(config, 0), llama.LlamaRotaryEmbedding(config)
    found = fill(layer) | {
        "x": normal(2, 7, 8),
        "heads": normal(2, 2, 3, 4),
        "positions": np.array([[0, 1, 2], [5, 40, 3]]),
    }
    x, heads = torch.tensor(found["x"]), torch.tensor(found["heads"])
    found["output"], _ = layer(x, rotary(x, torch.arange(7)[None]), causal_bias(7))
    rotated = llama.apply_rotary_pos_emb(
        heads, heads, *rotary(heads, torch.tensor(found["positions"]))
    )
    return {**found, "turned": rotated[0]}


def make_xlnet():
    """Bidirectional attention with and without memory; lengths 5 and 3."""
    config = xlnet.XLNetConfig(d_model=8, n_head=2, n_layer=1, d_inner=4, vocab_size=4, dropout=0.0)
    layer = xlnet.XLNetRelativeAttention(config)
    layer.layer_norm = torch.nn.Identity()
    found = fill(layer) | {"x": normal(2, 5, 8), "memory": normal(2, 3, 8), "mask": real(5, 3)}
    del found["r_s_bias"], found["seg_embed"]  # for segments, which are not used
    x, memory = (torch.tensor(found[name]).transpose(0, 1) for name in ("x", "memory"))
    for name, mems in (("alone", None), ("with_memory", memory)):
        length = 0 if mems is None else len(mems)
        mask = np.concatenate([np.ones((2, length), bool), found["mask"]], axis=1)
        mask = torch.tensor(~mask.T[None, :, :, None]).double()
        places = xlnet.XLNetModel(config).relative_positional_encoding(5, 5 + length, bsz=2)
        output, _ = layer(x, None, mask, None, places.double(), None, mems)
        found[name] = (output - x).transpose(0, 1)
    return found


def make_transformer_xl(folder):
    """Causal attention to five positions and three of memory."""
    stub("proj_adaptive_softmax", ProjectedAdaptiveLogSoftmax=None)
    stub("log_uniform_sampler", LogUniformSampler=None, sample_logits=None)
    sys.path.insert(0, str(folder / "pytorch"))
    module = importlib.import_module("mem_transformer")
    layer = module.RelPartialLearnableMultiHeadAttn(2, 8, 3, 0.0, pre_lnorm=True)
    layer.layer_norm = torch.nn.Identity()
    found = fill(layer) | {
        "x": normal(2, 5, 8),
        "memory": normal(2, 3, 8),
        "r_w_bias": normal(2, 3),
        "r_r_bias": normal(2, 3),
    }
    x, memory = (torch.tensor(found[name]).transpose(0, 1) for name in ("x", "memory"))
    places = module.PositionalEmbedding(8).double()(torch.arange(7, -1, -1.0, dtype=torch.double))
    hidden = torch.ones(5, 8, dtype=torch.bool).triu(4)[:, :, None]
    output = layer(
        x, places, torch.tensor(found["r_w_bias"]), torch.tensor(found["r_r_bias"]), hidden, memory
    )
    return {**found, "output": (output - x).transpose(0, 1)}


def make_alibi():
    return {
        f"heads_{heads}": bloom.build_alibi_tensor(torch.ones(1, 7), heads, torch.double)[:, 0]
        for heads in (1, 3, 8, 12)
    }


def make_torch():
    """Scaled dot products, with a fully masked query; cosine similarities, with a zero vector."""
    found = {
        "query": normal(2, 3, 5, 4),
        "key": normal(2, 3, 7, 4),
        "value": normal(2, 3, 7, 2),
        "mask": RANDOM.random((2, 1, 5, 7)) < 0.6,
    }
    found["mask"][1, 0, 2] = False
    found["query"][0, 0, 1] = 0
    query, key, value, mask = (torch.tensor(array) for array in found.values())
    attend = torch.nn.functional.scaled_dot_product_attention
    return {
        **found,
        "masked": attend(query, key, value, mask),
        "causal": attend(query, key, value, is_causal=True),
        "scaled": attend(query, key, value, scale=0.3),
        "cosine": torch.nn.functional.cosine_similarity(
            query[:, 0, :, None], key[:, 0, None], dim=-1
        ),
    }


def make_opennmt(folder):
    """Three attentions to 5 and 3 keys, and the copy generator, one example at a time."""
    bare("onmt", folder / "onmt", "modules", "utils")
    attention = importlib.import_module("onmt.modules.global_attention")
    copying = importlib.import_module("onmt.modules.copy_generator")
    found = {"query": normal(2, 4, 6), "value": normal(2, 5, 6), "mask": real(5, 3)}
    query, value = torch.tensor(found["query"]), torch.tensor(found["value"])
    for name in ("dot", "general", "mlp"):
        layer = attention.GlobalAttention(6, attn_type=name)
        found |= {f"{name}/{key}": weight for key, weight in fill(layer).items()}
        found[f"{name}/output"], found[f"{name}/scores"] = layer(query, value, torch.tensor([5, 3]))
    # Of the words "a b c d", the vocabulary has "a b", after unknown and padding tokens; the copy
    # vocabulary has an unknown token, then the words of both sources.
    layer = copying.CopyGenerator(6, 4, 1)
    found |= {f"copy/{key}": weight for key, weight in fill(layer).items()}
    found["copy/source_ids"] = np.array([[2, 7, 3, 7, 2], [8, 2, 8, 0, 0]])
    places = np.array([[1, 3, 2, 3, 1], [4, 1, 4, 0, 0]])
    vocabulary, copies = Words({"?": 0, "": 1, "a": 2, "b": 3}), {"src_ex_vocab": [Tokens("?abcd")]}
    rows = []
    for row in range(2):
        one_hot = torch.eye(5, dtype=torch.double)[torch.tensor(places[row : row + 1])]
        scores = layer(query[row], found["dot/scores"][row], one_hot)
        rows.append(copying.collapse_copy_scores(scores[None], copies, vocabulary, batch_dim=0)[0])
    return {**found, "copy/output": torch.stack(rows)}


class Words(dict):
    """Ids of words, 0 for unknown words."""

    def __missing__(self, word):
        return 0


class Tokens(list):
    """Words by their ids."""

    @property
    def ids_to_tokens(self):
        return self


def make_addons(folder):
    """Weights of both attentions for one query each, with 5 and 3 keys."""
    stub("typeguard", typechecked=lambda function: function)
    bare("tensorflow_addons", folder / "tensorflow_addons", "seq2seq", "rnn", "utils")
    module = importlib.import_module("tensorflow_addons.seq2seq.attention_wrapper")
    found = {"query": normal(2, 4), "value": normal(2, 5, 3), "mask": real(5, 3)}
    memory = [tf.constant(found["value"]), tf.constant([5, 3])]
    for name, layer in {
        "bahdanau": module.BahdanauAttention(6, dtype="float64"),
        "normed": module.BahdanauAttention(6, normalize=True, dtype="float64"),
        "luong": module.LuongAttention(4, dtype="float64"),
    }.items():
        query = [tf.constant(found["query"]), tf.zeros((2, 5), "float64")]
        layer(memory, setup_memory=True)
        layer(list(query))
        weights = {
            part: getattr(layer, part, None)
            for part in ("query_layer", "memory_layer", "attention_v", "attention_g", "attention_b")
        }
        for part, weight in weights.items():
            if weight is not None:
                weight = getattr(weight, "kernel", weight)
                weight.assign(normal(*weight.shape))
                found[f"{name}/{part}"] = weight.numpy()
        layer(memory, setup_memory=True)  # projects the memory with these weights
        found[f"{name}/scores"], _ = layer(query)
    return found


def make_deepctr(folder):
    """Pairs of four features."""
    bare("deepctr", folder / "deepctr", "layers")
    module = importlib.import_module("deepctr.layers.interaction")
    tf.keras.backend.set_floatx("float64")
    found = {"x": normal(3, 4, 5)}
    layer = module.AFMLayer(6)
    features = tf.split(tf.constant(found["x"]), 4, axis=1)
    layer(features)
    for weight in layer.weights:
        weight.assign(normal(*weight.shape))
        found[weight.name.removesuffix(":0").split("/")[-1]] = weight.numpy()
    found["output"] = layer(features).numpy()
    return {**found, "scores": layer.normalized_att_score.numpy()[..., 0]}


def make_shaw(folder):
    """Lengths 9 and 6, distances up to 3, one embedding matrix for keys and values."""
    bare("onmt", folder / "onmt", "modules")
    module = importlib.import_module("onmt.modules.multi_headed_attn")
    layer = module.MultiHeadedAttention(
        2,
        6,
        dropout=0.0,
        is_decoder=False,
        attn_type="self",
        add_qkvbias=True,
        max_relative_positions=3,
    ).double()
    found = {"x": normal(2, 9, 6), "mask": real(9, 6)}
    for name, weight in layer.named_parameters():
        found[name] = normal(*weight.shape)
        weight.copy_(torch.tensor(found[name]))
    x, mask = torch.tensor(found["x"]), torch.tensor(found["mask"])
    found["output"], found["scores"] = layer(x, x, x, ~mask[:, None, None])
    return found


def make_wrapper(folder):
    """Four steps of an LSTM with input feeding that attends to 5 and 3 keys."""
    stub("typeguard", typechecked=lambda function: function)
    bare("tensorflow_addons", folder / "tensorflow_addons", "seq2seq", "rnn", "utils")
    module = importlib.import_module("tensorflow_addons.seq2seq.attention_wrapper")
    found = {"inputs": normal(2, 4, 3), "memory": normal(2, 5, 6), "mask": real(5, 3)}
    attention = module.LuongAttention(4, dtype="float64")
    cell = module.AttentionWrapper(
        tf.keras.layers.LSTMCell(4, dtype="float64"),
        attention,
        attention_layer_size=7,
        dtype="float64",
    )
    steps = tf.unstack(tf.constant(found["inputs"]), axis=1)
    for _ in range(2):  # the first pass creates the weights
        attention([tf.constant(found["memory"]), tf.constant([5, 3])], setup_memory=True)
        state = cell.get_initial_state(batch_size=2, dtype=tf.float64)
        outputs, scores = [], []
        for step in steps:
            output, state = cell(step, state)
            outputs.append(output)
            scores.append(state.alignments)
        if "kernel" in found:
            break
        for name, weight in {
            "memory_kernel": attention.memory_layer.kernel,
            "kernel": cell._cell.kernel,
            "recurrent_kernel": cell._cell.recurrent_kernel,
            "bias": cell._cell.bias,
            "attention_kernel": cell._attention_layers[0].kernel,
        }.items():
            found[name] = normal(*weight.shape)
            weight.assign(found[name])
    return found | {"output": tf.stack(outputs, axis=1), "scores": tf.stack(scores, axis=1)}


def make_abcnn(folder):
    """ABCNN-1 on two sequences of six steps; it computes in float32."""
    bare("model", folder / "src" / "model", "attention")
    module = importlib.import_module("model.attention.abcnn1")
    layer = module.ABCNN1Attention(5, 6, False, "euclidean")
    found = {"first": normal(2, 6, 5), "second": normal(2, 6, 5)}
    for name, weight in layer.named_parameters():
        found[name] = normal(*weight.shape)
        weight.copy_(torch.tensor(found[name]))
    outputs = layer(*(torch.tensor(found[name])[:, None].float() for name in ("first", "second")))
    # (B, 2, T, D): the input channel and the attention channel.
    return found | {
        f"{name}_output": channels.numpy()
        for name, channels in zip(("first", "second"), outputs, strict=True)
    }


def make_marian():
    """Positions 0 to 19."""
    return {"table": marian.MarianSinusoidalPositionalEmbedding(20, 6).create_weight()}


def stub(name, **names):
    """Replaces a module that is not needed by one with these names."""
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(names)


def bare(name, folder, *parts):
    """Creates a package and subpackages without running their `__init__`, which imports more."""
    for part in ("", *parts):
        stub(f"{name}.{part}".rstrip("."), __path__=[str(folder / part)])


def main(folder):
    folder = pathlib.Path(folder)
    with torch.no_grad():
        made = {
            "longformer": make_longformer(),
            "big_bird": make_big_bird(),
            "t5": make_t5(),
            "roformer": make_roformer(),
            "llama": make_llama(),
            "xlnet": make_xlnet(),
            "transformer_xl": make_transformer_xl(folder / "transformer-xl"),
            "alibi": make_alibi(),
            "torch": make_torch(),
            "opennmt": make_opennmt(folder / "OpenNMT-py"),
            "addons": make_addons(folder / "addons"),
            "deepctr": make_deepctr(folder / "DeepCTR"),
            "shaw": make_shaw(folder / "OpenNMT-py"),
            "wrapper": make_wrapper(folder / "addons"),
            "abcnn": make_abcnn(folder / "ABCNN"),
            "marian": make_marian(),
        }
    arrays = {
        f"{name}/{key}": np.asarray(array)
        for name, found in made.items()
        for key, array in found.items()
    }
    np.savez_compressed(
        pathlib.Path(__file__).with_name("attention.npz"),
        **{
            name: array.astype("float32") if array.dtype == "float64" else array
            for name, array in arrays.items()
        },
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
