"""Embedding tables: rows that moved belong to values that occur."""

from __future__ import annotations

from collections.abc import Iterator

from jgleak.exposure.deployment import Deployment
from jgleak.exposure.finding import Finding
from jgleak.exposure.findings.input_rows import embeds, rows_finding


def embedding_rows(deployment: Deployment) -> Iterator[Finding]:
    """The rows of an encoder's tables."""
    if embeds(deployment):
        yield rows_finding(deployment, "embedding-rows", "a table's row moves only where a node has its value")
