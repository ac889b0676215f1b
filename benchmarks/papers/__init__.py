"""What reproduces the papers' tables: ``python -m benchmarks.papers.tables``."""
