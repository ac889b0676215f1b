"""The attacks."""

from __future__ import annotations

from jgleak.names.entries import Named

ATTACKS = {
    "census": Named(
        "jgleak.attacks.census.census:CENSUS",
        "counts building blocks, assembles every graph that fits, and certifies the set (jgleak)",
    ),
    "grain": Named(
        "jgleak.attacks.grain.grain:GRAIN",
        "exact reconstruction by span checks and depth-first search (Drencheva et al., ICLR 2025)",
    ),
    "closed-form": Named(
        "jgleak.attacks.closed_form.closed_form:CLOSED_FORM",
        "edges and features by linear algebra, layer by layer from the output (after GLG, Propositions 1 to 6)",
    ),
    "dlg": Named("jgleak.attacks.matching.dlg:DLG", "gradient matching, labels searched for too (Zhu et al. 2019)"),
    "dlg+bp": Named("jgleak.attacks.matching.dlg:DLG_BP", "DLG, edges rounded at the end (FedGIG's baseline)"),
    "idlg": Named("jgleak.attacks.matching.dlg:IDLG", "DLG with labels from the gradient's signs (Zhao et al. 2020)"),
    "idlg+bp": Named("jgleak.attacks.matching.dlg:IDLG_BP", "iDLG, edges rounded at the end (FedGIG's baseline)"),
    "invergrad": Named(
        "jgleak.attacks.matching.invergrad:INVERGRAD",
        "cosine gradient matching with signed Adam (Geiping et al. 2020); without total variation, which graphs lack",
    ),
    "tableak": Named(
        "jgleak.attacks.matching.tableak:TABLEAK",
        "softmax-structured features and an ensemble of restarts (Vero et al. 2023)",
    ),
    "glg-node-1": Named(
        "jgleak.attacks.matching.glg:GLG_NODE_1",
        "node attacker 1: features of target nodes and their neighbours from the targets' loss, on dummy trees",
    ),
    "glg-node-2": Named(
        "jgleak.attacks.matching.glg:GLG_NODE_2",
        "node attackers 2-a (features known), 2-b (edges known), 2-c: one gradient for each node's loss",
    ),
    "glg-graph": Named(
        "jgleak.attacks.matching.glg:GLG_GRAPH",
        "graph attackers a (features known), b (edges known), c: one graph, or a batch of them",
    ),
    "gi-gan": Named(
        "jgleak.attacks.matching.gi_gan:GI_GAN",
        "matching by the latent vector of a MolGAN trained on public graphs (Jeon et al. 2021, Li et al. 2022)",
    ),
    "gra-gfa": Named(
        "jgleak.attacks.matching.gra_gfa:GRA_GFA",
        "matching by node embeddings; features generated from edges, as learnt from public graphs (Chen et al. 2024)",
    ),
    "fedgig": Named(
        "jgleak.attacks.fedgig.fedgig:FEDGIG",
        "sparse binary edges, then a masked graph auto-encoder (FedGIG, Xiao et al. 2024)",
    ),
    "fedgig-ordered": Named(
        "jgleak.attacks.fedgig.ordered:FEDGIG_ORDERED",
        "FedGIG that also knows in which order public files list nodes (ours)",
    ),
    "fedgig-no-constraint": Named(
        "jgleak.attacks.fedgig.fedgig:FEDGIG_NO_CONSTRAINT",
        "FedGIG without the adjacency matrix constraints (its ablation)",
    ),
    "fedgig-no-autoencoder": Named(
        "jgleak.attacks.fedgig.fedgig:FEDGIG_NO_AUTOENCODER", "FedGIG without the auto-encoder (its ablation)"
    ),
    "graphdlg": Named(
        "jgleak.attacks.graphdlg.graphdlg:GRAPHDLG",
        "edges decoded from the pooled embedding, features by recursion (GraphDLG, Wei et al. 2026)",
    ),
    "graphdlg-no-adapter": Named(
        "jgleak.attacks.graphdlg.graphdlg:GRAPHDLG_NO_ADAPTER",
        "GraphDLG without the adapter to the clients (its ablation)",
    ),
    "graphdlg-refined": Named(
        "jgleak.attacks.graphdlg.refined:GRAPHDLG_REFINED",
        "gradient matching from GraphDLG's edges and the files' habits (ours)",
    ),
    "random": Named(
        "jgleak.attacks.baselines:RANDOM", "random features and a random graph from public knowledge (baseline)"
    ),
    "mean-adjacency": Named(
        "jgleak.attacks.baselines:MEAN_ADJACENCY", "mean adjacency of auxiliary graphs in file order (baseline)"
    ),
    "file-habit": Named(
        "jgleak.attacks.baselines:FILE_HABIT", "edges and features usual at their positions in public files (baseline)"
    ),
    "empty": Named("jgleak.attacks.baselines:EMPTY", "no edges, every node the most frequent one (baseline)"),
}
"""In the order in which they are listed: exact ones, gradient matching, generators, FedGIG, GraphDLG, baselines."""

SEARCHES = ("census", "grain")
"""Those that take seconds for each client, one client after another."""

BASELINES = ("random", "mean-adjacency", "file-habit", "empty")
"""Trivial ones, which do not read the update: what everybody can guess."""
