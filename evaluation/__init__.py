"""The evaluators' door."""
