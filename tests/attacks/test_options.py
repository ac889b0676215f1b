"""Settings from text: every field by its own name, checked against its type."""

from __future__ import annotations

import dataclasses

import pytest

from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.options import LISTED, NEAREST, changed_options, choice, from_zero, with_options


@dataclasses.dataclass(frozen=True)
class Inner:
    tolerance: float = 1e-3
    tried: int = 3


@dataclasses.dataclass(frozen=True)
class Outer:
    inner: Inner = Inner()
    sizes: tuple[int, ...] = (1, 2)
    weight: float = from_zero(0.2)


def test_nested_fields_go_by_their_own_names() -> None:
    found = with_options(Outer(), {"tolerance": "2e-3", "sizes": "4,8", "weight": "0"})
    assert found == Outer(Inner(2e-3, 3), (4, 8), 0.0)
    assert with_options(Outer(), {}) == Outer()
    assert with_options(Outer(), {"tried": "2147483647"}).inner.tried == 2**31 - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Worded:
    way: str = choice(("plain", "other"))
    title: str


def test_a_word_is_one_of_its_choices_where_there_are_some() -> None:
    found = with_options(Worded(way="plain", title=""), {"way": "other", "title": "anything"})
    assert found == Worded(way="other", title="anything")
    with pytest.raises(ValueError, match="option 'way': unknown 'another'; choose one of plain, other"):
        with_options(found, {"way": "another"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tolerence": "1"}, "option 'tolerence': unknown; did you mean 'tolerance'? choose from tolerance, tried"),
        ({"tried": "2.5"}, "option 'tried': expected a whole number from 1, got '2.5'"),
        ({"tried": "0"}, "option 'tried': expected a whole number from 1, got '0'"),
        ({"tried": "9" * 400}, "option 'tried': expected a whole number from 1"),
        ({"tried": "2147483648"}, "option 'tried': expected a whole number from 1, below 2**31, got '2147483648'"),
        ({"tolerance": "0"}, "option 'tolerance': expected a positive number, got '0'"),
        ({"tolerance": "inf"}, "option 'tolerance': expected a positive number, got 'inf'"),
        ({"tolerance": "nan"}, "option 'tolerance': expected a positive number, got 'nan'"),
        ({"weight": "-1"}, "option 'weight': expected a number from 0, got '-1'"),
        ({"sizes": "4,x"}, "option 'sizes': expected a whole number from 1, got 'x'"),
        ({"inner": "1"}, "option 'inner': unknown"),
    ],
)
def test_faults_name_the_option_and_what_it_takes(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match="option") as error:
        with_options(Outer(), options)
    assert str(error.value).startswith(message)


def test_of_many_options_the_nearest_are_named() -> None:
    with pytest.raises(ValueError, match="option") as error:
        with_options(DEFAULTS, {"hop_block": "1"})
    said = str(error.value)
    assert said.startswith("option 'hop_block': unknown; did you mean 'hop_blocks'? the nearest of ")
    assert said.endswith("; `python -m pydoc jgleak.attacks.census.settings` describes them")
    assert said.count(",") == 5


@pytest.mark.parametrize("number", [LISTED, LISTED + 1])
def test_as_many_options_as_a_line_holds_are_all_named(number: int) -> None:
    made = dataclasses.make_dataclass("Made", [(f"size{k}", int, 1) for k in range(number)], frozen=True)
    with pytest.raises(ValueError, match="option") as error:
        with_options(made(), {"weight": "1"})
    assert ("choose from size0, size1, " in str(error.value)) is (number == LISTED)
    assert ("the nearest of 31 are" in str(error.value)) is (number > LISTED)
    assert str(error.value).count("size") == (number if number == LISTED else NEAREST), "however unlike they are"


def test_what_was_changed_is_told_by_its_own_name() -> None:
    assert changed_options(Outer(Inner(tried=4), weight=0.5), Outer()) == {"tried": 4, "weight": 0.5}
