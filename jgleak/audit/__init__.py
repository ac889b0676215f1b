"""Audits: a specification of clients, model and attack; its run; its results as records and tables."""
