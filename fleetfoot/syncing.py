"""A collection that follows a folder: what is new or changed there is sent, what is gone there is removed.

Which documents came from a folder is known to the service, not to a file here: they are named by their paths under a
name of the folder's own (`handbook/leave.md`), and their metadata says so (`synced_from: handbook`). So a sync goes on
from anywhere, two folders in one collection never remove each other's documents, and what was sent in another way stays.
"""

from __future__ import annotations

SYNCED_FROM = "synced_from"  # the field of the metadata that says which folder a document came from
