from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from rlgen import metrics
from rlgen.calculator import Calculator
from rlgen.errors import ExpressionError
from rlgen.panel import load_panel
from rlgen.training.demo import oracle_pool, prepare_synthetic
from tests.training.small import PLANT, make_config


def test_the_file_is_written_once_and_anew_when_settings_change(tmp_path: Path) -> None:
    config = make_config(tmp_path)
    assert prepare_synthetic(config)
    path = tmp_path / "bars.parquet"
    first = path.read_bytes()
    assert not prepare_synthetic(config)
    changed = make_config(tmp_path, synthetic={"seed": 4})
    assert prepare_synthetic(changed)
    assert path.read_bytes() != first
    assert prepare_synthetic(config)
    assert path.read_bytes() == first
    longer = {"column": "forward_return", "horizon": 4, "lag": 1}
    assert prepare_synthetic(make_config(tmp_path, data={"forward_return": longer}))


def test_without_the_section_nothing_is_written(tmp_path: Path) -> None:
    config = make_config(tmp_path).model_copy(update={"synthetic": None})
    assert not prepare_synthetic(config)
    assert list(tmp_path.iterdir()) == []
    assert oracle_pool(config, None) is None  # type: ignore[arg-type]


def test_the_planted_signal_has_the_ic_that_was_asked_for(tmp_path: Path) -> None:
    plants = [{"expression": PLANT, "weight": 1.0}, {"expression": "CSRank($volume)", "weight": -0.5}]
    config = make_config(tmp_path, synthetic={"plants": plants, "information_coefficient": 0.1})
    prepare_synthetic(config)
    panel = load_panel(config)
    calculator = Calculator(panel, "cpu", 1)
    z = [metrics.zscore(calculator.evaluate(plant["expression"]).numpy(), panel.universe) for plant in plants]  # type: ignore[arg-type]
    signal = np.nan_to_num(z[0]) - 0.5 * np.nan_to_num(z[1])
    assert metrics.pooled_ic(signal, panel.forward_return, panel.universe) == pytest.approx(0.1, abs=2e-3)
    oracle = oracle_pool(config, calculator)
    assert oracle is not None
    assert oracle.scores().pooled_ic == pytest.approx(0.1, abs=2e-3)
    assert oracle.weights.tolist() == [1.0, -0.5]


def test_without_plants_the_return_is_the_markets_own(tmp_path: Path) -> None:
    config = make_config(tmp_path, synthetic={"plants": []})
    prepare_synthetic(config)
    assert "forward_return" in pq.read_schema(tmp_path / "bars.parquet").names
    panel = load_panel(config)
    close = panel.fields["close"].astype(np.float64)
    expected = close[4:] / close[1:-3] - 1
    actual = panel.forward_return[:-4]
    labelled = np.isfinite(actual)
    assert labelled.mean() > 0.7
    np.testing.assert_allclose(actual[labelled], expected[labelled], rtol=1e-3, atol=1e-6)
    assert oracle_pool(config, Calculator(panel, "cpu", 1)) is None


def test_a_plant_that_does_not_parse_leaves_no_file(tmp_path: Path) -> None:
    config = make_config(tmp_path, synthetic={"plants": [{"expression": "Mean($bid,3)"}]})
    with pytest.raises(ExpressionError, match="bid"):
        prepare_synthetic(config)
    assert list(tmp_path.iterdir()) == []
