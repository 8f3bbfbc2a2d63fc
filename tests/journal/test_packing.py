"""Packing: what comes back is what went in, and thinning keeps the extremes."""

from __future__ import annotations

import random
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.journal.packing import MAX, MIN, Block, Column, joined, packed, steps, thinned, unpacked

NAMES = ("power_w", "power_w.0", "gpu_util_pct.7", "tok_s", "throttle.3.power cap")


@st.composite
def blocks(draw: st.DrawFn, most: int = 60) -> Block:
    pauses = draw(st.lists(st.integers(1, 90_000), min_size=0, max_size=most))
    time, times = 1_796_200_000_000, []
    for pause in pauses:
        time += pause
        times.append(time)
    value = st.none() | st.integers(-(1 << 40), 1 << 40) | st.integers(-100, 6000)
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    columns = {name: draw(st.lists(value, min_size=len(times), max_size=len(times))) for name in names}
    return Block(times, columns, 0.0, {"gpus": [[0, "card", "", None]]})


@given(blocks())
def test_what_is_packed_comes_back(block: Block) -> None:
    assert unpacked(packed(block)) == block


@given(blocks(), st.sampled_from([0.5, 1.0, 10.0, 60.0]))
def test_thinning_keeps_extremes_means_and_what_is_unknown(block: Block, step_s: float) -> None:
    thin = thinned(block, step_s)
    assert [a < b for a, b in pairwise(thin.times)].count(False) == 0 and thin.step_s == step_s
    assert sum(rows or 0 for rows in thin.columns["rows"]) == len(block)
    for name, column in block.columns.items():
        known = [value for value in column if value is not None]
        least = [value for value in thin.columns[name + MIN] if value is not None]
        most = [value for value in thin.columns[name + MAX] if value is not None]
        assert min(known, default=None) == min(least, default=None)
        assert max(known, default=None) == max(most, default=None)
        for low, mean, high in zip(least, (v for v in thin.columns[name] if v is not None), most, strict=True):
            assert low <= mean <= high
    assert unpacked(packed(thin)) == thin


@given(blocks())
def test_thinning_twice_keeps_what_thinning_once_keeps(block: Block) -> None:
    once, twice = thinned(block, 10.0), thinned(thinned(block, 1.0), 10.0)
    assert once.times == twice.times and once.columns["rows"] == twice.columns["rows"]
    for name in block.columns:
        assert once.columns[name + MIN] == twice.columns[name + MIN]
        assert once.columns[name + MAX] == twice.columns[name + MAX]


@given(blocks(), st.integers(0, 60))
def test_a_block_cut_in_two_is_joined_again(block: Block, at: int) -> None:
    time = block.times[at - 1] if 0 < at <= len(block) else 0
    last = block.after(time)
    first = Block(block.times[: len(block) - len(last)],
                  {name: column[: len(block) - len(last)] for name, column in block.columns.items()}, 0.0, block.meta)  # fmt: skip
    assert joined(first, last) == block
    if len(last):
        assert joined(last, last) is None


def test_columns_that_one_side_lacks_are_unknown_there() -> None:
    whole = joined(Block([1, 2], {"power_w.0": [1, 2]}), Block([3], {"power_w.1": [3]}))
    assert whole is not None and whole.columns == {"power_w.0": [1, 2, None], "power_w.1": [None, None, 3]}
    assert joined(Block([1], meta={"gpus": 1}), Block([2], meta={"gpus": 2})) is None


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_is_unknown(value: float | None) -> None:
    assert steps("power_w.0", value) is None


def test_a_reading_comes_back_in_its_unit() -> None:
    block = Block([1], {"power_w.3": [steps("power_w.3", 531.26)], "kv_usage": [steps("kv_usage", 0.6123)]})
    assert block.value("power_w.3", 0) == 531.3 and block.value("kv_usage", 0) == 0.6123
    assert block.value("tok_s", 0) is None


@given(st.binary(max_size=300))
def test_damaged_bytes_are_a_value_error(data: bytes) -> None:
    whole = packed(Block([1, 2, 3], {"power_w.0": [1, None, 3]}))
    for bad in (data, whole[:-3], zlib.compress(data), zlib.compress(zlib.decompress(whole)[:-2])):
        with pytest.raises(ValueError):
            unpacked(bad)


def test_an_hour_of_eight_gpus_ten_times_a_second_stays_small() -> None:
    """Noise of 8 W, clocks that step, links that are read once a second: below a megabyte an hour, thinned a third."""
    chance = random.Random(7)
    rows = 600
    columns: dict[str, Column] = {}
    for gpu in range(8):
        watts = 400.0
        drawn: Column = []
        for _ in range(rows):
            watts += chance.gauss(0, 8) + (400 - watts) * 0.05
            drawn.append(round(watts * 10))
        columns |= {
            f"power_w.{gpu}": drawn,
            f"limit_w.{gpu}": [6000] * rows,
            f"gpu_util_pct.{gpu}": [chance.choice([98, 99, 100]) for _ in range(rows)],
            f"memory_used_mib.{gpu}": [73_000 + place // 50 % 4 for place in range(rows)],
            f"temperature_c.{gpu}": [60 + place // 97 % 3 for place in range(rows)],
            f"sm_clock_mhz.{gpu}": [2610 - 15 * chance.randint(0, 3) for _ in range(rows)],
            f"throttled.{gpu}": [0] * rows,
            f"pcie_tx_mb_s.{gpu}": [1000 + place // 10 * 7919 % 500 for place in range(rows)],
        }
    block = Block([1_796_200_000_000 + 100 * place for place in range(rows)], columns)
    minute = len(packed(block))
    assert minute * 60 < 1_000_000
    assert len(packed(thinned(block, 1.0))) < minute / 2
