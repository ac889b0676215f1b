"""What compilation cost: steps inside others and beside them count once."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from jgleak.attacks.attack import MORE_CONDITIONS, OUT_OF_TIME
from jgleak.audit import compilations
from jgleak.audit.compilations import Compiled, Counter, lost_to_compilation
from jgleak.audit.table import compilation_line

TRACED, COMPILED = (f"/jax/core/compile/{step}_duration" for step in ("jaxpr_trace", "backend_compile"))


def test_the_time_of_a_step_inside_another_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two traces within a third, from 1 to 2 and 3 to 5 of 0 to 6; then a compilation from 6 to 9; others are none."""
    counter, now = Counter(), [0.0]
    monkeypatch.setattr(compilations.time, "monotonic", lambda: now[0])
    for at, event, lasted in ((2, TRACED, 1), (5, TRACED, 2), (6, TRACED, 6), (9, COMPILED, 3), (9, "/jax/other", 5)):
        now[0] = float(at)
        counter.ended(event, float(lasted), fun_name="f")
    assert (counter.number, counter.seconds) == (1, 9.0)
    assert Compiled(5, 2.5).since(Compiled(2, 1.5)) == Compiled(3, 1.0)


def test_steps_side_by_side_take_no_longer_than_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads compile from 0 to 4 and from 1 to 6, another from 8 to 9, and a fourth, that ends last, from 5."""
    counter, now = Counter(), [0.0]
    monkeypatch.setattr(compilations.time, "monotonic", lambda: now[0])
    for at, lasted, together in ((4, 4, 4.0), (6, 5, 6.0), (9, 1, 7.0), (10, 5, 10.0)):
        now[0] = float(at)
        counter.ended(COMPILED, float(lasted))
        assert counter.seconds == together
    assert counter.number == 4


def test_what_jax_compiles_is_counted() -> None:
    before = compilations.compilations()
    jax.jit(lambda x: jnp.sin(x) + 3.25)(jnp.ones(3))
    after = compilations.compilations().since(before)
    assert after.number >= 1 and after.seconds > 0.0


@pytest.mark.parametrize(("kept", "instead"), [("folder", "run it again"), (None, "a longer --time-limit")])
def test_compilation_is_named_where_it_took_a_notable_share(kept: str | None, instead: str) -> None:
    before = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", kept)
    try:
        said = lost_to_compilation(20.0, 12.0)
        assert said is not None and said.startswith(f"compilation took 12.0 s of 20.0 s; {instead}")
        assert lost_to_compilation(20.0, 4.0) is None and lost_to_compilation(0.0, 0.0) is None
    finally:
        jax.config.update("jax_compilation_cache_dir", before)


@pytest.mark.parametrize("reason", [OUT_OF_TIME, MORE_CONDITIONS])
def test_the_clients_that_ran_out_of_time_are_those_that_count(reason: str) -> None:
    ended = {"stop": "match", "info": {}, "seconds": 10.0, "seconds_compiling": 9.0}
    late = {"stop": "time", "info": {}, "seconds": 60.0, "seconds_compiling": 36.0}
    listed = ended | {"info": {"reason": reason}, "seconds": 60.0, "seconds_compiling": 0.0}
    assert compilation_line([ended]) is None
    assert "took 36.0 s of 60.0 s" in (compilation_line([ended, late]) or "")
    assert "took 36.0 s of 120.0 s" in (compilation_line([late, listed, ended]) or "")
