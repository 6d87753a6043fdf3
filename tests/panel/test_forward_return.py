import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlgen.config import ForwardReturnConfig
from rlgen.errors import ConfigError
from rlgen.panel.forward_return import (
    BLOCK,
    ForwardReturn,
    compute_forward_return,
    cut_labels,
    has_label,
    possible_labels,
    refresh_labels,
    transform_forward_return,
)
from tests.panel.panels import random_sessions, slow_forward_return

NAN = np.nan


def prices(rng, shape, missing=0.2):
    price = 10 * np.exp(np.cumsum(rng.normal(0, 0.01, shape), axis=0))
    price[rng.random(shape) < missing] = NAN
    return price


def test_by_hand():
    price = np.array([[10.0], [11.0], [12.1], [NAN], [14.0], [7.0]])
    session = np.zeros(6, dtype=np.int32)
    target = ForwardReturn(1, price="close")
    assert target.lag == 1
    expected = np.array([0.1, NAN, NAN, -0.5, NAN, NAN], dtype=np.float32)
    np.testing.assert_array_equal(compute_forward_return(price, session, target)[:, 0], expected)
    two = compute_forward_return(price, session, ForwardReturn(2, lag=0, price="close"))[:, 0]
    np.testing.assert_allclose(two, [0.21, NAN, 14 / 12.1 - 1, NAN, NAN, NAN], rtol=1e-6)


def test_stays_within_the_session():
    price, session = np.arange(1.0, 7.0)[:, None], np.array([0, 0, 0, 1, 1, 1])
    within = compute_forward_return(price, session, ForwardReturn(1, price="close"))[:, 0]
    np.testing.assert_allclose(within, [1 / 2, NAN, NAN, 1 / 5, NAN, NAN], rtol=1e-6)
    across = compute_forward_return(price, session, ForwardReturn(1, price="close", across_sessions=True))
    np.testing.assert_allclose(across[:, 0], [1 / 2, 1 / 3, 1 / 4, 1 / 5, NAN, NAN], rtol=1e-6)


def test_computed_in_float64():
    # Ticks of 0.01 at a price of 1e6 are lost in float32.
    price = np.array([[1e6], [1e6], [1e6 + 0.01]])
    result = compute_forward_return(price, np.zeros(3, int), ForwardReturn(1, price="close"))
    assert result[0, 0] == pytest.approx(1e-8, rel=1e-6)


def test_bad_prices_and_overflow_are_missing():
    price = np.array([[1.0, -1.0, 0.0, 1e-30, np.inf, 1.0, 1.0], [1.0, 1.0, 1.0, 1e30, 1.0, 0.0, -1.0]])
    result = compute_forward_return(price, np.zeros(2, int), ForwardReturn(1, lag=0, price="close"))
    np.testing.assert_array_equal(result[0], [0.0] + [NAN] * 6)


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(1, 6), st.integers(0, 3), st.booleans())
def test_equals_the_definition(seed, n_bars, horizon, lag, across):
    rng = np.random.default_rng(seed)
    price, session = prices(rng, (n_bars, 3)), random_sessions(rng, n_bars)
    target = ForwardReturn(horizon, lag=lag, price="close", across_sessions=across)
    result = compute_forward_return(price, session, target)
    assert result.dtype == np.float32
    expected = slow_forward_return(price, session, horizon, lag, across)
    np.testing.assert_array_equal(result, expected.astype(np.float32))
    assert not np.any(~np.isnan(result[~possible_labels(session, target)]))


def test_blocks_do_not_show():
    rng = np.random.default_rng(0)
    price, session = prices(rng, (2 * BLOCK + 7, 2)), np.zeros(2 * BLOCK + 7, dtype=np.int32)
    target = ForwardReturn(3, price="close", transform="rank")
    result = compute_forward_return(price, session, target)
    np.testing.assert_array_equal(result, slow_forward_return(price, session, 3, 1, False).astype(np.float32))
    universe = rng.random(price.shape) < 0.8
    ranked = transform_forward_return(result, universe, target)
    masked = pd.DataFrame(np.where(universe, result, NAN))
    np.testing.assert_allclose(ranked, masked.rank(axis=1, pct=True), rtol=1e-6)


def test_refresh_changes_only_what_its_prices_changed():
    rng = np.random.default_rng(1)
    source, session = prices(rng, (40, 3), missing=0.1), np.repeat([0, 1], 20)
    target = ForwardReturn(2, price="close")
    raw, before = compute_forward_return(source, session, target), source.astype(np.float32)
    assert refresh_labels(raw, before, before.copy(), before, session, target) is raw
    given = before.copy()
    given[25:] *= 2
    after = refresh_labels(raw, before, given, given, session, target)
    np.testing.assert_array_equal(after[: 25 - 3], raw[: 25 - 3])
    fresh = compute_forward_return(given, session, target)
    np.testing.assert_array_equal(after[22:], fresh[22:])
    # A single cell touches the two labels that it ends or starts.
    given = before.copy()
    given[10, 1] = 99.0
    after = refresh_labels(raw, before, given, given, session, target)
    changed = (after != raw) & ~(np.isnan(after) & np.isnan(raw))
    assert set(zip(*np.nonzero(changed), strict=True)) <= {(7, 1), (9, 1)}
    assert changed.any()


def test_cut_labels():
    values = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(cut_labels(values, 2), [[0, 1], [2, 3], [NAN, NAN]])
    assert np.isnan(cut_labels(values, -4)).all()
    assert cut_labels(values, 3) is values
    assert values[2, 0] == 4
    assert has_label(values)
    assert not has_label(np.full((3, 2), NAN))
    assert not has_label(values[:0])


ROW = np.array([[1.0, 2.0, 4.0, NAN, 100.0]], dtype=np.float32)
INSIDE = np.array([[True, True, True, True, False]])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"transform": "none"}, [1, 2, 4, NAN, 100]),
        ({"transform": "demean"}, [-4 / 3, -1 / 3, 5 / 3, NAN, NAN]),
        ({"transform": "rank"}, [1 / 3, 2 / 3, 1, NAN, NAN]),
        ({"transform": "winsorize", "winsorize": 0.25}, [1.5, 2, 3, NAN, NAN]),
        ({"transform": "group-neutral", "group_column": "sector"}, [-0.5, 0.5, 0, NAN, NAN]),
    ],
)
def test_transforms_by_hand(options, expected):
    target = ForwardReturn(1, column="ret", **options)
    group = np.array([[0, 0, 1, 1, 0]], dtype=np.int32)
    result = transform_forward_return(ROW, INSIDE, target, group)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result[0], expected, rtol=1e-6)


def test_rank_averages_ties_and_a_missing_group_is_missing():
    row = np.array([[3.0, 1.0, 3.0, 3.0]], dtype=np.float32)
    everyone = np.ones((1, 4), dtype=bool)
    ranked = transform_forward_return(row, everyone, ForwardReturn(1, column="r", transform="rank"))
    np.testing.assert_allclose(ranked[0], [0.75, 0.25, 0.75, 0.75])
    target = ForwardReturn(1, column="r", transform="group-neutral", group_column="sector")
    neutral = transform_forward_return(row, everyone, target, np.array([[0, 0, -1, 1]], dtype=np.int32))
    np.testing.assert_array_equal(neutral[0], [1, -1, NAN, 0])
    none = transform_forward_return(row, everyone, target, np.full((1, 4), -1, dtype=np.int32))
    assert np.isnan(none).all()


@given(st.integers(0, 10**6), st.sampled_from(["demean", "winsorize", "rank", "group-neutral"]))
def test_transforms_equal_pandas(seed, transform):
    rng = np.random.default_rng(seed)
    raw = np.round(rng.normal(size=(6, 7)), 1).astype(np.float32)
    raw[rng.random(raw.shape) < rng.random()] = NAN
    universe = rng.random(raw.shape) < 0.7
    group = rng.integers(0, 3, raw.shape).astype(np.int32)
    column = "sector" if transform == "group-neutral" else None
    target = ForwardReturn(1, column="r", transform=transform, winsorize=0.1, group_column=column)
    result = transform_forward_return(raw, universe, target, group)
    for t in range(len(raw)):
        row = pd.Series(np.where(universe[t], raw[t], NAN).astype(float))
        if transform == "demean":
            expected = row - row.mean()
        elif transform == "winsorize":
            expected = row.clip(row.quantile(0.1), row.quantile(0.9)) if row.notna().any() else row
        elif transform == "rank":
            expected = row.rank(pct=True)
        else:
            expected = row - row.groupby(group[t]).transform("mean")
        np.testing.assert_allclose(result[t], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"horizon": 0, "price": "close"}, "horizon must be a positive number of bars, was 0"),
        ({"horizon": 1.5, "price": "close"}, "horizon must be a positive number of bars, was 1.5"),
        ({"horizon": 1, "lag": -1, "price": "close"}, "lag must be 0 or more bars, was -1"),
        ({"horizon": 1}, "needs one of price and column"),
        ({"horizon": 1, "price": "close", "column": "ret"}, "needs one of price and column"),
        ({"horizon": 1, "price": "close", "transform": "z"}, "must be one of none, demean.*, was z"),
        ({"horizon": 1, "price": "close", "winsorize": 0.5}, "between 0 and 0.5, was 0.5"),
        ({"horizon": 1, "price": "close", "transform": "group-neutral"}, "group_column go together"),
        ({"horizon": 1, "price": "close", "group_column": "sector"}, "group_column go together"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ConfigError, match=message):
        ForwardReturn(**options)


def test_from_config_keeps_everything():
    config = ForwardReturnConfig(
        price="vwap", horizon=5, lag=2, across_sessions=True, transform="group-neutral", group_column="sector"
    )
    target = ForwardReturn.from_config(config)
    assert {name: getattr(target, name) for name in ForwardReturnConfig.model_fields} == config.model_dump()
    assert target.reach == 7
