"""The forward pass of a live PyTorch model, recorded while it runs once on a small graph. Torch is imported only for a
model of it. Known modules are recorded as a whole, everything else by its functions.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jgleak.interop.convert import is_leaf
from jgleak.interop.layers import LOG_SOFTMAX
from jgleak.interop.probe import NODES, Probe, edge_classes, run

FUNCTIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "elu": "elu",
}
"""Functions that are an activation."""

SAME = (
    "contiguous clone float long int to type view reshape flatten squeeze unsqueeze select getitem view_as reshape_as "
    "expand"
).split()
"""Functions that return the same numbers, where they return as many."""

DROPOUTS = ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout", "dropout1d")
SUMS = ("add", "radd", "iadd")
CATS = ("cat", "concat", "concatenate")


@dataclasses.dataclass(frozen=True, eq=False)
class Made:
    """A tensor of the forward pass, and how it was computed.

    Attributes:
      what: ``rows`` (the input), ``column`` (one of its columns), ``module``, ``act``, ``add``, ``cat``, ``jump``,
        ``pool``, or ``unknown``.
      name: the name of the module, the activation, the pool or the function; the number of a column.
      parents: the tensors that it was computed from.
      place: file and line of the call.
      value: its value at that time.
      module: the module that computed it, if one did.
    """

    what: str
    name: str
    parents: tuple[Made, ...]
    place: str
    value: Any
    module: Any = None


def record(model: Any, names: Mapping[int, str], probe: Probe) -> Made:
    """How a model computes its output.

    Args:
      model: the module, or a part of one; it is run without gradients.
      names: the names of its modules, by their ``id``.
      probe: the graph.

    Raises:
      ValueError: it cannot be run on such a graph, or its output is not one tensor computed from the rows.
    """
    import torch  # pyright: ignore[reportMissingImports]
    from torch.overrides import TorchFunctionMode  # pyright: ignore[reportMissingImports]

    recorder = Recorder(names, probe)

    class Watching(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            recorder.called(func, args, kwargs or {}, out)
            return out

    hooks = []
    for module in model.modules():
        if is_leaf(module):
            hooks.append(module.register_forward_pre_hook(recorder.enter, with_kwargs=True))
            hooks.append(module.register_forward_hook(recorder.leave, with_kwargs=True))
    try:
        with torch.no_grad(), Watching():
            out = run(model, probe)
    except ValueError:
        raise
    except Exception as error:  # the user's code may raise anything
        raise ValueError(
            f"model: its forward pass does not run on a small graph with rows {tuple(probe.rows.shape)} ({error}); "
            "give an example=(x, edge_index, output), or write it down: layers=[..]"
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    return recorder.output(out)


class Recorder:
    """Records how each tensor is computed while a model runs."""

    def __init__(self, names: Mapping[int, str], probe: Probe) -> None:
        self.names, self.probe = names, probe
        self.depth = 0
        self.made: dict[int, Made] = {}
        self.kept: list[Any] = []  # kept alive, so that an id belongs to one tensor
        self._note(probe.rows, Made("rows", "the rows", (), "", probe.rows))

    def enter(self, module: Any, args: Any, kwargs: Any) -> None:
        self.depth += 1

    def leave(self, module: Any, args: Any, kwargs: Any, out: Any) -> None:
        self.depth -= 1
        if self.depth:
            return
        name, kind = self.names[id(module)], type(module).__name__
        parents = self._known((args, kwargs))
        if not parents:
            return
        if hasattr(module, "propagate"):
            self._check_edges(name, module, args, kwargs)
        what = "jump" if kind == "JumpingKnowledge" else "module"
        self._note(out, Made(what, name, parents, _place(), _copy(out), module))

    def called(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """A function of torch returned."""
        if self.depth:
            return
        parents = self._known((args, kwargs))
        if not parents:
            return
        name = getattr(func, "__name__", str(func)).strip("_")  # relu_, __add__
        for part in out if isinstance(out, tuple | list) else (out,):
            if hasattr(part, "detach"):
                self._note(part, self._meaning(name, args, kwargs, parents, part))

    def output(self, out: Any) -> Made:
        parts = (
            list(out) if isinstance(out, tuple | list) else list(out.values()) if isinstance(out, Mapping) else [out]
        )
        found = [self.made[id(part)] for part in parts if id(part) in self.made]
        if len(found) != 1:
            raise ValueError(
                f"model: its forward returns {len(parts)} things, {len(found)} of which are made of the rows; give a "
                "model that returns the logits alone"
            )
        return found[0]

    def _meaning(self, name: str, args: Any, kwargs: Any, parents: Sequence[Made], out: Any) -> Made:
        made = Made("unknown", name, tuple(parents), _place(), _copy(out))
        if any(hasattr(one, "detach") and id(one) not in self.made for one in _flat((args, kwargs))):
            return self._pool(made) or made  # it takes a tensor that does not depend on the rows
        if name in SUMS and len(parents) == 2 and kwargs.get("alpha", 1) == 1:
            return dataclasses.replace(made, what="add")
        if name in CATS and kwargs.get("dim", args[1] if len(args) > 1 else 0) in (-1, 1):
            return dataclasses.replace(made, what="cat")
        if len(parents) > 1:
            return self._pool(made) or made
        parent = parents[0]
        if name in FUNCTIONS and not _options(name, args, kwargs):
            return dataclasses.replace(made, what="act", name=FUNCTIONS[name])
        if name == LOG_SOFTMAX and kwargs.get("dim", args[1] if len(args) > 1 else None) in (-1, 1):
            return dataclasses.replace(made, what="act")
        neutral = name in SUMS and not any(_numbers(args))
        if (neutral or name in (*SAME, *DROPOUTS)) and _equal(out, parent.value):
            return parent
        if parent.what == "rows" and (column := _column(name, args)) is not None:
            return dataclasses.replace(made, what="column", name=str(column))
        return self._pool(made) or made

    def _pool(self, made: Made) -> Made | None:
        """The tensor as a pool of nodes' states, where it has the values of one."""
        bases = {id(base): base for base in _bases(made)}
        if len(bases) != 1:
            return None
        (base,) = bases.values()
        if not made.value.is_floating_point() or made.value.numel() != base.value.shape[1]:
            return None
        found = made.value.reshape(-1)
        for word, wanted in (
            ("mean", base.value.mean(dim=0)),
            ("sum", base.value.sum(dim=0)),
            ("max", base.value.max(dim=0).values),
        ):
            if found.allclose(wanted, rtol=1e-5, atol=1e-6):
                return dataclasses.replace(made, what="pool", name=word, parents=(base,))
        return None

    def _check_edges(self, name: str, module: Any, args: Any, kwargs: Any) -> None:
        rest = [*args[1:], *kwargs.values()]
        tensors = [one for one in rest if hasattr(one, "detach") and id(one) not in self.made]
        if not tensors or not tensors[0].equal(self.probe.edges):
            raise ValueError(
                f"model: {name!r} is not given the edge_index that forward is given, at {_place()}; edges that are "
                "added, left out or turned before are not supported: give the convolution forward's edge_index"
            )
        if (classes := edge_classes(module)) is not None:
            self._check_classes(name, classes, tensors[1:])
        elif len(tensors) > 1:
            raise ValueError(
                f"model: {name!r} is given more than rows and edge_index, at {_place()}: edge weights or features; the "
                "attacks look for edges that are there or not, or of classes that GINEConv(edge_dim=..) sees"
            )

    def _check_classes(self, name: str, classes: int, given: Sequence[Any]) -> None:
        import torch  # pyright: ignore[reportMissingImports]

        wanted = self.probe.edge_rows
        wanted = torch.eye(classes, device=wanted.device)[wanted] if wanted.dim() == 1 else wanted
        if len(given) != 1 or given[0].shape != wanted.shape or not given[0].to(wanted.dtype).equal(wanted):
            raise ValueError(
                f"model: {name!r} is given other edge features than the one-hot classes of the edges that forward is "
                f"given, at {_place()}; here its own map is the first that they enter: give it edge_attr of edge_dim "
                "columns, one a class"
            )

    def _known(self, arguments: Any) -> tuple[Made, ...]:
        return tuple(self.made[id(one)] for one in _flat(arguments) if id(one) in self.made)

    def _note(self, tensor: Any, made: Made) -> None:
        self.kept.append(tensor)
        self.made[id(tensor)] = made


def _bases(made: Made) -> Iterator[Made]:
    """The nodes' states from which unknown functions computed a tensor."""
    for parent in made.parents:
        if parent.what in ("unknown", "pool"):
            yield from _bases(parent)
        elif parent.value.dim() == 2 and parent.value.shape[0] == NODES:
            yield parent
        else:
            yield from _bases(parent)


def _flat(arguments: Any) -> Iterator[Any]:
    if isinstance(arguments, Mapping):
        arguments = list(arguments.values())
    if isinstance(arguments, tuple | list):
        for one in arguments:
            yield from _flat(one)
    else:
        yield arguments


def _numbers(arguments: Any) -> list[Any]:
    return [one for one in _flat(arguments) if isinstance(one, int | float)]


def _options(name: str, args: Any, kwargs: Any) -> bool:
    """True for an activation whose options make it a different function."""
    if name == "gelu":
        return kwargs.get("approximate", "none") != "none"
    return name == "elu" and (kwargs.get("alpha", args[1] if len(args) > 1 else 1.0)) != 1.0


def _equal(one: Any, other: Any) -> bool:
    return one.numel() == other.numel() and bool((one.reshape(-1) == other.reshape(-1)).all())


def _column(name: str, args: Any) -> int | None:
    """Which column ``rows[:, i]`` or ``rows.select(1, i)`` takes."""
    if name == "getitem" and isinstance(args[1], tuple) and len(args[1]) == 2:
        rows, column = args[1]
        return column if isinstance(column, int) and rows in (slice(None), ...) else None
    return args[2] if name == "select" and args[1] in (1, -1) else None


def _copy(out: Any) -> Any:
    return out.detach().clone() if hasattr(out, "detach") else out


BETWEEN = ("torch", "jaxtyping")
"""Packages whose frames are between a model's own code and this module."""


def _place() -> str:
    """File and line of the model's own code that is running."""
    frame: Any = sys._getframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.split(".")[0] not in BETWEEN and not module.startswith("jgleak.interop"):
            return f"{frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno}"
        frame = frame.f_back
    return "an unknown place"
