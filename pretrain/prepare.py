"""Tokenizes text into a folder of shards, with one process per core or on a cluster; resumable.

    python -m pretrain.prepare --input='wiki/*.txt.gz' --output=prepared/wiki --vocab=vocab.txt
    python -m pretrain --config.data.train=prepared/wiki --config.data.vocab=vocab.txt …
    python -m pretrain.prepare --runner=DataflowRunner --beam_options='--project=mine …' \\
        --input='gs://mine/wiki/*.txt.gz' --output=gs://mine/prepared …
    python -m pretrain.prepare --tokenizer=bpe --vocab_size=32768 \\
        --input='books/*.gz' --output=prepared/books
    python -m pretrain --config=gpt2_small --config.data.train=prepared/books …

If --vocab is unset, a vocabulary of --vocab_size tokens is trained and saved in --output.
`python -m pretrain` does the same if data.train is text.
"""

from absl import flags

from keras_attn.cli.command_line import define_max_line, run_command


def define_flags():
    flags.DEFINE_string(
        "input",
        None,
        "Text: `docstrings`, files, globs, a comma-separated list, "
        "tfds:NAME, or - for standard input.",
    )
    flags.DEFINE_string("output", None, "Folder to write the shards to.")
    flags.DEFINE_enum(
        "tokenizer",
        "wordpiece",
        [
            "wordpiece",
            "bpe",
            "roberta_bpe",
            "modernbert_bpe",
            "sentencepiece",
            "word_pieces",
            "byte_pairs",
            "sentence_pieces",
        ],
        "Tokenizer to train or use: WordPiece (BERT, DistilBERT; the default), byte-level BPE "
        "(bpe: GPT-2, roberta_bpe: RoBERTa, modernbert_bpe: ModernBERT) or SentencePiece (XLNet). "
        "The last three are older names of the same.",
    )
    flags.DEFINE_string(
        "vocab",
        None,
        "Vocabulary: vocab.txt or its folder; for bpe and roberta_bpe the "
        "folder of vocab.json and merges.txt; for modernbert_bpe tokenizer.json or its folder; for "
        "sentencepiece spiece.model or "
        "its folder. If unset, trained on the input.",
    )
    flags.DEFINE_integer(
        "vocab_size", 8192, "Size of a newly trained vocabulary; defaults to 8192."
    )
    flags.DEFINE_bool(
        "lowercase",
        None,
        "Whether to lower-case text (wordpiece: also strip "
        "accents); if unset, True for wordpiece only.",
    )
    flags.DEFINE_enum(
        "format",
        "auto",
        ["auto", "lines", "paragraphs", "jsonl", "csv", "tsv", "quoted_tsv", "parquet"],
        "File format. lines: one sentence per line, blank lines between documents. "
        "paragraphs: one document per file. jsonl (also a JSON list) and tables: one "
        "document per record. auto: detected from the file name or the content.",
    )
    flags.DEFINE_string(
        "field",
        "text",
        "Name of the text field of JSON records and TFDS, or of the text column of a table.",
    )
    flags.DEFINE_string("encoding", "utf-8", "Character encoding of the files.")
    flags.DEFINE_enum(
        "on_bad_text",
        "error",
        ["error", "skip"],
        "How to handle undecodable lines; skip skips and counts them.",
    )
    define_max_line()
    flags.DEFINE_enum("split", "train", ["train", "validation"], "Split of docstrings or TFDS.")
    flags.DEFINE_integer(
        "processes", None, "Number of processes; if unset, one per core.", lower_bound=1
    )
    flags.DEFINE_string(
        "runner",
        None,
        "Apache Beam runner, for several machines: "
        "DataflowRunner, FlinkRunner, SparkRunner, a class, or local (Beam's own "
        "in Python). Its workers must have this package installed, and access to "
        "--input and --output.",
    )
    flags.DEFINE_string(
        "beam_options", "", "Options of the runner, such as '--project=mine --region=here'."
    )


def main():
    from keras_attn.data.shards.prepare_folder import prepare_folder

    values = flags.FLAGS
    prepare_folder(
        values.input,
        values.output,
        tokenizer=values.tokenizer,
        vocab=values.vocab,
        vocab_size=values.vocab_size,
        lowercase=values.lowercase,
        split=values.split,
        processes=values.processes,
        runner=values.runner,
        beam_options=values.beam_options,
        format=values.format,
        field=values.field,
        encoding=values.encoding,
        on_bad_text=values.on_bad_text,
        max_line=values.max_line,
    )


def command():
    """Entry point of `python -m pretrain.prepare` and `keras-attn-prepare`."""
    run_command(main, __doc__, define_flags=define_flags)


if __name__ == "__main__":
    command()
