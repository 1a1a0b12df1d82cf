"""Hybrid search over immutable generations."""
