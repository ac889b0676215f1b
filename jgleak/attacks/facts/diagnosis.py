"""What an update's own facts say of why an attack found nothing in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jgleak.attacks.blas import one_thread
from jgleak.attacks.closed_form.labels import last_bias, names_no_class
from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.attacks.facts.evidence import Evidence
from jgleak.attacks.facts.fact import Silent
from jgleak.attacks.facts.graphs import head_rank
from jgleak.attacks.facts.head import FITS, OF_NUMBERS, fit, flat, of_classes, squared_target, whole
from jgleak.attacks.facts.node_kinds import different_nodes
from jgleak.attacks.span.leak_points import leak_points
from jgleak.attacks.span.subspace import Subspace
from jgleak.features import FeatureSpace
from jgleak.federated.loss import Loss
from jgleak.federated.observation import Observation, flatten
from jgleak.gnn import GNN, Pooled
from jgleak.plural import counted

MOVED = 0.08
"""A convolution that moved rows farther (``_moved``) is named as a possible cause. In a trial without a record no ten
local steps of .03 did, of 50 molecules behind each of two models."""

ALIKE = 0.02
"""Lengths of entries that differ by no more, relative to the longest, count as equal."""

LEAST_ENTRIES, MOST_ENTRIES = 100, 0.5
"""Of so many entries that moved at least, and of such a share of them equal lengths are no chance."""

PASSED = 3
"""Fewest units that are off and yet seen behind, from which something else must have passed them."""


def diagnoses(observation: Observation, space: FeatureSpace, *, noise: float | None = None) -> list[str]:
    """Sentences about what in the file is not as it says, or hides nodes; none where nothing of that shows.

    Args:
      observation: what the server saw.
      space: the public feature space.
      noise: deviation of independent noise on every entry, where clients add some; None: what the observation says.
    """
    evidence, found = Evidence(observation, space, observation.noise if noise is None else noise), list[str]()
    with one_thread():
        for check in CHECKS:
            try:
                found += check(evidence)
            except (Silent, ConditionFailed):
                continue
    return found


def _steps(evidence: Evidence) -> Iterator[str]:
    """Weights that moved far in local steps."""
    seen, local = evidence.observation, evidence.observation.local
    if local is None or local.steps == 1 or seen.adaptive or seen.scaled or seen.pruned:
        return
    weights, update = flatten(seen.params), flatten(seen.update)
    inner = [name for name in weights if name.startswith("layers_") and name.endswith("kernel")]
    most = max((_moved(weights[name], local.length * update[name]) for name in inner), default=0.0)
    if most > MOVED:
        yield (
            f"in {local.steps} local steps of {local.rate:g} a convolution moved rows by {most:.0%} of their length, "
            "perhaps too far to be followed"
        )


def _moved(weights: Any, change: Any) -> float:
    """How far a kernel moved what enters it along the direction of the largest change, relative to what it makes of
    that direction."""
    kernel, moved = (np.asarray(one, np.float64).reshape(-1, np.shape(one)[-1]) for one in (weights, change))
    ways, sizes, _ = np.linalg.svd(moved, full_matrices=False)
    made = float(np.linalg.norm(ways[:, 0] @ kernel))
    return float(sizes[0]) / made if made else 0.0


def _columns(evidence: Evidence) -> Iterator[str]:
    if evidence.looks_normalised:
        yield (
            "the rows of the first gradient are those of normalised columns, and the feature space is raw: give the "
            "means and deviations (as --features molecules:tox21); columns that stayed raw have mean 0 and deviation 1"
        )
    mean, std = evidence.space.mean, evidence.space.std
    moved = None if mean is None or std is None else (mean != 0) & (std > 0)  # others are zero where values are absent
    if evidence.precision > 2.0**-24:  # entries below the least of 16 bits are zero
        moved = None
    # A kernel that is zero as a whole is frozen, which shows nothing.
    still = [kernel.zero & np.any(kernel.weights, axis=1) for kernel in evidence.kernels if not np.all(kernel.zero)]
    if moved is not None and not evidence.observation.pruned and any(np.any(zero & moved) for zero in still):
        yield (
            "rows of the first gradient are exactly zero, as those of raw columns are, and the feature space "
            "normalises them: give the raw one (as --features molecules), or mean 0 and deviation 1 for columns that "
            "stay raw beside normalised ones"
        )


def _loss(evidence: Evidence) -> Iterator[str]:
    observation = evidence.observation
    bias = last_bias(observation.model, observation.update)
    signed = np.any(bias) and (np.sum(bias < 0) > 1 or not evidence.rounded)
    if evidence.noise is None and signed and names_no_class(observation):
        yield (
            f"the signs of the last bias name no class, so the loss is not {observation.loss!r}: if the "
            f"{observation.model.outputs} outputs are tasks of their own, give --loss masked_bce"
        )


def _one_length(evidence: Evidence) -> Iterator[str]:
    """Adam's first step has the same length in every entry whose gradient is not tiny, and so have signs.

    Of gradients no two entries are bound to be equal but by chance, or along rows of the first kernel, whose columns
    still differ.
    """
    seen = evidence.observation
    if seen.adaptive or seen.steps > 1 or seen.protocol not in ("fedsgd", "fedavg"):
        return
    entries = np.abs(flat(seen.update))
    moved = entries[entries > 0]
    if moved.size < LEAST_ENTRIES:
        return
    longest = float(np.max(moved))
    near = ALIKE * longest + 3.0 * evidence.deviation(entries)
    alike = float(np.mean(moved >= longest - near))
    if near < longest / 4 and alike >= MOST_ENTRIES:
        yield (
            f"{alike:.0%} of the entries that moved are of one length, {longest:.2g}, as after Adam's first step or of "
            "signs: no gradient of a plain step is so. Where clients train with Adam, record them as LocalTraining("
            "optimiser='adam'); attacks refuse then, and facts read what is left"
        )


def _altered(evidence: Evidence) -> Iterator[str]:
    seen = evidence.observation
    if evidence.unbalanced:
        yield (
            "the rows of the first gradient do not add up over features as a gradient's do: the feature schema is not "
            "that of the model's columns (--features), or an adaptive optimiser, noise (--noise), pruning or "
            "quantisation changed them"
        )
    elif seen.adaptive or evidence.noise is not None or evidence.looks_normalised or seen.model.masks_input:
        return
    elif evidence.decay:
        yield f"the update holds {evidence.decay:.2g} times the weights: weight decay, which is no part of the gradient"


def _mixed(evidence: Evidence) -> Iterator[str]:
    graphs, rank = evidence.observation.batch_size, head_rank(evidence)
    if evidence.one_gradient and rank > graphs:
        yield (
            f"the gradient of the first map after pooling has rank {rank}, and one gradient of {graphs} "
            f"graph{'s' * (graphs > 1)} has at most {graphs}: the update mixes {rank} graphs or more, or several steps"
        )


def _head(evidence: Evidence) -> Iterator[str]:
    """The head is known from its gradient: the row that enters it, hence the output, hence its gradient by label."""
    observation = evidence.observation
    loss = Loss.of(observation.loss)
    one = evidence.one_gradient and observation.batch_size == 1 and evidence.noise is None and not evidence.altered
    recomputed = not observation.model.drops and observation.model.trains("readout")
    if not one or not recomputed or head_rank(evidence) != 1:
        return
    if loss.regression:
        classes = of_classes(evidence)
        if classes is not None:
            yield (
                f"the head's gradient is, to rounding, that of the loss {classes!r} with labels of 0 and 1, while "
                f"under {observation.loss!r} a label may be any number: if clients minimise {classes!r}, give --loss "
                f"{classes}"
            )
        return
    if names_no_class(observation) or squared_target(evidence) is not None:  # ``_squares`` says what that is
        return
    near = fit(evidence, loss)
    if near.distance <= FITS:
        return
    if near.rest <= FITS:
        if not observation.scaled:
            yield _another_scale(observation, near.factor)
        return
    for other in ("ce", "bce", "masked_bce"):
        if other != loss.name and fit(evidence, Loss(other)).distance <= FITS:
            yield f"the head's gradient is that of the loss {other!r}, not of {observation.loss!r}: give --loss {other}"
            return
    yield (
        f"with the parameters of the file the head has no such gradient under any label (off by {near.rest:.1%}): the "
        "update belongs to other parameters (it is stale), to a longer training, or to another loss"
    )


def _another_scale(observation: Observation, factor: float) -> str:
    what = "clipping" if factor < 1 else "a loss that is not a mean"
    if observation.local is not None:
        what = f"the rate is not {observation.local.rate:g} (rate in LocalTraining), or {what}"
    else:
        what = f"{what}, or another rate than that by which a change of weights was divided"
    return (
        f"the head's gradient is {factor:.3g} times that of the loss {observation.loss!r}: {what}, which the file does "
        "not mention"
    )


def _skipped(evidence: Evidence) -> Iterator[str]:
    """Units that are off at every node are zero in the pooled row, unless something passes the layer by."""
    observation = evidence.observation
    model, readout = observation.model, observation.model.readout
    last = model.layers[-1]
    plain = last.conv.peels and last.norm is None and last.residual is None and last.act == "relu"
    plain = plain and model.trains(f"layers_{model.depth - 1}")
    if not isinstance(readout, Pooled) or readout.pooling not in ("mean", "sum") or not plain:
        return
    one = evidence.one_gradient and evidence.noise is None and not observation.pruned and not evidence.altered
    if not one or model.drops or model.jumping.keeps != "last" or head_rank(evidence) != 1:
        return
    weights = model.conv_of(observation.update, model.depth - 1)
    names = [name for name in weights if "kernel" in name or name == "bias"]
    off = ~np.any([np.any(np.atleast_2d(weights[name]), axis=0) for name in names], axis=0)
    head = readout.first(model.readout_of(observation.params))["kernel"]
    upstream = np.abs(np.asarray(head) @ np.asarray(readout.first(model.readout_of(observation.update))["bias"]))
    row = np.abs(np.asarray(readout.pooled_row(model.readout_of(observation.update)), np.float64))
    passed = int(np.sum(off & (upstream > 1e-3 * upstream.max()) & (row > 1e-3 * row.max())))
    if passed >= PASSED:
        yield (
            f"{passed} units of convolution {model.depth} are off at every node and yet not zero in the pooled row: "
            "something passes it by that the file does not mention, as a skip connection ('add')"
        )


def _ends_straight(model: GNN) -> bool:
    """Every node sends the same gradient back to the last convolution, whose own then has a dimension a graph."""
    last = model.layers[-1]
    return (
        model.readout.additive == "pooled" and model.jumping.keeps == "last" and last.plain and last.act == "identity"
    )


def _ranks(evidence: Evidence) -> Iterator[str]:
    """Spans with fewer dimensions than there are different nodes lack rows of some neighbourhoods."""
    observation, least = evidence.observation, different_nodes(evidence).value
    if evidence.linear is False or observation.pruned or not evidence.one_gradient:
        return
    for hop in range(observation.model.depth):
        for site in leak_points(observation, hop):
            if site.name not in ("node", "readout"):
                continue
            noise = None if evidence.noise is None else evidence.deviation(site.gradient)
            span = Subspace.of_gradient(site.gradient, noise=noise)
            place = "the readout" if site.name == "readout" else f"convolution {hop + 1}"
            if hop == observation.model.depth - 1 and _ends_straight(observation.model):
                if span.rank < least:
                    yield (
                        f"the gradient of {place} has rank {span.rank}, as always where no activation stands between "
                        "it and the pooling (every node of a graph sends the same gradient back): neighbourhoods are "
                        "counted, but not checked there. The graph's size (--n, --max-n), public graphs (--auxiliary) "
                        "and more time help to count; with an activation there the gradient would check them"
                    )
            elif span.full:
                yield f"the gradient of {place} has the largest rank its width allows, {span.rank}: it excludes nothing"
            elif span.rank < least:
                yield (
                    f"the gradient of {place} has rank {span.rank}, and {least} different nodes or more enter: it "
                    f"lacks {counted(least - span.rank, 'dimension')} at least, and true "
                    "neighbourhoods lie outside its span"
                )


def _squares(evidence: Evidence) -> Iterator[str]:
    """The loss is of labels 0 and 1, and the head's gradient is that of a squared error."""
    target, (classes, squared) = squared_target(evidence), OF_NUMBERS
    if target is None:
        return
    said = f"under the loss {classes!r} no label gives the head's gradient; a squared error does with the target"
    instead = f"if clients minimise {squared!r}, give --loss {squared}"
    if whole(target):
        yield f"{said} {target:.0f}, to rounding: {instead}"
    else:  # a multiple of one gradient is as well a gradient of the other loss
        factor = fit(evidence, Loss(classes)).factor
        yield (
            f"{said} {target:.6g}: {instead}. At the same time {_another_scale(evidence.observation, factor)}; or the "
            "update is that of several graphs (--batch-size unknown), or belongs to other parameters"
        )


CHECKS: tuple[Callable[[Evidence], Iterator[str]], ...] = (
    _steps,
    _columns,
    _loss,
    _one_length,
    _altered,
    _mixed,
    _head,
    _squares,
    _skipped,
    _ranks,
)
"""All checks, in the order in which people read what they find."""
