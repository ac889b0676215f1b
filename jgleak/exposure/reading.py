"""What ``jgleak check MODEL`` names: a deployed model, an observation file, or an object in the user's code."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from jgleak.did_you_mean import did_you_mean
from jgleak.exposure.clients import Clients
from jgleak.exposure.deployed import Deployed
from jgleak.exposure.deployment import Deployment
from jgleak.exposure.dropout import dropping
from jgleak.exposure.returned import WHENCE, returned_rounding, rounded
from jgleak.exposure.stated import Stated
from jgleak.features import FeatureSpace
from jgleak.federated.observation import Observation, load
from jgleak.gnn import GNN
from jgleak.interop.description import Description, described
from jgleak.names import deployed as names
from jgleak.names.entries import Entries
from jgleak.precision import COMPUTED, DIGITS, SINGLE, digits_of, rounding, rounds_to, smallest_noise
from jgleak.reading import check_file

DEPLOYED: Entries[Deployed] = Entries({name: named.home for name, named in names.DEPLOYED.items()})


LEAST_RATE = 1e-3
"""Where one step would need a learning rate below this, its noise is not attributed to rounding."""


class Subject(NamedTuple):
    """What is checked, and its title.

    Attributes:
      deployment: a model with its clients.
      title: a line about both; empty where there is none.
    """

    deployment: Deployment
    title: str = ""


def read(text: str, space: FeatureSpace | None, default: FeatureSpace, stated: Stated) -> Subject:
    """The model that a text names.

    Args:
      text: a name of ``DEPLOYED``; an observation file; or ``module:name`` or ``file.py:name``, a ``GNN``, a PyTorch
        module, an ``Observation``, or a function that makes one.
      space: the feature space, where it was given.
      default: the space where nothing states one.
      stated: options about clients, which replace what the model states.

    Raises:
      ValueError: there is nothing of that name, or it is not a model; or as for ``Deployment``.
    """
    if text in DEPLOYED:
        entry = DEPLOYED[text]
        return Subject(stated.over(entry.deployment(space or default)), f"{entry.title} ({entry.source})")
    if text.endswith(".safetensors"):
        seen, own = load(text, space, default=default)
        return Subject(stated.over(Deployment(seen.model, own, clients_of(seen), seen.params)))
    if ":" not in text:
        raise ValueError(
            f"model: {did_you_mean(text, DEPLOYED)}{text!r} is no deployed model ({', '.join(DEPLOYED)}), no "
            "observation file (*.safetensors), and names nothing in your code (package.module:name, or file.py:name)"
        )
    return _of_object(_found(text), text, space, default, stated)


def clients_of(seen: Observation) -> Clients:
    """How the clients of an observation train. Of a defence only the kind is known, so its strength here is
    arbitrary."""
    if seen.protocol not in ("fedsgd", "fedavg"):
        raise ValueError(
            f"protocol: {seen.protocol!r} sends gradients of single nodes; what is checked sends those of whole graphs "
            "(fedsgd, fedavg)"
        )
    rounds = [name for name in DIGITS if rounds_to(name, seen.rounding)]
    marks = (("clip:1", seen.scaled), ("prune:0.9", seen.pruned), *((name, True) for name in rounds))
    noise = seen.noise if (seen.noise or 0.0) > smallest_noise(seen.rounding or 0.0) else None
    return Clients(
        loss=seen.loss,
        batch_size=seen.batch_size,
        local=seen.local,
        statistics=seen.statistics is not None,
        defense="+".join(mark for mark, holds in marks if holds),
        noise=noise,
        whence=_whence(seen) if noise else "",
    )


def _whence(seen: Observation) -> str:
    """The source of a file's noise, as far as its size shows: rounding, or what the file states."""
    if (digits := digits_of(seen.update)) < SINGLE:
        most = 2.0 * COMPUTED * rounding(seen.update, digits)
        return "rounding to 16 bits" if (seen.noise or 0.0) <= most else "as the file says"
    if seen.local is not None:
        return WHENCE if (seen.noise or 0.0) <= 2.0 * returned_rounding(seen.params, seen.local) else "as the file says"
    rate = rounded(seen.params) / (seen.noise or math.inf)
    return (
        f"as rounding of returned weights leaves at a rate of {rate:.2g}" if rate >= LEAST_RATE else "as the file says"
    )


def _of_object(found: Any, text: str, space: FeatureSpace | None, default: FeatureSpace, stated: Stated) -> Subject:
    if isinstance(found, GNN):
        return Subject(stated.over(Deployment(found, space or default)))
    if isinstance(found, Observation):
        return Subject(stated.over(Deployment(found.model, space or default, clients_of(found), found.params)))
    if _of_flax(found):
        raise ValueError(
            f"model: {text} is a module of flax, whose forward pass is not traced; let a function return what "
            "jgleak.interop.from_arrays makes of its parameters and of gradients on any public graph "
            "(docs/bring-your-own-model.md, under flax), and name that function"
        )
    if not hasattr(found, "named_modules"):
        raise ValueError(
            f"model: {text} is a {type(found).__name__}; give a jgleak.GNN, a PyTorch module, an observation, or a "
            "function without arguments that makes one"
        )
    said = described(found, loss=stated.clients.get("loss"))
    return Subject(stated.over(of_description(said, space or said.space(default))))


def _of_ours(found: Any) -> bool:
    """True for a class of jgleak's models, which are flax modules too."""
    return isinstance(found, type) and issubclass(found, GNN)


def _of_flax(found: Any) -> bool:
    """True for a flax module (linen or NNX) or its class; flax is not imported here."""
    kind = found if isinstance(found, type) else type(found)
    return any(base.__module__.split(".")[0] == "flax" and base.__name__ == "Module" for base in kind.__mro__)


def of_description(said: Description, space: FeatureSpace) -> Deployment:
    """The deployment of a PyTorch Geometric module: norms in the module's mode, dropout as in training mode.

    Raises:
      ValueError: as for ``Deployment``.
    """
    model = dropping(said.model, said.dropout) if said.dropout else said.model
    return Deployment(model, space, Clients(loss=said.loss), said.params)


def _found(text: str) -> Any:
    """The object, or what a function of that name returns."""
    place, _, name = text.rpartition(":")
    if place.endswith(".py"):
        check_file(place)
    with _running(place, "imported"):
        module = _module(place)
    if not hasattr(module, name):
        raise ValueError(f"model: {place} has no {name!r}")
    found = getattr(module, name)
    made = callable(found) and (isinstance(found, type) or not hasattr(found, "named_modules"))
    if not made or isinstance(found, GNN) or (_of_flax(found) and not _of_ours(found)):
        return found
    if wanted := _wanted(found):
        raise ValueError(f"model: {text} takes {', '.join(wanted)}; give a function without arguments that makes one")
    with _running(place, f"used: {name}() failed"):
        return found()


def _wanted(function: Callable[..., Any]) -> list[str]:
    """The arguments without a default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # not written in Python
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one.name for one in parameters if one.default is one.empty and one.kind not in variadic]


@contextmanager
def _running(place: str, aim: str) -> Iterator[None]:
    """Run the user's code with its folder on the path, as ``python file.py`` and ``python -m`` do.

    Raises:
      ValueError: the code raised an exception.
    """
    beside = str(Path(place).resolve().parent if place.endswith(".py") else Path.cwd())
    sys.path.insert(0, beside)
    try:
        yield
    except (Exception, SystemExit) as error:
        raise ValueError(f"model: {place} cannot be {aim} ({type(error).__name__}: {error})") from error
    finally:
        if beside in sys.path:  # the code may have taken it away
            sys.path.remove(beside)


def _module(place: str) -> Any:
    if not place.endswith(".py"):
        return importlib.import_module(place)
    name = str(Path(place).resolve())  # a path is no module's name, so that no module is replaced
    spec = importlib.util.spec_from_file_location(name, place)
    assert spec is not None and spec.loader is not None, "it ends in .py"
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
