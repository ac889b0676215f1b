"""Models of molecules as federated projects configure them, by their own configuration files (late 2026).

Widths, norms, pooling, dropout, batches, epochs and optimisers are the projects'; input columns are jgleak's atom
features. What the files leave to the data or to a framework's defaults is assumed: ``GRAPHS`` graphs for each client,
two outputs where no number of tasks is given, one attention head, and two layers where no number is given. MELLODDY is
not among them: it feeds fingerprints to a network without a graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from jgleak.exposure.clients import Clients
from jgleak.exposure.deployment import Deployment
from jgleak.exposure.dropout import dropping
from jgleak.features import FeatureSpace
from jgleak.federated.local_training import LocalTraining
from jgleak.gnn import (
    GNN,
    MLP,
    BatchNorm,
    GATConv,
    GCNConv,
    GINConv,
    Layer,
    LEConv,
    LinearEncoder,
    LinearResidual,
    NodeMLP,
    Pooled,
    SAGEConv,
)

GRAPHS = 512
"""Graphs of a client."""


class Deployed(NamedTuple):
    """One project's configuration.

    Attributes:
      title: the model and its training, in a line.
      source: project and file.
      model: the architecture on a feature space.
      clients: how they train.
    """

    title: str
    source: str
    model: Callable[[FeatureSpace], GNN]
    clients: Clients

    def deployment(self, space: FeatureSpace) -> Deployment:
        """The model and its clients on a feature space."""
        return Deployment(self.model(space), space, self.clients)


def _clients(rate: float, loader: int, *, epochs: int = 1, steps: int | None = None, adam: bool = False) -> Clients:
    """Clients that go through their graphs in a random order, by epochs or for a number of steps."""
    optimiser = "adam" if adam else "sgd"
    steps = steps or epochs * (GRAPHS // loader)
    return Clients(
        batch_size=GRAPHS, local=LocalTraining(rate, steps, loader=loader, shuffled=True, optimiser=optimiser)
    )


def _gin(space: FeatureSpace, layers: int, *, norm: bool, dropout: float) -> GNN:
    made = tuple(Layer(GINConv(64), norm=BatchNorm(training=True) if norm else None) for _ in range(layers))
    return dropping(GNN(space.width, made, Pooled("mean", MLP((2,)))), dropout)


def _sage(space: FeatureSpace) -> GNN:
    layers = Layer(SAGEConv(256)), Layer(SAGEConv(256), "identity")
    return dropping(GNN(space.width, layers, NodeMLP(MLP((256, 2)))), 0.3)


def _small(space: FeatureSpace, layer: Layer) -> GNN:
    return dropping(GNN(space.width, (layer, layer), Pooled("mean", MLP((64, 2)))), 0.3)


def _embedded(space: FeatureSpace) -> GNN:
    layer = Layer(GCNConv(64))
    readout = Pooled("sum", MLP((64, 2)))
    return GNN(space.width, (layer, layer), readout, LinearEncoder(64, bias=False))


def _leconv(space: FeatureSpace) -> GNN:
    layer = Layer(LEConv(96), norm=BatchNorm(training=True), residual=LinearResidual())
    return dropping(GNN(space.width, (layer,) * 7, Pooled("max,sum", MLP((12,)))), 0.1)


FEDGRAPHNN_SAGE = Deployed(
    "GraphSAGE, 2 x 256, a head a node on [x | h], dropout .3; batches of 1, 1 epoch, SGD .0015",
    "FedGraphNN (FedML), experiments/distributed/moleculenet",
    _sage,
    _clients(0.0015, 1),
)
FEDML_GCN = Deployed(
    "GCN, 2 x 32, head of 64, dropout .3; batches of 1, 5 epochs, SGD .03",
    "FedML, fedgraphnn/moleculenet_graph_clf",
    lambda space: _small(space, Layer(GCNConv(32))),
    _clients(0.03, 1, epochs=5),
)
FEDML_GAT = Deployed(
    "GAT, 2 x 32, head of 64, dropout .3; batches of 1, 5 epochs, SGD .03",
    "FedML, fedgraphnn/moleculenet_graph_clf",
    lambda space: _small(space, Layer(GATConv(32))),
    _clients(0.03, 1, epochs=5),
)
FEDERATEDSCOPE_GCN = Deployed(
    "GCN, 2 x 64, embeddings, sum pooling, head of 64; batches of 64, 16 steps, SGD .25",
    "FederatedScope, gfl/baseline/fedavg_gcn_minibatch_on_hiv.yaml",
    _embedded,
    _clients(0.25, 64, steps=16),
)
FEDERATEDSCOPE_GIN = Deployed(
    "GIN, 2 x 64, BatchNorm; batches of 64, 16 steps, Adam",
    "FederatedScope, gfl/model/gin.py",
    lambda space: _gin(space, 2, norm=True, dropout=0.0),
    _clients(0.001, 64, steps=16, adam=True),
)
OPENFGL_GIN = Deployed(
    "GIN, 2 x 64, BatchNorm, dropout .5; batches of 128, 3 epochs, Adam .01",
    "OpenFGL, config.py and model/gin.py",
    lambda space: _gin(space, 2, norm=True, dropout=0.5),
    _clients(0.01, 128, epochs=3, adam=True),
)
FEDGRAPH_GIN = Deployed(
    "GIN, 3 x 64, dropout .5; batches of 128, 1 epoch, Adam .001",
    "FedGraph, config_GC_FedAvg.yaml",
    lambda space: _gin(space, 3, norm=False, dropout=0.5),
    _clients(0.001, 128, adam=True),
)
KMOL_LECONV = Deployed(
    "LEConv, 7 x 96, residuals, BatchNorm, dropout .1, max and sum, 12 tasks; batches of 128, 10 epochs, AdamW .01",
    "kMoL (elix-tech), data/configs/model/tox21.json",
    _leconv,
    Clients(
        loss="masked_bce",
        batch_size=GRAPHS,
        local=LocalTraining(0.01, 40, weight_decay=0.01, loader=128, shuffled=True, optimiser="adam"),
    ),
)
