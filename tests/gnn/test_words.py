"""A model in a line names what decides what leaks."""

from __future__ import annotations

from jgleak.gnn import GNN, MLP, BatchNorm, GCNConv, GINConv, Layer, LinearEncoder, LinearResidual, Pooled, standard
from jgleak.gnn.words import model_words


def test_the_default_model() -> None:
    said = "GCNConv 9, 2 layers, relu and identity, readout NodeMLP 300-64-2, no dropout, 7 columns in, 2 out"
    assert model_words(standard(7, hidden=9)) == said


def test_every_part_of_a_model() -> None:
    layers = (
        Layer(GINConv(8), "relu", BatchNorm(training=True), LinearResidual(), dropout=0.5),
        Layer(GCNConv(4), "tanh", BatchNorm()),
    )
    readout = Pooled("mean,sum", MLP((16, 1), dropout=0.2))
    model = GNN(7, layers, readout, LinearEncoder(8), jump="cat", frozen=("encoder",))
    assert model_words(model) == (
        "LinearEncoder 8, GINConv 8 and GCNConv 4, 2 layers, relu and tanh, BatchNorm in training mode and BatchNorm, "
        "residual linear, jump cat, readout Pooled mean and sum 16-1, dropout 0.2 and 0.5, frozen encoder, "
        "7 columns in, 1 out"
    )
