"""Whether an audit passes: criteria on its results, and the results in formats that other programs read."""
