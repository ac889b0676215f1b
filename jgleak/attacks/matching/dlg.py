"""Deep leakage from gradients, with searched (DLG) and inferred labels (iDLG), and rounded at the end (+BP)."""

from __future__ import annotations

import dataclasses

from jgleak.attacks.matching import starts
from jgleak.attacks.matching.loop import matching
from jgleak.attacks.matching.recipe import Recipe, relax_free

RECIPE = Recipe(start=starts.normal, relax=relax_free, steps=1000, infer_labels=False)
"""Zhu et al. (NeurIPS 2019) on a graph: squared distance, normal start, free features, edges through a sigmoid."""

WITH_LABELS = dataclasses.replace(RECIPE, infer_labels=True)

DLG = matching("dlg", RECIPE)
DLG_BP = matching("dlg+bp", dataclasses.replace(RECIPE, hard=True))
IDLG = matching("idlg", WITH_LABELS)
IDLG_BP = matching("idlg+bp", dataclasses.replace(WITH_LABELS, hard=True))
