"""The family of hierarchical attention networks."""

from keras_attn.families.contract import Family
from keras_attn.families.hierarchical.tokenizer import PARAGRAPH_END, TOKENIZERS
from keras_attn.families.layer_memory import LayerMemory, embedding_dim
from keras_attn.models import HierarchicalEncoder, RecurrentClassifier

SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？", "｡", "।", "؟")


class HierarchicalFamily(Family):
    """Attention over the words of each sentence, then over the sentences (Yang et al., 2016)."""

    name, title = "hierarchical", "hierarchical attention network"
    backbone, backbone_name = HierarchicalEncoder, "hierarchical_encoder"
    packs = False
    scratch_learning_rate, scratch_epochs = 2e-3, 8.0  # docs/families/hierarchical.md
    pooling = "cls"
    task_models = {"classification": RecurrentClassifier}
    tokenizers = TOKENIZERS
    sizes = {"tiny": {"hidden_dim": 128}, "mini": {"hidden_dim": 256}, "small": {"hidden_dim": 512}}

    def tokenizer_arguments(self, tokenizer):
        # A pair of texts has a separator between them, which ends a sentence, too.
        ends = [*SENTENCE_ENDS, tokenizer.vocabulary[tokenizer.sep_id]]
        found = {"sentence_ends": ends, "paragraph_ends": [PARAGRAPH_END]}
        return {
            **super().tokenizer_arguments(tokenizer),
            **{
                name: [tokenizer.ids[token] for token in tokens if token in tokenizer.ids]
                for name, tokens in found.items()
            },
        }

    def memory(self, task, architecture, heads, length, targets):
        hidden_dim, depth = architecture["hidden_dim"], embedding_dim(architecture)
        levels = architecture["levels"].count(",") + 1
        places = -(-length // architecture["min_words"]) * architecture["max_words"]
        layer = 8 * places * hidden_dim  # gates, states and inputs of words
        return LayerMemory(
            parameters=depth * architecture["vocabulary_size"] + 4 * levels * hidden_dim**2,
            inputs=places * depth,
            activations=layer,
            layer=layer,
        )


FAMILY = HierarchicalFamily()
