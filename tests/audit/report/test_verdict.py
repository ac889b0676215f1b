"""The first screen: one of five verdicts, by counts; what noise guarantees, by the accountant."""

from __future__ import annotations

from typing import Any

import pytest

from jgleak.audit.report.guarantees import DELTA, ROUNDS, guarantees
from jgleak.audit.report.render import render_html, render_markdown
from jgleak.audit.report.rows import rows
from jgleak.audit.report.tables import leaks
from jgleak.audit.report.verdict import (
    LISTED,
    NOT_REBUILT,
    NOTHING_RAN,
    REBUILT,
    SINGLED_OUT,
    Verdict,
    verdict,
)
from jgleak.audit.results import Unit
from jgleak.defenses import parse
from jgleak.defenses.privacy import privacy
from jgleak.names.attacks import ATTACKS, BASELINES

from .made import audit, certificate, unit


def of(*units: Unit) -> Verdict:
    return verdict(leaks(rows(audit(*units))))


def missed(client: int, **given: Any) -> Unit:
    """A client whose graph was not rebuilt."""
    return unit(client, **{"exact": False, "truth_in_set": False, **given})


@pytest.mark.parametrize(
    ("units", "level"),
    [
        ((unit(0, certificate=certificate()), missed(1)), SINGLED_OUT),
        ((unit(0), missed(1)), REBUILT),
        ((missed(0, truth_in_set=True), missed(1)), LISTED),
        ((missed(0, certificate=certificate()), missed(1)), NOT_REBUILT),
        ((unit(0, status="failed"),), NOTHING_RAN),
        ((unit(0, attack="random"),), NOTHING_RAN),
    ],
)
def test_the_verdict_follows_from_counts(units: tuple[Unit, ...], level: str) -> None:
    """A certificate beside another truth singles nobody out, and guesses say nothing of the update."""
    assert of(*units).level == level


def test_the_worst_row_counts_with_a_defence_or_without() -> None:
    shielded = missed(0, defense="clip:1+gaussian:0.1")
    assert of(unit(0), shielded).level == REBUILT
    assert of(shielded).level == NOT_REBUILT
    weak = unit(0, defense="prune:0.5", certificate=certificate())
    assert of(missed(0), weak).level == SINGLED_OUT and "under prune:0.5" in of(missed(0), weak).condition
    assert "without a defence" in of(unit(0), shielded).condition
    said = of(unit(0, certificate=certificate()), missed(1), missed(2)).person
    assert "In 1 of 3 attacks by census without a defence the update fits one graph alone" in said
    both = of(unit(0, certificate=certificate()), missed(1), weak)
    assert "In 1 of 1 attacks by census under prune:0.5 the update fits one graph alone" in both.person


def test_advice_names_the_defences_that_held_and_those_that_did_not() -> None:
    held, fell = missed(0, defense="clip:1+gaussian:0.1"), unit(0, defense="prune:0.5")
    advice = " ".join(of(unit(0), held, fell).advice)
    assert (
        "Under clip:1+gaussian:0.1 attacks that succeed without it rebuilt and listed no private graph, in 1 attack"
        in advice
    )
    assert "Do not rely on prune:0.5: under it private graphs were rebuilt 1 time." in advice
    assert "Under prune" not in advice
    among = [missed(n, defense="prune:0.5", truth_in_set=True) for n in (1, 2)]
    both, alone = of(unit(0), fell, *among).advice[0], of(unit(0), *among).advice[0]
    assert "rebuilt 1 time and listed, not first, 2 times." in both and "were listed, not first, 2 times." in alone
    idle = of(missed(0), held).advice
    assert idle == ["No attack succeeded without a defence, so that nothing here shows what a defence adds."]
    (bare,) = of(held).advice
    assert bare.startswith("No attack was run without a defence") and "an empty [[defense]]" in bare
    skipped = unit(0, status="skipped", defense="clip:1+gaussian:0.1")
    other = missed(1, attack="dlg", defense="clip:1+gaussian:0.1")
    assert "Under clip" not in " ".join(of(unit(0), skipped, other).advice)
    assert "No defence was tried" in of(unit(0)).advice[0]


def test_attacks_that_were_not_tried_are_counted_first_and_named_below() -> None:
    judged, real = of(unit(0)), len(ATTACKS) - len(BASELINES)
    assert judged.untried.startswith(f"Not tried: {real - 1} of jgleak's {real} attacks; several rounds")
    assert not any(f"{name}," in judged.untried for name in ATTACKS)
    assert "grain, " in judged.by_name and "census" not in judged.by_name and "random" not in judged.by_name
    assert judged.by_name.endswith(judged.untried.partition("; ")[2])


def test_the_condition_names_graphs_steps_and_weights() -> None:
    def changed(**fields: Any) -> Unit:
        return unit(0)._replace(specification=unit(0).specification | fields)

    assert "updates of 1 graph and 1 local step, random weights" in of(changed()).condition
    both = of(changed(), changed(batch_size=8, local_steps=5, train=3)._replace(cell=unit(0, attack="dlg").cell))
    assert "updates of 1 to 8 graphs and 1 to 5 local steps, random and trained weights" in both.condition


def test_noise_stands_beside_its_epsilon() -> None:
    """That of the accountant, over all rounds; a defence without noise, or one that is not known here, has none."""
    noisy = unit(0, defense="clip:0.1+gaussian:0.1", entries=[300, 40])
    (one,) = guarantees(rows(audit(unit(1), noisy, unit(2, defense="prune:0.9"))))
    wanted = privacy(parse("clip:0.1+gaussian:0.1"), [300, 40], rounds=ROUNDS, delta=DELTA).epsilon
    assert one.defense == "clip:0.1+gaussian:0.1"
    assert f"{wanted:.3g} over {ROUNDS} rounds" in one.text and "protects nobody" in one.text
    (bare,) = guarantees(rows(audit(unit(0, defense="gaussian:0.1", entries=[3]))))
    assert "no guarantee" in bare.text
    strong = unit(0, defense="clip:0.001+gaussian:1", entries=[3])
    assert "bounds what can be learnt" in guarantees(rows(audit(strong)))[0].text
    larger = unit(0, model="larger", defense="clip-layer:0.01+gaussian:0.1", entries=[300] * 30)
    smaller = unit(0, defense="clip-layer:0.01+gaussian:0.1", entries=[3])
    texts = {one.model: one.text for one in guarantees(rows(audit(smaller, larger)))}
    assert len(texts) == 2 and len(set(texts.values())) == 2, "a clipping by tensor is worth less in a larger model"
    late = [unit(0, status="failed", attack="dlg", defense="clip:1+gaussian:1"), noisy._replace(client=1)]
    assert "epsilon" in guarantees(rows(audit(*late)))[-1].text
    norms = noisy._replace(specification=noisy.specification | {"norm": "batch", "norm_mode": "train"})
    assert "no guarantee: running statistics" in guarantees(rows(audit(norms)))[0].text
    foreign = noisy._replace(specification=noisy.specification | {"defense": "magic:1"})
    assert guarantees(rows(audit(foreign))) == []
    assert "its size is unknown" in guarantees(rows(audit(unit(0, defense="clip:1+gaussian:1"))))[0].text


def test_pages_begin_with_the_verdict_and_say_what_guidance_asks() -> None:
    one = audit(unit(0, certificate=certificate()), unit(1, defense="clip:0.1+gaussian:0.1", entries=[3]))
    page, text = render_html(one), render_markdown(one)
    assert page.index(SINGLED_OUT) < page.index(">Summary<") and f"**{SINGLED_OUT}.**" in text
    assert "EDPB Opinion 28/2024" in page and "epsilon" in page
