"""Measurements beside the papers' tables, of speed, and for questions of our own: README.md is the index."""
