"""What everyone in the federation knows about node and edge features: names, values, normalisation.

A server must publish this for training to work at all, so every attack may use it
(GRAIN, section 3, "threat model"). It never holds anything of one client.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, get_args

import numpy as np
from jaxtyping import Float, Int, Num

from jgleak.did_you_mean import did_you_mean
from jgleak.features.feature import Feature, Kind, check_mapping, check_values
from jgleak.reading import typed_fields

_FEATURE = {
    "name": "str",
    "values": "tuple[str | int | float, ...]",
    "kind": "str",
    "determined_by": "str | None",
    "mapping": "tuple[int, ...]",
}
_SPACE = {"degree": "str | None", "mean": "tuple[float, ...] | None", "std": "tuple[float, ...] | None"}
_SPACE |= {"edge_classes": "tuple[str, ...]", "max_degree": "int | None"}


@dataclasses.dataclass(frozen=True, eq=False)
class FeatureSpace:
    """The public schema of node features, and the map from feature codes to the model's input columns.

    ``x (n, G)`` holds one entry a *feature* (a code for discrete features, the number itself for real ones);
    ``encode`` turns it into the model's input ``(n, m)``, one-hot where the schema says so, then
    ``(column - mean) / std`` with columns of zero deviation set to 0 (GRAIN's normalisation).

    Attributes:
      features: the features, in column order.
      degree: name of the discrete feature whose *values* are node degrees, or None when degrees are not a feature.
      mean: column means over the public data set (m,), or None for no normalisation.
      std: column standard deviations (m,), or None for no normalisation.
      edge_classes: names of the classes that edges are of (bond types), in the order of their codes; none where edges
        are alike. A combination of several edge attributes is one class.
      max_degree: largest number of neighbours in the public data that the statistics are of, where features do not
        state degrees; None: not published.
    """

    features: tuple[Feature, ...]
    degree: str | None = None
    mean: Float[np.ndarray, " m"] | None = None
    std: Float[np.ndarray, " m"] | None = None
    edge_classes: tuple[str, ...] = ()
    max_degree: int | None = None

    def __post_init__(self) -> None:
        names = [f.name for f in self.features]
        if not names:
            raise ValueError("features: a FeatureSpace needs at least one feature")
        _unique("features", names)
        for f in self.features:
            check_values(f)
            if f.determined_by is not None and f.determined_by not in names:
                raise ValueError(f"features: {f.name!r} is determined by the unknown feature {f.determined_by!r}")
            if f.determined_by is not None:
                check_mapping(f, self.features[names.index(f.determined_by)])
        if self.degree is not None:
            self._check_degree(self.degree, names)
        for field in ("mean", "std"):
            if (column := getattr(self, field)) is not None:
                _check_column(field, column, self.width)
        if (self.mean is None) != (self.std is None):
            raise ValueError("mean, std: give both or neither")
        if self.max_degree is not None and self.max_degree < 0:
            raise ValueError(f"max_degree: a number of neighbours is not negative, got {self.max_degree}")
        object.__setattr__(self, "edge_classes", tuple(map(str, self.edge_classes)))
        _unique("edge_classes", self.edge_classes)

    def _check_degree(self, name: str, names: Sequence[str]) -> None:
        if name not in names:
            hint = did_you_mean(name, names)
            raise ValueError(f"degree: no feature is called {name!r}; {hint}give one of {', '.join(names)}, or none")
        feature = self.features[self.index(name)]
        if feature.kind not in ("onehot", "number") or not all(isinstance(v, int) for v in feature.values):
            raise ValueError(f"degree: {name!r} must be a one-hot or number feature whose values are integers")

    @cached_property
    def width(self) -> int:
        """Number of encoded columns, the paper's ``m``."""
        return sum(f.columns for f in self.features)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """First encoded column of each feature."""
        return tuple(np.cumsum([0] + [f.columns for f in self.features[:-1]]).tolist())

    @cached_property
    def _of_kind(self) -> dict[Kind, tuple[Int[np.ndarray, " g"], Int[np.ndarray, " g"]]]:
        """The features of each kind: their positions, and their first columns."""
        kinds, offsets = np.array([f.kind for f in self.features]), np.array(self.offsets)
        return {kind: (at, offsets[at]) for kind in get_args(Kind) for at in (np.flatnonzero(kinds == kind),)}

    @cached_property
    def _sizes(self) -> tuple[Int[np.ndarray, " g"], Int[np.ndarray, " g"]]:
        """The discrete features: their positions, and how many values each has."""
        at = np.array([g for g, f in enumerate(self.features) if f.kind != "real"], dtype=int)
        return at, np.array([len(self.features[g].values) for g in at], dtype=int)

    @property
    def discrete(self) -> bool:
        """True when every feature takes finitely many values."""
        return all(f.kind != "real" for f in self.features)

    def index(self, name: str) -> int:
        """Position of the feature called ``name``; raises ``KeyError`` naming the known ones."""
        for i, f in enumerate(self.features):
            if f.name == name:
                return i
        raise KeyError(f"no feature {name!r}; this space has {[f.name for f in self.features]}")

    def encode(self, x: Num[np.ndarray, "n G"]) -> Float[np.ndarray, "n m"]:
        """Feature entries ``(n, G)`` to the model's input ``(n, m)`` in float32."""
        raw = self._raw(np.asarray(x))
        return self.normalise(raw).astype(np.float32)

    def normalise(self, raw: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n m"]:
        """Unnormalised columns to normalised ones (identity when the space has no statistics)."""
        if self.mean is None or self.std is None:
            return raw
        live = self.std > 0
        scale = np.where(live, 1.0 / np.where(live, self.std, 1.0), 0.0)
        return (raw - self.mean) * scale

    def _raw(self, x: np.ndarray) -> np.ndarray:
        self.check(x)
        raw = np.zeros((x.shape[0], self.width))
        for kind, (at, start) in self._of_kind.items():
            if kind == "onehot":
                np.put_along_axis(raw, start + x[:, at].astype(int), 1.0, axis=1)
            elif kind == "number":
                for g, column in zip(at, start, strict=True):
                    raw[:, column] = self.features[g].numbers[x[:, g].astype(int)]
            else:
                raw[:, start] = x[:, at]
        return raw

    def check(self, x: np.ndarray) -> None:
        """Raise ``ValueError`` naming the first feature entry outside the schema."""
        if x.ndim != 2 or x.shape[1] != len(self.features):
            raise ValueError(f"x: expected shape (n, {len(self.features)}), one column a feature, got {x.shape}")
        if not np.all(np.isfinite(x)):
            raise ValueError("x: contains NaN or infinite entries")
        discrete, sizes = self._sizes
        codes = x[:, discrete]
        bad = (codes < 0) | (codes >= sizes) | (codes != np.floor(codes))
        if bad.any():
            row, col = np.argwhere(bad)[0]
            f = self.features[int(discrete[col])]
            raise ValueError(f"x: node {row} has code {codes[row, col]} for {f.name!r}, outside 0..{len(f.values) - 1}")

    def check_edges(self, edge_class: Int[np.ndarray, " e"] | None, edges: int) -> None:
        """Raise ``ValueError`` where a graph's edge classes are not the schema's, or only one of the two has any."""
        if not self.edge_classes and edge_class is not None:
            raise ValueError(
                "edge_class: the graph has edge classes, and the feature space lists none; list their names in its "
                "edge_classes, or leave them out of the graph"
            )
        if self.edge_classes and edge_class is None and edges:
            raise ValueError(
                f"edge_class: the feature space has the edge classes {', '.join(self.edge_classes)}, and the graph has "
                "none; give Graph(edge_class=...)"
            )
        if edge_class is not None and np.any(edge_class >= len(self.edge_classes)):
            raise ValueError(
                f"edge_class: class {int(edge_class.max())} is outside 0..{len(self.edge_classes) - 1} "
                f"({', '.join(self.edge_classes)})"
            )

    def decode(self, encoded: Float[np.ndarray, "n m"]) -> Num[np.ndarray, "n G"]:
        """Encoded (possibly soft) columns to the nearest feature entries.

        The largest of a one-hot feature's columns, the nearest of listed numbers, and a threshold for binaries.
        """
        encoded = np.asarray(encoded, dtype=np.float64)
        raw = encoded if self.mean is None or self.std is None else encoded * self.std + self.mean
        out = np.zeros((raw.shape[0], len(self.features)))
        for g, (f, start) in enumerate(zip(self.features, self.offsets, strict=True)):
            block = raw[:, start : start + f.columns]
            if f.kind == "onehot":
                out[:, g] = block.argmax(axis=1)
            elif f.kind == "number":
                out[:, g] = np.abs(block - f.numbers).argmin(axis=1)
            else:
                out[:, g] = block[:, 0] if f.kind == "real" else block[:, 0] > 0.5
        return out.astype(np.int32) if self.discrete else out

    def possible(self, feature: int) -> Int[np.ndarray, " k"]:
        """Codes of a discrete feature that the public statistics do not exclude: a value that never occurs has a column
        of mean 0 and deviation 0; a raw column, of mean 0 and deviation 1, says nothing."""
        f = self.features[feature]
        codes = np.arange(len(f.values))
        if self.mean is None or self.std is None:
            return codes
        start = self.offsets[feature]
        if f.kind == "onehot":
            own = slice(start, start + f.columns)
            return codes[(self.mean[own] > 0) | (self.std[own] > 0)]
        if self.std[start] > 0:
            return codes
        only = float(self.mean[start])
        return codes[[np.abs(f.numbers - only).argmin()]] if f.kind == "number" else codes[codes == round(only)]

    def degrees(self, x: Num[np.ndarray, "n G"]) -> Int[np.ndarray, " n"] | None:
        """Degrees that the features state (n,), or None when degree is not a feature."""
        if self.degree is None:
            return None
        g = self.index(self.degree)
        return np.asarray(self.features[g].values, dtype=np.int64)[np.asarray(x)[:, g].astype(int)]

    def degree_codes(self, degrees: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """Codes of the feature that states degrees (n,); -1 for a degree outside of the schema.

        Raises:
          ValueError: degree is not a feature.
        """
        if self.degree is None:
            raise ValueError("space: no feature states degrees")
        codes = {int(value): code for code, value in enumerate(self.features[self.index(self.degree)].values)}
        return np.array([codes.get(int(degree), -1) for degree in degrees], dtype=np.int64)

    def fit(self, xs: Iterable[Num[np.ndarray, "_n G"]]) -> FeatureSpace:
        """The same schema with column means and deviations over all nodes of ``xs``."""
        bare = dataclasses.replace(self, mean=None, std=None)
        mean, square, count = np.zeros(self.width), np.zeros(self.width), 0
        low, high = np.full(self.width, np.inf), np.full(self.width, -np.inf)
        for raw in (bare._raw(np.asarray(x)) for x in xs):
            if raw.shape[0] == 0:
                continue
            # Running mean and squared deviation: the difference of E[x^2] and E[x]^2 would cancel for large means.
            gap, before, count = raw.mean(0) - mean, count, count + raw.shape[0]
            mean = mean + gap * (raw.shape[0] / count)
            square = square + raw.var(0) * raw.shape[0] + gap**2 * (before * raw.shape[0] / count)
            low, high = np.minimum(low, raw.min(0)), np.maximum(high, raw.max(0))
        if count == 0:
            raise ValueError("xs: cannot fit statistics on no nodes")
        return dataclasses.replace(self, mean=mean, std=np.where(low == high, 0.0, np.sqrt(square / count)))

    def without(self, name: str) -> FeatureSpace:
        """The schema with one feature left out (GRAIN's "no degree" ablation); statistics of the others are kept.

        A feature that the left-out one determined becomes free. Where statistics say which degrees occur, the largest
        stays as ``max_degree``.
        """
        g = self.index(name)
        start, stop = self.offsets[g], self.offsets[g] + self.features[g].columns
        keep = np.r_[0:start, stop : self.width]
        rest = self.features[:g] + self.features[g + 1 :]
        return FeatureSpace(
            features=tuple(
                dataclasses.replace(f, determined_by=None, mapping=()) if f.determined_by == name else f for f in rest
            ),
            degree=None if self.degree == name else self.degree,
            mean=None if self.mean is None else self.mean[keep],
            std=None if self.std is None else self.std[keep],
            edge_classes=self.edge_classes,
            max_degree=self._largest_degree() if self.degree == name else self.max_degree,
        )

    def _largest_degree(self) -> int | None:
        """The largest degree that occurs in the public data, by the statistics of the feature that states degrees."""
        if self.degree is None or self.mean is None:
            return self.max_degree
        g = self.index(self.degree)
        return max((int(self.features[g].values[code]) for code in self.possible(g)), default=None)

    def to_json(self) -> dict[str, Any]:
        """A JSON-serialisable description, exact for float64 statistics."""
        return {
            "features": [dataclasses.asdict(f) for f in self.features],
            "degree": self.degree,
            "mean": None if self.mean is None else self.mean.tolist(),
            "std": None if self.std is None else self.std.tolist(),
            "edge_classes": list(self.edge_classes),
            "max_degree": self.max_degree,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> FeatureSpace:
        """Inverse of ``to_json``; raises ``ValueError`` when the description is malformed."""
        fields = typed_fields(data, _SPACE, "space", others=True)
        try:
            listed = [typed_fields(f, _FEATURE, "space.features") for f in data["features"]]
            features = tuple(Feature(**{name: f[name] for name in _FEATURE}) for f in listed)
            stats = {k: None if fields[k] is None else np.asarray(fields[k], np.float64) for k in ("mean", "std")}
            return FeatureSpace(
                features,
                fields["degree"],
                **stats,
                edge_classes=fields.get("edge_classes", ()),
                max_degree=fields.get("max_degree"),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"feature space: malformed description ({error!r})") from error


def _check_column(field: str, column: np.ndarray, width: int) -> None:
    if column.shape != (width,):
        raise ValueError(f"{field}: give {width} numbers, one for each column of the features, got {column.size}")
    wrong = ~np.isfinite(column) | ((column < 0) & (field == "std"))
    if wrong.any():
        at, wanted = int(np.argmax(wrong)), "numbers of 0 or more" if field == "std" else "numbers"
        raise ValueError(f"{field}: {column[at]:g} for column {at}; give finite {wanted}")


def combinations(space: FeatureSpace) -> float:
    """Number of feature vectors the schema allows (``math.inf`` with a real feature), determined features left out."""
    if not space.discrete:
        return math.inf
    free = [g for g, f in enumerate(space.features) if f.determined_by is None]
    return float(np.prod([float(space.possible(g).size) for g in free]))


def _unique(field: str, names: Sequence[str]) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise ValueError(f"{field}: names must be unique; repeated: {', '.join(map(repr, twice))}")
