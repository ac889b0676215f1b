"""One finding a file."""
