"""The toy task: config fields, options and files."""

from keras_attn.declarations import Option, TaskFields
from keras_attn.field import Field
from keras_attn.tasks.finetuning.fields import finetuning_fields

FIELDS = TaskFields(
    command="finetune",
    family="bert",
    config=lambda family: finetuning_fields(
        family, {"data": {"word": Field("good", "word to count")}}, metrics=("mean_error",)
    ),
    names=("word_counts",),
    summary="counting: how often a word is in a text",
    metrics=("mean_error",),
    lower_is_better=("mean_error",),
    options={
        "evaluate": {"rounded": Option(bool, "Whether to round the counts.")},
        "predict": {"decimals": Option(int, "Digits after the point.", low=0)},
    },
    formats={"evaluate": ("counts",)},
    outputs=(".tsv", ".json", ".counts"),
    files=("word.json",),
    huggingface_class="ForCounting",
)
