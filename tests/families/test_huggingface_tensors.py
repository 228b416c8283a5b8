import numpy as np
import pytest

from keras_attn.families.huggingface_tensors import (
    encoder_tensors,
    head_tensors,
    layout,
    position_ids,
    stored_name,
    variable_shapes,
)

ARCHITECTURE = {
    "vocabulary_size": 11,
    "max_length": 7,
    "num_segments": 2,
    "num_layers": 1,
    "hidden_dim": 6,
    "intermediate_dim": 24,
    "embedding_dim": 4,
}
# An ElectraModel of `transformers` with one layer and embedding_size=4, without the projection of
# its embeddings.
NAMES = {
    "embeddings.word_embeddings.weight": (11, 4),
    "embeddings.position_embeddings.weight": (7, 4),
    "embeddings.token_type_embeddings.weight": (2, 4),
    "embeddings.LayerNorm.weight": (4,),
    "embeddings.LayerNorm.bias": (4,),
    **{
        f"encoder.layer.0.{name}": shape
        for name, shape in {
            "attention.self.query.weight": (6, 6),
            "attention.self.query.bias": (6,),
            "attention.self.key.weight": (6, 6),
            "attention.self.key.bias": (6,),
            "attention.self.value.weight": (6, 6),
            "attention.self.value.bias": (6,),
            "attention.output.dense.weight": (6, 6),
            "attention.output.dense.bias": (6,),
            "attention.output.LayerNorm.weight": (6,),
            "attention.output.LayerNorm.bias": (6,),
            "intermediate.dense.weight": (24, 6),
            "intermediate.dense.bias": (24,),
            "output.dense.weight": (6, 24),
            "output.dense.bias": (6,),
            "output.LayerNorm.weight": (6,),
            "output.LayerNorm.bias": (6,),
        }.items()
    },
}


def test_an_encoder_of_another_family_has_the_names_of_transformers():
    parts = list(encoder_tensors(ARCHITECTURE, "electra_encoder", "electra."))
    found = {
        piece.name: tuple(piece.shape) for pieces in layout(parts).values() for piece in pieces
    }
    assert found == {f"electra.{name}": shape for name, shape in NAMES.items()}
    shapes = variable_shapes(parts)
    assert shapes["electra_encoder/layer_0/attention/query_key_value_kernel"] == (6, 18)
    assert shapes["electra_encoder/token_embedding"] == (11, 4)
    assert all(path.startswith("electra_encoder/") for path in shapes)


def test_the_head_of_a_task_may_have_another_name_in_a_family():
    heads = {"num_classes": 3}
    assert list(head_tensors("classification", heads, 6)) == [
        ("logits_dense/kernel", ["classifier.weight"], (6, 3)),
        ("logits_dense/bias", ["classifier.bias"], (3,)),
    ]
    named = head_tensors("classification", heads, 6, {"logits_dense": "classifier.out_proj"})
    assert [names for _, names, _ in named] == [
        ["classifier.out_proj.weight"],
        ["classifier.out_proj.bias"],
    ]
    assert [names for _, names, _ in head_tensors("span_qa", {}, 6)] == [
        ["qa_outputs.weight"],
        ["qa_outputs.bias"],
    ]
    assert list(head_tensors("backbone", {}, 6)) == []


@pytest.mark.parametrize(
    ("stored", "name"),
    [
        ("electra.embeddings.LayerNorm.weight", "electra.embeddings.LayerNorm.weight"),
        ("embeddings.LayerNorm.weight", "electra.embeddings.LayerNorm.weight"),
        ("electra.embeddings.LayerNorm.gamma", "electra.embeddings.LayerNorm.weight"),
        ("embeddings.LayerNorm.beta", "electra.embeddings.LayerNorm.bias"),
        ("classifier.bias", "classifier.bias"),
    ],
)
def test_a_tensor_is_found_without_prefix_and_by_the_old_name_of_a_norm(stored, name):
    assert stored_name({stored: ((1,), "float32")}, "electra.", name) == stored
    assert stored_name({}, "electra.", name) == name


def test_position_ids_are_no_weights():
    names = ["electra.embeddings.position_ids", "electra.embeddings.position_embeddings.weight"]
    assert position_ids(dict.fromkeys(names, np.zeros(1))) == {names[0]}
