from pathlib import Path

from rlgen.expression import OPERATORS
from rlgen.expression.document import document

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"


def test_the_page_is_current():
    told = "run: python -m rlgen.expression.document > docs/operators.md"
    assert PAGE.read_text(encoding="utf-8") == document(), told


def test_every_operator_has_one_row():
    rows = [line for line in document().splitlines() if line.startswith("| `")]
    assert sorted(row.split("`")[1].split("(")[0] for row in rows) == sorted(OPERATORS)
    assert all(row.replace("\\|", "").count("|") == 8 for row in rows)
