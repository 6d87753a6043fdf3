"""rlgen: discovers formulaic alpha factors on minute bars by reinforcement learning.

The names below are imported when first used, so that `import rlgen` and a script's `--help` are quick:

    panel = rlgen.load_panel("configs/demo.yaml")
    calculator = rlgen.Calculator(panel.split("train"))
    calculator.score(rlgen.parse("Corr(Mean($close,20),$volume,60)"))
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlgen.caching import choose_cache

if TYPE_CHECKING:
    from rlgen import errors, metrics
    from rlgen.alphapool import AlphaPool
    from rlgen.calculator import Calculator
    from rlgen.config import Config
    from rlgen.env import AlphaEnv
    from rlgen.expression import parse
    from rlgen.panel import ForwardReturn, Panel

__version__ = "0.1.0"

__all__ = [
    "AlphaEnv",
    "AlphaPool",
    "Calculator",
    "ForwardReturn",
    "Panel",
    "__version__",
    "errors",
    "load_panel",
    "metrics",
    "parse",
]

HOMES = {
    "AlphaEnv": "rlgen.env",
    "AlphaPool": "rlgen.alphapool",
    "Calculator": "rlgen.calculator",
    "ForwardReturn": "rlgen.panel",
    "Panel": "rlgen.panel",
    "parse": "rlgen.expression",
}
"""Where a public name lives."""

MODULES = ("alphapool", "calculator", "config", "env", "errors", "expression", "metrics", "panel", "training")
"""Modules that `rlgen.metrics` and the like reach without an import of their own."""

choose_cache()


def load_panel(config: Config | str | Path) -> Panel:
    """The panel that a configuration, or a configuration file, describes.

    Synthetic bars are written first if the configuration has them and they are not there yet.
    `panel.split("train")` and so on are its splits; `print(panel.report)` says what was loaded.

    Raises:
        ConfigError: the configuration contradicts itself or the data.
        DataError: the data cannot be read.
    """
    from rlgen.config import load_config
    from rlgen.panel import load_panel as load

    if isinstance(config, str | Path):
        config = load_config(config)
    if config.synthetic is not None:
        from rlgen.training.demo import prepare_synthetic

        prepare_synthetic(config)
    return load(config)


def __getattr__(name: str) -> Any:
    if name in HOMES:
        value = getattr(importlib.import_module(HOMES[name]), name)
    elif name in MODULES:
        value = importlib.import_module(f"rlgen.{name}")
    else:
        raise AttributeError(f"module 'rlgen' has no attribute {name!r}")
    globals()[name] = value  # The next use finds it without coming here.
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *MODULES})
