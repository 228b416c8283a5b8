"""config.json of Hugging Face and bert_config.json of google-research/bert: mostly one."""

from reprlib import repr as shorten

from keras_attn.checkpoints.architectures import (
    check_architecture,
    need_fields,
    read_activation,
    written_activation,
)
from keras_attn.errors import UserError
from keras_attn.families.bert.family import FAMILY

FIELDS = {
    "vocabulary_size": "vocab_size", "num_layers": "num_hidden_layers",
    "hidden_dim": "hidden_size", "num_heads": "num_attention_heads",
    "intermediate_dim": "intermediate_size", "max_length": "max_position_embeddings",
    "num_segments": "type_vocab_size", "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob", "initializer_range": "initializer_range",
    "layer_norm_epsilon": "layer_norm_eps",
}


def read_architecture(config, activations, path, most_layers):
    """Arguments of `BertEncoder`.

    Args:
        config: The dict in the file, with defaults filled in.
        activations: `{theirs: ours}`.
        path: Of the file.
        most_layers: So many layers can the weights hold.

    Raises:
        UserError: Names the field that is missing or wrong.
    """
    need_fields(config, (*FIELDS.values(), "hidden_act"), path)
    fields = {ours: config[theirs] for ours, theirs in FIELDS.items()}
    fields["activation"] = read_activation(config, "hidden_act", activations, path)
    return check_architecture(FAMILY, fields, path, most_layers)


def write_architecture(architecture, activations, format):
    """The fields of an architecture.

    Raises:
        UserError: If the format does not know its activation.
    """
    return {**{theirs: architecture[ours] for ours, theirs in FIELDS.items()},
            "hidden_act": written_activation(architecture, activations, format)}


def written_threshold(trained):
    """What a config has of `TrainedModel.threshold`: a field of our own, which others pass over."""
    return {} if trained.threshold is None else {"no_answer_threshold": trained.threshold}


def read_threshold(config, path):
    """`TrainedModel.threshold` of a config; None if it does not say."""
    threshold = config.get("no_answer_threshold")
    if threshold is not None and (isinstance(threshold, bool)
                                  or not isinstance(threshold, (int, float))):
        raise UserError("no_answer_threshold must be a number. "
                        f"Received: {shorten(threshold)} in {path}")
    return threshold
