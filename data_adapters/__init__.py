"""Sources of bars. One small class each, on the protocol `rlgen.schema.Adapter`.

`find_adapter("parquet", {"path": "bars"})` makes a built-in one by its name in `BUILT_IN`;
`find_adapter("desk.bars:Vendor", {...})` imports a private one. `docs/adapters.md` shows how to
write one in twenty lines.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Mapping
from typing import Any, cast

from rlgen.errors import ConfigError, RlgenError
from rlgen.schema import Adapter

BUILT_IN = {
    "parquet": "data_adapters.parquet:Parquet",
    "csv": "data_adapters.csv:Csv",
    "day_files": "data_adapters.day_files:DayFiles",
    "synthetic": "data_adapters.synthetic:SyntheticMarket",
}


def find_adapter(name: str, options: Mapping[str, Any] | None = None) -> Adapter:
    """The adapter called `name` (built-in, or `module:Class`), made with `options`.

    Private modules are looked for as Python does, and last in the working directory.

    Raises:
        ConfigError: no such name, module or class; the module fails to import; the class is no
            adapter; an option is unknown, missing or refused.
    """
    options = dict(options or {})
    target = BUILT_IN.get(name, name)
    module_name, colon, class_name = target.partition(":")
    if not (module_name and colon and class_name):
        raise ConfigError(
            f"data.adapter: must be one of {', '.join(BUILT_IN)}, or `module:Class`; was {name!r}"
        )
    made: Any = getattr(import_module(module_name, name), class_name, None)
    if not inspect.isclass(made):
        raise ConfigError(f"data.adapter {name!r}: module {module_name} has no class {class_name}")
    lacking = [method for method in ("bars", "describe") if not callable(getattr(made, method, None))]
    if lacking:
        raise ConfigError(f"data.adapter {name!r}: the class lacks the method {' and '.join(lacking)}")
    known = [
        parameter.name
        for parameter in inspect.signature(made).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    try:
        inspect.signature(made).bind(**options)
    except TypeError as error:
        raise ConfigError(
            f"data.options of adapter {name!r}: {error}; options are {', '.join(known) or 'none'}"
        ) from None
    try:
        adapter = cast(Adapter, made(**options))
    except ConfigError as error:
        raise ConfigError(f"data.options of adapter {name!r}: {error}") from None
    except RlgenError:
        raise
    except (TypeError, ValueError, OSError) as error:
        raise ConfigError(f"data.options of adapter {name!r}: {type(error).__name__}: {error}") from error
    per_call = getattr(adapter, "per_call", "range")
    if per_call not in ("range", "day", "symbol"):
        raise ConfigError(f"data.adapter {name!r}: per_call must be range, day or symbol, was {per_call!r}")
    if per_call == "symbol" and not callable(getattr(adapter, "symbols", None)):
        raise ConfigError(f"data.adapter {name!r}: per_call was symbol, so it must have a method symbols()")
    return adapter


def import_module(module_name: str, name: str) -> Any:
    """Import a module, the working directory being searched last; failures are a `ConfigError`."""
    folder = os.getcwd()
    sys.path.append(folder)
    try:
        return importlib.import_module(module_name)
    except Exception as error:  # A private module may fail in any way: all are one message.
        missing = isinstance(error, ModuleNotFoundError) and error.name is not None
        if missing and (module_name + ".").startswith(f"{error.name}."):  # type: ignore[attr-defined]
            raise ConfigError(f"data.adapter {name!r}: there is no module {error.name}") from None  # type: ignore[attr-defined]
        raise ConfigError(
            f"data.adapter {name!r}: importing {module_name} failed: {type(error).__name__}: {error}"
        ) from error
    finally:
        sys.path.remove(folder)
