"""Candidates of a census without an update, whose blocks and checks tests choose."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np

from jgleak.attacks.attack import Budget
from jgleak.attacks.census.candidates import CensusCandidates
from jgleak.attacks.census.checks import NamedCheck
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.census.starts import Start
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.hops import Blocks, Nodes
from jgleak.attacks.span.subspace import Subspace
from jgleak.gnn import GCNConv, Layer
from tests.clocks import HELD

ENDED = Budget(time_limit=0.0).start()
CODES = np.arange(3, dtype=np.int32)[:, None]
NODES = Nodes(CODES, np.eye(3), np.ones(3, np.int64))
START = Start(NODES, ("nodes as they are",), complete=True)
SPAN = Subspace.of_gradient(
    np.random.default_rng(0).normal(size=(12, 4)) @ np.random.default_rng(1).normal(size=(4, 9))
)
CHECK = SpanCheck.of(SPAN, view="aggregate", fixed=2)


def blocks(size: int, ways: int = 1, **fields: Any) -> Blocks:
    """So many blocks, which have so many blocks of one hop more: it stands where the number of those checked does."""
    numbers, blank = np.arange(size), np.zeros((size, 1))
    return dataclasses.replace(Blocks(numbers, numbers, ((),) * size, blank, blank, np.zeros(size), ways), **fields)


def bare(depth: int = 2, noise: float | None = None, **limits: int) -> Any:
    """Candidates of a model of so many layers, with nothing else; at most five of the last hop."""
    some: Any = object.__new__(CensusCandidates)
    some.limits = dataclasses.replace(DEFAULTS.limits, **limits)
    some.clock, some.budget, some.hurried, some.most_top = HELD, Budget(), False, 5
    some.kept, some.spans, some.checks, some.given_up, some.too_many = {}, {}, {}, [], None
    layers = (Layer(GCNConv(4)),) * depth
    model = SimpleNamespace(depth=depth, returns_statistics=False, layers=layers)
    seen = SimpleNamespace(model=model, params="weights")
    some.problem = SimpleNamespace(observation=seen, seen=seen, knowledge=SimpleNamespace(noise=noise))
    return some


def checks(*names: str) -> tuple[NamedCheck, ...]:
    return tuple(NamedCheck(name, dataclasses.replace(CHECK), f"no block fails {name}") for name in names)
