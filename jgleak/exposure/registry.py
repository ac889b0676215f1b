"""The list of findings, and the findings of one deployment."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jgleak.exposure.deployment import Deployment
from jgleak.exposure.finding import LEVELS, Finding
from jgleak.exposure.findings.attacks import attacks
from jgleak.exposure.findings.buffers import buffers
from jgleak.exposure.findings.embedding_rows import embedding_rows
from jgleak.exposure.findings.input_rows import input_rows
from jgleak.exposure.findings.labels import labels
from jgleak.exposure.findings.sizes import sizes
from jgleak.exposure.findings.spans import spans

FINDINGS: Mapping[str, Callable[[Deployment], Iterable[Finding]]] = {
    "input-rows": input_rows,
    "embedding-rows": embedding_rows,
    "buffers": buffers,
    "labels": labels,
    "sizes": sizes,
    "spans": spans,
    "attack": attacks,
}
"""All findings by name, in the order of the output; a finding about attacks has the name of its first attack
appended."""


@dataclasses.dataclass(frozen=True)
class Exposure:
    """All findings of one deployment, the most severe first.

    Attributes:
      deployment: what was checked.
      findings: what is shown by construction, what is open to attacks, and what is closed.
    """

    deployment: Deployment
    findings: tuple[Finding, ...]

    def of(self, level: str) -> tuple[Finding, ...]:
        """The findings of one of ``LEVELS``."""
        return tuple(finding for finding in self.findings if finding.level == level)

    def to_json(self) -> dict[str, Any]:
        """The clients and the findings, in JSON types."""
        clients = dataclasses.asdict(self.deployment.clients) | {"loss": self.deployment.loss}
        return {"clients": clients, "findings": [finding.to_json() for finding in self.findings]}


def exposure_of(deployment: Deployment) -> Exposure:
    """What a deployment shows by construction."""
    found = [finding for look in FINDINGS.values() for finding in look(deployment)]
    return Exposure(deployment, tuple(sorted(found, key=lambda finding: [*LEVELS].index(finding.level))))
