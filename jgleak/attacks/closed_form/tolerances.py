"""What the closed form puts down to rounding, and how long it repeats itself."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class ClosedFormTolerances:
    """What counts as equal. Gradients are float32, so shares of about 1e-7 are their rounding.

    Attributes:
      zero: states below this share of the largest are a ReLU's zeros; one mistaken is noticed one layer further down.
      moved: a ReLU has no negative states: what is less than so many times a node's most negative one is a zero that
        rounding has moved. Of 20 molecules of PTC_MR (3 layers of width 128, true edges and last slopes) the median
        error of the features fell from 7.5 to 2.1 under mean and from 4.9 to 1.4 under sum pooling. One slope mistaken
        is enough to spoil a graph.
      one_row: relative distance of a gradient from rank one above which more than one row entered the layer.
      rank: singular values below this share of the largest count as zero: float32 gradients know no more.
      fit: relative distance of gradients from what was found, above which it is not what made them; and of rows that
        are equal, in units of their usual distance.
      faint: eigenvalues of the normalised adjacency below this pass on less than rounding spoils.
      ridge: keeps states finite that rounding has moved out of the activation's range.
      smallest: least variance of rows, in units of the noise's: where all is noise, all is the prior.
      nearer: a pass over a GCN that leaves more than this share of the distance has come no nearer.
      alike: distances within this factor are equal, and the weaker shrinking is taken.
    """

    zero: float = 1e-5
    moved: float = 2.0
    one_row: float = 1e-3
    rank: float = 1e-6
    fit: float = 1e-4
    faint: float = 1e-3
    ridge: float = 1e-6
    smallest: float = 1e-12
    nearer: float = 0.99
    alike: float = 1.01


@dataclasses.dataclass(frozen=True)
class ClosedFormLimits:
    """How often the closed form tries.

    Attributes:
      passes: over a GCN, at most; on GLG's subgraphs three to five bring the gradients as near as rounding allows, but
        of 800 random graphs of eight nodes, all of which end there, one needs more than 20.
      patience: passes in a row that come no nearer, after which it ends; one alone may go astray, the next come nearer.
      strengths: of shrinking, 1, 10, 100, .. times the noise that the least-squares fit shows; it shows little where
        there are as many nodes as units.
      steps: of L-BFGS for what a GCN's edges hide of hidden states, at most.
    """

    passes: int = 100
    patience: int = 2
    strengths: int = 7
    steps: int = 500


@dataclasses.dataclass(frozen=True)
class ClosedFormSettings:
    """What users may set."""

    tolerances: ClosedFormTolerances = ClosedFormTolerances()
    limits: ClosedFormLimits = ClosedFormLimits()


SETTINGS = ClosedFormSettings()
"""The defaults."""

TOLERANCES = SETTINGS.tolerances
