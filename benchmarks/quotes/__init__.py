"""Passages of README and docs whose numbers come from the records."""
