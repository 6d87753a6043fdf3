"""Series on which numerical shortcuts fail, and the tolerance that values must keep on them."""

from __future__ import annotations

import numpy as np

MISSING = {"walk": 0.02, "ticks": 0.3, "volume": 0.6, "constant": 0.1, "outlier": 0.05, "empty": 1.0}


def hostile_fields(n_bars: int, n_stocks: int, seed: int = 0) -> dict[str, np.ndarray]:
    """float32 fields (T, S): a random walk, a price of 1e4 that moves by ticks, volumes of 1e9,
    piecewise constant values, outliers of 1e15, and nothing at all; with missing cells."""
    rng = np.random.default_rng(seed)
    shape = n_bars, n_stocks
    normal = rng.normal(size=shape)
    fields = {
        "walk": 100 + rng.normal(size=shape).cumsum(0),
        "ticks": 1e4 + 0.01 * np.round(0.7 * rng.normal(size=shape).cumsum(0)),
        "volume": np.round(1e9 * np.exp(rng.normal(size=shape))),
        "constant": np.repeat(rng.normal(size=(n_bars // 30 + 1, n_stocks)), 30, axis=0)[:n_bars],
        "outlier": np.where(rng.random(shape) < 0.02, 1e15, normal),
        "empty": normal,
    }
    for name, values in fields.items():
        values[rng.random(shape) < MISSING[name]] = np.nan
        # One stock without any hole, one that lists late.
        if name != "empty":
            values[:, 0] = np.where(np.isnan(values[:, 0]), 1.0, values[:, 0])
            values[: n_bars // 3, -1] = np.nan
    return {name: values.astype(np.float32) for name, values in fields.items()}


def assert_matches(
    values: np.ndarray, reference: np.ndarray, what: object, tolerance: float = 1e-5, unit: float = 0.0
) -> None:
    """Missing in the same cells; error under `tolerance` of max(|x|, 1e-6 of the bar's scale).

    `unit` is the scale of a number without unit, such as a skewness: where symmetric values cancel
    to 1e-12, the last bits of 1 are all that is left, in the definition as well.
    """
    reference = np.where(np.abs(reference) <= np.finfo(np.float32).max, reference, np.nan)
    missing = np.isnan(values) != np.isnan(reference)
    assert not missing.any(), f"{what}: missing in other cells, first (bar, stock) {np.argwhere(missing)[0]}"
    present = np.where(np.isnan(reference), 0.0, np.abs(reference))
    # Below the smallest normal float32 a value has no relative precision left to compare.
    scale = np.maximum(
        np.maximum(present, 1e-6 * present.max(axis=1, keepdims=True)), max(1e-38, 1e-6 * unit)
    )
    error = np.where(np.isnan(reference), 0.0, np.abs(values.astype(float) - reference) / scale)
    worst = np.unravel_index(error.argmax(), error.shape)
    assert error[worst] <= tolerance, (
        f"{what}: was {values[worst]}, should be {reference[worst]} at {worst} (error {error[worst]:.2g})"
    )
