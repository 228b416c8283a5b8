"""A classifier of KerasHub, trained with `fit`, from texts or from ids tokenized in advance."""

import time

import keras
import keras_hub
import numpy as np
import tensorflow as tf

from benchmarks.contenders.finetuning import epoch
from benchmarks.interleaved import serve


class Rates(keras.optimizers.schedules.LearningRateSchedule):
    """Schedule that looks up the learning rate of each step."""

    def __init__(self, rates):
        self.rates = tf.constant(rates)

    def __call__(self, step):
        return tf.gather(self.rates, tf.cast(step, tf.int32))


def prepare(options):
    keras.utils.set_random_seed(0)
    tokenizer = keras_hub.models.BertTokenizer(vocabulary=options["vocabulary"], lowercase=True)
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        tokenizer, sequence_length=epoch.LENGTH
    )
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=tokenizer.vocabulary_size(),
        num_layers=epoch.LAYERS,
        num_heads=epoch.HEADS,
        hidden_dim=epoch.HIDDEN_DIM,
        intermediate_dim=4 * epoch.HIDDEN_DIM,
    )
    model = keras_hub.models.BertTextClassifier(
        backbone, num_classes=2, preprocessor=None if options["ahead"] else preprocessor
    )
    data = epoch.read_rows(options)
    texts, labels = data["train"]
    rates = epoch.learning_rates(len(texts))
    optimizer = keras.optimizers.AdamW(
        Rates(rates), weight_decay=epoch.DECAY, epsilon=epoch.EPSILON, global_clipnorm=epoch.CLIP
    )
    optimizer.exclude_from_weight_decay(
        var_list=[v for v in model.trainable_variables if len(v.shape) < 2]
    )
    model.compile(
        optimizer,
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=options["xla"],
    )

    def inputs_of(texts):
        texts = np.array(texts, dtype=object)
        if not options["ahead"]:
            return {"": texts}
        return {name: np.asarray(x) for name, x in preprocessor(tf.constant(texts)).items()}

    order = np.random.default_rng(0).permutation(len(texts))
    begin = time.perf_counter()
    inputs = inputs_of(texts)
    seconds = time.perf_counter() - begin if options["ahead"] else None

    def model_inputs(inputs, rows=slice(None)):
        inputs = {name: x[rows] for name, x in inputs.items()}
        return inputs if options["ahead"] else inputs[""]

    def train(first, stop):
        rows = order[first * epoch.BATCH : stop * epoch.BATCH]
        model.fit(
            model_inputs(inputs, rows),
            labels[rows],
            batch_size=epoch.BATCH,
            shuffle=False,
            verbose=0,
        )

    def validate():
        found = model_inputs(inputs_of(data["validation"][0]))
        return model.predict(found, batch_size=64, verbose=0), epoch.LENGTH

    return epoch.work_of(data["validation"][1], len(rates), train, validate, seconds)


if __name__ == "__main__":
    serve(prepare)
