"""Reading of the labelled data sets of benchmarks."""


def read(paths, encoding="latin-1", seed=0):
    """Returns the tables of the training and test examples.

    Args:
        paths: Training and test file, or one file of which a tenth is held out. A .tsv file has a
            header; others have a label and a text per line.
        encoding: Encoding of the files without a header.
        seed: Seed of the held-out examples.
    """
    from keras_attn.data.sources.tables import read_table
    from keras_attn.data.splits import hold_out

    def options(path):
        if path.endswith(".tsv"):
            return {"text": "sentence", "label": "label"}
        return {"text": "text", "label": "label", "format": "label_text", "encoding": encoding}

    tables = [read_table(path, **options(path)) for path in paths]
    if len(tables) == 2:
        return tables
    return hold_out(tables[0], 0.1, seed=seed, labels=tables[0].labels)
