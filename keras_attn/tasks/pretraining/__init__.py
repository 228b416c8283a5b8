"""What pretraining tasks share: config fields, splits of text, rows, masks and pairs."""
