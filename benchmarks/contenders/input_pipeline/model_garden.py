"""Masked examples with Model Garden: `create_pretraining_data`, and the loader of its files."""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import random

from official.nlp.data import create_pretraining_data as creation
from official.nlp.data import pretrain_dataloader as loading
from official.nlp.tools import tokenization

from benchmarks.interleaved import serve


def prepare(options):
    tokenizer = tokenization.FullTokenizer(options["vocabulary"], do_lower_case=True)
    length, predictions = options["length"], options["predictions"]
    target = os.path.join(options["folder"], f"{options['what']}.tfrecord")

    def create():
        instances = creation.create_training_instances(
            [options["text"]],
            tokenizer,
            creation.get_processor_text_fn(False, True),
            length,
            dupe_factor=1,
            short_seq_prob=0.1,
            masked_lm_prob=0.15,
            max_predictions_per_seq=predictions,
            rng=random.Random(0),
        )
        creation.write_instance_to_example_files(
            instances,
            tokenizer,
            length,
            predictions,
            [target],
            gzip_compress=False,
            use_v2_feature_names=False,
        )
        return len(instances)

    def text_to_records(count):
        return {"rows": sum(create() for _ in range(count)) / count}

    if options["what"] == "text":
        return text_to_records
    create()
    batches = iter(
        loading.BertPretrainDataLoader(
            loading.BertPretrainDataConfig(
                input_path=target,
                global_batch_size=options["rows"],
                seq_length=length,
                max_predictions_per_seq=predictions,
            )
        ).load()
    )

    def records_to_batches(count):
        for _ in range(count):
            next(batches)
        return {"rows": options["rows"]}

    return records_to_batches


if __name__ == "__main__":
    serve(prepare)
