"""Attacks use one thread of BLAS, and leave the setting as it was."""

from __future__ import annotations

from threadpoolctl import threadpool_info, threadpool_limits

from jgleak.attacks.blas import one_thread


def threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_blas_has_one_thread_inside_alone() -> None:
    with threadpool_limits(2, "blas"):
        before = threads()
        with one_thread():
            assert threads() == {1}
        assert threads() == before
