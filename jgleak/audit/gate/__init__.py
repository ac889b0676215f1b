"""Whether an audit passes: criteria on its results, and the results in machine-readable formats."""
