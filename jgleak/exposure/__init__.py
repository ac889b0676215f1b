"""What a model and a protocol show by construction, before any data are there (``jgleak check``).

A finding is a file in ``findings/`` and a line in ``registry``. Each is derived from the leak points, facts and
refusals of ``jgleak.attacks``.
"""
