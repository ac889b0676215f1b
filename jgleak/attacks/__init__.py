"""Attacks: from an observation and public knowledge to a reconstruction; none ever sees the truth."""
