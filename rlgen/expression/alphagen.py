"""Reads the pool files that alphagen writes: `{"exprs": [text, …], "weights": [number, …]}`.

Texts are read by the ordinary parser; `Constant(1.0)`, as old versions of alphagen write a number, is
understood too. Where an operator means something else there, a warning names it: values, and with
them weights, then differ from what alphagen computed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rlgen.errors import DataError, ExpressionError
from rlgen.expression.parser import parse
from rlgen.expression.tree import Call, Expression

DIFFERENCES = {
    "Rank": "there it is inverted (the largest value ranks lowest); here the percentile is ascending",
    "WMA": "there the oldest bar's weight is 0; here weights are 1 … w",
    "Med": "there an even window gives the lower middle value; here the mean of the two middle values",
    "EMA": "there a window of one bar or with a missing value is missing; here weights are renormalised",
    "CSRank": "there ranks begin at 0 and ties are broken by position; here they are in (0,1], ties averaged",
    "Skew": "there it is not corrected for bias; here it is",
    "Kurt": "there it is not corrected for bias; here it is",
    "Corr": "there a sum of squared deviations below 1e-6 counts as no spread; here only exact equality does",
}
"""Operators whose meaning differs in alphagen, and how. (There, any missing value also makes its
whole window missing.)"""

_CONSTANT = re.compile(r"\bConstant\(([^()]*)\)", re.IGNORECASE)


@dataclass(frozen=True)
class AlphagenPool:
    """What an alphagen pool file holds."""

    expressions: tuple[Expression, ...]
    weights: tuple[float, ...]
    """One per expression, on its per-bar z-score."""
    warnings: tuple[str, ...]
    """One line per operator used whose meaning differs there."""


def read_alphagen_pool(path: str | Path, fields: Iterable[str] | None = None) -> AlphagenPool:
    """Read an alphagen pool file.

    Args:
        path: the JSON file.
        fields: the fields that there are; None: any.

    Raises:
        DataError: the file is missing, no JSON, or not of that form.
        ExpressionError: an expression does not parse; names the file and its number.
    """
    path = Path(path)
    texts, weights = _read(path)
    known = None if fields is None else frozenset(fields)
    expressions = []
    for number, text in enumerate(texts, 1):
        try:
            # Spaces in place of the wrapper keep the columns that errors name.
            expressions.append(parse(_CONSTANT.sub(lambda m: f"         {m[1]} ", text), known))
        except ExpressionError as error:
            raise ExpressionError(f"{path}: expression {number}: {error}") from None
    used = set().union(*(_operators(expression) for expression in expressions))
    warnings = tuple(f"{path}: {name}: {how}" for name, how in DIFFERENCES.items() if name in used)
    return AlphagenPool(tuple(expressions), tuple(weights), warnings)


def _read(path: Path) -> tuple[list[str], list[float]]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: not readable as JSON: {' '.join(str(error).split())}") from None
    texts = content.get("exprs") if isinstance(content, dict) else None
    weights = content.get("weights") if isinstance(content, dict) else None
    if not isinstance(texts, list) or not isinstance(weights, list):
        raise DataError(f'{path}: an alphagen pool is {{"exprs": [text, …], "weights": [number, …]}}')
    if len(texts) != len(weights):
        raise DataError(
            f"{path}: as many weights as expressions are needed, were {len(weights)} and {len(texts)}"
        )
    for number, (text, weight) in enumerate(zip(texts, weights, strict=True), 1):
        if not isinstance(text, str):
            raise DataError(f"{path}: expression {number} must be text, was {text!r}")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight):
            raise DataError(f"{path}: weight {number} must be a finite number, was {weight!r}")
    return texts, [float(weight) for weight in weights]


def _operators(expression: Expression) -> set[str]:
    if not isinstance(expression, Call):
        return set()
    return {expression.operator}.union(*(_operators(operand) for operand in expression.operands))
