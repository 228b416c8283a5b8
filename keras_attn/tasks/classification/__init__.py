"""Classification, multilabel classification and regression of texts and pairs of texts."""
