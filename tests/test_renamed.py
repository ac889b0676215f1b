"""Fields under their old names: taken, read, and warned of, until the next minor version."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import pytest

from jgleak import Budget, Clients, Knowledge, get_attack
from jgleak.audit.grid import read_grid
from jgleak.audit.specification import Faults, Specification
from jgleak.datasets import MOLECULE_SPACE
from jgleak.federated import LocalTraining
from jgleak.interop import GIN, Guard, Linear, Rounds

GRID = '[[data]]\nDISTINCT\n[[attack]]\nattack = "empty"\n[[defense]]\nBATCH'


@pytest.mark.parametrize(
    ("made", "old", "new", "value"),
    [
        (Budget, "seconds", "time_limit", 3.0),
        (Clients, "graphs", "batch_size", 4),
        (Specification, "batch", "batch_size", 3),
        (Specification, "distinct", "distinct_nodes", False),
        (lambda **given: Specification(protocol="fedavg", **given), "local_decay", "local_weight_decay", 0.5),
    ],
)
def test_an_old_name_is_taken_and_read_with_a_warning(made: Any, old: str, new: str, value: Any) -> None:
    with pytest.warns(DeprecationWarning, match=f"{old} is called {new} since version 0.2; version 0.3"):
        one = made(**{old: value})
    assert getattr(one, new) == value and one == made(**{new: value})
    with pytest.warns(DeprecationWarning, match=f"{old} is called {new}"):
        assert getattr(one, old) == value
    with pytest.warns(DeprecationWarning):
        assert getattr(dataclasses.replace(made(), **{old: value}), new) == value
    assert pickle.loads(pickle.dumps(one)) == one and old not in {field.name for field in dataclasses.fields(one)}


@pytest.mark.parametrize(
    ("made", "given"),
    [
        (Budget, {"seconds": 3.0, "time_limit": 4.0}),
        (Clients, {"batch_size": 4, "graphs": 4}),
        (Specification, {"batch": 2, "batch_size": 3}),
    ],
)
def test_a_field_under_both_of_its_names_is_refused(made: Any, given: dict[str, Any]) -> None:
    with (
        pytest.warns(DeprecationWarning),
        pytest.raises(TypeError, match="are one field; give (time_limit|batch_size)"),
    ):
        made(**given)


def test_the_options_of_an_attack_under_their_old_name() -> None:
    with pytest.warns(DeprecationWarning, match="Attack.configure is called with_options"):
        chosen = get_attack("dlg").configure({"steps": 3})  # type: ignore[attr-defined]
    assert chosen.name == "dlg"


def test_a_guards_time_under_its_old_name() -> None:
    rounds = Rounds([GIN("conv1"), "relu", "mean", Linear("out")], "bce", LocalTraining(0.1))
    with pytest.warns(DeprecationWarning, match="Guard.seconds is called time_limit"):
        guard = Guard(rounds, Knowledge(MOLECULE_SPACE), seconds=2.0)  # type: ignore[call-arg]
    assert guard.time_limit == 2.0


def test_grids_and_stores_of_an_earlier_version() -> None:
    old = GRID.replace("DISTINCT", "distinct = false").replace("BATCH", "batch = 2")
    with pytest.warns(DeprecationWarning) as said:
        grid = read_grid(old)
    assert [str(one.message).split(" in grids")[0] for one in said] == [
        "batch is called batch_size",
        "distinct is called distinct_nodes",
    ]
    now = read_grid(GRID.replace("DISTINCT", "distinct_nodes = false").replace("BATCH", "batch_size = 2"))
    assert [cell.specification for cell in grid.cells] == [cell.specification for cell in now.cells]
    stored = grid.cells[0].specification.to_json()
    assert Specification.from_json({**stored, "batch": stored.pop("batch_size")}) == grid.cells[0].specification
    both = GRID.replace("DISTINCT", "").replace("BATCH", "batch = 2\nbatch_size = 2")
    with pytest.warns(DeprecationWarning), pytest.raises(Faults, match=r"defense\[0\].batch: batch_size is given too"):
        read_grid(both, Path())
