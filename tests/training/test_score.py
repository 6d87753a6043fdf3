import datetime as dt
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from rlgen.alphapool import AlphaPool
from rlgen.calculator import Calculator
from rlgen.config import Config
from rlgen.errors import CheckpointError, ConfigError, DataError, ExpressionError
from rlgen.panel import Panel, load_panel
from rlgen.training import score_pool, train
from tests.training.small import make_config


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, Path]:
    folder = tmp_path_factory.mktemp("score")
    config = make_config(folder, training={"total_steps": 360})
    train(config, folder / "run")
    return config, folder / "run"


@pytest.fixture(scope="module")
def batch(run: tuple[Config, Path]) -> tuple[Panel, np.ndarray]:
    """The whole panel and the pool's signal on all of it."""
    panel = load_panel(run[0])
    pool = AlphaPool.load(run[1] / "pool.json", Calculator(panel, "cpu", 1))
    assert len(pool) == 3
    return panel, pool.signal().numpy()


def dense(table: pa.Table, panel: Panel) -> np.ndarray:
    """(T, S) signal of a table's rows on the panel's grid."""
    result = np.full(panel.shape, np.nan, np.float32)
    bars = np.searchsorted(panel.bars, table["datetime"].to_numpy().astype("datetime64[ms]"))
    symbols = {name: i for i, name in enumerate(panel.symbols.tolist())}
    columns = [symbols[name] for name in table["symbol"].to_pylist()]
    result[bars, columns] = table["signal"].to_numpy()
    return result


def test_all_bars_have_the_bits_of_the_batch_computation(
    run: tuple[Config, Path], batch: tuple[Panel, np.ndarray], tmp_path: Path
) -> None:
    panel, signal = batch
    table = score_pool(run[1], out=tmp_path / "signal.parquet")
    assert table.schema.names == ["datetime", "symbol", "signal"]
    assert table["signal"].type == pa.float32()
    np.testing.assert_array_equal(dense(table, panel), signal)
    assert table.num_rows == np.isfinite(signal).sum()
    assert pq.read_table(tmp_path / "signal.parquet").equals(table)
    order = table.sort_by([("datetime", "ascending"), ("symbol", "ascending")])
    assert order.equals(table)


def test_bars_since_a_date_have_the_same_bits(
    run: tuple[Config, Path], batch: tuple[Panel, np.ndarray]
) -> None:
    panel, signal = batch
    table = score_pool(run[1], since=dt.date(2024, 1, 9))
    later = panel.bars >= np.datetime64("2024-01-09")
    expected = np.where(later[:, None], signal, np.nan)
    np.testing.assert_array_equal(dense(table, panel), expected)
    assert np.isfinite(signal[later][0]).any()  # the first bar has its windows filled from before


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_file_of_new_bars_needs_no_forward_return(
    run: tuple[Config, Path], batch: tuple[Panel, np.ndarray], tmp_path: Path, suffix: str
) -> None:
    """New days are appended to the file; the return that training used is not in it."""
    panel, signal = batch
    bars = pq.read_table(run[0].data.options["path"]).drop_columns(["forward_return"])
    file = tmp_path / f"new{suffix}"
    if suffix == ".csv":
        stamps = pc.strftime(bars["datetime"], "%Y-%m-%d %H:%M:%S")
        pyarrow.csv.write_csv(bars.set_column(0, "datetime", stamps), file)
    else:
        pq.write_table(bars, file)
    table = score_pool(run[1], file, since=dt.date(2024, 1, 11))
    expected = np.where((panel.bars >= np.datetime64("2024-01-11"))[:, None], signal, np.nan)
    np.testing.assert_array_equal(dense(table, panel), expected)


def test_a_configuration_says_how_to_read_other_bars(
    run: tuple[Config, Path], batch: tuple[Panel, np.ndarray], tmp_path: Path
) -> None:
    panel, signal = batch
    shorter = run[0].data.model_copy(update={"end": dt.date(2024, 1, 4)})
    (tmp_path / "new.yaml").write_text(run[0].model_copy(update={"data": shorter}).to_yaml())
    table = score_pool(run[1], tmp_path / "new.yaml")
    expected = np.where((panel.bars < np.datetime64("2024-01-05"))[:, None], signal, np.nan)
    np.testing.assert_array_equal(dense(table, panel), expected)


def test_another_pool_file_can_be_named(run: tuple[Config, Path], tmp_path: Path) -> None:
    text = '{"schema": 1, "factors": [{"expression": "$close", "weight": 1.0}]}'
    (tmp_path / "mine.json").write_text(text)
    table = score_pool(run[1], pool=tmp_path / "mine.json")
    first = table.filter(pc.equal(table["datetime"], table["datetime"][0]))["signal"].to_numpy()
    assert first.mean() == pytest.approx(0, abs=1e-5)  # a z-score across the bar
    assert first.std() == pytest.approx(1, abs=1e-5)


def test_bad_input_is_one_clear_line_and_no_file(run: tuple[Config, Path], tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    with pytest.raises(CheckpointError, match="not a run folder"):
        score_pool(tmp_path, out=out)
    with pytest.raises(ConfigError, match="no bars from 2030-01-01 on; the last session is 2024-01-11"):
        score_pool(run[1], since=dt.date(2030, 1, 1), out=out)
    with pytest.raises((ConfigError, DataError), match=r"absent\.parquet"):
        score_pool(run[1], tmp_path / "absent.parquet", out=out)
    copy = tmp_path / "run"
    shutil.copytree(run[1], copy)
    (copy / "pool.json").write_text('{"schema": 1, "factors": [{"expression": "$bid", "weight": 1}]}')
    with pytest.raises(ExpressionError, match="bid"):
        score_pool(copy, out=out)
    (copy / "pool.json").unlink()
    with pytest.raises(CheckpointError, match="no such pool file"):
        score_pool(copy, out=out)
    assert not out.exists()
