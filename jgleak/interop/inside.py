"""The map of a node inside a GIN: its linear maps, what is between them, and the places of their arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jgleak.gnn import ACTIVATIONS
from jgleak.interop.layers import GIN, Linear, Norm, Residual, Step, called


@dataclasses.dataclass(frozen=True)
class Inside:
    """The parts of a GIN's map.

    Attributes:
      maps: its linear maps; empty: two, under the layer's own roles.
      norms: the normalisation after every map except the last; empty: none.
      act: the activation after every map except the last.
      ends_active: the last map has it too.
    """

    maps: tuple[Linear, ...]
    norms: tuple[Norm, ...]
    act: str
    ends_active: bool


def inside_of(layer: GIN) -> Inside:
    """The map of a layer: linear maps, between them perhaps a normalisation and one activation, perhaps one at the end.

    Raises:
      ValueError: naming the layer, the step inside that does not fit, and what would.
    """
    if not layer.inside:
        return Inside((), (), layer.act, ends_active=False)
    maps: list[Linear] = []
    norms: list[Norm] = []
    acts: list[str] = []
    before: Step | None = None
    for step in layer.inside:
        if isinstance(step, Linear) and not isinstance(step, Residual) and len(acts) == len(maps):
            maps.append(dataclasses.replace(step, name=f"{layer.name}.{step.name}"))
        elif isinstance(step, Norm) and isinstance(before, Linear):
            norms.append(dataclasses.replace(step, name=f"{layer.name}.{step.name}"))
        elif isinstance(step, str) and step in ACTIVATIONS and isinstance(before, Linear | Norm):
            acts.append(step)
        else:
            place = "at the beginning" if before is None else f"after {called(before)!r}"
            raise ValueError(f"layers: {called(step)!r}, {place} inside {layer.name!r}, does not fit; {ORDER}")
        before = step
    return _checked(layer, maps, norms, acts)


ORDER = (
    "a GIN's map is linear maps, between them perhaps a BatchNorm or LayerNorm, then one and the same activation (or "
    "'identity'), and perhaps that activation at the end"
)


def _checked(layer: GIN, maps: list[Linear], norms: list[Norm], acts: list[str]) -> Inside:
    if not maps:
        raise ValueError(f"layers: there is no linear map inside {layer.name!r}; {ORDER}")
    if len(norms) not in (0, len(maps) - 1) or len({_kind(norm) for norm in norms}) > 1:
        what = f"{len(norms)} normalisations" if len(norms) != len(maps) - 1 else "several kinds of normalisations"
        raise ValueError(
            f"layers: there are {what} inside {layer.name!r}, which has {len(maps)} linear maps; here every map but "
            "the last has one, of one kind, or none has; one behind the last map follows the layer in the list"
        )
    if len(set(acts)) > 1 or (len(maps) == 1 and acts):
        found = ", ".join(map(repr, acts))
        raise ValueError(
            f"layers: the activations inside {layer.name!r}, which has {len(maps)} linear map(s), are {found}; here "
            "they are one, and one behind a single map follows the layer in the list"
        )
    return Inside(tuple(maps), tuple(norms), acts[0] if acts else "identity", ends_active=len(acts) == len(maps))


def _kind(norm: Norm) -> Norm:
    return dataclasses.replace(norm, name="", names={})


def split(steps: Sequence[Step]) -> tuple[tuple[Step, ...], list[Step]]:
    """A map's steps, and the steps at its end that belong after the layer: all from a normalisation after the last map
    on."""
    last = max((place for place, step in enumerate(steps) if isinstance(step, Linear)), default=len(steps) - 1)
    several = sum(isinstance(step, Linear) for step in steps) > 1
    active = several and last + 1 < len(steps) and isinstance(steps[last + 1], str)
    end = last + 2 if active else last + 1
    return tuple(steps[:end]), list(steps[end:])


def kernel_role(place: int, maps: int) -> str:
    """The name that a map's kernel has in ``GNN``'s tree."""
    if place == maps - 1 and maps > 1:
        return "out_kernel"
    return f"inner_kernel_{place}" if place else "kernel"


def bias_role(place: int, maps: int) -> str:
    """The name that a map's bias has there."""
    if place == maps - 1:
        return "bias"
    return f"inner_bias_{place}" if place else "inner_bias"
