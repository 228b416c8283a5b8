"""Question answering by spans of a passage."""
