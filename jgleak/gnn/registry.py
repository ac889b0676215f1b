"""The parts of models by the names that users type and that files hold."""

from __future__ import annotations

from jgleak.gnn.convolution import Convolution
from jgleak.gnn.encoder import Encoder, LinearEncoder, Rows
from jgleak.gnn.gat import GATConv
from jgleak.gnn.gatv2 import GATv2Conv
from jgleak.gnn.gcn import GCNConv
from jgleak.gnn.gin import GINConv
from jgleak.gnn.leconv import LEConv
from jgleak.gnn.norm import BatchNorm, LayerNorm, Norm
from jgleak.gnn.readout import DotProduct, Flattened, NodeMLP, NodeScores, Pooled, Readout
from jgleak.gnn.residual import AddedRow, LinearResidual, Residual
from jgleak.gnn.sage import SAGEConv

CONVOLUTIONS: dict[str, type[Convolution]] = {
    conv.kind: conv for conv in (GCNConv, GATConv, GATv2Conv, SAGEConv, GINConv, LEConv)
}
READOUTS: dict[str, type[Readout]] = {
    readout.kind: readout for readout in (NodeMLP, Pooled, Flattened, NodeScores, DotProduct)
}
NORMS: dict[str, type[Norm]] = {norm.kind: norm for norm in (BatchNorm, LayerNorm)}
RESIDUALS: dict[str, type[Residual]] = {residual.kind: residual for residual in (AddedRow, LinearResidual)}
ENCODERS: dict[str, type[Encoder]] = {encoder.kind: encoder for encoder in (Rows, LinearEncoder)}
