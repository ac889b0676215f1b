"""Gradient-leakage attacks on graph neural networks in federated learning, for audits.

The public names live in the modules below and are imported on first use, so that ``import jgleak`` (and with it the
command line) starts without loading JAX.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from jgleak.version import __version__ as __version__

if TYPE_CHECKING:
    from jgleak.attacks.attack import Attack as Attack
    from jgleak.attacks.attack import Budget as Budget
    from jgleak.attacks.attack import Reconstruction as Reconstruction
    from jgleak.attacks.facts.fact import Fact as Fact
    from jgleak.attacks.facts.fact import Facts as Facts
    from jgleak.attacks.facts.registry import facts as facts
    from jgleak.attacks.registry import ATTACKS as ATTACKS
    from jgleak.attacks.registry import get_attack as get_attack
    from jgleak.exposure.check import check as check
    from jgleak.exposure.clients import Clients as Clients
    from jgleak.features import Feature as Feature
    from jgleak.features import FeatureSpace as FeatureSpace
    from jgleak.federated.client import fedsgd as fedsgd
    from jgleak.federated.knowledge import Knowledge as Knowledge
    from jgleak.federated.observation import Observation as Observation
    from jgleak.federated.observation import load as load
    from jgleak.federated.observation import save as save
    from jgleak.gnn.model import GNN as GNN
    from jgleak.gnn.standard import standard as standard
    from jgleak.graph import Graph as Graph
    from jgleak.graph import GraphBatch as GraphBatch

_HOMES = {
    "ATTACKS": "jgleak.attacks.registry",
    "Attack": "jgleak.attacks.attack",
    "Budget": "jgleak.attacks.attack",
    "Clients": "jgleak.exposure.clients",
    "Fact": "jgleak.attacks.facts.fact",
    "Facts": "jgleak.attacks.facts.fact",
    "Feature": "jgleak.features",
    "FeatureSpace": "jgleak.features",
    "GNN": "jgleak.gnn.model",
    "Graph": "jgleak.graph",
    "GraphBatch": "jgleak.graph",
    "Knowledge": "jgleak.federated.knowledge",
    "Observation": "jgleak.federated.observation",
    "Reconstruction": "jgleak.attacks.attack",
    "check": "jgleak.exposure.check",
    "facts": "jgleak.attacks.facts.registry",
    "fedsgd": "jgleak.federated.client",
    "get_attack": "jgleak.attacks.registry",
    "load": "jgleak.federated.observation",
    "save": "jgleak.federated.observation",
    "standard": "jgleak.gnn.standard",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'jgleak' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(["__version__", *_HOMES])
