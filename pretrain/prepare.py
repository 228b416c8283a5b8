"""Tokenises text into a folder of shards, in one process a core or on a cluster; resumable.

    python -m pretrain.prepare --input='wiki/*.txt.gz' --output=prepared/wiki --vocab=vocab.txt
    python -m pretrain --config.data.train=prepared/wiki --config.data.vocab=vocab.txt …
    python -m pretrain.prepare --runner=DataflowRunner --beam_options='--project=mine …' \\
        --input='gs://mine/wiki/*.txt.gz' --output=gs://mine/prepared …
    python -m pretrain.prepare --tokenizer=byte_pairs --vocab_size=32768 \\
        --input='books/*.gz' --output=prepared/books
    python -m pretrain --config=gpt2_small --config.data.train=prepared/books …

Without --vocab a vocabulary of --vocab_size is trained; --output holds it, too.
`python -m pretrain` does all this itself when it is given text.
"""

from absl import flags

from keras_attn.cli.command_line import define_max_line, run_command


def define_flags():
    flags.DEFINE_string("input", None, "`docstrings`, files, globs, a list with commas, tfds:NAME, "
                        "or - for standard input.")
    flags.DEFINE_string("output", None, "Folder for the shards.")
    flags.DEFINE_enum("tokenizer", "word_pieces", ["word_pieces", "byte_pairs", "sentence_pieces"],
                      "word_pieces: of BERT, the default; byte_pairs: of GPT-2; sentence_pieces: "
                      "of XLNet.")
    flags.DEFINE_string("vocab", None, "Folder with vocab.txt, or that file; of byte_pairs "
                        "the folder with vocab.json and merges.txt, of sentence_pieces that with "
                        "spiece.model, or that file; trained on the input if left out.")
    flags.DEFINE_integer("vocab_size", 8192, "Size of a trained vocabulary; default: 8192.")
    flags.DEFINE_bool("lowercase", None, "Whether text is lower-cased, of word_pieces without "
                      "accents; default: with word_pieces.")
    flags.DEFINE_enum("format", "auto", ["auto", "lines", "paragraphs", "jsonl", "csv", "tsv",
                                         "quoted_tsv", "parquet"],
                      "lines: a sentence a line, blank lines between documents. paragraphs: a "
                      "file a document. jsonl (also a list of JSON) and tables: a record a "
                      "document. Default: by the file's name, or its text.")
    flags.DEFINE_string("field", "text", "Field of JSON records or TFDS, or column of a table, "
                        "that holds the text.")
    flags.DEFINE_string("encoding", "utf-8", "Encoding of the files.")
    flags.DEFINE_enum("on_bad_text", "error", ["error", "skip"], "What undecodable lines are.")
    define_max_line()
    flags.DEFINE_enum("split", "train", ["train", "validation"], "Of docstrings and TFDS.")
    flags.DEFINE_integer("processes", None, "Default: one a core.", lower_bound=1)
    flags.DEFINE_string("runner", None, "Runner of Apache Beam, for more than one machine: "
                        "DataflowRunner, FlinkRunner, SparkRunner, a class, or local (Beam's own "
                        "in Python). Its workers need this package, --input and --output.")
    flags.DEFINE_string("beam_options", "", "Of the runner: '--project=mine --region=here'.")


def main():
    from keras_attn.data.shards.prepare_folder import prepare_folder

    values = flags.FLAGS
    prepare_folder(
        values.input, values.output, tokenizer=values.tokenizer, vocab=values.vocab,
        vocab_size=values.vocab_size, lowercase=values.lowercase, split=values.split,
        processes=values.processes, runner=values.runner, beam_options=values.beam_options,
        format=values.format, field=values.field, encoding=values.encoding,
        on_bad_text=values.on_bad_text, max_line=values.max_line,
    )


def command():
    """Entry point of `python -m pretrain.prepare` and `keras-attn-prepare`."""
    define_flags()
    run_command(main, __doc__)


if __name__ == "__main__":
    command()
