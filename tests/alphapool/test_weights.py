"""Weights against the conditions that define them."""

from __future__ import annotations

import numpy as np
import pytest

from rlgen.alphapool import weights


def problem(seed, size, rows=400):
    random = np.random.default_rng(seed)
    z = random.standard_normal((rows, size)) @ random.standard_normal((size, size))
    y = z @ random.standard_normal(size) * 0.05 + random.standard_normal(rows)
    return z.T @ z / rows, z.T @ y / rows, z, y


@pytest.mark.parametrize("size", [1, 3, 20])
def test_ridge_equals_least_squares_on_extended_rows(size):
    gram, cross, z, y = problem(0, size)
    penalty = 0.05
    scale = penalty * np.trace(gram) / size
    rows = np.vstack([z / np.sqrt(len(z)), np.sqrt(scale) * np.eye(size)])
    right = np.concatenate([y / np.sqrt(len(y)), np.zeros(size)])
    expected = np.linalg.lstsq(rows, right, rcond=None)[0]
    np.testing.assert_allclose(weights.fit(gram, cross, "ridge", penalty), expected, rtol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_lasso_satisfies_the_subgradient_conditions(seed):
    gram, cross, _, _ = problem(seed, 8)
    penalty = 0.02
    level = penalty * np.trace(gram) / 8
    found = weights.fit(gram, cross, "lasso", penalty)
    gradient = gram @ found - cross
    active = found != 0.0
    assert 0 < active.sum() <= 8
    np.testing.assert_allclose(gradient[active], -level * np.sign(found[active]), atol=1e-7 * level)
    assert (np.abs(gradient[~active]) <= level * (1 + 1e-7)).all()


def test_a_large_lasso_penalty_gives_zero_weights():
    gram, cross, _, _ = problem(1, 5)
    np.testing.assert_array_equal(weights.fit(gram, cross, "lasso", 1e3), np.zeros(5))


@pytest.mark.parametrize("seed", range(5))
def test_non_negative_satisfies_the_kuhn_tucker_conditions(seed):
    gram, cross, _, _ = problem(seed, 8)
    penalty = 0.02
    found = weights.fit(gram, cross, "non-negative", penalty)
    gradient = gram @ found - cross + penalty * np.trace(gram) / 8 * found
    assert (found >= 0.0).all() and (found == 0.0).any()
    np.testing.assert_allclose(gradient[found > 0], 0.0, atol=1e-10)
    assert (gradient[found == 0] >= -1e-10).all()


@pytest.mark.parametrize("weighting", ["ridge", "lasso", "non-negative"])
def test_dependent_factors_and_factors_without_cells(weighting):
    gram = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    found = weights.fit(gram, np.array([0.1, 0.1, 0.0]), weighting, 0.0)
    assert np.isfinite(found).all()
    assert found[0] + found[1] == pytest.approx(0.1, abs=1e-6)
    assert found[2] == 0.0
    np.testing.assert_array_equal(weights.fit(np.zeros((2, 2)), np.zeros(2), weighting, 0.01), [0.0, 0.0])
    assert weights.fit(np.zeros((0, 0)), np.zeros(0), weighting, 0.01).size == 0


def test_the_penalty_is_relative_to_the_scale_of_the_gram_matrix():
    gram, cross, _, _ = problem(2, 4)
    plain = weights.fit(gram, cross, "ridge", 0.3)
    np.testing.assert_allclose(weights.fit(100 * gram, 10 * cross, "ridge", 0.3), plain / 10, rtol=1e-10)
