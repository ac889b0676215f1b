"""Each file has one finding."""
