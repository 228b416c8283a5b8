"""Messages suggest similar names and have a maximum length."""

import pytest

from keras_attn.checkpoints.hub import suggest_folder
from keras_attn.defaults import fields, finetuning_defaults
from keras_attn.errors import LONGEST_MESSAGE, UserError, check_choice, nearest
from keras_attn.tasks.classification.metrics import choosable_metrics

FIELDS = [name for name, _ in fields(finetuning_defaults())]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("learning_rate", "train.learning_rate"),
        ("train.learing_rate", "train.learning_rate"),
        ("train.lr", "train.learning_rate"),
        ("lr", "search.learning_rates or train.learning_rate"),
        ("wd", "train.weight_decay"),
        ("warmup_ratio", "train.warmup_fraction"),
        ("num_train_epochs", "train.epochs"),
        ("max_steps", "train.steps"),
        ("per_device_train_batch_size", "train.batch_size"),
        ("max_seq_length", "data.length"),
        ("train.stpes", "train.steps"),
        ("data.trian", "data.train"),
        ("seed", "data.seed or train.seed"),
    ],
)
def test_similar_fields_are_suggested(name, meant):
    assert nearest(name, FIELDS) == f". Did you mean {meant}?"


@pytest.mark.parametrize(
    ("name", "names", "meant"),
    [
        ("macro_f1", choosable_metrics("single_label", 2), "f1_macro"),
        ("F1-macro", choosable_metrics("single_label", 5), "f1_macro"),
        ("mcc", ["accuracy", "matthews"], None),
        ("adam", ["adamw", "lamb"], "adamw"),
        ("bert-base", ["tiny", "mini", "base"], "base"),
        ("sst-2", ["cola", "sst2"], "sst2"),
        (None, ["none", "b"], None),
        ("", ["a", "b"], None),
        (".", ["a", "b"], None),
        ("x", [], None),
    ],
)
def test_similar_choices_are_suggested(name, names, meant):
    assert nearest(name, names) == (f". Did you mean {meant}?" if meant else "")
    with pytest.raises(UserError, match=f"x must be one of.*Received: x={name}"):
        check_choice("x", name, names)


def test_choices_may_be_numbers():
    with pytest.raises(UserError, match="x must be one of 0, 1, 2, 13. .*x=12. Did you mean 13?"):
        check_choice("x", 12, (0, 1, 2, 13))


def test_folders_and_names_of_the_hub_are_distinguished(tmp_path, monkeypatch):
    (tmp_path / "runs/mini").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    hub = ", the model on the Hugging Face Hub?"
    assert suggest_folder("bert-base-uncased") == f". Did you mean hf:bert-base-uncased{hub}"
    assert suggest_folder("google/bert_uncased_L-2") == (
        f". Did you mean hf:google/bert_uncased_L-2{hub}"
    )
    assert suggest_folder("runs/mni") == ". Did you mean runs/mini?"
    for path in ("runs/other", "./bert", "/none/bert", "a/b/c", "../x"):
        assert suggest_folder(path) == "", path


def test_a_message_does_not_quote_a_whole_file():
    message = str(UserError(f"A column is required. Received: {'x' * 1_000_000} in a.csv"))
    assert len(message) <= LONGEST_MESSAGE
    assert message.startswith("A column is required.") and message.endswith(" in a.csv")
    assert str(UserError("short")) == "short"
