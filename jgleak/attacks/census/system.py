"""Values that pass between the counting stages: equations, the rules of every graph, and their solution."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float, Int

from jgleak.attacks.span.hops import Blocks


@dataclasses.dataclass(frozen=True)
class Equations:
    """The linear system of the census: ``matrix @ counts == observed`` (times ``n`` for means).

    Attributes:
      matrix: one column for each block (and label, where every node has one) ``(M, K)``, of comparable size.
      observed: the same entries of the update ``(M,)``.
      blocks: the top block of each column ``(K,)``.
      slack: under noise, the length by which rounding and the upstream gradient's own error may move the right-hand
        side; rounding matters where the noise is as small.
    """

    matrix: Float[np.ndarray, "M K"]
    observed: Float[np.ndarray, " M"]
    blocks: Int[np.ndarray, " K"]
    slack: float = 0.0

    @property
    def length(self) -> float:
        """Length of the right-hand side; 1 where it is zero."""
        return float(np.linalg.norm(self.observed) or 1.0)


@dataclasses.dataclass(frozen=True)
class Rules:
    """Equations that the counts of every graph obey exactly, each a row over the columns with total zero.

    A node's class is the root of its top block: an entry of the level below. For two classes ``a`` and ``b`` the nodes
    of ``a`` have as many neighbours in ``b`` as the other way round. These balances distinguish many blocks that the
    gradient does not.

    Attributes:
      degrees: number of neighbours of each column's node ``(K,)``.
      balance: of the edges between every two classes ``(P, K)``.
      loops: ends of the edges within every class ``(R, K)``: their total is even.
      known: of every known feature row, zero in total where it has its share of the nodes ``(F, K)``.
    """

    degrees: Int[np.ndarray, " K"]
    balance: Int[np.ndarray, "P K"]
    loops: Int[np.ndarray, "R K"]
    known: Int[np.ndarray, "F K"]

    @staticmethod
    def of(
        top: Blocks,
        blocks: Int[np.ndarray, " K"],
        rows: tuple[Int[np.ndarray, " K"], Int[np.ndarray, " F"]] | None = None,
    ) -> Rules:
        """The rules of some columns.

        Args:
          top: the blocks.
          blocks: which of them each column is.
          rows: which of the known feature rows each column's node has, and how many nodes have each; None where none
            are known.
        """
        out, back, loops = _ends(top)
        known = np.zeros((0, blocks.size), np.int64)
        if rows is not None:
            row, counts = rows
            known = counts.sum() * (row == np.arange(counts.size)[:, None]) - counts[:, None]
        return Rules(top.degrees[blocks], (out - back)[:, blocks], loops[:, blocks], known)

    def matrix(self, absolute: bool) -> Float[np.ndarray, "F K"]:
        """The linear rules over real counts, of comparable size; the last is that shares add up to one.

        Args:
          absolute: counts are numbers of nodes, not shares.
        """
        known = self.known / np.abs(self.known).max(initial=1)
        total = np.ones((0 if absolute else 1, self.degrees.size))
        return np.concatenate([self.balance, known, total])

    def hold(self, counts: Int[np.ndarray, " K"], n: int) -> bool:
        """True where a connected graph of ``n`` nodes may have these counts."""
        if counts.sum() != n or counts @ self.degrees < 2 * (n - 1):
            return False
        return not (np.any(self.balance @ counts) or np.any(self.known @ counts) or np.any(self.loops @ counts % 2))


@dataclasses.dataclass(frozen=True)
class Census:
    """One solution in whole numbers.

    Attributes:
      counts: nodes with each column's block (and label, for node tasks) ``(K,)``.
      n: number of nodes.
      residual: ``|A m - s b| / |s b|`` for counts ``m``; ``s`` is ``Solution.scale(n)``.
    """

    counts: Int[np.ndarray, " K"]
    n: int
    residual: float


@dataclasses.dataclass(frozen=True)
class Solution:
    """The real counts that the equations and the rules allow.

    Attributes:
      equations: the system.
      rules: what counts obey besides.
      absolute: the right-hand side belongs to numbers of nodes (sum pooling), not to shares.
      residual: residual of the best non-negative solution, relative to the right-hand side; infinite where that side is
        zero, or no solution was found.
      limit: largest residual that the true counts may leave.
      columns: the columns that a solution may use; the others are zero in every solution ``(k,)``.
      system: equations and rules over them ``(R, k)``, in units of the right-hand side's length.
      goal: its right-hand side ``(R,)``.
      mean: the smallest real solution ``(k,)``; zeros where it plays no part (not explained, or under noise).
      null: directions that the system leaves free among ``columns`` ``(k, q)``; none where ``mean`` plays no part.
    """

    equations: Equations
    rules: Rules
    absolute: bool
    residual: float
    limit: float
    columns: Int[np.ndarray, " k"]
    system: Float[np.ndarray, "R k"]
    goal: Float[np.ndarray, " R"]
    mean: Float[np.ndarray, " k"]
    null: Float[np.ndarray, "k q"]

    @property
    def explained(self) -> bool:
        """False when a true block must be missing from the columns, or no best solution was found."""
        return self.residual <= self.limit

    def scale(self, n: int) -> int:
        """The factor of the right-hand side for ``n`` nodes."""
        return 1 if self.absolute else n

    def census(self, found: Int[np.ndarray, " k"], n: int) -> Census | None:
        """Whole counts of ``columns`` as a census of ``n`` nodes; None where they break a rule."""
        counts = np.zeros(self.rules.degrees.size, np.int64)
        counts[self.columns] = found
        if not self.rules.hold(counts, n):
            return None
        right = self.equations.observed * self.scale(n)
        residual = float(np.linalg.norm(self.equations.matrix @ counts - right) / np.linalg.norm(right))
        return Census(counts, n, residual)


def _ends(
    blocks: Blocks,
) -> tuple[Int[np.ndarray, "P K"], Int[np.ndarray, "P K"], Int[np.ndarray, "R K"]]:
    """For every pair of classes ``a < b`` the edges that each block of ``a`` sends to ``b``, and of ``b`` to ``a``; and
    for every class the ends of the edges within (``K`` blocks, whether or not they are columns). Edges of different
    classes are counted separately."""
    across: dict[tuple[int, int, int], int] = {}
    within: dict[tuple[int, int], int] = {}
    entries = []
    for k, (root, neighbours) in enumerate(zip(blocks.roots.tolist(), blocks.neighbours, strict=True)):
        for other, along in (divmod(neighbour, blocks.classes) for neighbour in neighbours):
            if other == root:
                entries.append((2, within.setdefault((root, along), len(within)), k))
            else:
                pair = (min(root, other), max(root, other), along)
                entries.append((int(root > other), across.setdefault(pair, len(across)), k))
    tables = [np.zeros((size, blocks.size), np.int64) for size in (len(across), len(across), len(within))]
    for which, row, k in entries:
        tables[which][row, k] += 1
    return tables[0], tables[1], tables[2]
