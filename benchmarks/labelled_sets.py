"""Labelled sets as benchmarks read them."""


def read(paths, encoding="latin-1", seed=0):
    """Tables of training and test rows.

    Args:
        paths: Of both, or of one file, of which a tenth is held out; .tsv with a header, else a
            label and a text a line.
        encoding: Of the files without header.
        seed: Of the rows that are held out.
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
