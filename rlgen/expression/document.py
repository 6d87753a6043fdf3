"""Writes `docs/operators.md` from the registry:

python -m rlgen.expression.document > docs/operators.md
"""

from __future__ import annotations

from rlgen.expression.operators import OPERATORS, Family, Operator
from rlgen.expression.tree import MAX_WINDOW, signature
from rlgen.expression.units import FIELD_UNITS, describe_unit

_FAMILIES: dict[Family, tuple[str, str]] = {
    "unary": ("Elementwise, one operand", "On single cells; missing where the operand is."),
    "binary": (
        "Elementwise, two operands",
        "On single cells; missing where an operand is. One of the two operands may be a constant.",
    ),
    "rolling": (
        "Rolling, one operand",
        "On the last `window` bars of one stock, the current bar included. n is the number of present "
        "values among them; age counts bars back from the current one.",
    ),
    "rolling_pair": (
        "Rolling, two operands",
        "On the last `window` bars of one stock, where both operands are present; n is the number of those.",
    ),
    "cross_section": (
        "Cross-sectional",
        "Across the stocks of the universe at one bar; a stock outside it has no value. n is the number "
        "of stocks present.",
    ),
}
_LOOKBACK = {"none": "0", "window": "w − 1", "shift": "w"}
_UNITS = {
    "same": "the operand's",
    "none": "none",
    "square": "the operand's, squared",
    "product": "the operands' product",
    "quotient": "the operands' quotient",
    "equal": "the operands', which must be equal",
    "pure": "none, and the operands must have none",
}

_HEAD = f"""# Operators

<!-- Written by `python -m rlgen.expression.document > docs/operators.md`; do not edit. -->

A formula is a field such as `$close` (`${{mid price}}` if the name is not one word), or an operator
applied to formulas: `Corr(Mean($close,20),$volume,60)`. The parser also takes operators in any letter
case, windows with a suffix that is ignored (`20d`, `20m`: bars, always), numbers such as `0.5` or
`1e-05`, and the infix signs `+ - * /`; `-x` is `Mul(-1,x)`.

A window is a whole number of bars from 1 to {MAX_WINDOW:,}, and at least as large as the statistic's
minimum. Nothing reads the future: `Ref($close,-1)` is refused.

**Missing values.** A window skips missing values; with fewer present ones than
max(minimum, ceil(f·w − 1e-9)) it is missing, f being `min_periods` of the configuration (0.5); `Ref`
and `Delta` read single bars. A result that is undefined or infinite is missing. A *constant* window is
one whose largest and smallest present values are equal.

**Lookback** is the number of bars read before the current one; a formula's is the sum along its deepest
path. **Units** matter where `check_units` is set.
"""


def document() -> str:
    """The whole page, in Markdown."""
    parts = [_HEAD]
    for family, (title, text) in _FAMILIES.items():
        parts.append(f"\n## {title}\n\n{text}\n\n")
        parts.append(_table([row for row in OPERATORS.values() if row.family == family]))
    listed = ", ".join(f"`${name}` {describe_unit(unit)}" for name, unit in FIELD_UNITS.items())
    parts.append(
        f"\n## Units of fields\n\n{listed}; any other field, and every constant, has no unit. "
        "A constant can be multiplied with anything, but added only to what has no unit.\n"
    )
    return "".join(parts)


def _table(rows: list[Operator]) -> str:
    lines = [
        "| operator | definition | formula | notation | minimum | lookback | unit |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        notation = row.latex.replace("<x>", "x").replace("<y>", "y").replace("<w>", "w")
        cells = (
            f"`{signature(row)}`",
            row.definition,
            row.formula,
            f"${notation}$",
            str(row.minimum) if row.has_window else "",
            _LOOKBACK[row.lookback_rule],
            _UNITS[row.unit],
        )
        # An upright bar would end the cell.
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(document(), end="")
