"""The list of attacks, by the name that users type."""

from __future__ import annotations

import difflib

from jgleak.attacks.attack import Attack
from jgleak.attacks.baselines import EMPTY, FILE_HABIT, MEAN_ADJACENCY, RANDOM
from jgleak.attacks.census.census import CENSUS
from jgleak.attacks.closed_form.closed_form import CLOSED_FORM
from jgleak.attacks.fedgig.fedgig import FEDGIG, FEDGIG_NO_AUTOENCODER, FEDGIG_NO_CONSTRAINT
from jgleak.attacks.fedgig.ordered import FEDGIG_ORDERED
from jgleak.attacks.grain.grain import GRAIN
from jgleak.attacks.graphdlg.graphdlg import GRAPHDLG, GRAPHDLG_NO_ADAPTER
from jgleak.attacks.graphdlg.refined import GRAPHDLG_REFINED
from jgleak.attacks.matching.dlg import DLG, DLG_BP, IDLG, IDLG_BP
from jgleak.attacks.matching.gi_gan import GI_GAN
from jgleak.attacks.matching.glg import GLG_GRAPH, GLG_NODE_1, GLG_NODE_2
from jgleak.attacks.matching.gra_gfa import GRA_GFA
from jgleak.attacks.matching.invergrad import INVERGRAD
from jgleak.attacks.matching.tableak import TABLEAK

EXACT = (CENSUS, GRAIN, CLOSED_FORM)
MATCHING = (DLG, DLG_BP, IDLG, IDLG_BP, INVERGRAD, TABLEAK, GLG_NODE_1, GLG_NODE_2, GLG_GRAPH)
GENERATORS = (GI_GAN, GRA_GFA)
FEDGIGS = (FEDGIG, FEDGIG_ORDERED, FEDGIG_NO_CONSTRAINT, FEDGIG_NO_AUTOENCODER)
GRAPHDLGS = (GRAPHDLG, GRAPHDLG_NO_ADAPTER, GRAPHDLG_REFINED)
BASELINES = (RANDOM, MEAN_ADJACENCY, FILE_HABIT, EMPTY)

ATTACKS: dict[str, Attack] = {
    attack.name: attack for attack in (*EXACT, *MATCHING, *GENERATORS, *FEDGIGS, *GRAPHDLGS, *BASELINES)
}


def get_attack(name: str) -> Attack:
    """The attack called ``name``.

    Raises:
      KeyError: there is none; the message names the closest one and lists all.
    """
    if name in ATTACKS:
        return ATTACKS[name]
    close = difflib.get_close_matches(name.lower(), ATTACKS, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise KeyError(f"attack: unknown {name!r}; {hint}choose one of {', '.join(sorted(ATTACKS))}")
