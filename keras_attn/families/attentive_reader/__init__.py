"""The recurrent reader of a passage with attention to a question."""
