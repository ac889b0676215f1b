"""Which attacks apply to what clients send, why others refuse, and the nearest changes that would reverse that."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import NamedTuple

from jgleak.attacks.attack import NEEDS
from jgleak.attacks.registry import ATTACKS
from jgleak.exposure.changes import Neighbours
from jgleak.exposure.dark_units import DarkUnits, dark_units
from jgleak.exposure.deployment import Deployment
from jgleak.exposure.finding import Finding
from jgleak.exposure.findings.spans import SPANNED, crowd
from jgleak.exposure.recorded import how_often
from jgleak.names.attacks import BASELINES


class Standing(NamedTuple):
    """Whether an attack applies: why it refuses (None: it applies), what it must be given, and the nearest changes."""

    refusal: str | None
    needs: tuple[str, ...]
    turns: tuple[str, ...]

    @property
    def alike(self) -> Hashable:
        """A key that attacks of one finding share: one key for all attacks that no change opens."""
        if self.refusal is None:
            return self
        return (self.refusal, self.turns) if self.turns else "closed to all changes"


def attacks(deployment: Deployment) -> Iterator[Finding]:
    """All attacks except the baselines, which read no update; attacks with equal standing share a finding."""
    neighbours, groups = Neighbours(deployment), dict[Hashable, dict[str, Standing]]()
    for name in ATTACKS:
        if name not in BASELINES:
            standing = _standing(neighbours, name)
            groups.setdefault(standing.alike, {})[name] = standing
    for group in groups.values():
        yield _finding(deployment, group)


def _standing(neighbours: Neighbours, name: str) -> Standing:
    try:
        attack = ATTACKS[name]
    except ValueError as error:  # an installed package's
        return Standing(str(error), (), ())
    refusal = neighbours.deployment.refusal(attack)
    turning = neighbours.stopping(attack) if refusal is None else neighbours.opening(attack)
    return Standing(refusal, attack.needs, tuple(change.name for change in turning))


def _finding(deployment: Deployment, group: Mapping[str, Standing]) -> Finding:
    first, one = next(iter(group)), len(group) == 1
    standing, said = group[first], ", ".join(group)
    needs = {name: list(other.needs) for name, other in group.items()}
    details = {"attacks": needs, "turns": list(standing.turns)}
    if standing.refusal is None:
        dark = dark_units(deployment) if "census" in group else DarkUnits()
        few = "census will hardly find a graph: at these weights random ones leave too few units dark" * dark.few
        buts = [but for but in (_crowded(deployment, group), _distorted(deployment, group), few) if but]
        hardly = f", but {'; and '.join(buts)}" if buts else ""
        told = f"given {' and '.join(NEEDS[need] for need in standing.needs)}, " if standing.needs else ""
        return Finding(
            *(f"attack-{first}", "open", f"{said} {'applies' if one else 'apply'}{hardly}."),
            f"{told}{'it reads' if one else 'they read'} such updates of such a model. {dark.said}"
            f"How often {'it succeeds' if one else 'they succeed'}: {how_often(deployment, group)}.",
            f"refused with any one of: {'; '.join(standing.turns)}" if standing.turns else "",
            f"attack:{first}",
            details,
        )
    reasons: dict[str, list[str]] = {}
    for name, other in group.items():
        reasons.setdefault(other.refusal or "", []).append(name)
    each = [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
    why = "; ".join(each if len(reasons) > 1 else reasons)
    return Finding(
        *(f"attack-{first}", "closed", f"{said} {'does' if one else 'do'} not apply.", f"{why}."),
        f"applies with: {'; '.join(standing.turns)}" if standing.turns else "",
        f"attack:{first}",
        details,
    )


def _crowded(deployment: Deployment, group: Mapping[str, Standing]) -> str:
    """Where attacks apply that see no node while as many differ as the ``spans`` finding says; else empty."""
    named, found = [name for name in SPANNED if name in group], crowd(deployment)
    if not named or found is None:
        return ""
    find = "finds" if len(named) == 1 else "find"
    return (
        f"{' and '.join(named)} {find} nothing where more than {found.most} of up to {found.rows} rows differ: no "
        "check of nodes has room for them"
    )


def _distorted(deployment: Deployment, group: Mapping[str, Standing]) -> str:
    """Where attacks apply that find nothing behind a defence that leaves no gradient with noise of known size."""
    named, steps = [name for name in SPANNED if name in group], deployment.clients.protection.distorting
    if not named or not steps:
        return ""
    find, look = ("finds", "it looks") if len(named) == 1 else ("find", "they look")
    return (
        f"{' and '.join(named)} {find} nothing where {' or '.join(map(str, steps))} changed the update by more than "
        f"rounding: {look} for an exact gradient, or for one with noise of known size"
    )
