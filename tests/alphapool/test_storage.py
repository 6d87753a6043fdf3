"""pool.json and the ledger: what is written comes back, and what is broken is named."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rlgen.alphapool import AlphaPool, Ledger, read_ledger, read_pool
from rlgen.errors import CheckpointError, ExpressionError
from tests import reference_metrics as reference
from tests.alphapool.fakes import fake
from tests.alphapool.test_pool import MENU, troubled


@pytest.fixture
def saved(tmp_path):
    pool = AlphaPool(fake(), 4, penalty=0.05)
    pool.offer_batch([f"$f{k}" for k in range(6)])
    pool.save(tmp_path / "pool.json")
    return pool, tmp_path / "pool.json"


def test_a_saved_pool_comes_back(saved):
    pool, path = saved
    loaded = AlphaPool.load(path, pool.calculator)
    np.testing.assert_array_equal(loaded.weights, pool.weights)
    np.testing.assert_array_equal(loaded.signal().numpy(), pool.signal().numpy())
    assert loaded.factors == pool.factors
    assert loaded.objective == pool.objective
    assert loaded.config == pool.config
    loaded.save(path.with_name("again.json"))
    assert path.with_name("again.json").read_bytes() == path.read_bytes()
    assert [x.reason for x in loaded.offer_batch(["$f0", "$f7"])] == [
        x.reason for x in pool.offer_batch(["$f0", "$f7"])
    ]


def test_a_loaded_pool_is_measured_where_it_is_loaded(saved):
    pool, path = saved
    other = fake(1, n_bars=100)
    loaded = AlphaPool.load(path, other)
    assert loaded.objective != pool.objective
    ic = reference.pooled_ic(
        other.values[str(loaded.factors[0].expression)].numpy(),
        other.forward_return.numpy(),
        other.universe.numpy(),
    )
    assert loaded.factors[0].ic == pytest.approx(ic, abs=1e-9)


def test_a_minimal_file_is_enough(tmp_path):
    path = tmp_path / "pool.json"
    factors = [{"expression": "$f1 ", "weight": 2}, {"expression": "$f0", "weight": -0.5}]
    path.write_text(json.dumps({"schema": 1, "factors": factors}))
    pool = AlphaPool.load(path, fake(), capacity=1, bar_stride=2)
    assert [str(m.expression) for m in pool.factors] == ["$f1", "$f0"]
    np.testing.assert_array_equal(pool.weights, [2.0, -0.5])
    assert pool.config.capacity == 2 and pool.config.bar_stride == 2


def broken(document, **changes):
    return json.dumps({**document, **changes})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: json.dumps(d)[:-30], "not JSON, or truncated"),
        (lambda d: "", "not JSON, or truncated"),
        (lambda d: "\x00\x01", "not JSON, or truncated"),
        (lambda d: "[" * 100_000, "not JSON, or truncated"),
        (lambda d: "[1, 2]", "must be an object with the keys schema and factors"),
        (lambda d: '{"factors": []}', "keys schema and factors"),
        (lambda d: '{"exprs": ["$close"], "weights": [1.0]}', "pool of alphagen"),
        (lambda d: broken(d, schema=2), "schema must be 1, was 2"),
        (lambda d: broken(d, factors={}), "keys schema and factors"),
        (lambda d: broken(d, factors=["$f0"]), r"factors\[0\] must be an object"),
        (lambda d: broken(d, factors=[{"weight": 1.0}]), r"factors\[0\].expression must be text, was None"),
        (lambda d: broken(d, factors=[{"expression": "$f0", "weight": "1"}]), "weight must be a finite"),
        (lambda d: broken(d, factors=[{"expression": "$f0", "weight": True}]), "weight must be a finite"),
        (lambda d: broken(d, factors=[{"expression": "$f0", "weight": float("nan")}]), "was nan"),
        (lambda d: broken(d, factors=[{"expression": "$f0", "weight": 1.0}] * 2), "must differ"),
        (lambda d: broken(d, settings={"capazity": 3}), "settings: capazity: unknown key"),
        (lambda d: broken(d, settings=[]), "settings must be an object"),
    ],
)
def test_a_broken_file_is_named_in_one_line(saved, change, message):
    pool, path = saved
    text = change(json.loads(path.read_text()))
    path.write_text(text)
    with pytest.raises(CheckpointError, match=message) as caught:
        AlphaPool.load(path, pool.calculator)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_missing_file_and_foreign_formulas(saved, tmp_path):
    pool, path = saved
    with pytest.raises(CheckpointError, match="no such pool file"):
        read_pool(tmp_path / "absent.json")
    factors = [{"expression": "__import__('os').system('true')", "weight": 1.0}]
    path.write_text(json.dumps({"schema": 1, "factors": factors}))
    with pytest.raises(ExpressionError):
        AlphaPool.load(path, pool.calculator)
    path.write_text(json.dumps({"schema": 1, "factors": [{"expression": "$clsoe", "weight": 1.0}]}))
    with pytest.raises(ExpressionError, match="clsoe"):
        AlphaPool.load(path, pool.calculator)


def test_the_ledger_has_one_line_per_distinct_candidate(tmp_path):
    calculator = troubled(n_bars=120)
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        pool = AlphaPool(calculator, 3, ledger=ledger)
        texts = [*MENU, *MENU]
        offers = pool.offer_batch(texts, steps=range(100, 100 + len(texts)))
        position = ledger.position
    assert position == (tmp_path / "ledger.jsonl").stat().st_size
    lines = list(read_ledger(tmp_path / "ledger.jsonl"))
    assert [line["formula"] for line in lines] == [x.expression for x in offers[: len(MENU)]]
    assert pool.evaluations == len(lines)
    sessions = calculator.panel.session
    for line, offer, step in zip(lines, offers, range(100, 200), strict=False):
        assert line["step"] == step and line["reason"] == offer.reason and line["reward"] == offer.reward
        assert line["ic"] == (offer.ic if np.isfinite(offer.ic) else None)
        if line["reason"] == "evaluation_failed":
            assert line["session_ic_sums"] == []
            continue
        factor = calculator.values[line["formula"]].numpy()
        arrays = factor, calculator.forward_return.numpy(), calculator.universe.numpy()
        per_bar, count = reference.ic(*arrays), reference.cells(*arrays).sum(1)
        for s in np.unique(sessions):
            here = (sessions == s) & np.isfinite(per_bar)
            assert line["session_cells"][s] == count[here].sum()
            total = (count[here] * per_bar[here]).sum()
            assert line["session_ic_sums"][s] == pytest.approx(total, rel=1e-5, abs=1e-12)
        if line["ic"] is not None:
            assert sum(line["session_ic_sums"]) / sum(line["session_cells"]) == pytest.approx(
                line["ic"], rel=1e-4
            )


def test_a_ledger_is_cut_back_and_goes_on(tmp_path):
    path = tmp_path / "new" / "ledger.jsonl"
    with Ledger(path) as ledger:
        ledger.append({"formula": "$a", "ic": float("nan")})
        kept = ledger.position
        ledger.append({"formula": "$b"})
    with open(path, "a") as file:
        file.write('{"formula": "$c", "i')  # killed in the middle of a line
    with pytest.raises(CheckpointError, match="line 3 is not JSON"):
        list(read_ledger(path))
    with Ledger(path, position=kept) as ledger:
        ledger.append({"formula": "$d"})
    assert [line["formula"] for line in read_ledger(path)] == ["$a", "$d"]
    assert next(read_ledger(path))["ic"] is None
    with Ledger(path) as ledger:
        ledger.append({"formula": "$e"})
    assert len(list(read_ledger(path))) == 3
    with pytest.raises(CheckpointError, match="must have at least 10000 bytes"):
        Ledger(path, position=10_000)
    path.write_text("[1]\n")
    with pytest.raises(CheckpointError, match="line 1 must be an object with the key formula"):
        list(read_ledger(path))


def test_two_runs_write_the_same_ledger(tmp_path):
    for name in ("one", "two"):
        with Ledger(tmp_path / name) as ledger:
            AlphaPool(troubled(), 3, ledger=ledger).offer_batch(MENU)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
