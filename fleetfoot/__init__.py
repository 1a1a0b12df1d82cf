"""The command: demo, serve, work, ingest, search, ask, models."""
