"""The weights of a signal, fitted by algebra.

The signal Σ_k w_k z_k should follow the forward return's z-scores y. Over the labelled cells,
with G_kl = mean z_k z_l and c_k = mean z_k y (missing cells count as 0), the squared distance is
w′Gw − 2 w′c + const, and each variant minimises half of it plus a penalty. With λ = `penalty` ×
mean of G's diagonal:

- `ridge`: λ/2 Σ w_k². Closed form: (G + λI) w = c.
- `lasso`: λ Σ |w_k|. FISTA (Beck and Teboulle 2009) with restarts (O'Donoghue and Candès 2015).
- `non-negative`: the ridge penalty, and w_k ≥ 0. NNLS (Lawson and Hanson 1974) on the Cholesky
  factor: with G + λI = R′R it is min |Rw − R′⁻¹c|².

The fit only proposes weights. What a weighting is worth is always the exact metric of its signal
(see `objective`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

from rlgen.metrics.arrays import Float64s

Weighting = Literal["ridge", "lasso", "non-negative"]


def fit(gram: Float64s, cross: Float64s, weighting: Weighting, penalty: float) -> Float64s:
    """Weights (K,) float64.

    Args:
        gram: (K, K) G, positive semi-definite.
        cross: (K,) c.
        weighting: the variant.
        penalty: relative to the mean diagonal of G.
    """
    if cross.size == 0:
        return np.zeros(0)
    scale = float(np.trace(gram)) / cross.size
    if scale == 0.0:  # no factor has a cell here
        return np.zeros(cross.size)
    return _VARIANTS[weighting](gram, cross, penalty * scale)


def ridge(gram: Float64s, cross: Float64s, penalty: float) -> Float64s:
    """(G + λI)⁻¹ c; for a singular matrix the shortest solution."""
    matrix = gram + penalty * np.eye(cross.size)
    # Symmetric least squares instead of a Cholesky solve: members may be linearly dependent.
    return np.asarray(np.linalg.lstsq(matrix, cross, rcond=1e-12)[0], np.float64)


def lasso(gram: Float64s, cross: Float64s, penalty: float, max_steps: int = 10_000) -> Float64s:
    """argmin ½ w′Gw − w′c + λ Σ|w|, to a relative change of 1e-10 or for `max_steps`."""
    step = 1.0 / np.linalg.eigvalsh(gram)[-1]
    weights = point = np.zeros(cross.size)
    momentum = 1.0
    for _ in range(max_steps):
        moved = point - step * (gram @ point - cross)
        shrunk = np.sign(moved) * np.maximum(np.abs(moved) - step * penalty, 0.0)
        change = shrunk - weights
        if (point - shrunk) @ change > 0.0:  # the momentum points uphill: start it afresh
            momentum = 1.0
        following = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        point = shrunk + (momentum - 1.0) / following * change
        weights, momentum = shrunk, following
        if np.abs(change).max() <= 1e-10 * np.abs(weights).max():
            break
    return weights


def non_negative(gram: Float64s, cross: Float64s, penalty: float) -> Float64s:
    """argmin ½ w′(G + λI)w − w′c with w ≥ 0."""
    # A floor far below any penalty of use keeps the factor defined if members are dependent.
    floor = 1e-10 * float(np.trace(gram)) / cross.size
    factor = cholesky(gram + max(penalty, floor) * np.eye(cross.size))
    return np.asarray(nnls(factor, solve_triangular(factor, cross, trans="T"))[0], np.float64)


_VARIANTS: dict[str, Callable[[Float64s, Float64s, float], Float64s]] = {
    "ridge": ridge,
    "lasso": lasso,
    "non-negative": non_negative,
}
