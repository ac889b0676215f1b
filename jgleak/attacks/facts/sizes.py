"""Whether the sizes that an attacker was told can be those of an update's graphs."""

from __future__ import annotations

from collections.abc import Iterator

from jgleak.attacks.facts.fact import Facts
from jgleak.federated.knowledge import Knowledge
from jgleak.plural import counted


def refuted_sizes(shown: Facts, knowledge: Knowledge, graphs: int) -> Iterator[str]:
    """A sentence where the update's graphs have more nodes, or another number of them, than was told.

    Args:
      shown: what the update shows by itself; facts that hold under a condition refute nothing.
      knowledge: number of nodes, of the graphs of a batch each, or a bound.
      graphs: number of graphs behind the update.
    """
    each = knowledge.n or knowledge.max_n
    if each is None:
        return
    told = f"--n {','.join(map(str, knowledge.sizes)) or each}" if knowledge.n else f"--max-n {each}"
    most = sum(knowledge.sizes) or graphs * each
    nodes, least = shown.found.get("nodes"), shown.found.get("different_nodes")
    exactly = nodes.value.get("exactly") if nodes is not None and nodes.condition is None else None
    if exactly is not None and (most < exactly or (knowledge.n and most != exactly)):
        yield f"{told} contradicts the update: its graph has exactly {counted(exactly, 'node')}"
    elif least is not None and least.condition is None and least.value > most:
        whose = "its graph has" if graphs == 1 else f"its {graphs} graphs together have"
        yield f"{told} contradicts the update: {whose} at least {counted(least.value, 'node')}"
