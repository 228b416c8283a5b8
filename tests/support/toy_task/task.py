"""The toy task, registered by `TASKS.register("counting", "tests.support.toy_task")`."""

import collections
import json

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_attn.data.batches import TableBatches
from keras_attn.data.sources.files import file_sha256
from keras_attn.data.text_examples import TextExamples
from keras_attn.models.task import TaskModel, label_weights
from keras_attn.tasks.contract import Plan, Task
from keras_attn.tasks.finetuning.choices import choose_best
from keras_attn.tasks.text_rows import TextRows
from keras_attn.tasks.tokenizer_choice import choose_tokenizer

LENGTH = 16


@keras.saving.register_keras_serializable(package="toy")
class Counter(TaskModel, keras.Model):
    """A dense layer on the mean of the sequence output."""

    metric_names = ["count_loss"]

    def __init__(self, backbone, scale=1.0, seed=None, name="counter", **kwargs):
        super().__init__(backbone, seed, name=name, **kwargs)
        self.scale = scale

    def build(self, input_shape=None):
        self.build_backbone()
        self.count_dense = keras.layers.Dense(
            1, kernel_initializer="zeros", dtype="float32", name="count_dense"
        )
        self.count_dense.build((None, self.backbone.hidden_dim))
        self.built = True

    def call(self, inputs, training=None):
        outputs = self.backbone(self.backbone.select_inputs(inputs), training=training)
        hidden = ops.cast(outputs["sequence_output"], "float32")
        real = ops.cast(inputs["padding_mask"], "float32")[:, :, None]
        counts = self.scale * ops.sum(self.count_dense(hidden) * real, 1)
        return {**outputs, "counts": counts}

    def loss_weights(self, batch):
        return {"count": ops.sum(label_weights(batch, batch["label"]))}

    def loss_errors(self, outputs, batch):
        errors = ops.square(outputs["counts"][:, 0] - ops.cast(batch["label"], "float32"))
        return {"count": ops.sum(errors * label_weights(batch, batch["label"]))}

    def metric_sums(self, outputs, batch):
        return {}

    def get_config(self):
        return {**super().get_config(), "scale": self.scale}


class Counting(Task):
    name = "counting"
    model = Counter
    default_end = {"steps": 20}
    command = "python -m finetune.predict"

    def plan(self, run):
        config = run.config
        with open(config.data.train, encoding="utf-8") as file:
            texts = file.read().splitlines()
        word = config.data.word
        counts = np.array([text.split().count(word) for text in texts], np.float32)
        run.workdir.write_json("word.json", {"word": word})
        architecture = run.family.choose_architecture(run)
        new = run.match_heads(["count_dense"])
        tokenizer = choose_tokenizer(run, lambda: texts)
        architecture["vocabulary_size"] = tokenizer.vocabulary_size
        run.set_field("data.length", LENGTH)
        heads = {"scale": 1.0}
        run.fit_memory(architecture, heads)
        if config.train.learning_rate is None:
            run.set_field("train.learning_rate", 1e-2)

        def examples(shuffle):
            return TextExamples(
                texts,
                None,
                counts,
                tokenizer,
                length=LENGTH,
                shuffle=shuffle,
                batch_size=config.train.batch_size,
                seed=config.train.seed,
            )

        best = choose_best(run, ("mean_error",), validation=texts)

        def metrics(model, results, rows, stop):
            errors = np.abs(rows[: len(counts), 0] - counts)
            return {"mean_error": float(np.mean(errors)), **results}

        hashes = {**run.tokenizer_hashes(), config.data.train: file_sha256(config.data.train)}
        return Plan(
            architecture,
            heads,
            hashes,
            TableBatches(examples(True)),
            TableBatches(examples(False)),
            new,
            outputs="counts",
            metrics=metrics,
            best=best,
        )

    def complete_heads(self, heads, config, files):
        return {"scale": 1.0, **heads}

    def read_files(self, workdir, heads):
        return workdir.read_json("word.json")

    def write_files(self, workdir, trained):
        workdir.write_json("word.json", trained.files)

    def load(self, trained, precision):
        return Counted(trained)

    def predict_texts(self, model, texts, text_pairs, file, output, options):
        digits = options.get("decimals", 6)
        file.write("".join(f"{count:.{digits}f}\n" for count in model.count(texts)))

    def predict_file(self, model, source, file, output, batch_size, reading, options):
        with open(source, encoding="utf-8") as lines:
            self.predict_texts(model, lines.read().splitlines(), None, file, output, options)

    def evaluate(self, model, data, batch_size, reading, options):
        with open(data, encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        counts = model.count([row["text"] for row in rows])
        counts = np.round(counts) if options.get("rounded") else counts
        errors = np.abs(counts - [row["count"] for row in rows])
        return {"mean_error": float(np.mean(errors)), "examples": len(rows), "word": model.word}

    def exported(self, model, options):
        return Exported(model)

    def combine(self, results):
        return {"worst_error": max(found["mean_error"] for found in results)}

    def describe(self, results):
        yield f"word: {results['word']}"

    def head_layers(self, heads):
        return {"count_dense": ("counter", 1)}

    def read_head(self, config, path, dropout=None):
        return {"scale": config["count_scale"]}, {}

    def write_head(self, trained, dropout=None):
        return {"count_scale": trained.heads["scale"]}


class Counted:
    task = "counting"

    def __init__(self, trained):
        self.path, self.config, self.cut = trained.path, trained.config, collections.Counter()
        self.word = trained.files["word"]
        self.model, self.tokenizer = trained.make_model(), trained.tokenizer

    def count(self, texts):
        examples = TextExamples(
            texts, None, None, self.tokenizer, length=LENGTH, batch_size=len(texts), shuffle=False
        )
        batch = TableBatches(examples).batch(0, 0, len(texts))
        return np.asarray(self.model(batch)["counts"])[:, 0]


class Exported(tf.Module):
    labels = None

    def __init__(self, counted):
        super().__init__()
        self._model, self._rows = counted.model, TextRows(counted.tokenizer, LENGTH)
        self._values = [variable.value for variable in self._model.variables]
        self.serve = tf.function(
            self._serve, input_signature=[tf.TensorSpec([None], tf.string, name="text")]
        )

    def _serve(self, text):
        batch = self._rows.batch(self._rows.tokenize(text))
        return {"count": self._model(batch)["counts"][:, 0]}


TASK = Counting()
