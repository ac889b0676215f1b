"""The tables of names beside what the names stand for, and that looking at names imports none of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from jgleak.attacks.registry import ATTACKS
from jgleak.audit.models import ENCODERS
from jgleak.datasets import catalogue, recsys
from jgleak.defenses.registry import KINDS
from jgleak.gnn import registry
from jgleak.gnn.activation import ACTIVATIONS
from jgleak.gnn.jump import JUMPS
from jgleak.names import attacks, datasets, parts
from jgleak.names.entries import Entries

HEAVY = ("jax", "numpy", "scipy", "igraph", "matplotlib", "networkx", "rdkit", "flax")


def test_the_listing_imports_nothing_of_what_it_lists() -> None:
    code = (
        "import sys; from jgleak.cli import app; app(['list'], standalone_mode=False); "
        f"print(*(name for name in {HEAVY} if name in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "census" in done.stdout, done.stderr
    assert done.stderr.split() == []


@pytest.mark.parametrize("entries", [ATTACKS, KINDS], ids=["attacks", "defences"])
def test_what_is_found_has_the_name_under_which_it_is_found(entries: Mapping[str, Any]) -> None:
    assert {name: entry.name for name, entry in entries.items()} == {name: name for name in entries}


@pytest.mark.parametrize("table", ["CONVOLUTIONS", "READOUTS", "NORMS", "RESIDUALS", "ENCODERS"])
def test_parts_have_the_kind_under_which_they_are_found(table: str) -> None:
    entries = getattr(registry, table)
    assert {name: part.kind for name, part in entries.items()} == {name: name for name in entries}


def test_functions_exist_under_their_names() -> None:
    assert len({id(function) for function in (*ACTIVATIONS.values(), *JUMPS.values())}) == len(ACTIVATIONS) + len(JUMPS)


def test_readouts_of_graphs_and_nodes_say_which_they_label() -> None:
    labelling = {name for name, readout in registry.READOUTS.items() if readout.labels}
    assert set(parts.READOUTS) == labelling and set(registry.READOUTS) - labelling == set(parts.RATING_READOUTS)


def test_encoders_are_known_by_more_names_than_kinds() -> None:
    assert set(registry.ENCODERS) <= set(ENCODERS)


def test_data_sets_are_those_that_can_be_loaded() -> None:
    assert {name: catalogue.tasks(name) for name in catalogue.names()} == datasets.TASKS
    assert (*recsys._MATRICES, *recsys._MOVIES, recsys.SYNTHETIC) == datasets.RATING_SETS


def test_baselines_are_the_attacks_that_are_called_so() -> None:
    assert {name for name, named in attacks.ATTACKS.items() if "(baseline)" in named.summary} == set(attacks.BASELINES)


def test_entries_are_imported_on_use_and_may_be_added() -> None:
    entries: Entries[Any] = Entries({"sep": "os:sep", "missing": "jgleak.nowhere:X"})
    assert "missing" in entries and [*entries] == ["sep", "missing"] and len(entries) == 2, "nothing was imported"
    assert entries["sep"] is os.sep
    with pytest.raises(ModuleNotFoundError):
        entries["missing"]
    entries["own"] = 1
    del entries["missing"]
    assert dict(entries) == {"sep": os.sep, "own": 1}
    with pytest.raises(KeyError):
        entries["missing"]
