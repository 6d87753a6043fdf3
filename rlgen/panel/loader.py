"""`load_panel`: from a configuration to a panel.

1. Read the configuration, and refuse what it shows to be wrong before any bar is read.
2. With a store configured: ask the adapter what its source is, and reopen the stored panel if it
   was made from the same source by the same configuration.
3. Else read the bars, build the panel, and, with a store, write it and go on with the stored one,
   so that its arrays are memory-mapped either way. Of several processes that start together one
   builds, the others wait and open.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from data_adapters import find_adapter
from rlgen.config import Config, load_config
from rlgen.errors import DataError
from rlgen.panel.build import build_panel
from rlgen.panel.panel import Panel
from rlgen.panel.plan import Plan
from rlgen.panel.read import read_bars
from rlgen.panel.store import check_folder, only_one, open_store, source_key, write_store
from rlgen.panel.summary import split_lines


def load_panel(config: Config | str | Path) -> Panel:
    """The panel that a configuration, or a configuration file, describes.

    `panel.split("train")` and so on are its splits; `print(panel.report)` says what was loaded.

    Raises:
        ConfigError: the configuration contradicts itself or the data.
        DataError: the data cannot be read, or the store not be written.
    """
    if not isinstance(config, Config):
        config = load_config(config)
    data, plan = config.data, Plan.from_config(config)
    if data.store is None:
        return _build(config, plan)
    check_folder(data.store)
    try:
        description = find_adapter(data.adapter, data.options).describe()
    except OSError as error:
        raise DataError(f"data.adapter {data.adapter}: {' '.join(str(error).split())}") from None
    key = source_key(description, data)
    panel = open_store(data.store, key, plan)
    if panel is None:
        with only_one(data.store):
            # Another process may have built it in the meantime.
            panel = open_store(data.store, key, plan)
            if panel is None:
                built = _build(config, plan)
                write_store(built, data.store, key)
                panel = open_store(data.store, key, plan) or built
    panel.report = replace(panel.report, splits=split_lines(panel))
    return panel


def _build(config: Config, plan: Plan) -> Panel:
    """The panel, built in memory."""
    table, report = read_bars(config.data)
    return build_panel(table, plan, report.source, tuple(report.lines()), report.missing_days)
