"""GLG's rows."""
