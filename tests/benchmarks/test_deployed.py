"""The cells of the study of deployed configurations: refused as configured, open with the fewest changes."""

from __future__ import annotations

import pytest

from benchmarks.studies.deployed import CONFIGURED, FEWEST, GUESS, cells, document
from benchmarks.studies.deployed_plot import fewest
from jgleak.attacks.registry import get_attack
from jgleak.datasets import MOLECULE_SPACE
from jgleak.exposure.changes import Neighbours
from jgleak.exposure.reading import DEPLOYED


@pytest.mark.parametrize("model", DEPLOYED)
def test_the_census_is_refused_as_configured_and_let_in_by_the_fewest_changes(model: str) -> None:
    deployment, census = DEPLOYED[model].deployment(MOLECULE_SPACE), get_attack("census")
    around, made = Neighbours(deployment), cells(model, deployment)
    assert around.after(made[f"{model}/{CONFIGURED}"].changes).refusal(census) is not None
    guess = made[f"{model}/{GUESS}"]
    assert guess.attack == "random" and around.after(guess.changes).refusal(census) is None
    fewest = made.get(f"{model}/{FEWEST}")
    if fewest is not None:
        assert around.after(fewest.changes).refusal(census) is None
        for change in fewest.changes:  # each is needed
            rest = tuple(other for other in fewest.changes if other is not change)
            assert around.after(rest).refusal(census) is not None
    singles = [cell for name, cell in made.items() if len(cell.changes) == 1 and cell.attack == "census"]
    assert all(around.after(cell.changes) is not deployment for cell in singles)


def test_one_graph_makes_as_many_passes_as_before() -> None:
    """Five epochs over 512 graphs, one a step, are five steps on one graph."""
    deployment = DEPLOYED["fedml-gcn"].deployment(MOLECULE_SPACE)
    changes = next(
        cell.changes for cell in cells("fedml-gcn", deployment).values() if cell.words == "one graph an update"
    )
    local = Neighbours(deployment).after(changes).clients.local
    assert local is not None and (local.steps, local.loader) == (5, None)


def test_refused_cells_give_their_reason_on_the_page() -> None:
    line = {"model": "m", "changes": CONFIGURED, "attack": "census", "epochs": 0, "refused": "dropout hides it"}
    assert "dropout hides it" in document([line])


def test_the_picture_shows_the_cell_with_the_fewest_changes() -> None:
    """Of the census, and of those that were run."""
    common = {"model": "m", "attack": "census", "refused": None, "epochs": 0}
    cells_of_one = [
        common | {"changes": "a; b; c"},
        common | {"changes": "a; b"},
        common | {"changes": "a; b", "epochs": 20},
        common | {"changes": "a", "refused": "dropout"},
        common | {"changes": "b", "attack": "dlg"},
        common | {"changes": "a", "model": "other"},
    ]
    assert [(r["changes"], r["epochs"]) for r in fewest("m", cells_of_one)] == [("a; b", 0), ("a; b", 20)]
    assert fewest("none", cells_of_one) == []
