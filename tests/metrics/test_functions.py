"""Every metric against its scipy/pandas twin, and the identities that they satisfy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rlgen import metrics
from rlgen.errors import DataError
from tests import reference_metrics as reference

KINDS = ("normal", "ties", "constant rows", "tiny spread", "huge", "outliers", "walk", "subnormal")


def panel(seed, n_bars, n_stocks, kind, missing, dtype=np.float32, related=0.3):
    """Factor, forward return, universe with the stated trouble."""
    random = np.random.default_rng(seed)
    forward_return = random.standard_t(3, (n_bars, n_stocks)) * 1e-4
    base = related * forward_return * 1e4 + random.standard_normal((n_bars, n_stocks))
    factor = {
        "normal": base,
        "ties": np.round(base),
        "constant rows": np.where(random.random((n_bars, 1)) < 0.5, 7.25, base),
        "tiny spread": 1.0 + 1e-6 * base,
        "huge": 1e9 * (1 + 1e-3 * base),
        "outliers": np.where(random.random(base.shape) < 0.02, 1e15, base),
        "walk": 1e4 + np.cumsum(np.round(base), axis=0) * 0.01,
        "subnormal": 1e-40 * base,
    }[kind]
    if kind == "ties":
        forward_return = np.round(forward_return, 4)
    factor = np.where(random.random(factor.shape) < missing, np.nan, factor)
    factor = np.where(random.random(factor.shape) < missing / 10, np.inf, factor)
    forward_return = np.where(random.random(factor.shape) < missing / 2, np.nan, forward_return)
    universe = random.random(factor.shape) >= missing / 3
    return factor.astype(dtype), forward_return.astype(dtype), universe


def assert_scores(scores, expected, tolerance=1e-10):
    for name, value in expected.items():
        scale = max(1.0, abs(value))
        assert scores.as_dict()[name] == pytest.approx(value, abs=tolerance * scale, nan_ok=True), name


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_bars=st.integers(1, 45),
    n_stocks=st.integers(1, 24),
    kind=st.sampled_from(KINDS),
    missing=st.sampled_from([0.0, 0.02, 0.3, 0.9, 1.0]),
    dtype=st.sampled_from([np.float32, np.float64]),
    with_universe=st.booleans(),
    min_names=st.sampled_from([None, 1, 2, 3, 8]),
    horizon=st.sampled_from([1, 3, 60]),
    n_sessions=st.integers(1, 5),
    engine=st.sampled_from(["numba", "torch"]),
)
def test_every_metric_equals_its_reference(
    seed, n_bars, n_stocks, kind, missing, dtype, with_universe, min_names, horizon, n_sessions, engine
):
    factor, forward_return, universe = panel(seed, n_bars, n_stocks, kind, missing, dtype)
    universe = universe if with_universe else None
    session = np.sort(np.random.default_rng(seed).integers(0, n_sessions, n_bars))
    target = metrics.Target(
        forward_return, universe, min_names, session=session, horizon=horizon, engine=engine
    )
    expected = reference.score(factor, forward_return, universe, min_names, horizon, session)
    # The autocovariances of a few nearly equal ICs cancel: the t loses digits there.
    t_expected = expected.pop("t_stat")
    assert_scores(target.score(factor), expected)
    assert target.score(factor).t_stat == pytest.approx(t_expected, rel=1e-6, abs=1e-6, nan_ok=True)
    bars = target.bars(factor)
    np.testing.assert_allclose(
        bars.ic, reference.ic(factor, forward_return, universe, min_names), atol=1e-10, rtol=0
    )
    np.testing.assert_allclose(
        bars.rank_ic, reference.rank_ic(factor, forward_return, universe, min_names), atol=1e-12, rtol=0
    )
    np.testing.assert_array_equal(bars.count, reference.cells(factor, forward_return, universe).sum(1))


@pytest.mark.parametrize("kind", KINDS)
def test_functions_equal_score(kind):
    factor, forward_return, universe = panel(5, 60, 20, kind, 0.1)
    session = np.repeat([3, 4, 9], 20)
    scores = metrics.score(factor, forward_return, universe, 4, horizon=5, session=session)
    arguments = (factor, forward_return, universe, 4)
    assert metrics.t_stat(*arguments, horizon=5, session=session) == scores.t_stat
    for name in (
        "pooled_ic",
        "pooled_rank_ic",
        "mean_ic",
        "icir",
        "raw_pooled_ic",
        "by_stock_ic",
        "coverage",
    ):
        # Without sessions the sums run in another order.
        assert getattr(metrics, name)(*arguments) == pytest.approx(
            getattr(scores, name), abs=1e-12, nan_ok=True
        )
    assert np.nanmean(metrics.ic(*arguments)) == pytest.approx(scores.mean_ic)
    assert np.nanmean(metrics.rank_ic(*arguments)) == pytest.approx(scores.mean_rank_ic)


def test_hand_computed_table():
    factor = np.array([[1.0, 2.0, 3.0, 4.0], [1.0, 1.0, 2.0, np.nan], [5.0, 5.0, 5.0, 5.0]])
    forward_return = np.array([[2.0, 1.0, 4.0, 3.0], [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]])
    # Bar 0: ranks equal values, Σ d² = 4, 1 − 6·4/(4·15) = .6. Bar 1: ranks (1.5, 1.5, 3) and
    # (1, 2, 3): cov 1.5/… = √3/2. Bar 2: no spread.
    expected = np.array([0.6, np.sqrt(3) / 2, np.nan])
    np.testing.assert_allclose(metrics.ic(factor, forward_return), expected, atol=1e-15)
    np.testing.assert_allclose(metrics.rank_ic(factor, forward_return), expected, atol=1e-15)
    pooled = (4 * 0.6 + 3 * np.sqrt(3) / 2) / 7
    assert metrics.pooled_ic(factor, forward_return) == pytest.approx(pooled, abs=1e-15)
    assert metrics.coverage(factor, forward_return) == 11 / 12
    assert metrics.score(factor, forward_return).n_bars == 2
    assert metrics.score(factor, forward_return).n_cells == 7
    np.testing.assert_array_equal(metrics.ic(factor, forward_return, min_names=5), [np.nan] * 3)


def test_pooled_ic_is_the_mean_of_bars_weighted_by_cells():
    factor, forward_return, universe = panel(1, 200, 30, "normal", 0.4)
    per_bar = metrics.ic(factor, forward_return, universe)
    count = reference.cells(factor, forward_return, universe).sum(1)
    weighted = np.nansum(count * per_bar) / count[np.isfinite(per_bar)].sum()
    assert metrics.pooled_ic(factor, forward_return, universe) == pytest.approx(weighted, abs=1e-14)
    assert reference.pooled_ic(factor, forward_return, universe) == pytest.approx(weighted, abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), missing=st.sampled_from([0.0, 0.1, 0.5]))
def test_invariances(seed, missing):
    factor, forward_return, universe = panel(seed, 30, 16, "ties", missing, np.float64)
    factor[np.isinf(factor)] = np.nan  # arctan would make these present
    random = np.random.default_rng(seed + 1)
    ranks = metrics.rank_ic(factor, forward_return, universe)
    plain = metrics.ic(factor, forward_return, universe)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(metrics.rank_ic(np.arctan(factor), forward_return, universe), ranks)
        np.testing.assert_array_equal(metrics.rank_ic(factor**3, forward_return, universe), ranks)
    np.testing.assert_array_equal(metrics.rank_ic(-factor, forward_return, universe), -ranks)
    scale = random.uniform(0.1, 10, (30, 1))
    shift = random.uniform(-100, 100, (30, 1))
    np.testing.assert_allclose(metrics.ic(scale * factor + shift, forward_return, universe), plain, atol=1e-9)
    stocks = random.permutation(16)
    bars = random.permutation(30)
    shuffled = factor[bars][:, stocks], forward_return[bars][:, stocks], universe[bars][:, stocks]
    np.testing.assert_allclose(metrics.ic(*shuffled), plain[bars], atol=1e-12)
    np.testing.assert_array_equal(metrics.rank_ic(*shuffled), ranks[bars])
    assert metrics.pooled_ic(*shuffled) == pytest.approx(
        metrics.pooled_ic(factor, forward_return, universe), abs=1e-12, nan_ok=True
    )


def test_infinity_is_missing_and_touches_no_other_cell():
    factor, forward_return, _ = panel(2, 20, 12, "normal", 0.0)
    with_nan, with_infinity = factor.copy(), factor.copy()
    with_nan[:, 3] = np.nan
    with_infinity[:, 3] = np.where(np.arange(20) % 2, np.inf, -np.inf)
    np.testing.assert_array_equal(
        metrics.ic(with_infinity, forward_return), metrics.ic(with_nan, forward_return)
    )
    np.testing.assert_array_equal(
        metrics.rank_ic(with_infinity, forward_return), metrics.rank_ic(with_nan, forward_return)
    )
    blown = forward_return.copy()
    blown[:, 3] = np.inf
    assert metrics.score(factor, blown).n_cells == 20 * 11


def test_missing_cells_do_not_dilute_the_ic():
    """The field's trap: cells filled with 0 drag the IC down; ours is over present cells only."""
    factor, forward_return, _ = panel(3, 400, 100, "normal", 0.0)
    full = metrics.pooled_ic(factor, forward_return)
    thin = np.where(np.random.default_rng(0).random(factor.shape) < 0.7, np.nan, factor)
    assert metrics.pooled_ic(thin, forward_return) > 0.85 * full


@pytest.mark.parametrize("engine", ["numba", "torch"])
@pytest.mark.parametrize("shape", [(0, 5), (4, 0), (0, 0), (3, 4)])
def test_nothing_to_measure(engine, shape):
    nothing = np.full(shape, np.nan, np.float32)
    scores = metrics.Target(nothing, engine=engine).score(nothing)
    assert scores.n_bars == scores.n_cells == 0
    for name, value in scores.as_dict().items():
        assert name in ("n_bars", "n_cells") or np.isnan(value), name
    labelled = metrics.Target(np.ones(shape, np.float32), engine=engine)
    assert labelled.score(nothing).coverage == pytest.approx(0.0 if nothing.size else np.nan, nan_ok=True)


def test_zero_spread_is_exact_not_a_floor():
    forward_return = np.arange(12.0, dtype=np.float64)[None]
    barely = np.full((1, 12), 1.0)
    barely[0, 11] = np.nextafter(1.0, 2.0)
    expected = stats.pearsonr(np.arange(12) == 11, np.arange(12)).statistic
    assert metrics.ic(barely, forward_return)[0] == pytest.approx(expected, abs=1e-12)
    assert metrics.rank_ic(barely, forward_return)[0] == pytest.approx(expected, abs=1e-12)
    returns = forward_return * 1e-9
    assert metrics.ic(returns, returns)[0] == pytest.approx(1.0, abs=1e-12)
    assert np.isnan(metrics.ic(np.full((1, 12), 1e9), forward_return)[0])


def test_float64_orders_that_float32_cannot_hold():
    random = np.random.default_rng(4)
    factor = 1.0 + 1e-12 * random.permuted(np.tile(np.arange(20.0), (9, 1)), axis=1)
    forward_return = 1e300 * random.standard_normal((9, 20))
    assert np.unique(factor.astype(np.float32)).size == 1
    np.testing.assert_allclose(
        metrics.rank_ic(factor, forward_return), reference.rank_ic(factor, forward_return), atol=1e-12
    )
    np.testing.assert_allclose(
        metrics.ic(factor, forward_return), reference.ic(factor, forward_return), atol=1e-9
    )


def test_minus_zero_ties_with_zero():
    factor = np.array([[0.0, -0.0, 1.0, -1.0]])
    forward_return = np.array([[2.0, 1.0, 3.0, 0.0]])
    expected = stats.spearmanr(factor[0], forward_return[0]).statistic
    assert metrics.rank_ic(factor, forward_return)[0] == pytest.approx(expected, abs=1e-15)
    assert metrics.rank_ic(factor.astype(np.float32), forward_return)[0] == pytest.approx(expected, abs=1e-15)


def test_t_stat_looks_within_sessions_only():
    factor, forward_return, _ = panel(6, 90, 20, "walk", 0.05)
    per_bar = metrics.ic(factor, forward_return)
    sessions = np.repeat([0, 1, 2], 30)
    for horizon, session in ((1, None), (20, None), (20, sessions), (1, sessions), (400, sessions)):
        assert metrics.t_stat(factor, forward_return, horizon=horizon, session=session) == pytest.approx(
            reference.t_stat(per_bar, horizon, session), rel=1e-9
        )
    within = metrics.t_stat(factor, forward_return, horizon=20, session=sessions)
    assert within != pytest.approx(metrics.t_stat(factor, forward_return, horizon=20), rel=1e-3)


def test_t_stat_of_overlapping_returns_is_not_inflated():
    """ICs that repeat for 20 bars are one observation each, not twenty."""
    values = np.repeat(np.random.default_rng(0).standard_normal(100) + 0.3, 20)
    naive = reference.t_stat(values, horizon=1)
    from rlgen.metrics.summary import newey_west_t

    honest = newey_west_t(values, np.zeros(values.size, np.int64), 40)
    assert honest < 0.65 * naive


def test_by_stock_needs_thirty_bars():
    factor, forward_return, _ = panel(7, 30, 8, "normal", 0.0)
    assert np.isfinite(metrics.by_stock_ic(factor, forward_return))
    factor[0, :7] = np.nan
    only = stats.pearsonr(factor[:, 7], forward_return[:, 7]).statistic
    assert metrics.by_stock_ic(factor, forward_return) == pytest.approx(only, abs=1e-6)
    factor[0, 7] = np.nan
    assert np.isnan(metrics.by_stock_ic(factor, forward_return))


@pytest.mark.parametrize(
    "convert",
    [
        torch.from_numpy,
        np.asfortranarray,
        lambda a: a.astype(a.dtype.newbyteorder(">")),
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: torch.from_numpy(a).double(),
    ],
)
def test_kinds_of_input(convert):
    factor, forward_return, universe = panel(8, 40, 15, "normal", 0.1)
    expected = metrics.score(factor, forward_return, universe).as_dict()
    given_universe = torch.from_numpy(universe) if convert is torch.from_numpy else universe
    found = metrics.score(convert(factor), convert(forward_return), given_universe).as_dict()
    assert found == pytest.approx(expected, abs=1e-12)
    mixed = metrics.score(convert(factor), forward_return, universe).as_dict()
    assert mixed == pytest.approx(expected, abs=1e-12)


def test_whole_numbers_and_half_precision():
    factor, forward_return, _ = panel(9, 30, 15, "ties", 0.0)
    expected = metrics.pooled_ic(factor, forward_return)
    assert metrics.pooled_ic(factor.astype(np.int64), forward_return) == pytest.approx(expected, abs=1e-12)
    assert metrics.pooled_ic(factor.astype(np.float16), forward_return) == pytest.approx(expected, abs=1e-12)
    half = torch.from_numpy(factor).to(torch.bfloat16)
    assert metrics.pooled_ic(half, forward_return) == pytest.approx(expected, abs=1e-12)
    assert metrics.pooled_ic(torch.from_numpy(factor).long(), forward_return) == pytest.approx(
        expected, abs=1e-12
    )


def test_inputs_are_not_written_to():
    factor, forward_return, universe = panel(10, 20, 15, "normal", 0.2)
    copies = factor.copy(), forward_return.copy(), universe.copy()
    for array in (factor, forward_return, universe):
        array.flags.writeable = False
    metrics.score(factor, forward_return, universe)
    for array, copy in zip((factor, forward_return, universe), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((3, 4)), np.zeros((3, 5))), r"factor and forward_return .* \(3, 4\) and \(3, 5\)"),
        ((np.zeros((3, 4)), np.zeros((3, 4)), np.ones((4, 3))), r"\(3, 4\) and \(4, 3\)"),
        ((np.zeros(4), np.zeros(4)), r"two dimensions .* was \(4,\)"),
        ((np.zeros((3, 4)), np.full((3, 4), "a")), "forward_return must be an array of numbers"),
        ((np.zeros((3, 4)), np.zeros((3, 4)), np.full((3, 4), 2.0)), "universe must hold booleans"),
        ((np.zeros((3, 4)), np.zeros((3, 4)), None, 0), "min_names must be at least 1, was 0"),
    ],
)
def test_bad_input_names_what_it_was(arguments, message):
    with pytest.raises(DataError, match=message):
        metrics.pooled_ic(*arguments)


def test_session_must_label_every_bar():
    with pytest.raises(DataError, match="one label per bar"):
        metrics.t_stat(np.zeros((3, 4)), np.zeros((3, 4)), session=np.zeros(2))


def test_scores_print_raw_beside_pooled():
    factor, forward_return, _ = panel(11, 60, 15, "normal", 0.0)
    scores = metrics.score(factor, forward_return)
    assert f"pooled IC {scores.pooled_ic:.4f} (raw {scores.raw_pooled_ic:.4f})" in str(scores)
    with pytest.raises(AttributeError):
        scores.pooled_ic = 1.0
