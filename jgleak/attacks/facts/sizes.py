"""Whether the sizes that an attacker was told can be those of an update's graphs."""

from __future__ import annotations

from jgleak.attacks.facts.fact import Facts
from jgleak.attacks.facts.nodes import AT_MOST, MOST
from jgleak.federated.knowledge import Knowledge
from jgleak.plural import counted


def refuted_size(shown: Facts, knowledge: Knowledge, graphs: int) -> str | None:
    """A sentence where the update's graphs have more nodes, or another number of them, than was told; otherwise None.

    Args:
      shown: what the update shows by itself; facts that hold under a condition refute nothing,
        but for a divisor of the number of nodes where what was told meets its condition.
      knowledge: number of nodes, of the graphs of a batch each, or a bound.
      graphs: number of graphs behind the update.
    """
    each = knowledge.n or knowledge.max_n
    if each is None:
        return None
    told = f"--n {','.join(map(str, knowledge.sizes)) or each}" if knowledge.n else f"--max-n {each}"
    most = sum(knowledge.sizes) or graphs * each
    nodes, least = shown.found.get("nodes"), shown.found.get("different_nodes")
    exactly = nodes.value.get("exactly") if nodes is not None and nodes.condition is None else None
    if exactly is not None and (most < exactly or (knowledge.n and most != exactly)):
        return f"{told} contradicts the update: its graph has exactly {counted(exactly, 'node')}"
    divisor = nodes.value.get("multiple_of", 1) if nodes is not None and nodes.condition in (None, AT_MOST) else 1
    if each <= MOST and (most < divisor or (knowledge.n and most % divisor)):
        return f"{told} contradicts the update: the number of its nodes is a multiple of {divisor}"
    if least is not None and least.condition is None and least.value > most:
        whose = "its graph has" if graphs == 1 else f"its {graphs} graphs together have"
        return f"{told} contradicts the update: {whose} at least {counted(least.value, 'node')}"
    return None
