"""The Celery door."""
