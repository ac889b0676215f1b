"""The parts of models: names that users type and that files hold, and where the parts live (``module:ATTRIBUTE``)."""

from __future__ import annotations

CONVOLUTIONS = {
    "gcn": "jgleak.gnn.gcn:GCNConv",
    "gat": "jgleak.gnn.gat:GATConv",
    "gatv2": "jgleak.gnn.gatv2:GATv2Conv",
    "sage": "jgleak.gnn.sage:SAGEConv",
    "graph": "jgleak.gnn.sage:GraphConv",
    "gin": "jgleak.gnn.gin:GINConv",
    "gine": "jgleak.gnn.gine:GINEConv",
    "leconv": "jgleak.gnn.leconv:LEConv",
}
READOUTS = {
    "node_mlp": "jgleak.gnn.node_mlp:NodeMLP",
    "pooled": "jgleak.gnn.pooled:Pooled",
    "flattened": "jgleak.gnn.flattened:Flattened",
    "node_scores": "jgleak.gnn.node_scores:NodeScores",
}
RATING_READOUTS = {"dot": "jgleak.gnn.dot:DotProduct"}
"""Readouts that label neither graphs nor nodes: they predict ratings and need a recommender's client."""
NORMS = {
    "batch": "jgleak.gnn.norm:BatchNorm",
    "layer": "jgleak.gnn.norm:LayerNorm",
    "graph": "jgleak.gnn.norm:GraphNorm",
}
RESIDUALS = {
    "add": "jgleak.gnn.residual:AddedRow",
    "linear": "jgleak.gnn.residual:LinearResidual",
}
ENCODERS = {
    "rows": "jgleak.gnn.encoder:Rows",
    "linear": "jgleak.gnn.encoder:LinearEncoder",
}
ACTIVATIONS = {
    "relu": "jax.nn:relu",
    "gelu": "jgleak.gnn.activation:gelu",
    "gelu_tanh": "jgleak.gnn.activation:gelu_tanh",
    "sigmoid": "jax.nn:sigmoid",
    "tanh": "jax.numpy:tanh",
    "elu": "jax.nn:elu",
    "identity": "jgleak.gnn.activation:identity",
}
"""The activations of the five papers, ELU (usual under attention) and flax's GELU."""
JUMPS = {
    "last": "jgleak.gnn.jump:LAST",
    "cat": "jgleak.gnn.jump:CAT",
    "max": "jgleak.gnn.jump:MAX",
    "sum": "jgleak.gnn.jump:SUM",
}
