"""The family of ELECTRA: sizes, shapes of weights, memory with the generator."""

import pytest

from keras_attn.registry import FAMILIES
from keras_attn.training.variables import variables_by_path

FAMILY = FAMILIES["electra"]


def _architecture(size="mini", **options):
    shape = {**FAMILY.sizes[size], **options}
    return {
        "vocabulary_size": 300,
        "num_segments": 2,
        **shape,
        **FAMILY.default_arguments(None, shape),
    }


@pytest.mark.parametrize(
    ("task", "heads"),
    [
        ("replaced_tokens", {"generator_fraction": 0.25}),
        ("replaced_tokens", {"generator_fraction": None}),
        ("masked_lm", {"next_sentence": False, "tie_embeddings": False}),
        ("classification", {"num_classes": 3}),
        ("classification", {"num_classes": 3, "pooling": "mean"}),
    ],
)
@pytest.mark.parametrize("embedding_dim", [8, 16])
def test_the_shapes_are_those_of_the_built_model(task, heads, embedding_dim):
    architecture = _architecture(
        "tiny", num_layers=1, hidden_dim=16, num_heads=4, embedding_dim=embedding_dim
    )
    model = FAMILY.build(task, architecture, heads)
    model.build()
    prefix = FAMILY.prefix(task)
    expected = {
        path.removeprefix(prefix): tuple(variable.shape)
        for path, variable in variables_by_path(model).items()
    }
    assert FAMILY.shapes(task, architecture, heads) == expected


def test_the_memory_counts_the_generator_and_its_samples():
    architecture, heads = _architecture(), {"generator_fraction": 0.5}
    model = FAMILY.build("replaced_tokens", architecture, heads)
    model.build()
    found = FAMILY.memory("replaced_tokens", architecture, heads, 64, 10)
    assert found.parameters == pytest.approx(model.count_params(), rel=0.05)
    alone = FAMILY.memory("replaced_tokens", architecture, {"generator_fraction": None}, 64, 10)
    discriminator = model.backbone.count_params()
    assert alone.parameters == pytest.approx(discriminator, rel=0.05)
    # Half the hidden size stores more than half of the activations, as it has half of the heads.
    grown = found.activations - alone.activations - 2 * 10 * 300
    assert 0.45 * alone.activations < grown < 0.6 * alone.activations
    assert found.layer == alone.layer
    assert FAMILY.memory("masked_lm", architecture, {}, 64, 10) == alone
