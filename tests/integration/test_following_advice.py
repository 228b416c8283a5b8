"""Following the advice of a message solves the problem that it names.

Runs are planned, but not trained: all these messages are printed before training.
"""

import gzip
import importlib
import json
import pathlib
import shutil

import pytest
from absl import flags

from keras_attn.convert import convert, read_ready
from keras_attn.data.shards.prepare_folder import prepare_folder
from keras_attn.data.sources.table_formats import FORMATS
from keras_attn.defaults import default_config
from keras_attn.errors import UserError
from keras_attn.inference.generate_files import generate_texts
from keras_attn.runs import run_task
from tests.support.absl_flags import new_flags
from tests.support.sentence_transformers_folders import make_folder

WORKDIRS = pathlib.Path(__file__).parents[1] / "golden/workdirs_0_1"
BERT, GPT2, CLASSIFIER = (str(WORKDIRS / name) for name in ("bert", "gpt2", "bert_classifier"))
ROWS = [(f"word {i} a{i % 3}", "ab"[i % 2]) for i in range(40)]
WORDS = "word O\na B-x\nb I-x\n\n"
FIELDS = {
    "classification": {"data.train": "rows.tsv", "data.text": "text", "data.label": "label"},
    "tagging": {"data.task": "tagging", "data.train": "words.conll"},
    "span_qa": {"data.task": "reading_comprehension", "data.train": "squad.json"},
    "embedding": {
        "data.task": "embedding",
        "data.train": "pairs.tsv",
        "data.text": "a",
        "data.text_pair": "b",
    },
    "translation": {"data.train.source": "a.en", "data.train.target": "a.de"},
    "masked_lm": {"data.train": "text.txt", "data.length": 16, "model.size": "tiny"},
    "causal_lm": {"data.train": "text.txt", "data.length": 16, "data.vocab_size": 300},
}


def _tsv(rows, header="text\tlabel", separator="\t"):
    lines = [header, *(separator.join(map(str, row)) for row in rows)]
    return "\n".join(lines).replace("\t", separator) + "\n"


def _squad(starts):
    return json.dumps(
        {
            "data": [
                {
                    "title": "t",
                    "paragraphs": [
                        {
                            "context": f"one two three {n}",
                            "qas": [
                                {
                                    "id": str(n),
                                    "question": "what",
                                    "answers": [{"text": "two", "answer_start": start}],
                                }
                            ],
                        }
                        for n, start in enumerate(starts)
                    ],
                }
            ]
        }
    )


def _write_files(folder):
    texts = {
        "rows.tsv": _tsv(ROWS),
        "commas.tsv": _tsv(ROWS, separator=","),
        "tabs.csv": _tsv(ROWS),
        "rows.data": _tsv(ROWS),
        "two.tsv": _tsv(ROWS[:2]),
        "quoted.tsv": _tsv([(f'"{a}"', f'"{b}"') for a, b in ROWS], '"text"\t"label"'),
        "unlabeled.tsv": _tsv([*ROWS, ("word", "")]),
        "numbers.tsv": _tsv([(a, n / 7) for n, (a, _) in enumerate(ROWS)]),
        "three.tsv": _tsv([(a, "abc"[n % 3]) for n, (a, _) in enumerate(ROWS)]),
        "long.tsv": _tsv([(f"{a} {'word ' * 60}", b) for a, b in ROWS]),
        "long_pairs.tsv": _tsv([("word " * 30 + a, "a " * 30, b) for a, b in ROWS], "a\tb\tlabel"),
        "words.conll": "".join(WORDS.replace("word", f"word{n}") for n in range(20)),
        "iob1.conll": "".join(f"word{n} I-x\na O\n\n" for n in range(20)),
        "text.txt": "".join(f"A word {n}.\nAnother a{n}.\n\n" for n in range(40)),
        "texts.jsonl": "".join(json.dumps({"body": f"A word {n}. A b."}) + "\n" for n in range(40)),
        "single.txt": "".join(f"A word {n}.\n\n" for n in range(40)),
        "squad.json": _squad([4] * 20),
        "moved.json": _squad([4] * 20 + [5]),
        "pairs.tsv": _tsv([(f"a {n}", f"b {n}", n % 6) for n in range(40)], "a\tb\tscore"),
        "a.en": "".join(f"word a{n % 9}\n" for n in range(40)),
        "a.de": "".join(f"wort b{n % 9}\n" for n in range(40)),
        "gap.de": "\n" + "".join(f"wort b{n % 9}\n" for n in range(39)),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    for name, source, encoding in (
        ("latin1.tsv", "rows.tsv", "latin-1"),
        ("utf16.tsv", "rows.tsv", "utf-16"),
        ("latin1.txt", "text.txt", "latin-1"),
        ("latin1.conll", "words.conll", "latin-1"),
        ("utf16.conll", "words.conll", "utf-16"),
        ("latin1.de", "a.de", "latin-1"),
    ):
        changed = texts[source].replace("wor", "w\xf6r")
        (folder / name).write_text(changed, encoding=encoding)
    records = "".join(json.dumps(dict(text=a, label=b)) + "\n" for a, b in ROWS)
    (folder / "utf16.jsonl").write_text(records, encoding="utf-16")
    (folder / "packed.tsv").write_bytes(gzip.compress(texts["rows.tsv"].encode()))
    (folder / "packed.tsv.gz").write_bytes((folder / "packed.tsv").read_bytes())
    shutil.copytree(f"{BERT}/data/train", folder / "without_vocabulary")
    (folder / "folder/inner").mkdir(parents=True)
    shutil.copy(folder / "rows.tsv", folder / "folder/inner")
    shutil.copy(folder / "rows.tsv", folder / "folder")
    quiet = {"format": "lines", "log": lambda _: None}
    prepare_folder("text.txt", "prepared", vocab_size=100, **quiet)
    prepare_folder("text.txt", "for_bert", vocab=BERT, **quiet)
    prepare_folder("text.txt", "for_gpt2", tokenizer="bpe", vocab_size=300, **quiet)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        found = tmp_path_factory.mktemp("files")
        patch.chdir(found)
        _write_files(found)
        yield found


class Planned(Exception):
    """The plan of a run is complete."""


@pytest.fixture
def plan(folder, tmp_path, monkeypatch):
    """Function of a task and changed fields that plans a run."""

    def stop(*_):
        raise Planned

    monkeypatch.setattr(run_task, "train", stop)

    def plan(task, **fields):
        fields = {**FIELDS[task], "train.steps": 1, **fields}
        config = default_config(task, fields.get("model.family"))
        config.update_from_flattened_dict(fields)
        run = run_task.pretrain if task.endswith("_lm") else run_task.finetune
        with pytest.raises(Planned):
            run(config, workdir=str(tmp_path / "run"))

    return plan


ERRORS = [
    # Files
    ("classification", {"data.train": "commas.tsv"}, "data.format=csv", {"data.format": "csv"}),
    (
        "classification",
        {"data.train": "tabs.csv"},
        "data.format=quoted_tsv",
        {"data.format": "quoted_tsv"},
    ),
    (
        "classification",
        {"data.train": "quoted.tsv"},
        "data.format=quoted_tsv",
        {"data.format": "quoted_tsv"},
    ),
    (
        "classification",
        {"data.train": "rows.data"},
        r"set data.format \(--format\) to tsv,",
        {"data.format": "tsv"},
    ),
    (
        "classification",
        {"data.train": "packed.tsv"},
        "name ends in .gz",
        {"data.train": "packed.tsv.gz"},
    ),
    (
        "classification",
        {"data.train": "folder"},
        r"folder/\*.tsv, or as folder/\*\*/\*.tsv",
        {"data.train": "folder/*.tsv"},
    ),
    ("classification", {"data.train": "folder"}, "folder", {"data.train": "folder/**/*.tsv"}),
    (
        "classification",
        {"data.header": False},
        "given by number",
        {"data.text": "0", "data.label": "1"},
    ),
    *(
        ("classification", {"data.train": name}, "(?i)set data.encoding", {"data.encoding": code})
        for name, code in (
            ("latin1.tsv", "latin-1"),
            ("utf16.tsv", "utf-16"),
            ("utf16.jsonl", "utf-16"),
        )
    ),
    *(
        ("tagging", {"data.train": name}, "set data.encoding", {"data.encoding": code})
        for name, code in (("latin1.conll", "latin-1"), ("utf16.conll", "utf-16"))
    ),
    (
        "translation",
        {"data.train.target": "latin1.de"},
        "set data.encoding",
        {"data.encoding": "latin-1"},
    ),
    ("masked_lm", {"data.train": "latin1.txt"}, "data.encoding", {"data.encoding": "latin-1"}),
    ("masked_lm", {"data.train": "texts.jsonl"}, "data.field", {"data.field": "body"}),
    ("classification", {"data.max_line": 5}, "raise data.max_line", {"data.max_line": 500}),
    # Rows
    *(
        (task, fields, "Set data.on_bad_text=skip", {"data.on_bad_text": "skip"})
        for task, fields in (
            ("classification", {"data.train": "unlabeled.tsv"}),
            ("span_qa", {"data.train": "moved.json"}),
            ("translation", {"data.train.target": "gap.de"}),
        )
    ),
    (
        "classification",
        {"data.train": "two.tsv"},
        "data.validation, or set data.holdout=0",
        {"data.holdout": 0.0},
    ),
    (
        "classification",
        {"data.train": "two.tsv"},
        "set data.validation",
        {"data.validation": "rows.tsv"},
    ),
    (
        "classification",
        {"data.train": "three.tsv", "data.positive": "a"},
        "Leave it unset",
        {"data.positive": None},
    ),
    ("classification", {"data.positive": "c"}, "one of the classes", {"data.positive": "b"}),
    (
        "classification",
        {"model.family": "abcnn"},
        "Set data.text_pair",
        {"data.text_pair": "label"},
    ),
    (
        "tagging",
        {"data.train": "iob1.conll", "data.scheme": "iob2"},
        "skip",
        {"data.scheme": "raw"},
    ),
    # Metrics
    (
        "classification",
        {"data.holdout": 0.0, "eval.metric": "accuracy"},
        "Set data.validation or data.holdout",
        {"data.holdout": 0.2},
    ),
    (
        "translation",
        {"eval.patience": 1, "eval.every": 1},
        "Set data.validation.source",
        {"data.validation.source": "a.en", "data.validation.target": "a.de"},
    ),
    (
        "translation",
        {
            "eval.metric": "bleu",
            "checkpoint.average": 2,
            "checkpoint.every": 1,
            "data.validation.source": "a.en",
            "data.validation.target": "a.de",
        },
        "Use eval.patience without eval.metric",
        {"eval.metric": None, "eval.patience": 1, "eval.every": 1},
    ),
    # Vocabularies
    ("translation", {"data.vocab_size": 8}, "Set vocab_size=21", {"data.vocab_size": 21}),
    ("causal_lm", {"data.vocab_size": 5}, "at least 257", {"data.vocab_size": 257}),
    (
        "masked_lm",
        {"data.vocab": BERT, "data.train": "for_bert", "data.lowercase": False},
        "Unset data.lowercase",
        {"data.lowercase": None},
    ),
    (
        "causal_lm",
        {"data.train": "prepared"},
        "another folder with --tokenizer=bpe",
        {"data.train": "for_gpt2"},
    ),
    (
        "masked_lm",
        {"data.train": "without_vocabulary"},
        "Set data.vocab to the vocabulary that it was",
        {"data.vocab": BERT},
    ),
    # Models
    (
        "masked_lm",
        {"pretrained": BERT, "model.hidden_dim": 16},
        "fields of the architecture unset; model.size=None",
        {"model.hidden_dim": None, "model.size": None},
    ),
    (
        "masked_lm",
        {"pretrained": BERT, "model.size": None, "data.lowercase": False},
        "Leave data.lowercase unset",
        {"data.lowercase": None},
    ),
    (
        "masked_lm",
        {"pretrained": BERT, "model.size": None, "data.length": 40},
        "or set model.max_length=40",
        {"model.max_length": 40},
    ),
    (
        "classification",
        {"pretrained": BERT, "data.length": 40},
        "Lower data.length, or pretrain the model further with model.max_length=40",
        {"data.length": 32},
    ),
    ("classification", {"train.freeze": 1}, "Set --pretrained", {"pretrained": BERT}),
    (
        "classification",
        {"pretrained": GPT2, "data.vocab": GPT2},
        "data.vocab must be left out",
        {"data.vocab": None},
    ),
    # Teachers
    (
        "masked_lm",
        {"train.teacher": BERT, "data.vocab": "prepared"},
        "Leave data.vocab unset, and set data.lowercase=True",
        {"data.vocab": None, "data.lowercase": True},
    ),
    (
        "masked_lm",
        {"train.teacher": BERT, "data.train": "prepared"},
        f"Prepare the text in another folder, with --vocab={BERT} --lowercase",
        {"data.train": "for_bert"},
    ),
    (
        "masked_lm",
        {"train.teacher": BERT, "data.length": 40, "model.max_length": 40},
        "Lower data.length",
        {"data.length": 32},
    ),
    # Losses of embeddings
    ("embedding", {"train.loss": "cosent"}, "requires data.label", {"data.label": "score"}),
    (
        "embedding",
        {"data.label": "score", "train.loss": "cosine"},
        "Use train.loss=cosent",
        {"train.loss": "cosent"},
    ),
    ("embedding", {"train.batch_size": 1}, "Raise train.batch_size", {"train.batch_size": 2}),
    (
        "embedding",
        {"data.text_pair": None, "model.dropout": 0.0},
        "Set model.dropout, or",
        {"model.dropout": 0.1},
    ),
    (
        "embedding",
        {"data.label": "score", "train.loss": "in_batch_negatives"},
        "Leave data.label unset",
        {"data.label": None},
    ),
]


@pytest.mark.parametrize(("task", "fields", "message", "advice"), ERRORS)
def test_after_the_advice_of_an_error_the_run_can_start(plan, task, fields, message, advice):
    with pytest.raises(UserError, match=message):
        plan(task, **fields)
    plan(task, **{**fields, **advice})


WARNINGS = [
    (
        "classification",
        {"data.train": "numbers.tsv", "data.holdout": 0.0},
        "use data.task=regression",
        {"data.task": "regression"},
    ),
    (
        "classification",
        {"data.train": "long.tsv", "data.length": 16},
        "Set data.length=72",
        {"data.length": 72},
    ),
    (
        "classification",
        {"data.train": "long.tsv", "data.length": 32, "pretrained": BERT},
        "Set data.windows=8 to read them",
        {"data.windows": 8},
    ),
    (
        "classification",
        {
            "data.train": "long_pairs.tsv",
            "data.text": "a",
            "data.text_pair": "b",
            "data.length": 16,
            "model.family": "abcnn",
        },
        "Set data.length=72",
        {"data.length": 72},
    ),
    (
        "masked_lm",
        {"data.train": "single.txt", "data.segments": "next_sentence"},
        "Set data.segments=full_sentences",
        {"data.segments": "full_sentences"},
    ),
    (
        "masked_lm",
        {"data.train": "single.txt", "data.segments": "next_sentence"},
        "set data.format=paragraphs",
        {"data.format": "paragraphs"},
    ),
    (
        "translation",
        {"data.vocab_size": 300},
        "Lower data.vocab_size",
        {"data.vocab_size": 21},
    ),
    ("classification", {"train.batch_size": 64}, "Lower train.batch_size", {"train.batch_size": 8}),
]


@pytest.mark.parametrize(("task", "fields", "message", "advice"), WARNINGS)
def test_after_the_advice_of_a_warning_it_is_not_printed(
    plan, capsys, task, fields, message, advice
):
    plan(task, **fields)
    assert message in capsys.readouterr().out
    plan(task, **{**fields, **advice})
    assert message not in capsys.readouterr().out


@pytest.mark.parametrize("content", ["{", '{"format": 2, "shards": []}'])
def test_a_folder_with_a_damaged_index_can_be_prepared_after_its_removal(
    plan, folder, tmp_path, content
):
    shutil.copytree(folder / "for_bert", tmp_path / "a")
    (tmp_path / "a/index.json").write_text(content)
    fields = {"data.train": str(tmp_path / "a"), "data.vocab": BERT}
    with pytest.raises(UserError, match="Remove the folder and prepare the text again"):
        plan("masked_lm", **fields)
    shutil.rmtree(tmp_path / "a")
    prepare_folder("text.txt", str(tmp_path / "a"), vocab=BERT, format="lines", log=lambda _: None)
    plan("masked_lm", **fields)


def test_a_model_that_does_not_specify_its_case_is_converted_with_it(tmp_path):
    convert(BERT, tmp_path / "encoder", "huggingface", task="encoder")
    for name in ("tokenizer_config.json", "tokenizer.json"):
        (tmp_path / "encoder" / name).unlink(missing_ok=True)
    with pytest.raises(UserError, match="--from=.*encoder --to=FOLDER --lowercase, or --nolowerc"):
        read_ready(tmp_path / "encoder")
    convert(tmp_path / "encoder", tmp_path / "cased", "workdir", lowercase=False)
    assert read_ready(tmp_path / "cased").lowercase is False


def test_a_model_with_other_heads_than_transformers_is_converted_as_advised(tmp_path):
    with pytest.raises(UserError, match="or convert the encoder alone .--task=encoder."):
        convert(BERT, tmp_path / "folder", "huggingface")
    convert(BERT, tmp_path / "folder", "huggingface", task="encoder")
    with pytest.raises(UserError, match="Use new_heads=True"):
        convert(tmp_path / "folder", tmp_path / "run", "workdir", task="masked_lm", lowercase=True)
    heads = {"task": "masked_lm", "new_heads": True}
    convert(tmp_path / "folder", tmp_path / "run", "workdir", lowercase=True, **heads)


def test_without_its_modules_the_transformer_of_a_sentence_transformer_is_read(tmp_path):
    folder = make_folder(tmp_path / "model", "mean")
    modules = json.loads((folder / "modules.json").read_text())
    (folder / "9_LSTM").mkdir()
    modules.append({"idx": 9, "name": "9", "path": "9_LSTM", "type": "models.LSTM"})
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UserError, match="To use the Transformer alone, remove modules.json"):
        read_ready(folder)
    (folder / "modules.json").unlink()
    assert not read_ready(folder).heads


def test_prompts_in_another_encoding_are_an_error_with_their_line(tmp_path):
    (tmp_path / "prompts.txt").write_bytes("caf\xe9\n".encode("latin-1"))
    with pytest.raises(UserError, match="must be UTF-8 text. Convert the file.*txt, line 1"):
        generate_texts(GPT2, str(tmp_path / "prompts.txt"), max_tokens=1)


@pytest.mark.parametrize("command", ["finetune.embed", "finetune.evaluate", "finetune.predict"])
def test_a_command_that_reads_tables_has_the_flags_that_its_messages_name(command):
    with new_flags():
        importlib.import_module(command).define_flags()
        assert {"encoding", "on_bad_text", "max_line", "format"} <= set(flags.FLAGS)
        assert set(FORMATS) <= set(flags.FLAGS["format"].parser.enum_values)
