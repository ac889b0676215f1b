"""Audits of a federated recommender: its error under a defence, and what its server learns about users."""
