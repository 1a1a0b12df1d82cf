"""The language model's side: streamed, cancelled when nobody listens."""
