"""The embedded demo: synthetic bars with planted formulas, written once, then read like any data.

1. Make the market's bars (`data_adapters.synthetic`), which knows no formulas.
2. Evaluate the planted formulas on them with the ordinary calculator; their signal is the weighted
   sum of z-scores, as a pool's is.
3. Plant the signal in the column `forward_return` and write the parquet file, with the settings
   inside; a file that carries the same settings is left alone.

The planted formulas as a pool are the oracle: what a perfect search would have found.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pyarrow as pa

from data_adapters import synthetic
from rlgen import metrics
from rlgen.alphapool import AlphaPool
from rlgen.calculator import Calculator
from rlgen.config import Config, SyntheticConfig
from rlgen.expression import parse
from rlgen.panel import Panel

log = logging.getLogger(__name__)


def prepare_synthetic(config: Config) -> bool:
    """Write the synthetic parquet file of a configuration, unless it is there with these settings.

    Returns:
        whether a file was written; False, too, if the configuration has no `synthetic`.

    Raises:
        ConfigError: a market that cannot be made.
        ExpressionError: a planted formula that does not parse or names an unknown field.
    """
    if config.synthetic is None:
        return False
    settings = synthetic_settings(config)
    if synthetic.is_current(config.synthetic.path, settings):
        return False
    log.info("writing synthetic bars to %s", config.synthetic.path)
    synthetic.write(make_synthetic(config, config.synthetic), config.synthetic.path, settings)
    return True


def synthetic_settings(config: Config) -> dict[str, Any]:
    """All that the file depends on."""
    assert config.synthetic is not None
    target, data = config.data.forward_return, config.data
    rules = {"session": data.session, "universe": data.universe}
    return {
        **config.synthetic.model_dump(mode="json", exclude={"path"}),
        **{key: value.model_dump(mode="json") for key, value in rules.items()},
        "horizon": target.horizon,
        "lag": target.lag,
        "windows": data.windows,
        "min_periods": data.min_periods,
    }


def make_synthetic(config: Config, market: SyntheticConfig) -> pa.Table:
    """The bar table with its planted forward return."""
    options = market.model_dump(exclude={"path", "plants", "information_coefficient"})
    table = synthetic.generate_bars(**options)
    data = config.data
    panel = Panel.from_frame(
        table,
        windows=data.windows,
        min_periods=data.min_periods,
        session=data.session,
        bar_label=data.bar_label,
        universe=data.universe,
    )
    signal = np.full(panel.shape, np.nan)
    if market.plants:
        calculator = Calculator(panel, "cpu", config.calculator.threads, config.calculator.memory_budget)
        formulas = [parse(plant.expression, panel.fields) for plant in market.plants]
        for values, plant in zip(calculator.evaluate_batch(formulas), market.plants, strict=True):
            z = metrics.zscore(values.numpy(), panel.universe)
            signal = np.where(np.isnan(signal), 0.0, signal) + plant.weight * np.nan_to_num(z)
        calculator.close()
    return synthetic.plant_forward_return(
        table,
        panel.bars,
        panel.symbols.tolist(),
        signal,
        information_coefficient=market.information_coefficient if market.plants else 0.0,
        horizon=data.forward_return.horizon,
        lag=data.forward_return.lag,
    )


def oracle_pool(config: Config, calculator: Calculator) -> AlphaPool | None:
    """The planted formulas with their weights as a pool on `calculator`; None where none are planted."""
    if config.synthetic is None or not config.synthetic.plants:
        return None
    plants = config.synthetic.plants
    formulas = [parse(plant.expression, calculator.panel.fields).canonical() for plant in plants]
    settings = config.pool.model_dump() | {"capacity": max(config.pool.capacity, len(plants))}
    return AlphaPool.of(formulas, [plant.weight for plant in plants], calculator, **settings)
