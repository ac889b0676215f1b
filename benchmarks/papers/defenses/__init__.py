"""Defences: rows, what a model keeps, and pictures."""
