"""Setups that several cells of a grid share: data, model, training and public graphs are prepared once."""

from __future__ import annotations

import dataclasses
from functools import lru_cache

from jgleak.audit.setup import Setup, data_digest, prepare
from jgleak.audit.specification import Specification
from jgleak.defenses import parse

KEPT = 4
"""Setups that stay in memory."""

_PLAIN = Specification(attack="empty")
_PRIVATE = (
    *("attack", "options", "together", "time_limit", "prior", "max_n"),
    *("defense", "batch_size", "protocol"),
    *("local_steps", "local_rate", "local_momentum", "local_weight_decay", "local_loader"),
)
"""Fields that ``prepare`` does not use, except for the defence."""


def common(specification: Specification) -> Specification:
    """The part of a specification that decides its setup: other fields have their defaults."""
    public = "auxiliary" in specification.know
    fields = {name: getattr(_PLAIN, name) for name in _PRIVATE} | {"know": ("auxiliary",) if public else ()}
    if not public and not specification.auxiliary.startswith("split:"):  # a split takes clients away from the data
        fields["auxiliary"] = _PLAIN.auxiliary
    return dataclasses.replace(specification, **fields)


def shared_setup(specification: Specification) -> Setup:
    """``prepare(specification)``, cached by its common part.

    Raises:
      ValueError, KeyError, FileNotFoundError: as ``prepare``.
    """
    return _prepared(common(specification))._replace(defense=parse(specification.defense))


def shared_digest(specification: Specification) -> str:
    """``data_digest`` of that setup, computed once.

    Raises:
      ValueError, KeyError, FileNotFoundError: as ``prepare``.
    """
    return _digest(common(specification))


@lru_cache(KEPT)
def _digest(specification: Specification) -> str:
    return data_digest(_prepared(specification))


@lru_cache(KEPT)
def _prepared(specification: Specification) -> Setup:
    return prepare(specification)
