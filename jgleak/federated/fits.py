"""Whether a feature space is the one that a model was trained with, as far as their sizes and their classes say it."""

from __future__ import annotations

from jgleak.features import FeatureSpace
from jgleak.features.bonds import other_bonds
from jgleak.gnn import GNN
from jgleak.gnn.gine import GINEConv


def check_space(model: GNN, space: FeatureSpace) -> None:
    """Raise ``ValueError`` where the model is shown other columns or other edge classes than the space has."""
    if model.in_features != space.width:
        raise ValueError(
            f"model: takes {model.in_features} features a node, but the feature space has {space.width}; give the "
            "feature space that the model was trained with (on the command line --features)"
        )
    if model.edge_classes != len(space.edge_classes):
        raise ValueError(
            f"model: it tells {model.edge_classes} edge classes apart, but the feature space lists "
            f"{len(space.edge_classes)}; take a model whose layers see edge classes (GINEConv) with a space that lists "
            "them, or neither"
        )
    for layer in model.layers:
        if isinstance(layer.conv, GINEConv) and other_bonds(space.edge_classes, layer.conv.edge_rows):
            raise ValueError(
                "model: the attributes of its edge classes are those of other bonds than the feature space has, or in "
                f"another order: {', '.join(space.edge_classes)}; give the layers those of these names "
                "(jgleak.features.ogb_bonds, pyg_bonds)"
            )
