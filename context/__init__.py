"""What the answer may rest on: duplicates, packing, citations, the prompt."""
