"""A live PyTorch Geometric model, read from its forward pass and its modules."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from jgleak.federated.loss import Loss
from jgleak.federated.observation import Observation
from jgleak.interop.bridge import UNCOMPARED, Client, observed
from jgleak.interop.convert import embeddings_of, is_batch_norm, is_leaf, is_norm
from jgleak.interop.example import Example, Given, OutputDiffersError
from jgleak.interop.forward import steps_of
from jgleak.interop.layers import WORDS, NamedLayer, Step
from jgleak.interop.plan import MATCHING, REFUSED, SUBNETWORK
from jgleak.interop.probe import probe_of
from jgleak.interop.trace import difference, steps_in, traced

BESIDE_NORMS = (
    ". Batch normalisation is in training mode too: call its .train() again after model.eval(), and give sent=, a copy "
    "of model.state_dict() from before the forward pass"
)
"""Added to the message on dropout where norms are in training mode too."""


def from_pyg(
    model: Any,
    layers: Sequence[Step] | None = None,
    *,
    loss: str | Loss,
    batch_size: int = 1,
    reduction: str = "mean",
    example: Given | None = None,
    deterministic: bool = False,
    sent: Any = None,
) -> Observation:
    """The observation of a PyTorch Geometric model after ``loss.backward()``: its parameters and their ``.grad``.

    Parameters with ``requires_grad=False`` are frozen parts.

    Args:
      model: the module.
      layers: None: the model is run on a small graph and its forward pass is recorded (``steps_of``). Or the forward
        pass in order: names of its submodules, and words for functions (``"relu"``, ``"mean"``, ``"add"``, ..). A
        ``Sequential``, and a model within the model, stand for their parts.
      deterministic: the model is in training mode, but its forward pass draws nothing (no dropout, ``F.dropout``
        included).
      sent: the state that the client got, ``{k: v.clone() for k, v in model.state_dict().items()}`` from before the
        forward pass; needed where batch normalisation is in training mode, since that pass changes its running
        statistics. None: the model's own.
      loss: as for ``from_arrays``.
      batch_size: as for ``from_arrays``.
      reduction: as for ``from_arrays``.
      example: as for ``from_arrays``.

    Raises:
      ValueError: a module that no attack handles, with the reason; a forward pass that is not understood, with the
        place; a model in training mode; or as for ``from_arrays``.

    Warns:
      UserWarning: no example was given, and the forward pass differs from the list, or is not understood.
    """
    modules = dict(model.named_modules())
    _check_mode(modules, model, deterministic, given=sent is not None)
    shown = None if example is None else Example.of(example)
    steps = [] if layers is None else [step for word in layers for step in _steps(word, modules)]
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    gradients = {name: parameter.grad for name, parameter in trained.items()}
    frozen = [name for name, _ in model.named_parameters() if name not in trained]
    given = {"loss": loss, "batch_size": batch_size, "reduction": reduction}
    state = model.state_dict()
    before, client = (state, Client(frozen)) if sent is None else (sent, Client(frozen, buffers=state))
    try:
        seen = observed(before, gradients, model if layers is None else steps, **given, example=shown, client=client)
    except OutputDiffersError as error:
        found = None if layers is None else _difference(model, steps, shown)
        raise ValueError(f"{error}. {found[:1].upper()}{found[1:]}" if found else str(error)) from error
    if example is None and layers is not None:
        _warn(model, modules, steps)
    return seen


def _difference(model: Any, steps: Sequence[Step], example: Example | None) -> str | None:
    """Where the forward pass of a live model differs from a list, as far as it is understood."""
    try:
        return difference(steps_of(model, example), steps)
    except ValueError as error:
        return str(error)


def _warn(model: Any, modules: Mapping[str, Any], steps: Sequence[Step]) -> None:
    """Warn where a list leaves out something that no array shows, or where the forward pass is not understood."""
    used = {step.name for step in steps if isinstance(step, NamedLayer)}
    left = [name for name, module in modules.items() if is_norm(module) and not any(_within(name, one) for one in used)]
    try:
        found = difference(steps_of(model), steps)
        understood = True
    except ValueError:
        found, understood = None, False
    if found is None and left:
        found = f"{left[0]!r} is a {type(modules[left[0]]).__name__} that the list leaves out"
    if found is not None:
        warnings.warn(
            f"layers: {found}; an attack on another model finds nothing. Give an example=(x, edge_index, output), "
            "which settles it, or leave layers out",
            stacklevel=3,
        )
    elif not understood:
        warnings.warn(UNCOMPARED, stacklevel=3)


def _within(name: str, part: str) -> bool:
    return name == part or name.startswith(f"{part}.")


def _check_mode(modules: Mapping[str, Any], model: Any, deterministic: bool, *, given: bool) -> None:
    norms = any(is_batch_norm(module) and module.training for module in modules.values())
    check_dropout(model, f"; take gradients after model.eval(). {MATCHING}{BESIDE_NORMS if norms else ''}")
    for name, module in modules.items():
        if is_batch_norm(module) and module.training and not given:
            raise ValueError(
                f"model: {name!r} is a {type(module).__name__} in training mode, where it mixes a batch's graphs, and "
                "whose running statistics the forward pass moved. Give those of before it: sent={k: v.clone() for k, v "
                "in model.state_dict().items()}; where attacks are to read several graphs, take the gradient after "
                "model.eval()"
            )
    if model.training and not deterministic:
        raise ValueError(
            "model: it is in training mode, where functions such as F.dropout may drop out unseen; take the gradient "
            "after model.eval(), or say deterministic=True where the forward pass draws nothing"
        )


def check_dropout(model: Any, instead: str) -> None:
    """Raise ``ValueError`` where a module of the model is in training mode and has dropout, whether the forward pass
    calls it or calls a function in its place.

    Args:
      model: the module.
      instead: the end of the message, after what is wrong: what to do.
    """
    for name, module in model.named_modules():
        kind = type(module).__name__
        dropout = getattr(module, "p", 0.0) if "Dropout" in kind else getattr(module, "dropout", 0.0)
        if module.training and isinstance(dropout, int | float) and dropout > 0:
            beside = ", as F.dropout is then" if model.training else ""
            raise ValueError(
                f"model: dropout is active, since {name or kind!r} (rate {dropout}) is in training mode{beside}: "
                f"{SUBNETWORK}{instead}"
            )


def _steps(word: Step, modules: Mapping[str, Any]) -> list[Step]:
    if isinstance(word, NamedLayer):
        return [word]
    if word not in modules or not word:
        if word in WORDS or word in REFUSED:
            return [word]
        raise ValueError(
            f"layers: the model has no submodule {word!r}; it has {', '.join(name for name in modules if name)}; words "
            f"are {', '.join(WORDS)}"
        )
    module, kind = modules[word], type(modules[word]).__name__
    encoder = embeddings_of(word, module)
    if encoder is not None:
        return [encoder]
    if kind in ("Sequential", "ModuleList") and not hasattr(module, "signature"):
        return [step for part, _ in module.named_children() for step in _steps(f"{word}.{part}", modules)]
    if "Dropout" in kind or kind == "Identity":
        return []
    if is_leaf(module) or not list(module.children()):
        return steps_in(word, module)
    return traced(module, {id(one): name for name, one in modules.items()}, probe_of(module))
