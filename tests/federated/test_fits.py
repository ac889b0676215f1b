"""A feature space of other columns, of other edge classes, or with bonds in another order is no model's own."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from jgleak.features.bonds import ogb_bonds
from jgleak.federated.fits import check_space
from jgleak.gnn import GNN, GCNConv, GINEConv, Layer, Pooled
from jgleak.gnn.gine import one_hot_rows

BONDS = ("SINGLE", "DOUBLE", "TRIPLE")


def ogb_row(bond: str) -> tuple[float, ...]:
    """One-hot rows of OGB's three attributes, side by side: 5 types, 6 stereochemistries, conjugated or not."""
    kind, stereo, conjugated = ogb_bonds()[bond]
    return tuple(float(place in (kind, 5 + stereo, 11 + conjugated)) for place in range(13))


def model_of(width: int, rows: Any = ()) -> GNN:
    """A plain layer before one that sees edge classes, if there are any."""
    first = Layer(GINEConv(4, True, edge_rows=rows)) if rows else Layer(GCNConv(4))
    return GNN(width, (first,), Pooled())


def test_columns_and_edge_classes_are_counted(world: Any) -> None:
    width, two = world.space.width, dataclasses.replace(world.space, edge_classes=("a", "b"))
    check_space(model_of(width), world.space)
    check_space(model_of(width, one_hot_rows(2)), two)
    with pytest.raises(ValueError, match=f"takes {width + 1} features a node, but the feature space has {width}"):
        check_space(model_of(width + 1), world.space)
    for rows, space in (((), two), (one_hot_rows(3), two), (one_hot_rows(2), world.space)):
        with pytest.raises(
            ValueError, match=f"tells {len(rows)} edge classes apart, but .* {len(space.edge_classes)};"
        ):
            check_space(model_of(width, rows), space)


def test_bonds_stand_in_one_order(world: Any) -> None:
    space, rows = dataclasses.replace(world.space, edge_classes=BONDS), tuple(map(ogb_row, BONDS))
    check_space(model_of(space.width, rows), space)
    with pytest.raises(ValueError, match="or in another order: SINGLE, DOUBLE, TRIPLE; give the layers those"):
        check_space(model_of(space.width, rows[::-1]), space)
