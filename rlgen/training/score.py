"""A saved pool's signal on new bars, equal bit for bit to that of the batch computation.

1. Read the bars as a run reads them, from the first one on: kernels are anchored at absolute bars,
   so the same first bar gives the same bits. No forward return is needed.
2. Evaluate the bars from `since` on. What windows look back on before that is read, not evaluated.
3. Write one row per bar and symbol that has a signal.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rlgen.alphapool import AlphaPool
from rlgen.calculator import Calculator
from rlgen.config import Config, DataConfig, ForwardReturnConfig, load_config
from rlgen.errors import CheckpointError, ConfigError
from rlgen.files import write_atomically
from rlgen.panel import Panel
from rlgen.panel.build import build_panel
from rlgen.panel.plan import Plan
from rlgen.panel.read import read_bars
from rlgen.schema import DATETIME, STAMP, SYMBOL
from rlgen.training.run_folder import RunFolder

SIGNAL = "signal"
CONFIGURATIONS = (".yaml", ".yml")
ADAPTERS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".gz": "csv"}
"""The adapter for a data file by its last suffix, where it is not the run's own."""


def score_pool(
    run: str | Path,
    data: str | Path | None = None,
    *,
    since: dt.date | None = None,
    out: str | Path | None = None,
    pool: str | Path | None = None,
) -> pa.Table:
    """The signal of a run's pool.

    Args:
        run: a run folder.
        data: a data file or folder, read as the run's configuration says; or a configuration file,
            whose section `data` is used; None: the run's own data.
        since: the first session wanted; earlier bars are only looked back on. None: all.
        out: the parquet file to write; None: none is written.
        pool: a pool file; None: the run's `pool.json`.

    Returns:
        columns datetime, symbol, signal (float32), sorted by both; one row where there is a signal.

    Raises:
        CheckpointError: no run, or no pool.
        ConfigError, DataError: the data cannot be used, or has no bars since `since`.
        ExpressionError: a formula uses a field that the data lacks.
    """
    folder = RunFolder(run)
    if not folder.config.exists():
        raise CheckpointError(f"{folder.root}: not a run folder: it has no {folder.config.name}")
    config = load_config(folder.config)
    panel = load_bars(data_section(config, data))
    if since is not None:
        last = panel.session_dates[-1].astype(object)
        if since > last:
            raise ConfigError(f"since: no bars from {since} on; the last session is {last}")
        panel = panel.between(since, last)
    settings = config.calculator
    calculator = Calculator(panel, settings.device, settings.threads, settings.memory_budget)
    try:
        table = to_table(panel, AlphaPool.load(pool or folder.pool, calculator).signal().cpu().numpy())
    finally:
        calculator.close()
    if out is not None:
        with write_atomically(out) as temporary:
            pq.write_table(table, temporary, compression="zstd")
    return table


def data_section(config: Config, data: str | Path | None) -> DataConfig:
    """The section `data` for the bars asked for (see `score_pool`)."""
    if data is None:
        return config.data
    path = Path(data)
    if path.suffix in CONFIGURATIONS:
        return load_config(path).data
    # The first bar anchors the bits: it stays. The last one is whatever the new bars have.
    section = config.data.model_copy(update={"end": None, "store": None})
    adapter = ADAPTERS.get(path.suffix, section.adapter)
    if "path" not in section.options or adapter != section.adapter:
        if adapter == section.adapter and path.suffix not in ADAPTERS:
            raise ConfigError(f"data: {path}: adapter {adapter} takes no path; give a configuration file")
        return section.model_copy(update={"adapter": adapter, "options": {"path": str(path)}})
    return section.model_copy(update={"options": {**section.options, "path": str(path)}})


def load_bars(data: DataConfig) -> Panel:
    """A panel without a forward return and without splits: new bars have neither."""
    if data.forward_return.column is not None:
        # A ready-made return is not among new bars; what is read must name some price instead.
        target = ForwardReturnConfig(price="close", horizon=1, lag=data.forward_return.lag)
        data = data.model_copy(update={"forward_return": target})
    table, report = read_bars(data)
    plan = Plan(
        None,
        data.session,
        data.universe,
        None,
        data.fields,
        data.bar_label,
        data.windows,
        data.min_periods,
    )
    return build_panel(table, plan, report.source, tuple(report.lines()), report.missing_days)


def to_table(panel: Panel, signal: np.ndarray) -> pa.Table:
    """Rows datetime, symbol, signal of the cells (T, S) that have a signal."""
    bar, stock = np.nonzero(np.isfinite(signal))
    return pa.table(
        {
            DATETIME: pa.array(panel.bars[bar]).cast(STAMP),
            SYMBOL: pa.array(panel.symbols.tolist()).take(pa.array(stock)),
            SIGNAL: pa.array(signal[bar, stock], pa.float32()),
        }
    )
