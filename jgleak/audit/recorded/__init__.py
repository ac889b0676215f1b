"""Observation files of real clients, in place of simulated clients."""
