"""Models as federated projects configure them (``jgleak check``)."""

from __future__ import annotations

from jgleak.names.entries import Named

DEPLOYED = {
    "fedgraphnn-sage": Named("jgleak.exposure.deployed:FEDGRAPHNN_SAGE", "GraphSAGE with a head a node (FedGraphNN)"),
    "fedml-gcn": Named("jgleak.exposure.deployed:FEDML_GCN", "narrow GCN (FedML)"),
    "fedml-gat": Named("jgleak.exposure.deployed:FEDML_GAT", "narrow GAT (FedML)"),
    "federatedscope-gcn": Named(
        "jgleak.exposure.deployed:FEDERATEDSCOPE_GCN", "GCN on embeddings, sum pooling (FederatedScope)"
    ),
    "federatedscope-gin": Named("jgleak.exposure.deployed:FEDERATEDSCOPE_GIN", "GIN with BatchNorm (FederatedScope)"),
    "openfgl-gin": Named("jgleak.exposure.deployed:OPENFGL_GIN", "GIN with BatchNorm and dropout (OpenFGL)"),
    "fedgraph-gin": Named("jgleak.exposure.deployed:FEDGRAPH_GIN", "GIN with dropout (FedGraph)"),
    "kmol-leconv": Named("jgleak.exposure.deployed:KMOL_LECONV", "LEConv with residuals and 12 tasks (kMoL)"),
}
