import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlgen.config import UniverseConfig
from rlgen.errors import ConfigError, DataError
from rlgen.panel import Panel
from rlgen.panel.arrays import Arrays, Settings
from rlgen.panel.universe import needed_fields, presence, read_membership, session_rules
from tests.panel.panels import random_sessions, slow_universe, small_frame

NAN = np.nan
configs = st.builds(
    UniverseConfig,
    minimum_price=st.none() | st.floats(5, 15),
    minimum_median_amount=st.none() | st.floats(10, 5000),
    median_sessions=st.integers(1, 4),
    minimum_sessions=st.none() | st.integers(0, 4),
    exclude_halted=st.booleans(),
)


def random_panel(seed, config, n_bars=40, n_stocks=4, with_amount=False):
    """A panel with halts, late listings and single holes, its universe by `config`."""
    rng = np.random.default_rng(seed)
    shape = (n_bars, n_stocks)
    session = random_sessions(rng, n_bars)
    close = rng.uniform(5, 15, shape)
    volume = rng.integers(0, 3, shape) * 10.0
    for s in range(n_stocks):
        close[: rng.integers(0, n_bars) * rng.integers(0, 2), s] = NAN
    close[(rng.random((session[-1] + 1, n_stocks)) < 0.3)[session]] = NAN
    close[rng.random(shape) < 0.1] = NAN
    volume[np.isnan(close)] = NAN
    fields = {"close": close, "volume": volume}
    if with_amount:
        fields["amount"] = close * volume * 2
    panel = Panel.from_arrays(fields, session=session)
    arrays = Arrays(panel._arrays.calendar, panel.symbols, panel._arrays.columns)
    return Panel(arrays, Settings(tuple(fields), universe=config))


def by_session(panel):
    """The universe at each session's first bar, as lists."""
    return panel.universe[panel.session_starts[:-1]].astype(int).tolist()


def frame_of(close, volume=None):
    """A bar table of daily bars: (sessions, stocks) closes, one bar a session."""
    close = np.asarray(close, dtype=float)
    volume = np.full(close.shape, 100.0) if volume is None else np.asarray(volume, dtype=float)
    days = pd.bdate_range("2024-01-02", periods=len(close))
    return pd.concat(
        [
            pd.DataFrame({"datetime": days, "symbol": f"S{s}", "close": close[:, s], "volume": volume[:, s]})
            for s in range(close.shape[1])
        ]
    )


def test_every_present_cell_by_default():
    frame = small_frame()
    frame.loc[3, "close"] = NAN
    frame = frame.drop(index=[7])
    panel = Panel.from_frame(frame)
    expected = np.ones(panel.shape, dtype=bool)
    expected[[3, 7], 0] = False
    np.testing.assert_array_equal(panel.universe, expected)


def test_presence_without_a_close_is_any_field():
    columns = {"x": np.array([[1, NAN, NAN]]), "y": np.array([[NAN, 2, NAN]])}
    assert presence(columns).tolist() == [[True, True, False]]
    with pytest.raises(DataError, match="at least one field"):
        presence({})


def test_minimum_price_reads_the_session_before():
    panel = Panel.from_frame(frame_of([[5, 9], [9, 5], [9, NAN], [5, 9]]), universe={"minimum_price": 8})
    # First session: nothing before it. Second stock: no close in the third, so out in the fourth.
    assert by_session(panel) == [[0, 0], [0, 1], [1, 0], [1, 0]]


def test_minimum_price_takes_the_last_close():
    frame = small_frame(n_days=2, n_bars=3, symbols=("A",))
    frame["close"] = [9.0, 9.0, 5.0, 9.0, 9.0, 9.0]
    assert not Panel.from_frame(frame, universe={"minimum_price": 8}).universe.any()
    frame["close"] = [5.0, 9.0, NAN, 5.0, 5.0, 5.0]
    universe = Panel.from_frame(frame, universe={"minimum_price": 8}).universe
    assert universe[:, 0].tolist() == [False] * 3 + [True] * 3


def test_minimum_median_amount():
    close = [[1, 1, NAN], [1, 1, NAN], [1, NAN, 1], [1, NAN, 1], [1, 1, 1]]
    volume = [[10, 30, 9], [20, 30, 9], [30, 9, 25], [10, 9, 25], [10, 30, 25]]
    panel = Panel.from_frame(
        frame_of(close, volume), universe={"minimum_median_amount": 20, "median_sessions": 3}
    )
    # Third stock: listed in the third session, its earlier absence does not count against it.
    # Second stock: two sessions without a bar count as 0, the median over three is 0 in the fifth.
    assert by_session(panel) == [[0, 0, 0], [0, 1, 0], [0, 0, 0], [1, 0, 1], [1, 0, 1]]


def test_minimum_sessions_and_halts():
    close = [[1, NAN], [1, 1], [1, 1], [1, 1]]
    volume = [[1, NAN], [0, 1], [1, 1], [1, 1]]
    panel = Panel.from_frame(frame_of(close, volume), universe={"minimum_sessions": 2})
    assert by_session(panel) == [[0, 0], [0, 0], [1, 0], [1, 1]]
    panel = Panel.from_frame(frame_of(close, volume), universe={"exclude_halted": True})
    assert by_session(panel) == [[1, 0], [1, 0], [0, 1], [1, 1]]


@given(st.integers(0, 10**6), configs, st.booleans())
def test_rules_equal_their_definition(seed, config, with_amount):
    panel = random_panel(seed, config, with_amount=with_amount)
    np.testing.assert_array_equal(panel.universe, slow_universe(panel, config))


@given(st.integers(0, 10**6), configs, st.data())
def test_later_values_change_nothing_earlier(seed, config, data):
    panel = random_panel(seed, config)
    n_bars, starts = panel.shape[0], panel.session_starts[:-1].tolist()
    bar = data.draw(st.integers(0, n_bars - 1) | st.sampled_from(starts), label="first changed bar")
    rng = np.random.default_rng(seed + 1)
    changed = {}
    for name, values in panel.fields.items():
        copy = values.copy()
        kind = data.draw(st.sampled_from(["huge", "infinite", "missing", "zero", "permuted"]), label=name)
        if kind == "permuted":
            copy[bar:] = rng.permutation(copy[bar:].ravel()).reshape(copy[bar:].shape)
        else:
            copy[bar:] = {"huge": 1e15, "infinite": -np.inf, "missing": NAN, "zero": 0}[kind]
        changed[name] = copy
    other = panel.with_fields(changed)
    np.testing.assert_array_equal(other.universe[:bar], panel.universe[:bar])
    # The rules' answer holds for the whole session in which the change begins.
    calendar, end = panel._arrays.calendar, int(panel.session[bar]) + 1
    for columns in (panel.fields, other.fields):
        rules = session_rules(columns, presence(columns), calendar, config)
        if rules is not None:
            first = session_rules(panel.fields, presence(panel.fields), calendar, config)
            np.testing.assert_array_equal(rules[:end], first[:end])
    np.testing.assert_array_equal(panel.cut(bar + 1).universe, panel.universe[: bar + 1])
    np.testing.assert_array_equal(panel.with_fields(panel.fields).universe, panel.universe)


def test_rules_can_change_what_comes_later():
    panel = random_panel(3, UniverseConfig(minimum_price=10.0))
    changed = panel.fields["close"].copy()
    changed[:5] = 1.0
    later = panel.with_fields({"close": changed}).universe
    assert not np.array_equal(later, panel.universe)


def test_column():
    frame = small_frame()
    frame["tradable"] = np.arange(len(frame)) % 2 == 0
    frame.loc[0, "close"] = NAN
    panel = Panel.from_frame(frame, universe="tradable")
    assert "tradable" not in panel.fields
    assert panel.report.unused == {"tradable": "it is the universe"}
    expected = frame.tradable.to_numpy().reshape(3, -1).T.copy()
    expected[0, 0] = False
    np.testing.assert_array_equal(panel.universe, expected)
    np.testing.assert_array_equal(panel.cut(4).universe, expected[:4])
    np.testing.assert_array_equal(
        panel.with_fields({"close": np.ones(panel.shape)}).universe[1:], expected[1:]
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_membership(tmp_path, suffix):
    # 000001 leaves on the second day and comes back on the last; 600000 is never a member.
    table = pd.DataFrame(
        {
            "symbol": ["000001", "000001", "000002", "999999"],
            "from": ["2023-01-01", "2024-01-04", "2024-01-03", "2020-01-01"],
            "to": ["2024-01-02", "", "2024-01-03", ""],
        }
    )
    path = tmp_path / f"members.{suffix}"
    if suffix == "csv":
        table.to_csv(path, index=False)
    else:
        table["to"] = [day or None for day in table["to"]]
        table["from"] = pd.to_datetime(table["from"])
        table.to_parquet(path)
    panel = Panel.from_frame(small_frame(), universe={"membership": path})
    assert by_session(panel) == [[1, 0, 0], [0, 1, 0], [1, 0, 0]]
    assert panel.report.outsiders == ("600000",)
    assert panel.report.unknown_members == ("999999",)
    np.testing.assert_array_equal(panel.cut(8).universe, panel.universe[:8])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("symbol,from\nA,2024-01-01\n", "needs the column to, was symbol, from"),
        ("symbol,from,to\nA,2024-01-01,yesterday\n", "row 1, column to: must be a date .*'yesterday'"),
        ("symbol,from,to\nA,2024-01-03,2024-01-01\n", "row 1: `to` must not be before `from`"),
        ("symbol,from,to\nB,2024-01-01,\n", "must name members .* such as A; unknown to the panel: B"),
        ("symbol,from,to\nA,2025-01-01,\n", "unknown to the panel: none"),
        ("", "not readable as a membership table"),
        (None, "not readable as a membership table"),
    ],
)
def test_membership_refusals(tmp_path, text, message):
    path = tmp_path / "members.csv"
    if text is not None:
        path.write_text(text)
    dates = np.array(["2024-01-02"], dtype="datetime64[D]")
    with pytest.raises(DataError, match=message) as error:
        read_membership(path, np.array(["A"]), dates)
    assert "\n" not in str(error.value) and str(path) in str(error.value)


def test_rules_name_the_column_that_they_lack():
    frame = small_frame().drop(columns=["volume", "amount"])
    with pytest.raises(ConfigError, match=r"data.universe: a rule needs the column volume"):
        Panel.from_frame(frame, universe={"exclude_halted": True})
    assert needed_fields(UniverseConfig(minimum_median_amount=1.0), ["close", "volume", "amount"]) == [
        "amount"
    ]
    assert needed_fields(UniverseConfig(minimum_median_amount=1.0), ["close", "volume"]) == [
        "close",
        "volume",
    ]


def test_rules_read_columns_that_are_no_fields():
    frame = small_frame()
    rules = {"minimum_median_amount": 1.0, "exclude_halted": True, "minimum_price": 1.0}
    whole = Panel.from_frame(frame, universe=rules)
    narrow = Panel.from_frame(frame, universe=rules, fields=["open"])
    assert list(narrow.fields) == ["open"]
    np.testing.assert_array_equal(narrow.universe, whole.universe)
    np.testing.assert_array_equal(
        narrow.with_fields({"open": np.ones(narrow.shape)}).universe, whole.universe
    )
