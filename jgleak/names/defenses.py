"""The defences."""

from __future__ import annotations

from jgleak.names.entries import Named

DEFENSES = {
    "gaussian": Named(
        "jgleak.defenses.noise:GAUSSIAN",
        "Gaussian noise on the update; its standard deviation, to be read against the size of the gradient",
    ),
    "laplace": Named(
        "jgleak.defenses.noise:LAPLACE",
        "Laplace noise on the update; its standard deviation, to be read against the size of the gradient (GraphDLG's "
        "sigma is its square, FedGNN's lambda is deviation / sqrt(2))",
    ),
    "clip": Named("jgleak.defenses.clip:CLIP", "the update's L2 norm bounded; the bound (DP-SGD)"),
    "clip-graph": Named(
        "jgleak.defenses.clip:CLIP_GRAPH",
        "every graph's gradient bounded in L2 norm before the mean; the bound (Opacus)",
    ),
    "clip-inf": Named("jgleak.defenses.clip:CLIP_ENTRIES", "every entry bounded; the bound (FedGNN)"),
    "clip-layer": Named("jgleak.defenses.clip:CLIP_TENSORS", "every tensor's L2 norm bounded; the bound"),
    "prune": Named(
        "jgleak.defenses.prune:PRUNE",
        "the smallest entries of every tensor set to zero; their share (gradient compression)",
    ),
    "percentile": Named(
        "jgleak.defenses.percentile:PERCENTILE",
        "the smallest entries of the whole update set to zero; percent of them (NVFlare's PercentilePrivacy)",
    ),
    "sparse-vector": Named(
        "jgleak.defenses.sparse_vector:SPARSE_VECTOR",
        "a tenth of the entries, at random, cut and with Laplace noise; the bound gamma (NVFlare's SVTPrivacy)",
    ),
    "quantise": Named(
        "jgleak.defenses.quantise:QUANTISE", "entries rounded at random to equal levels; bits an entry (QSGD)"
    ),
    "sign": Named("jgleak.defenses.quantise:SIGN", "signs times the tensor's mean size (scaled signSGD)"),
    "float16": Named("jgleak.defenses.quantise:FLOAT16", "entries rounded to half precision"),
    "bfloat16": Named("jgleak.defenses.quantise:BFLOAT16", "entries rounded to bfloat16"),
    "activations": Named(
        "jgleak.defenses.activation:ACTIVATIONS",
        "Laplace noise on every layer's output; its standard deviation (GraphDLG's sigma is its square)",
    ),
    "activations-gaussian": Named(
        "jgleak.defenses.activation:ACTIVATIONS_GAUSSIAN",
        "Gaussian noise on every layer's output; its standard deviation",
    ),
}

HYBRID = "hybrid"
"""Short for two of them at once (GraphDLG, appendix A.7)."""

COMBINED = {HYBRID: "Laplace noise of half the variance on activations and on the update each (GraphDLG)"}
"""Names that stand for several, and a line about each."""
