"""Observation files of clients that ran, in the place of simulated ones."""
