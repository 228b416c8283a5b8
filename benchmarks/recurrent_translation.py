r"""Prepares the training of JoeyNMT's recurrent translator with the text of a `luong` run.

    python -m benchmarks.recurrent_translation --data=multi30k --workdir=runs/luong \
        --output=runs/joeynmt
    pip install joeynmt==2.3.0 importlib_metadata   # in another environment
    python -m joeynmt train runs/joeynmt/config.yaml
    python -m joeynmt test runs/joeynmt/config.yaml

The model has the sizes of `--config.model.family=luong --config.model.size=mini`, the subwords of
the run, and batches of as many target tokens. JoeyNMT prints the seconds of each epoch, and of
decoding with five beams.
"""

import os
import pathlib

import sentencepiece
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("data", None, "Folder of Multi30k.", required=True)
flags.DEFINE_string("workdir", None, "Run whose subwords are used.", required=True)
flags.DEFINE_string("output", None, "Folder for the text and config.yaml.", required=True)
flags.DEFINE_integer("epochs", 2, "Number of epochs.")

SPLITS = {"train": "train", "val": "dev", "test_2016_flickr": "test"}
SPECIAL = ["<unk>", "<pad>", "<s>", "</s>"]
CONFIG = """\
name: recurrent
joeynmt_version: "2.3.0"
model_dir: {folder}/model
use_cuda: False
random_seed: 0
data:
  train: {folder}/train
  dev: {folder}/dev
  test: {folder}/test
  dataset_type: plain
  src: {{lang: en, level: word, voc_file: {folder}/vocab.txt, max_length: 100}}
  trg: {{lang: de, level: word, voc_file: {folder}/vocab.txt, max_length: 100}}
  special_symbols: {{unk_token: "<unk>", unk_id: 0, pad_token: "<pad>", pad_id: 1,
    bos_token: "<s>", bos_id: 2, eos_token: "</s>", eos_id: 3}}
testing: {{beam_size: 5, beam_alpha: 1.0, batch_size: 4096, batch_type: token, eval_metrics: []}}
training:
  optimizer: adam
  learning_rate: 0.003
  scheduling: exponential
  decrease_factor: 0.9999
  clip_grad_norm: 1.0
  batch_size: 4096
  batch_type: token
  label_smoothing: 0.1
  epochs: {epochs}
  validation_freq: 100000
  logging_freq: 20
  overwrite: True
model:
  encoder: {{type: recurrent, rnn_type: lstm, embeddings: {{embedding_dim: 256}}, hidden_size: 128,
    bidirectional: True, dropout: 0.3, num_layers: 1}}
  decoder: {{type: recurrent, rnn_type: lstm, embeddings: {{embedding_dim: 256}}, hidden_size: 256,
    dropout: 0.3, hidden_dropout: 0.3, num_layers: 1, input_feeding: True, init_hidden: bridge,
    attention: luong}}
"""


def main(_):
    source, output = pathlib.Path(FLAGS.data), pathlib.Path(FLAGS.output).resolve()
    model = os.path.join(FLAGS.workdir, "subwords.model")
    subwords = sentencepiece.SentencePieceProcessor(model_file=model)
    output.mkdir(parents=True, exist_ok=True)
    for split, name in SPLITS.items():
        for language in ("en", "de"):
            lines = (source / f"{split}.{language}").read_text(encoding="utf-8").splitlines()
            encoded = (" ".join(subwords.encode(line, out_type=str)) for line in lines)
            (output / f"{name}.{language}").write_text("\n".join(encoded) + "\n", encoding="utf-8")
    tokens = map(subwords.id_to_piece, range(subwords.get_piece_size()))
    vocabulary = [*SPECIAL, *(token for token in tokens if token not in SPECIAL)]
    (output / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    config = CONFIG.format(folder=output, epochs=FLAGS.epochs)
    (output / "config.yaml").write_text(config, encoding="utf-8")
    print(f"{output}/config.yaml")


if __name__ == "__main__":
    app.run(main)
