"""Audits of a federated recommender: how well it learns under a defence, and what its server learns about users."""
