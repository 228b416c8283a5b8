"""A classifier of keras-attn, trained as `python -m finetune` does."""

import time

import numpy as np

from benchmarks.contenders.finetuning import epoch
from benchmarks.interleaved import serve
from keras_attn.data.batches import TableBatches
from keras_attn.data.text_examples import TextExamples
from keras_attn.freed_memory import keep_freed_memory
from keras_attn.models import BertClassifier, BertEncoder
from keras_attn.tasks.finetuning.choices import ROW_COUNTS, batch_lengths
from keras_attn.text.wordpiece import WordPieceTokenizer
from keras_attn.training.engines import make_engine
from keras_attn.training.optimizers import make_optimizer

MAX_PACKED = 16  # maximum number of examples packed into a row


def prepare(options):
    tokenizer = WordPieceTokenizer.from_file(options["vocabulary"], True)
    data = epoch.read_rows(options)
    buckets = batch_lengths(epoch.LENGTH, jit=options["xla"], packed=options["packed"])

    def examples(split, rows, shuffle):
        texts, labels = data[split]
        return TextExamples(
            texts,
            None,
            labels,
            tokenizer,
            length=epoch.LENGTH,
            batch_size=rows,
            shuffle=shuffle,
            buckets=buckets,
            by_length=not options["packed"],
        )

    begin = time.perf_counter()
    source = examples("train", epoch.BATCH, True)
    seconds = time.perf_counter() - begin
    engine = make_engine(strategy="one_device")
    model = BertClassifier(
        BertEncoder(
            tokenizer.vocabulary_size,
            epoch.LAYERS,
            epoch.HIDDEN_DIM,
            epoch.HEADS,
            dropout=0.1,
            seed=0,
        ),
        2,
        dropout=0.1,
    )
    model.build()
    optimizer = make_optimizer("adamw", model, weight_decay=epoch.DECAY, epsilon=epoch.EPSILON)
    step = engine.make_step(model, optimizer, clip_norm=epoch.CLIP, jit=options["xla"])
    rates = epoch.learning_rates(source.num_examples)
    table = TableBatches(
        source,
        MAX_PACKED if options["packed"] else 1,
        counts=ROW_COUNTS if options["xla"] else None,
    )
    feed = step.feed(table, 0)

    def train(first, stop):
        for begin in range(first, stop, step.max_steps):
            step.run(feed, begin, rates[begin : min(begin + step.max_steps, stop)])

    def validate():
        rows = TableBatches(examples("validation", 64, False))
        _, logits = engine.make_evaluator(model, rows="logits").run(rows)
        tokens = (
            np.mean([table.batch(i, 0, epoch.BATCH)["token_ids"].size for i in range(len(rates))])
            / epoch.BATCH
        )
        return logits[: rows.num_examples], tokens

    return epoch.work_of(data["validation"][1], len(rates), train, validate, seconds)


if __name__ == "__main__":
    keep_freed_memory()  # as the commands do
    serve(prepare)
