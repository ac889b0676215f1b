"""Garbage is looked for seldom by commands and their workers."""

from __future__ import annotations

import pytest

from jgleak import cli, garbage


def test_a_command_looks_for_garbage_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to, at_end = list[int](), list[object]()
    monkeypatch.setattr(garbage.atexit, "register", at_end.append)
    monkeypatch.setattr(garbage.gc, "set_threshold", lambda *thresholds: set_to.extend(thresholds))
    for name in ("keep_compiled", "leave_out_locations", "listen_to_signals", "app"):
        monkeypatch.setattr(cli, name, lambda *_: None)
    cli.main()
    assert set_to[0] >= 50_000
    assert garbage.gc.freeze in at_end  # the end looks at nothing
