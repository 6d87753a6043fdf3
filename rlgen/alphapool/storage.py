"""`pool.json`: written in one step; read as data, validated, never evaluated.

Schema 1: {"schema": 1, "factors": [{"expression": text, "weight": number, "ic": number or null,
"rank_ic": number or null}, …], "objective": number, "settings": {the keys of PoolConfig}}. Only
`schema` and each factor's `expression` and `weight` must be there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlgen import files
from rlgen.alphapool.offer import Member
from rlgen.config import PoolConfig, validate
from rlgen.errors import CheckpointError, ConfigError

SCHEMA = 1


@dataclass(frozen=True)
class PoolFile:
    """What a pool file holds."""

    expressions: tuple[str, ...]
    """Formulas as text, in member order."""
    weights: tuple[float, ...]
    """Their weights."""
    settings: dict[str, Any] = field(default_factory=dict)
    """The pool's settings, as far as the file states them."""


def write_pool(path: str | Path, factors: Sequence[Member], objective: float, settings: PoolConfig) -> None:
    """Write a pool file, in one step."""
    members = [
        {
            "expression": str(member.expression),
            "weight": member.weight,
            "ic": member.ic if math.isfinite(member.ic) else None,
            "rank_ic": member.rank_ic if math.isfinite(member.rank_ic) else None,
        }
        for member in factors
    ]
    document = {"schema": SCHEMA, "factors": members, "objective": objective}
    files.write_json(path, {**document, "settings": settings.model_dump(mode="json")})


def read_pool(path: str | Path) -> PoolFile:
    """Read and validate a pool file.

    Raises:
        CheckpointError: the file is missing, truncated, not a pool, of another schema, or holds
            something that a pool cannot; one line that names the file and the key.
    """
    path = Path(path)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such pool file") from None
    except OSError as error:
        raise CheckpointError(f"{path}: not readable: {error.strerror}") from None
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise CheckpointError(f"{path}: not JSON, or truncated: {error}") from None
    if isinstance(data, dict) and "exprs" in data and "schema" not in data:
        raise CheckpointError(f"{path}: a pool of alphagen; read_alphagen_pool of rlgen.expression reads it")
    if not isinstance(data, dict) or "schema" not in data or not isinstance(data.get("factors"), list):
        raise CheckpointError(f"{path}: not a pool: must be an object with the keys schema and factors")
    if data["schema"] != SCHEMA:
        raise CheckpointError(f"{path}: schema must be {SCHEMA}, was {data['schema']!r}")
    expressions, weights = [], []
    for number, factor in enumerate(data["factors"]):
        where = f"{path}: factors[{number}]"
        if not isinstance(factor, dict):
            raise CheckpointError(f"{where} must be an object, was {factor!r}")
        expression, weight = factor.get("expression"), factor.get("weight")
        if not isinstance(expression, str):
            raise CheckpointError(f"{where}.expression must be text, was {expression!r}")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
            raise CheckpointError(f"{where}.weight must be a finite number, was {weight!r}")
        expressions.append(expression)
        weights.append(float(weight))
    settings = data.get("settings", {})
    if not isinstance(settings, dict):
        raise CheckpointError(f"{path}: settings must be an object, was {settings!r}")
    try:
        known = validate(PoolConfig, settings, f"{path}: settings").model_dump(exclude_unset=True)
    except ConfigError as error:
        raise CheckpointError(str(error)) from None
    return PoolFile(tuple(expressions), tuple(weights), known)
