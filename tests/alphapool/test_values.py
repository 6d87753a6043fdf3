"""z-scores in memory: products and signals against references, CPU against torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rlgen import metrics
from rlgen.alphapool.gpu import GpuSignal, GpuValues
from rlgen.alphapool.values import CpuSignal, CpuValues, fit_target
from rlgen.memory import Memory
from rlgen.metrics import threads
from tests import reference_metrics as reference
from tests.alphapool.fakes import market


def case(engine, seed=0, n_stocks=40, rank_ic_weight=0.25, **options):
    values, forward_return, universe = market(seed, n_stocks=n_stocks, **options)
    factors = [value.astype(np.float32) for value in values.values()]
    forward_return = torch.from_numpy(forward_return.astype(np.float32))
    session = np.arange(len(universe)) // 50
    target = metrics.Target(forward_return, universe, session=session, engine=engine)
    given = target, torch.from_numpy(universe), 1.0, rank_ic_weight, len(factors)
    held = CpuValues(*given, Memory(2**28)) if engine == "numba" else GpuValues(*given)
    slots = [held.place(torch.from_numpy(factor)) for factor in factors]
    return held, slots, factors, target, forward_return.numpy(), universe


@pytest.mark.parametrize("engine", ["numba", "torch"])
@pytest.mark.parametrize(
    "options", [{}, {"n_stocks": 1100, "n_bars": 20}, {"missing": 0.4}, {"missing": 0.02}, {"missing": 0.0}]
)
def test_products_equal_their_definitions(engine, options):
    held, slots, factors, target, forward_return, universe = case(engine, **options)
    labelled = universe & np.isfinite(forward_return)
    z = [np.where(labelled, np.nan_to_num(reference.zscore(f, universe)), 0.0) for f in factors]
    y = np.where(labelled, np.nan_to_num(np.asarray(fit_target(target, 1.0, 0.25))), 0.0)
    found = held.products(slots[-1], slots[:-1])
    cells = labelled.sum()
    np.testing.assert_allclose(found.gram, [(z[-1] * other).sum() / cells for other in z], atol=1e-6)
    assert found.cross == pytest.approx((z[-1] * y).sum() / cells, abs=1e-7)
    for k, factor in enumerate(factors[:-1]):
        mutual = reference.pooled_ic(factors[-1], factor, labelled)
        assert found.mutual_ic[k] == pytest.approx(mutual, abs=2e-6)


@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_the_fit_target_blends_as_the_objective_does(engine):
    _, forward_return, universe = market(3)
    target = metrics.Target(forward_return, universe, engine=engine)
    plain, ranks = np.asarray(target.zscores()), np.asarray(target.zscores(rank=True))
    np.testing.assert_array_equal(np.asarray(fit_target(target, 2.0, 0.0)), plain)
    np.testing.assert_allclose(np.asarray(fit_target(target, 0.0, 0.5)), ranks, atol=1e-7)
    np.testing.assert_allclose(
        np.asarray(fit_target(target, 3.0, 1.0)), 0.75 * plain + 0.25 * ranks, atol=1e-6
    )
    few = metrics.Target(forward_return, universe, min_names=41, engine=engine)
    assert np.isnan(np.asarray(fit_target(few, 1.0, 1.0))).all()


@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_a_thinned_copy_still_has_a_mutual_ic_of_one(engine):
    held, slots, factors, *_ = case(engine, missing=0.0)
    held.release(slots.pop())
    thin = np.where(np.random.default_rng(1).random(factors[0].shape) < 0.3, np.nan, -5 * factors[0] + 2)
    found = held.products(held.place(torch.from_numpy(thin.astype(np.float32))), slots[:1])
    assert found.mutual_ic[0] == pytest.approx(-1.0, abs=1e-5)
    assert abs(found.gram[0]) < 0.9


def test_signal_equals_its_definition_and_is_the_same_bits_every_way():
    weights = np.random.default_rng(5).standard_normal(8)
    held, slots, factors, _, _, universe = case("numba", missing=0.5)
    found = held.combine(slots, weights)
    expected = reference.signal([reference.zscore(f, universe) for f in factors], list(weights))
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert np.isnan(found).any()
    by_torch = case("torch", missing=0.5)[0].combine(slots, weights).numpy()
    np.testing.assert_allclose(by_torch, found, rtol=1e-6, atol=1e-6)
    step_by_step, step_by_step_torch = (
        CpuSignal(universe, Memory(2**28)),
        GpuSignal(torch.from_numpy(universe)),
    )
    for factor, weight in zip(factors, weights, strict=True):
        step_by_step.add(factor, weight)
        step_by_step_torch.add(torch.from_numpy(factor), weight)
    np.testing.assert_array_equal(step_by_step.result(), found)
    np.testing.assert_array_equal(step_by_step_torch.result().numpy(), by_torch)


def test_products_do_not_depend_on_threads_or_blocks(monkeypatch):
    results = []
    for n_threads, cells in ((1, 2**15), (3, 200), (2, 1)):
        metrics.set_threads(n_threads)
        monkeypatch.setattr(threads, "BLOCK_CELLS", cells)
        held, slots, *_ = case("numba")
        results.append(held.products(slots[-1], slots[:-1]))
    metrics.set_threads(0)
    for other in results[1:]:
        np.testing.assert_array_equal(other.gram, results[0].gram)
        np.testing.assert_array_equal(other.mutual_ic, results[0].mutual_ic)
        assert other.cross == results[0].cross


@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_products_are_the_same_whoever_is_the_candidate(engine):
    held, slots, *_ = case(engine)
    one = held.products(slots[2], [slots[4]])
    other = held.products(slots[4], [slots[2]])
    assert one.gram[0] == other.gram[0]


@pytest.mark.parametrize("engine", ["numba", "torch"])
def test_a_slot_is_used_again(engine):
    held, slots, factors, *_ = case(engine)
    before = held.products(slots[0], [slots[1]])
    held.release(slots[0])
    assert held.place(torch.from_numpy(factors[0])) == slots[0]
    after = held.products(slots[0], [slots[1]])
    np.testing.assert_array_equal(before.gram, after.gram)
