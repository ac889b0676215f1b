"""GRAIN's rows, methods, records, page and figures."""
