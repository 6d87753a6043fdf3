"""Kernels: bits that do not depend on threads or blocks, z-scores, imports that compile nothing."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from scipy import stats

from rlgen import metrics
from rlgen.metrics import gpu, threads
from tests import reference_metrics as reference
from tests.metrics.test_functions import KINDS, panel


@pytest.mark.parametrize("kind", KINDS)
def test_zscore_equals_reference(kind):
    factor, _, universe = panel(1, 40, 23, kind, 0.2)
    expected = reference.zscore(factor, universe)
    found = metrics.zscore(factor, universe)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=2e-6, rtol=2e-7)
    by_torch = gpu.zscore_rows(torch.from_numpy(factor), torch.from_numpy(universe)).numpy()
    np.testing.assert_allclose(by_torch, expected, atol=2e-6, rtol=2e-7)


@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_zscores_of_the_forward_return_and_of_its_ranks(engine):
    _, forward_return, universe = panel(4, 40, 23, "ties", 0.2)
    target = metrics.Target(forward_return, universe, engine=engine)
    labelled = universe & np.isfinite(forward_return)
    np.testing.assert_allclose(target.zscores(), reference.zscore(forward_return, universe), atol=1e-6)
    ranks = np.full(labelled.shape, np.nan)
    for t in range(40):
        ranks[t, labelled[t]] = stats.rankdata(forward_return[t, labelled[t]])
    np.testing.assert_allclose(target.zscores(rank=True), reference.zscore(ranks), atol=1e-6)


def test_zscore_of_a_flat_bar_is_zero_and_of_an_empty_one_missing():
    factor = np.array([[2.0, 2.0, np.nan], [np.nan, np.inf, -np.inf], [5.0, np.nan, np.nan]], np.float32)
    np.testing.assert_array_equal(
        metrics.zscore(factor), [[0.0, 0.0, np.nan], [np.nan] * 3, [0.0, np.nan, np.nan]]
    )


def test_bits_do_not_depend_on_threads_or_blocks(monkeypatch):
    factor, forward_return, universe = panel(2, 300, 40, "ties", 0.1)
    results = []
    for n_threads, cells in ((1, 2**15), (2, 2**15), (2, 100), (5, 1000), (1, 1)):
        metrics.set_threads(n_threads)
        monkeypatch.setattr(threads, "BLOCK_CELLS", cells)
        target = metrics.Target(forward_return, universe, session=np.arange(300) // 60)
        results.append((target.bars(factor), target.score(factor), metrics.zscore(factor, universe)))
    metrics.set_threads(0)
    first_bars, first_scores, first_zscores = results[0]
    for bars, scores, zscores in results[1:]:
        assert scores == first_scores
        for name in ("count", "ic", "rank_ic", "moments"):
            np.testing.assert_array_equal(getattr(bars, name), getattr(first_bars, name))
        np.testing.assert_array_equal(zscores, first_zscores)


def test_a_bar_does_not_depend_on_the_others():
    factor, forward_return, universe = panel(3, 100, 33, "normal", 0.1)
    whole = metrics.Target(forward_return, universe).bars(factor)
    part = metrics.Target(forward_return[41:77], universe[41:77]).bars(factor[41:77])
    np.testing.assert_array_equal(part.ic, whole.ic[41:77])
    np.testing.assert_array_equal(part.rank_ic, whole.rank_ic[41:77])


def test_sums_over_bars_are_sums_over_sessions():
    from rlgen.metrics import summary

    values = np.random.default_rng(0).standard_normal(1000)
    session = np.repeat(np.arange(10), 100)
    parts = [summary.session_sums(values[i : i + 100], np.zeros(100, np.int64)) for i in range(0, 1000, 100)]
    assert summary.total(np.concatenate(parts)) == summary.sum_over_bars(values, session)


def test_an_error_in_a_worker_reaches_the_caller():
    def work(start, stop):
        if start == 7:
            raise ValueError("block seven")

    metrics.set_threads(3)
    try:
        with pytest.raises(ValueError, match="block seven"):
            threads.over_blocks(work, 20, threads.BLOCK_CELLS)
    finally:
        metrics.set_threads(0)


def test_importing_compiles_nothing_and_needs_no_torch():
    code = (
        "import sys, rlgen.metrics as m, numba;"
        "from rlgen.metrics import kernels;"
        "k = [v for v in vars(kernels).values() if hasattr(v, 'signatures')];"
        "assert len(k) > 5 and not any(v.signatures for v in k);"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
