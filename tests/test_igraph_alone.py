"""Processes of our own import igraph without what it draws with."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jgleak.igraph_alone import import_igraph

ALONE = """
import sys
from jgleak.igraph_alone import import_igraph
import_igraph()
print(*sorted({"igraph", "matplotlib"} & set(sys.modules)))
import igraph
print(igraph.GraphBase(3, [(0, 1)]).canonical_permutation(color=[0, 0, 1])[2])
import matplotlib.pyplot
"""


def test_igraph_computes_and_matplotlib_can_be_imported_later() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["igraph", "2"], done.stderr
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["igraph", "matplotlib"])
def test_what_is_imported_already_stays(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for other in ("igraph", "matplotlib"):
        monkeypatch.delitem(sys.modules, other, raising=False)
    mine = object()
    monkeypatch.setitem(sys.modules, name, mine)
    import_igraph()
    assert sys.modules[name] is mine
    assert not ({"igraph", "matplotlib"} - {name}) & set(sys.modules)
