"""The parts of models by the names that users type and that files hold."""

from __future__ import annotations

from jgleak.gnn.convolution import Convolution
from jgleak.gnn.dot import DotProduct
from jgleak.gnn.encoder import Encoder, LinearEncoder, Rows
from jgleak.gnn.flattened import Flattened
from jgleak.gnn.gat import GATConv
from jgleak.gnn.gatv2 import GATv2Conv
from jgleak.gnn.gcn import GCNConv
from jgleak.gnn.gin import GINConv
from jgleak.gnn.gine import GINEConv
from jgleak.gnn.leconv import LEConv
from jgleak.gnn.node_mlp import NodeMLP
from jgleak.gnn.node_scores import NodeScores
from jgleak.gnn.norm import BatchNorm, GraphNorm, LayerNorm, Norm
from jgleak.gnn.pooled import Pooled
from jgleak.gnn.readout import Readout
from jgleak.gnn.residual import AddedRow, LinearResidual, Residual
from jgleak.gnn.sage import GraphConv, SAGEConv

CONVOLUTIONS: dict[str, type[Convolution]] = {
    GCNConv.kind: GCNConv,
    GATConv.kind: GATConv,
    GATv2Conv.kind: GATv2Conv,
    SAGEConv.kind: SAGEConv,
    GraphConv.kind: GraphConv,
    GINConv.kind: GINConv,
    GINEConv.kind: GINEConv,
    LEConv.kind: LEConv,
}
READOUTS: dict[str, type[Readout]] = {
    NodeMLP.kind: NodeMLP,
    Pooled.kind: Pooled,
    Flattened.kind: Flattened,
    NodeScores.kind: NodeScores,
    DotProduct.kind: DotProduct,
}
NORMS: dict[str, type[Norm]] = {
    BatchNorm.kind: BatchNorm,
    LayerNorm.kind: LayerNorm,
    GraphNorm.kind: GraphNorm,
}
RESIDUALS: dict[str, type[Residual]] = {
    AddedRow.kind: AddedRow,
    LinearResidual.kind: LinearResidual,
}
ENCODERS: dict[str, type[Encoder]] = {
    Rows.kind: Rows,
    LinearEncoder.kind: LinearEncoder,
}
