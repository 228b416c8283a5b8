"""What finetuning tasks share: config fields, chosen values, statistics over seeds."""
