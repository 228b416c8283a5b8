"""Finetunes MiniLM, a released model, on your labeled files, and compares it with counting words.

    make demo-real ARGS='--train=SST-2/train.tsv --validation=SST-2/dev.tsv --text=sentence'

Classification: --train and --validation are tables, as for `python -m finetune --config=classify`.
Tagging: --tagging_train and --tagging_validation are CoNLL, CoNLL-U or JSONL files. Either or both
can be given; no other files are read. Finished runs are reused.
"""

from absl import flags

from keras_attn.cli.command_line import run_command
from keras_attn.cli.config_files import find_config, load_config
from keras_attn.errors import UserError

FLAGS = flags.FLAGS
flags.DEFINE_string("train", None, "Training rows of classification.")
flags.DEFINE_string("validation", None, "Validation rows; if unset, a tenth of --train.")
flags.DEFINE_string("text", "text", "Text column.")
flags.DEFINE_string("label", "label", "Label column.")
flags.DEFINE_string(
    "format", None, "Format, such as label_text (TREC); if unset, by the file name."
)
flags.DEFINE_string("encoding", "utf-8", "Character encoding, such as latin-1 (TREC).")
flags.DEFINE_integer("limit", 1000, "Number of training rows that are sampled.", lower_bound=2)
flags.DEFINE_string("tagging_train", None, "Training sentences of tagging.")
flags.DEFINE_string("tagging_validation", None, "Validation sentences; if unset, a tenth of them.")
flags.DEFINE_integer(
    "seeds", 3, "Number of runs of each task, with different seeds.", lower_bound=1
)
flags.DEFINE_string("pretrained", "runs/all-MiniLM-L6-v2", "Released model.")
flags.DEFINE_string("workdir", "runs/demo-real", "Folder of all results.")

TITLES = {
    "bag_of_bigrams": "bag of bigrams, logistic regression",
    "most_frequent": "most frequent class",
}


def main():
    tasks = {
        "classification": (FLAGS.train, FLAGS.validation),
        "tagging": (FLAGS.tagging_train, FLAGS.tagging_validation),
    }
    given = {name: files for name, files in tasks.items() if files[0]}
    if not given:
        raise UserError("Give --train, --tagging_train or both. Received: neither")
    tables = [(files[0], run(name, *files)) for name, files in given.items()]
    for source, results in tables:
        report(source, results)


def run(task, train, validation):
    """Returns the results of finetuning with `--seeds` seeds."""
    from keras_attn import finetune

    config = load_config(*find_config("classify" if task == "classification" else "tagging"))
    config.data.train, config.data.validation = train, validation
    config.data.limit = FLAGS.limit
    config.train.seeds = FLAGS.seeds
    if task == "classification":
        config.data.update(text=FLAGS.text, label=FLAGS.label, encoding=FLAGS.encoding)
        if FLAGS.format:
            config.data.format = FLAGS.format
    print(f"finetuning {FLAGS.pretrained} for {task}\n", flush=True)
    return finetune(config, f"{FLAGS.workdir}/{task}", FLAGS.pretrained)


def report(source, results):
    """Prints the metrics of the model and of its baselines."""
    baselines, metric = results["to_beat"], "accuracy"
    if "most_frequent" not in baselines:  # tagging: entities have an F1, other tags an accuracy
        metric = next(iter(baselines))
        baselines = {"most frequent tag of each word": baselines[metric]}
    print(f"\n{f'{source}, {FLAGS.limit:,} rows':44}{metric:>10}{'95 % interval':>16}")
    half = results.get(f"{metric}_interval")
    spread = "" if half is None else f"{f'± {half:.3f}':>16}"
    print(f"{'MiniLM, finetuned':44}{results[metric]:10.3f}{spread}")
    for name, value in baselines.items():
        value = value if isinstance(value, str) else f"{value:10.3f}"  # or why there is none
        print(f"{TITLES.get(name, name):44}{value}")


if __name__ == "__main__":
    run_command(main, __doc__)
