"""The pool on the real calculator: random formulas on a panel with splits."""

from __future__ import annotations

import numpy as np
import pytest

from rlgen.alphapool import AlphaPool
from rlgen.calculator import Calculator
from rlgen.expression import Grammar, Vocabulary, uniform_expressions
from rlgen.panel import Panel
from tests import reference_metrics as reference

N_BARS, N_STOCKS = 240, 20


@pytest.fixture(scope="module")
def panel():
    rng = np.random.default_rng(0)
    shape = N_BARS, N_STOCKS
    close = 10 + rng.normal(0, 0.1, shape).cumsum(0)
    volume = rng.lognormal(5, 1, shape)
    for field in (close, volume):
        field[rng.random(shape) < 0.05] = np.nan
    forward_return = rng.normal(0, 1e-3, shape)
    forward_return[1:] -= 2e-3 * np.nan_to_num(np.diff(close, axis=0))
    session = np.arange(N_BARS) // 60
    return Panel.from_arrays(
        {"close": close, "volume": volume},
        forward_return,
        universe=rng.random(shape) < 0.95,
        session=session,
        bars=np.datetime64("2024-01-01T09:31", "ms")
        + session * np.timedelta64(1, "D")
        + (np.arange(N_BARS) % 60) * np.timedelta64(1, "m"),
        splits={"train": ("2024-01-01", "2024-01-02"), "test": ("2024-01-03", "2024-01-04")},
    )


@pytest.fixture(scope="module")
def formulas():
    operators = ("Abs", "Sub", "Div", "Mean", "Delta")
    vocabulary = Vocabulary(
        fields=("close", "volume"), operators=operators, windows=(2, 5), constants=(-1.0, 0.5)
    )
    expressions = uniform_expressions(Grammar(vocabulary, 7), 80, seed=3)
    return expressions + expressions[10:30]


def test_a_search_on_the_train_split(panel, formulas, tmp_path):
    train = Calculator(panel.split("train"), "cpu")
    single, batch = AlphaPool(train, 4), AlphaPool(Calculator(panel.split("train"), "cpu"), 4)
    offers = [single.offer(formula) for formula in formulas]
    assert [repr(x) for x in batch.offer_batch(formulas)] == [repr(x) for x in offers]
    assert batch.state() == single.state()
    assert {"admitted", "evicted_itself"} <= {str(x.reason) for x in offers}
    assert single.evaluations == len({str(formula.canonical()) for formula in formulas})

    signal = single.signal().numpy()
    arrays = signal, train.forward_return.numpy(), train.universe.numpy()
    expected = reference.score(*arrays, horizon=train.panel.horizon, session=train.panel.session)
    assert single.scores().as_dict() == pytest.approx(expected, abs=1e-9)
    assert single.worth.ic == pytest.approx(expected["pooled_ic"], abs=1e-9)
    assert single.worth.ic > 0.1

    single.save(tmp_path / "pool.json")
    test = Calculator(panel.split("test"), "cpu")
    loaded = AlphaPool.load(tmp_path / "pool.json", test)
    np.testing.assert_array_equal(loaded.signal().numpy(), single.signal(test).numpy())
    whole = single.signal(Calculator(panel, "cpu")).numpy()
    np.testing.assert_array_equal(whole[N_BARS // 2 :], loaded.signal().numpy())
    np.testing.assert_array_equal(whole[: N_BARS // 2], signal)
    assert loaded.scores() == single.scores(test)


def test_an_unknown_field_fails_its_own_offer_only(panel):
    pool = AlphaPool(Calculator(panel.split("train"), "cpu"))
    offers = pool.offer_batch(["$close", "Abs($vwap)", "Delta($close,2)"])
    assert offers[1].reason == "evaluation_failed" and "vwap" in offers[1].message
    assert offers[2].reason == "admitted"
