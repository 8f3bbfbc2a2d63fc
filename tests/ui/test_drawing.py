from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from console.ui.drawing import age, bar, braille, columns, ending, fit, marked, spread, width_of

maybe = st.one_of(st.none(), st.floats(0, 1e6))


@given(maybe, st.integers(0, 60))
def test_a_bar_is_as_wide_as_asked(fraction: float | None, width: int) -> None:
    assert width_of(bar(fraction, width)) == width


def test_a_bar_has_a_track_and_an_unknown_one_is_not_empty_at_zero() -> None:
    assert bar(0.5, 4) == [("██", "bar"), ("░░", "track")]
    assert bar(0.0, 4) == [("░░░░", "track")]
    assert bar(None, 4) == [("╌╌╌╌", "track")]


@given(st.lists(maybe, max_size=80), st.integers(1, 6))
def test_braille_has_two_values_a_cell(values: list[float | None], height: int) -> None:
    rows = braille(values, 100.0, height)
    assert len(rows) == height
    assert all(len(row) == (len(values) + 1) // 2 for row in rows)


def test_braille_grows_from_the_bottom_and_leaves_gaps_for_unknown() -> None:
    assert braille([None, None, 100.0, 100.0], 100.0) == [" ⣿"]
    assert braille([1.0, 100.0], 100.0, 2) == ["⢸", "⣸"]


def test_history_is_placed_by_time_and_old_samples_fall_out() -> None:
    history = [(float(second), 10.0 * second) for second in range(121)]
    assert columns(history, 120.0, 60)[-1] == 1200.0
    assert columns(history, 120.0, 60)[0] == 610.0
    assert columns([(10.0, 5.0)], 120.0, 60) == [None] * 60


def test_marks_stand_at_their_time() -> None:
    spans = marked("." * 60, [(100.0, "patch"), (119.0, "restart"), (10.0, "patch")], 120.0, "info")
    text = "".join(part for part, _ in spans)
    assert text.index("◆") == 40
    assert text.index("▲") == 59
    assert text.count("◆") == 1


@given(st.text(), st.integers(0, 40), st.booleans())
def test_fitted_text_has_the_width_asked(text: str, width: int, left: bool) -> None:
    assert cell_len(fit(text, width, left=left)) == width or "\n" in text


def test_the_right_end_gives_way() -> None:
    assert spread([("left", "")], [("right", "")], 12) == [("left", ""), ("   ", ""), ("right", "")]
    assert spread([("left", "")], [("right", "")], 6) == [("left", "")]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, "—"), (0.42, "0.4 s"), (41, "41 s"), (2460, "41 min"), (9000, "2 h"), (900_000, "10 days")],
)
def test_ages_are_told_in_one_unit(seconds: float | None, said: str) -> None:
    assert age(seconds) == said


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [("/a/b.toml", 9, "/a/b.toml"), ("/a/b.toml", 7, "…b.toml"), ("/名名", 4, "…名"), ("abc", 1, "…")],
)
def test_the_end_of_a_path_stays(text: str, width: int, shown: str) -> None:
    assert ending(text, width) == shown
