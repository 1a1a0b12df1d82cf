"""The catalog's schema as it grew: Alembic's environment, one file a step in `versions/`."""
