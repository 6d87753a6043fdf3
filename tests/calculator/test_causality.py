"""No operator, window mode or universe rule looks ahead; and the check finds what does."""

from __future__ import annotations

import numpy as np
import pytest

from rlgen.calculator import Calculator, check_causality
from rlgen.calculator.causality import choose_bars
from rlgen.expression import OPERATORS, Call, Expression, Field, parse
from rlgen.panel import Panel
from tests.hostile import hostile_fields

N_BARS, N_STOCKS = 96, 5


def make_panel(windows: str) -> Panel:
    rng = np.random.default_rng(3)
    fields = hostile_fields(N_BARS, N_STOCKS, seed=4)
    return Panel.from_arrays(
        fields,
        universe=rng.random((N_BARS, N_STOCKS)) < 0.9,
        session=np.arange(N_BARS) // 24,
        windows=windows,  # type: ignore[arg-type]
    )


def uses(name: str) -> list[Expression]:
    operator = OPERATORS[name]
    first, second = (Field("walk"), Field("outlier")) if operator.arity == 2 else (Field("outlier"), None)
    operands = (first,) if second is None else (first, second)
    return [Call(name, operands, w) for w in ((8, 20) if operator.has_window else (None,))]


@pytest.mark.parametrize("windows", ["continuous", "session"])
@pytest.mark.parametrize("name", OPERATORS)
def test_operator_is_causal(windows: str, name: str) -> None:
    panel = make_panel(windows)
    for expression in uses(name):
        report = check_causality(expression, panel, threads=1)
        assert len(report.bars) >= 4
        assert report.passed, str(report)


def test_nested_formula_is_causal_under_universe_rules(rules_panel: Panel) -> None:
    expression = parse("Mul(CSRank(Corr($close,$volume,10)),CSZscore(Skew(Delta($close,3),12)))")
    starts = rules_panel.session_starts
    bars = sorted({*choose_bars(expression, rules_panel), *(starts[1:-1] - 1), *starts[1:-1]})
    report = check_causality(expression, rules_panel, [int(bar) for bar in bars])
    assert report.passed, str(report)


@pytest.fixture
def rules_panel() -> Panel:
    import pandas as pd

    rng = np.random.default_rng(5)
    frames = []
    for day, symbol in ((d, s) for d in range(5) for s in range(4)):
        if day == 0 and symbol == 3:
            continue  # lists late
        stamps = pd.Timestamp("2024-03-04 09:31") + pd.Timedelta(days=day) + pd.to_timedelta(range(20), "min")
        close = 10 + rng.normal(size=20).cumsum()
        frame = pd.DataFrame({"datetime": stamps, "symbol": f"S{symbol}", "open": close, "high": close})
        halted = day == 2 and symbol == 1
        frames.append(
            frame.assign(low=close, close=close, volume=0 if halted else rng.integers(1, 9, 20) * 100)
        )
    return Panel.from_frame(
        pd.concat(frames),
        universe={
            "minimum_price": 5.0,
            "minimum_median_amount": 100.0,
            "median_sessions": 2,
            "minimum_sessions": 1,
            "exclude_halted": True,
        },
    )


def test_the_check_finds_a_kernel_that_looks_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    from rlgen.calculator import kernels

    def peek(inputs: list[np.ndarray], out: np.ndarray, span: object, scratch: np.ndarray) -> None:
        out[:] = np.nan
        out[:-1] = inputs[0][1:]

    monkeypatch.setitem(kernels.ROLLING, "Ref", peek)
    report = check_causality("Ref($walk,3)", make_panel("continuous"))
    assert not report.passed
    assert "LOOKS AHEAD" in str(report)


def test_the_check_does_not_change_the_panel() -> None:
    panel = make_panel("continuous")
    before = Calculator(panel, device="cpu").evaluate("Mean($walk,5)").numpy().copy()
    check_causality("Mean($walk,5)", panel)
    after = Calculator(panel, device="cpu").evaluate("Mean($walk,5)").numpy()
    assert np.array_equal(before, after, equal_nan=True)
