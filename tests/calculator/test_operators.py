"""Every operator against its definition, on hostile series, on both engines and in both window modes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from rlgen.calculator import Calculator
from rlgen.calculator.kernels import CROSS_SECTION, OPCODES, ROLLING, make_span
from rlgen.calculator.program import Program
from rlgen.calculator.torch_engine import TorchEngine
from rlgen.calculator.torch_kernels import CROSS_SECTION as TORCH_CROSS_SECTION
from rlgen.calculator.torch_kernels import ELEMENTWISE as TORCH_ELEMENTWISE
from rlgen.calculator.torch_kernels import ROLLING as TORCH_ROLLING
from rlgen.calculator.torch_kernels import Blocks
from rlgen.expression import OPERATORS, Call, Constant, Expression, Field
from rlgen.panel import Panel
from tests import reference
from tests.hostile import assert_matches, hostile_fields

N_BARS, N_STOCKS = 130, 4
WINDOWS = (1, 2, 5, 20, 60, 240)


@pytest.fixture(scope="module", params=["continuous", "session"])
def panel(request: pytest.FixtureRequest) -> Panel:
    rng = np.random.default_rng(1)
    session = np.repeat([0, 1, 2, 3], [40, 25, 1, 64])
    universe = rng.random((N_BARS, N_STOCKS)) < 0.9
    fields = hostile_fields(N_BARS, N_STOCKS)
    return Panel.from_arrays(fields, universe=universe, session=session, windows=request.param)


def expressions(name: str) -> list[Call]:
    """Every use of an operator that the hostile fields offer."""
    operator = OPERATORS[name]
    fields = [Field(field) for field in hostile_fields(2, 1)]
    neighbours = list(zip(fields, fields[1:] + fields[:1], strict=True))
    windows = [w for w in WINDOWS if w >= operator.minimum]
    if operator.family in ("unary", "cross_section"):
        return [Call(name, (x,)) for x in fields]
    if operator.family == "binary":
        constants = [Constant(2.0), Constant(-0.5), Constant(0.0)]
        mixed = [
            call
            for x, c in itertools.product(fields, constants)
            for call in (Call(name, (x, c)), Call(name, (c, x)))
        ]
        return [Call(name, pair) for pair in neighbours] + mixed
    if operator.family == "rolling":
        return [Call(name, (x,), w) for x, w in itertools.product(fields, windows)]
    return [Call(name, pair, w) for pair, w in itertools.product(neighbours, windows)]


def by_definition(panel: Panel, expression: Expression) -> np.ndarray:
    starts = panel.session_starts if panel.windows == "session" else None
    with np.errstate(all="ignore"):
        return reference.evaluate(expression, panel.fields, panel.universe, starts, panel.min_periods)


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_follows_its_definition_on_cpu_and_in_torch(panel: Panel, name: str) -> None:
    calculator = Calculator(panel, device="cpu")
    engine = TorchEngine(panel, torch.device("cpu"), memory_budget=2**20)
    for expression in expressions(name):
        wanted = by_definition(panel, expression.canonical())
        unit = 1.0 if OPERATORS[name].unit == "none" else 0.0
        assert_matches(calculator.evaluate(expression).numpy(), wanted, expression, unit=unit)
        program = Program([expression.canonical()])
        values = torch.empty((N_BARS, N_STOCKS))
        engine.run(program, 0, N_BARS, {program.roots[0]: values})
        assert_matches(values.numpy(), wanted, f"torch {expression}", unit=unit)
    calculator.close()


def test_every_operator_has_a_kernel_on_both_engines() -> None:
    assert set(OPCODES) | set(ROLLING) | set(CROSS_SECTION) == set(OPERATORS)
    assert set(TORCH_ELEMENTWISE) | set(TORCH_ROLLING) | set(TORCH_CROSS_SECTION) == set(OPERATORS)


@pytest.mark.parametrize("name", OPERATORS)
def test_torch_kernels_stay_in_float64(name: str) -> None:
    # Ranks are quotients of whole numbers, for which torch's default type would be float32.
    random = torch.Generator().manual_seed(0)
    inputs = [
        torch.rand((30, 5), generator=random, dtype=torch.float64) for _ in range(OPERATORS[name].arity)
    ]
    if name in TORCH_CROSS_SECTION:
        values = TORCH_CROSS_SECTION[name](*inputs, torch.ones((30, 5), dtype=torch.bool))
    elif name in TORCH_ROLLING:
        blocks = Blocks.lay(make_span(np.array([0, 30]), 7, 4), torch.device("cpu"))
        values = TORCH_ROLLING[name](*inputs, blocks)
    else:
        values = TORCH_ELEMENTWISE[name](*inputs)
    assert values.dtype == torch.float64


def test_ranks_are_the_same_number_to_both_engines_in_what_is_built_on_them() -> None:
    # 2 / rank is a whole number or it is not: a rank in float32 has other powers of a negative number.
    x = np.random.default_rng(4).integers(0, 3, (60, 33)).astype(np.float32)
    panel = Panel.from_arrays({"x": x})
    calculator = Calculator(panel, device="cpu")
    engine = TorchEngine(panel, torch.device("cpu"), memory_budget=2**20)
    for text in ("Pow(-3.0,Div(2.0,CSRank($x)))", "Pow(-3.0,Div(2.0,Rank($x,18)))"):
        values = torch.empty((60, 33))
        program = Program([calculator.read(text).canonical()])
        engine.run(program, 0, 60, {program.roots[0]: values})
        assert np.array_equal(values.numpy(), calculator.evaluate(text).numpy(), equal_nan=True)


def test_an_outlier_leaves_no_trace_after_it_has_left_the_window() -> None:
    rng = np.random.default_rng(2)
    clean = rng.normal(size=(200, 2)).astype(np.float32)
    dirty = clean.copy()
    dirty[50] = 1e15
    for name, window in itertools.product(("Mean", "Std", "Skew", "WMA", "EMA"), (7, 20)):
        expression = Call(name, (Field("x"),), window)
        values = [
            Calculator(Panel.from_arrays({"x": x}), device="cpu").evaluate(expression).numpy()
            for x in (clean, dirty)
        ]
        assert np.array_equal(values[0][50 + window :], values[1][50 + window :], equal_nan=True)


def test_share_of_present_values_decides_what_is_missing() -> None:
    x = np.full((10, 1), np.nan, np.float32)
    x[[4, 5, 9]] = 1.0
    calculator = Calculator(Panel.from_arrays({"x": x}, min_periods=0.4), device="cpu")
    values = calculator.evaluate("Sum($x,5)").numpy()[:, 0]
    assert np.array_equal(np.flatnonzero(~np.isnan(values)), [5, 6, 7, 8, 9])


def test_a_window_longer_than_the_panel_costs_no_memory_for_its_length() -> None:
    x = np.random.default_rng(3).normal(size=(50, 2)).astype(np.float32)
    calculator = Calculator(Panel.from_arrays({"x": x}, min_periods=0.0), device="cpu")
    values = calculator.evaluate("Corr($x,Ref($x,1),1000000)").numpy()
    expected = np.corrcoef(x[1:, 0], x[:-1, 0])[0, 1]
    assert values[-1, 0] == pytest.approx(expected, rel=1e-6)
