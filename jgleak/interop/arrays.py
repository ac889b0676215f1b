"""Arrays by name, from state dicts, parameter trees, NNX states and files. No framework is imported."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open

from jgleak.archives import check_growth
from jgleak.reading import check_file

STORED = "'kernel' is (in, out), 'weight' is (out, in)"
"""How matrices are stored, by their names; what to check where one looks transposed."""

PARTS = ("state", "gradient")
"""Prefixes of a file's two trees: ``state.conv1.bias`` and ``gradient.conv1.bias``."""

Arrays = dict[str, np.ndarray]


def by_name(tree: Any) -> Arrays:
    """Every array of ``tree`` on the host, under its path with dots between the names.

    Args:
      tree: a dict of tensors (PyTorch's ``state_dict()``), nested dicts or lists (flax's ``params``, ``nnx.state``), or
        a dict by tuples (a flattened tree). Entries may be NumPy, JAX or torch arrays, or NNX variables; None is left
        out (a parameter without gradient).

    Raises:
      ValueError: an entry is not an array of numbers, or two have the same name.
    """
    out: Arrays = {}
    for name, leaf in _leaves(tree, ()):
        if leaf is None:
            continue
        if name in out:
            raise ValueError(f"arrays: {name!r} occurs twice; give every array its own name")
        out[name] = _host(name, leaf)
    return out


def named(names: Sequence[str], arrays: Sequence[Any]) -> Arrays:
    """A list of arrays, as Flower's clients send it, by name.

    Args:
      names: in the order of the list, ``list(model.state_dict())``.
      arrays: one for each name.

    Raises:
      ValueError: the numbers of names and arrays differ; or as for ``by_name``.
    """
    if len(names) != len(arrays):
        raise ValueError(
            f"arrays: {len(arrays)} arrays for {len(names)} names; give the names in the order of the list, as "
            "list(model.state_dict())"
        )
    return by_name(dict(zip(names, arrays, strict=True)))


def read_arrays(path: str | Path) -> tuple[Arrays, Arrays]:
    """State and gradients of one ``.safetensors`` or ``.npz`` file, names with the prefixes of ``PARTS``.

    Raises:
      ValueError: the file cannot be read, or an array has another prefix.
    """
    path = Path(path)
    found: dict[str, Arrays] = {part: {} for part in PARTS}
    for name, array in _file(path).items():
        part, _, rest = name.replace("/", ".", 1).partition(".")
        if part not in found or not rest:
            raise ValueError(
                f"{path}: {name!r} has no prefix 'state.' or 'gradient.'; save both trees under these names"
            )
        found[part][rest] = _host(name, array)
    for part, arrays in found.items():
        if not arrays:
            raise ValueError(f"{path}: no array is called '{part}.<name>'; the file must hold state and gradients")
    return found["state"], found["gradient"]


def _file(path: Path) -> dict[str, np.ndarray]:
    if path.suffix not in (".safetensors", ".npz"):
        raise ValueError(
            f"{path}: arrays come as .safetensors or .npz, this is {path.suffix or 'a file without suffix'}"
        )
    try:
        check_file(path)
        if path.suffix == ".npz":
            with ZipFile(path) as archive:
                check_growth(archive)
            with np.load(path, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        with safe_open(str(path), framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    except (OSError, EOFError, SafetensorError, BadZipFile, zlib.error, RuntimeError, ValueError, TypeError) as error:
        raise ValueError(f"{path}: cannot be read as {path.suffix} ({error})") from error


def _leaves(tree: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if isinstance(tree, Mapping):
        items = tree.items()
    elif isinstance(tree, list | tuple):
        items = enumerate(tree)
    else:
        yield ".".join(path), tree
        return
    for key, value in items:
        parts = key if isinstance(key, tuple) else (key,)
        yield from _leaves(value, (*path, *(str(part) for part in parts)))


def _host(name: str, leaf: Any) -> np.ndarray:
    if hasattr(leaf, "get_value"):  # an NNX variable
        leaf = leaf.get_value()
    if hasattr(leaf, "detach"):  # a torch tensor
        leaf = leaf.detach().cpu()
        # NumPy has no bfloat16; the type is kept, since it shows the client's precision.
        short = str(leaf.dtype) == "torch.bfloat16"
        leaf = leaf.float().numpy().astype(jnp.bfloat16) if short else leaf.numpy()
    array = np.asarray(leaf)
    if array.dtype.kind not in "fiub" and str(array.dtype) != "bfloat16":
        raise ValueError(f"arrays: {name!r} holds {array.dtype}, not numbers; give arrays by name")
    return array
