"""What the server saw, and the file that holds it, with the public feature space."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as serialised

from jgleak.features import FeatureSpace
from jgleak.federated.local_training import LocalTraining
from jgleak.federated.loss import Loss, check_loss
from jgleak.federated.two_logits import one_output
from jgleak.gnn import GNN, Params, version_1
from jgleak.gnn.serial import model_from_json, model_to_json
from jgleak.gnn.tree import at
from jgleak.precision import computed_noise, smallest_noise
from jgleak.reading import check_file, parsed_json, typed_fields

FORMAT = 3
"""Version of the observation file; 1 was that of jgleak 0.1 (``version_1``), 2 that of early versions of 0.2
(``one_output``)."""

PROTOCOLS = ("fedsgd", "fedavg", "target_node", "node_losses")
"""``fedsgd``: the mean gradient over the batch's graphs. ``fedavg``: the mean of such gradients along several local
steps, ``(w_before - w_after) / (rate * steps)`` where these are plain, else by ``LocalTraining``. ``target_node`` (node
tasks): of the loss of every graph's node 0, the mean over the batch. ``node_losses`` (node tasks): one gradient for the
loss of each node of one graph, side by side, so that every tensor gains a leading axis of nodes (GLG, node attacker
2)."""

STATISTICS = ("mean", "variance")
"""What a norm in training mode returns."""

DTYPES = ("F32", "F64", "F16", "BF16")
"""Tensor types of the observation file, by their safetensors names."""


@dataclasses.dataclass(frozen=True)
class Observation:
    """All that an honest-but-curious server sees of one client's round. It holds nothing private.

    Attributes:
      model: the architecture.
      params: the parameters sent to the client.
      update: what came back, a pytree like ``params`` (FedSGD: the mean gradient over the batch). Frozen parts of the
        model may be left out; they are zeros then, which say nothing.
      loss: what the client minimised, as the text of a ``Loss``: ``bce``, ``ce+smoothing:0.1``, ``masked_bce``.
      batch_size: number of graphs in the batch.
      protocol: one of ``PROTOCOLS``.
      local: how the client trained (``fedavg``); None under other protocols.
      scaled: the update was clipped as a whole, so that its length is not the gradient's.
      pruned: the smallest entries of its tensors, or of all of it, were left out, and are zero.
      statistics: of a model with batch normalisation in training mode, the running statistics that came back beside the
        update: ``mean`` and ``variance`` of every such norm, under its place in ``params``. None: none came back.
      noise: standard deviation of independent noise on every entry that is known beside the update, as that of rounded
        weights whose difference it is. Attacks account for it unless ``Knowledge.noise`` states another. None: none.
      rounding: root mean square error of each entry relative to it, where a client rounded what it sent. None: none.

    Raises:
      ValueError: the update does not fit the parameters (a gradient of another model), or is not finite; or batch
        normalisation in training mode under a protocol of single nodes.
    """

    model: GNN
    params: Params
    update: Params
    loss: str
    batch_size: int = 1
    protocol: str = "fedsgd"
    local: LocalTraining | None = None
    scaled: bool = False
    pruned: bool = False
    statistics: Params | None = None
    noise: float | None = None
    rounding: float | None = None

    def __post_init__(self) -> None:
        self.model.check()
        object.__setattr__(self, "loss", str(Loss.of(self.loss)))
        check_loss(self.model, self.loss)
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"protocol: unknown {self.protocol!r}; choose one of {', '.join(PROTOCOLS)}")
        if self.protocol not in ("fedsgd", "fedavg") and not self.model.node_level:
            raise ValueError(f"protocol: {self.protocol!r} needs a node task, this model labels graphs; use 'fedsgd'")
        if not isinstance(self.batch_size, int) or self.batch_size < 1:
            raise ValueError(f"batch_size: must be a whole number from 1, got {self.batch_size!r}")
        if (self.protocol == "fedavg") != (self.local is not None):
            raise ValueError(
                f"local: clients train under 'fedavg' alone, and state how (LocalTraining); got {self.local!r} under "
                f"{self.protocol!r}"
            )
        for mark in ("scaled", "pruned"):
            if not isinstance(getattr(self, mark), bool):
                raise ValueError(f"{mark}: must be true or false, got {getattr(self, mark)!r}")
        if self.noise is not None and not 0.0 <= self.noise < float("inf"):
            raise ValueError(f"noise: a standard deviation is finite and not negative, got {self.noise}; None for none")
        if self.rounding is not None and not 0.0 < self.rounding < 1.0:
            raise ValueError(f"rounding: a relative error is above 0 and below 1, got {self.rounding}; None for none")
        if self.rounding is not None:
            object.__setattr__(self, "noise", max(self.noise or 0.0, smallest_noise(self.rounding)))
        for what, tree in (("params", self.params), ("update", self.update)):
            _check_depth(what, tree, self.model)
        expected = self.model.shapes
        _check_tree("params", self.params, flatten(expected))
        object.__setattr__(self, "update", self.model.whole(self.update, self._like_update()))
        _check_tree("update", self.update, flatten(expected), self.gradients)
        moved = [name for name, leaf in flatten(self.update).items() if self._frozen(name) and np.any(np.asarray(leaf))]
        if moved:
            raise ValueError(
                f"update: {moved[0]!r} is frozen in this model, and moved; leave it out of the frozen parts"
            )
        if self.model.returns_statistics:
            self._check_training(expected)
        elif self.statistics is not None:
            raise ValueError("statistics: no norm of this model is in training mode; leave them out")

    def _check_training(self, expected: Params) -> None:
        if self.protocol not in ("fedsgd", "fedavg"):
            raise ValueError(
                "model: batch normalisation in training mode mixes all nodes of a step, and under "
                f"{self.protocol!r} these are unknown; take the gradients in evaluation mode"
            )
        if self.statistics is not None:
            norms = [path for path, norm in self.model.norms.items() if norm.returns_statistics]
            wanted = {f"{'/'.join(path)}/{name}": at(expected, path)[name] for path in norms for name in STATISTICS}
            _check_tree("statistics", self.statistics, wanted)

    def _frozen(self, name: str) -> bool:
        return not self.model.trains(*name.split("/"))

    def _like_update(self) -> Params:
        """The parameters in the update's shapes."""
        beside = self.gradients
        if beside is None:
            return self.params
        return jax.tree.map(lambda leaf: np.broadcast_to(leaf, (beside, *np.shape(leaf))), self.params)

    @property
    def gradients(self) -> int | None:
        """How many gradients came side by side, or None where the update is one."""
        leaves = flatten(self.update).values()
        return next((np.shape(leaf)[0] for leaf in leaves), None) if self.protocol == "node_losses" else None

    @property
    def steps(self) -> int:
        """Local steps behind the update; 1 where it is a gradient."""
        return 1 if self.local is None else self.local.steps

    @property
    def adaptive(self) -> bool:
        """The client took steps of Adam: of gradients the update keeps zeros and signs, and no sums."""
        return self.local is not None and self.local.optimiser == "adam"


def _check_depth(what: str, tree: Params, model: GNN) -> None:
    # Before the described model is built: a file may claim any number of layers.
    if not isinstance(tree, Mapping):
        raise ValueError(f"{what}: expected a nested dict of arrays named like the model's, got {type(tree).__name__}")
    last = f"layers_{model.depth - 1}"
    if last not in tree and (what == "params" or model.trains(last)):
        raise ValueError(f"{what}: lacks the tensors of {last!r}; it belongs to a model of fewer layers")


def _check_tree(what: str, tree: Params, expected: Mapping[str, Any], beside: int | None = None) -> None:
    leaves = flatten(tree)
    lead = () if beside is None else (beside,)
    for name in sorted(expected.keys() | leaves.keys()):
        if name not in leaves or name not in expected:
            side = "lacks" if name not in leaves else "has an unexpected"
            raise ValueError(f"{what}: {side} tensor {name!r}; it belongs to another model than the one described")
        got, want = np.shape(leaves[name]), lead + expected[name].shape
        if got != want:
            raise ValueError(f"{what}: {name!r} has shape {got}, this model has {want}; it belongs to another model")
        with np.errstate(invalid="ignore"):  # a NaN of 16 bits may warn
            finite = np.all(np.isfinite(np.asarray(leaves[name])))
        if not finite:
            raise ValueError(f"{what}: {name!r} holds NaN or infinite values; check the client's loss and parameters")


def flatten(tree: Params, prefix: str = "") -> dict[str, Any]:
    """A nested dict of arrays as one dict with ``/`` between the names."""
    out: dict[str, Any] = {}
    for name, value in tree.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            out.update(flatten(value, path + "/"))
        else:
            out[path] = value
    return out


def unflatten(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Inverse of ``flatten``; raises ``ValueError`` when one name is a prefix of another."""
    out: dict[str, Any] = {}
    for path, value in flat.items():
        *parents, leaf = path.split("/")
        node = out
        for parent in parents:
            node = node.setdefault(parent, {})
            if not isinstance(node, dict):
                raise ValueError(f"tensor {path!r}: {parent!r} is a tensor and a folder of tensors at once")
        if leaf in node:
            raise ValueError(f"tensor {path!r}: {leaf!r} is a tensor and a folder of tensors at once")
        node[leaf] = value
    return out


def serialise(observation: Observation, space: FeatureSpace | None = None) -> bytes:
    """An observation and the public feature space as the bytes of one safetensors file.

    Tensors are named ``params/...`` and ``update/...``, and ``statistics/...`` where some came back; the header holds
    one JSON string with the format version, the model, the loss, the protocol and the feature space. Nothing private is
    in it. Without a space the reader must bring one.

    Raises:
      ValueError: a local step takes more graphs than the client has.
    """
    local = observation.local
    if local is not None and local.loader is not None and local.loader > observation.batch_size:
        raise ValueError(
            f"loader: a step takes {local.loader} graphs, and the client has batch_size={observation.batch_size}; give "
            "the number of all its graphs as batch_size, or leave loader out where every step takes all"
        )
    header = {
        "format": FORMAT,
        "model": model_to_json(observation.model),
        "loss": observation.loss,
        "batch_size": observation.batch_size,
        "protocol": observation.protocol,
        "local": None if local is None else _local_fields(local),
        "scaled": observation.scaled,
        "pruned": observation.pruned,
        "noise": observation.noise,
        "rounding": observation.rounding,
        "space": None if space is None else space.to_json(),
    }
    trees = {"params": observation.params, "update": observation.update, "statistics": observation.statistics or {}}
    # safetensors writes an array's buffer as it lies in memory, so the order must be C.
    trees["update"] = observation.model.evidence(trees["update"])
    tensors = {
        f"{part}/{k}": np.asarray(v, order="C") for part, tree in trees.items() for k, v in flatten(tree).items()
    }
    return serialised(tensors, metadata={"jgleak": json.dumps(header)})


def save(path: str | Path, observation: Observation, space: FeatureSpace | None = None) -> None:
    """Write ``serialise(observation, space)`` to a file.

    Raises:
      ValueError: the file cannot be written, or a local step takes more graphs than the client has.
    """
    try:
        Path(path).write_bytes(serialise(observation, space))
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error}; choose a folder you may write to") from error


def load(
    path: str | Path, space: FeatureSpace | None = None, *, default: FeatureSpace | None = None
) -> tuple[Observation, FeatureSpace]:
    """Read an observation file; nothing in it is executed.

    Where the file states no noise and its update has 16 bits, the noise is what a client that computes in such numbers
    leaves (``jgleak.precision``).

    Args:
      path: the file.
      space: the public feature space, where the file has none or not the right one.
      default: the space of a file that has none, where ``space`` is not given.

    Raises:
      ValueError: missing or corrupt file, not an observation, a newer format, contents that contradict each other, or a
        feature space that is missing or of another width than the model's input.
    """
    instead = "give one that `jgleak.save` or `jgleak attack --out` wrote"
    try:
        check_file(path)
    except ValueError as error:
        raise ValueError(f"{error}; {instead}") from error
    try:
        with safe_open(str(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: _tensor(file, name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (OSError, SafetensorError, ValueError) as error:
        if Path(path).is_file() and _of_torch(Path(path)):
            raise ValueError(
                f"cannot read {path}: it looks like a file of torch.save, which jgleak does not open, since that may "
                "execute code; give the model and its gradients to jgleak.interop.from_pyg and save what it returns, "
                "as docs/bring-your-own-model.md shows"
            ) from error
        why = ": it is not one" if "header too large" in f"{error}" else f": {error}"
        raise ValueError(f"cannot read {path} as a safetensors file{why}; {instead}") from error
    if "jgleak" not in metadata:
        raise ValueError(f"{path}: not a jgleak observation (no 'jgleak' header); write one with jgleak.save")
    try:
        observation, stated = _from_header(parsed_json(metadata["jgleak"]), tensors)
        chosen = next((one for one in (space, stated, default) if one is not None), None)
        if chosen is None:
            raise ValueError(
                "it does not say what the columns of its input mean; give --features FILE (in Python load(file, "
                "space)); docs/bring-your-own-model.md has the format, under 'The feature schema'"
            )
    except (KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"{path}: malformed observation header ({error!r})") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    width = observation.model.in_features
    if chosen.width != width:
        integers = (
            ""
            if width != len(chosen.features)
            else (", here perhaps each feature's integer in one column (kind 'number'; of pyg and ogb: pyg:numbers)")
        )
        where = "features" if space is not None else str(path)
        what = "this space" if chosen is not default else "nothing says what its columns mean, and the default space"
        raise ValueError(
            f"{where}: {what} has {chosen.width} columns, the model takes {width}; "
            f"describe the columns that the model was shown{integers}"
        )
    return observation, chosen


def _of_torch(path: Path) -> bool:
    """True for what begins as a ZIP archive or as a pickle does. In a safetensors file ``{`` is the ninth byte."""
    try:
        with path.open("rb") as file:
            first = file.read(9)
    except OSError:
        return False
    return first.startswith(b"PK\x03\x04") or (first.startswith(b"\x80") and first[8:] != b"{")


HEADER = {"format": "int", "loss": "str", "batch_size": "int", "protocol": "str", "scaled": "bool", "pruned": "bool"}
HEADER |= {"noise": "float | None", "rounding": "float | None"}
"""What the header's plain fields hold."""


def _from_header(header: Any, tensors: Mapping[str, np.ndarray]) -> tuple[Observation, FeatureSpace | None]:
    """The observation that a file's header and tensors describe, and the space that the header states."""
    fields = typed_fields(header, HEADER, others=True)
    written = fields["format"]
    if not 1 <= written <= FORMAT:
        told = f"written by a newer jgleak (format {written}); upgrade to read it"
        raise ValueError(told if written > FORMAT else f"format: counted from 1, got {written}")
    trees = {
        part: unflatten({k.removeprefix(part + "/"): v for k, v in tensors.items() if k.startswith(part + "/")})
        for part in ("params", "update", "statistics")
    }
    noise, rounding = (fields.get(name) for name in ("noise", "rounding"))
    if written == 1:
        trees = {part: version_1.tree_of(tree) for part, tree in trees.items()}
    observation = Observation(
        model=(version_1.model_of if written == 1 else model_from_json)(header["model"]),
        params=trees["params"],
        update=trees["update"],
        loss=fields["loss"],
        batch_size=fields["batch_size"],
        protocol=fields["protocol"],
        local=_local(header),
        scaled=fields.get("scaled", False),
        pruned=fields.get("pruned", False),
        noise=computed_noise(trees["update"]) if noise is rounding is None else noise,
        rounding=rounding,
        statistics=trees["statistics"] or None,
    )
    if written < 3:
        seen = observation.model, observation.params, observation.update, observation.loss
        observation = dataclasses.replace(observation, **one_output(*seen))
    return observation, None if header["space"] is None else FeatureSpace.from_json(header["space"])


TRAINING = {f.name: str(f.type) for f in dataclasses.fields(LocalTraining)}
"""What the fields of local training hold."""


def _local_fields(local: LocalTraining) -> dict[str, Any]:
    """Those that say something: files of plain steps are read by versions that know no others."""
    plain = LocalTraining(local.rate, local.steps)
    return {k: v for k, v in dataclasses.asdict(local).items() if k in ("rate", "steps") or v != getattr(plain, k)}


def _local(header: Mapping[str, Any]) -> LocalTraining | None:
    """The client's training by a file's header; rate and steps lay side by side in it once."""
    if "local" in header:
        return None if header["local"] is None else LocalTraining(**typed_fields(header["local"], TRAINING, "local"))
    old = typed_fields(header, {f"local_{name}": TRAINING[name] for name in ("rate", "steps")}, others=True)
    return LocalTraining(old["local_rate"], old["local_steps"]) if header["protocol"] == "fedavg" else None


def _tensor(file: Any, name: str) -> np.ndarray:
    dtype = file.get_slice(name).get_dtype()
    if dtype not in DTYPES:
        raise ValueError(f"tensor {name!r} has type {dtype}; an observation holds {', '.join(DTYPES)}")
    return file.get_tensor(name)
