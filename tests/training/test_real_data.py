"""The shipped configurations of real bars, end to end for a few iterations."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rlgen
from rlgen.config import load_config
from rlgen.training import score_pool, train

CONFIGS = Path(__file__).parents[2] / "configs"
FEW = ["--training.total-steps", "600", "--training.n-envs", "32", "--training.n-steps", "8"]
FOLDERS = {"us_1min": "us_1min_2019_eqker/raw", "crypto_1min": "crypto_perp_1min_2025/panel.parquet"}


@pytest.mark.parametrize("name", FOLDERS)
def test_real_bars_train_to_a_saved_pool_and_its_signal(name: str, shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / FOLDERS[name]
    config = load_config(CONFIGS / f"{name}.yaml", ["--data.options.path", str(path), *FEW])
    result = train(config, tmp_path / "run")
    assert result is not None and result.stopped_by is None
    assert len(result.factors) > 0
    assert set(result.scores) == {"train", "valid", "test"}

    # The training IC that the run printed, recomputed with pandas from the exported signal.
    panel = rlgen.Panel.load(config).split("train")
    table = score_pool(tmp_path / "run", out=tmp_path / "signal.parquet").to_pandas()
    signal = table.pivot(index="datetime", columns="symbol", values="signal")
    signal = signal.reindex(index=panel.bars, columns=panel.symbols)
    target = pd.DataFrame(panel.forward_return, signal.index, signal.columns).where(panel.universe)
    both = signal.notna() & target.notna()
    x, y, n = signal.where(both).astype(float), target.where(both).astype(float), both.sum(axis=1)
    minimum = min(10, max(3, -(-len(panel.symbols) // 2)))
    counts = (n >= minimum) & (x.max(axis=1) > x.min(axis=1)) & (y.max(axis=1) > y.min(axis=1))
    ic = x[counts].corrwith(y[counts], axis=1)
    pooled = float(np.average(ic, weights=n[counts]))
    assert result.scores["train"].pooled_ic == pytest.approx(pooled, abs=1e-6)

    stored = json.loads((tmp_path / "run" / "pool.json").read_text(encoding="utf-8"))
    assert len(stored["factors"]) == len(result.factors)
