import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlgen.config import Config, load_config, validate
from rlgen.config_keys import describe_type, keys_of, sections_of
from rlgen.document_config import PAGE, document
from rlgen.errors import ConfigError
from tests.conftest import ROOT

BASE = """\
data:
  options: {path: bars}
  forward_return: {price: close, horizon: 5, lag: 1}
splits:
  train: [2024-01-02, 2024-01-05]
"""
SHIPPED = sorted((ROOT / "configs").glob("*.yaml"))


def load(tmp_path: Path, text: str) -> Config:
    file = tmp_path / "run.yaml"
    file.write_text(text, encoding="utf-8")
    return load_config(file)


def test_the_smallest_configuration(tmp_path: Path) -> None:
    config = load(tmp_path, BASE)
    assert config.data.forward_return.lag == 1
    assert config.training.learning_rate == 3e-4
    assert config.synthetic is None
    assert [str(day) for day in config.splits.train] == ["2024-01-02", "2024-01-05"]


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("training: {learning_rate: 3e-4}", "training.learning_rate", 3e-4),
        ("training: {total_steps: 1e6}", "training.total_steps", 1_000_000),
        ("training: {total_steps: '1e6'}", "training.total_steps", 1_000_000),
        ("training: {n_envs: 128.0}", "training.n_envs", 128),
        ("grammar: {check_units: yes}", "grammar.check_units", True),
        ("synthetic: {path: x, start: 20240102}", "synthetic.start", "2024-01-02"),
    ],
)
def test_values_that_yaml_reads_otherwise(tmp_path: Path, text: str, path: str, value: Any) -> None:
    found: Any = load(tmp_path, f"{BASE}{text}\n")
    for name in path.split("."):
        found = getattr(found, name)
    assert found == value if not isinstance(value, str) else str(found) == value


def test_times_and_symbols_need_no_quotes(tmp_path: Path) -> None:
    text = BASE.replace("data:\n", "data:\n  symbols: [000001, 600000, NO, ON]\n")
    text = text.replace("data:\n", "data:\n  session: {rule: cut, cut: 18:00, hours: [[09:30, 11:30]]}\n")
    data = load(tmp_path, text).data
    assert data.symbols == ("000001", "600000", "NO", "ON")
    assert data.session.cut == "18:00" and data.session.hours == (("09:30", "11:30"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training: {lr: 1}", "training.lr: unknown key; there are seed, total_steps"),
        ("training: {totl_steps: 1}", "training.totl_steps: unknown key; did you mean total_steps or"),
        ("training: {device: cpu}", "training.device: unknown key; did you mean calculator.device?"),
        ("trainig: {seed: 1}", "trainig: unknown key; did you mean training?"),
        ("training: {seed: 1}\ntraining: {seed: 2}", "line 7, column 1: the key `training` stands twice"),
        ("training: {seed: 1, seed: 2}", "the key `seed` stands twice"),
        ("training: {n_envs: true}", "training.n_envs: must be a number, was true"),
        ("training: {n_envs: 1.5}", "training.n_envs: must be a whole number, was 1.5"),
        ("training: {n_envs: 0}", "training.n_envs: must be greater than 0, was 0"),
        ("training: {n_envs: many}", "training.n_envs: must be a whole number, was 'many'"),
        ("training: {gamma: 1.5}", "training.gamma: must be less than or equal to 1, was 1.5"),
        ("training: {learning_rate: [1]}", "training.learning_rate: must be a number, was [1]"),
        ("training: {learning_rate: false}", "training.learning_rate: must be a number, was false"),
        ("training:", "training: must be a mapping of keys, was none"),
        ("training: [1]", "training: must be a mapping of keys, was [1]"),
        ("pool: {penalty: .nan}", "pool.penalty: must be a finite number, was nan"),
        ("pool: {reward: both}", "pool.reward: must be 'gain' or 'level', was 'both'"),
        ("grammar: {windows: 5}", "grammar.windows: must be a list, was 5"),
        ("grammar: {windows: [5, a]}", "grammar.windows.1: must be a whole number, was 'a'"),
        ("grammar: {constants: [.inf]}", "grammar.constants.0: must be a finite number, was inf"),
        ("grammar: {check_units: 2}", "grammar.check_units: must be true or false, was 2"),
        ("policy: {d_model: 65}", "policy: d_model must be a multiple of n_heads; was 65 and 4"),
        ("synthetic: {seed: 1}", "synthetic.path: must be stated"),
        (
            "synthetic: {path: x, plants: [{expresion: a}]}",
            "synthetic.plants.0.expression: must be stated; synthetic.plants.0.expresion: unknown key; "
            "did you mean expression?",
        ),
        ("synthetic: {path: x, start: 20241345}", "synthetic.start: must be a date such as 2024-01-31"),
        ("synthetic: {path: x, start: true}", "synthetic.start: must be a date such as 2024-01-31, was True"),
        ("{}: 1", "unhashable"),
        ("training: {seed: 1", "not readable as YAML: line"),
        (
            "training: {seed: -1}\npool: {capacity: 0}",
            "pool.capacity: must be greater than 0, was 0; training",
        ),
    ],
)
def test_mistakes_name_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, f"{BASE}{text}\n")
    told = str(caught.value)
    assert told.startswith(str(tmp_path / "run.yaml"))
    assert message in told
    assert "\n" not in told and told.count("run.yaml") == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2024-01-02, 2024-01-05", "2024-01-02", "splits.train: must have more values, was ['2024-01-02']"),
        ("2024-01-02", "2023-02-29", "splits.train.0: must be a date such as 2024-01-31, was '2023-02-29'"),
        ("2024-01-02", "2024-01-02 09:30", "splits.train.0: must be a date such as"),
        ("2024-01-02", "2024-01-08", "splits: train ends before it starts, was 2024-01-08 to 2024-01-05"),
        (
            "splits:",
            "splits:\n  valid: [2024-01-05, 2024-01-08]",
            "splits: valid starts 2024-01-05, not after",
        ),
        ("horizon: 5, ", "", "data.forward_return.horizon: must be stated"),
        ("lag: 1", "lag: -1", "data.forward_return.lag: must be greater than or equal to 0, was -1"),
        ("price: close, ", "", "data.forward_return: needs one of `column` and `price`"),
        ("price: close", "price: close, column: r", "data.forward_return: needs one of `column` and `price`"),
        ("data:", "data:\n  session: {rule: cut}", "data.session: rule cut goes with the key `cut`"),
        ("data:", "data:\n  start: 2024-02-01\n  end: 2024-01-01", "data: start must not be after end"),
        (
            "splits:",
            "training: {threads: 5000}\nsplits:",
            "training.threads: must be less than or equal to 256",
        ),
        (
            "splits:",
            "synthetic: {path: x, seed: -1}\nsplits:",
            "synthetic.seed: must be greater than or equal",
        ),
        ("splits:", "training: {seed: 4294967296}\nsplits:", "training.seed: must be less than 4294967296"),
        ("data:", "data:\n  symbols: []", "data: symbols must name at least one, or be left out"),
        ("data:", "data:\n  symbols: [[a]]", "data.symbols.0: must be text"),
        ("data:", "data:\n  adapter: null", "data.adapter: must be text"),
        ("splits:", "nothing: &a [1]\nsplits:", "nothing: unknown key"),
    ],
)
def test_mistakes_in_data_and_splits(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, BASE.replace(old, new, 1))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must be a mapping of sections, was empty"),
        (b"- 1", "must be a mapping of sections, was [1]"),
        (b"text", "must be a mapping of sections, was 'text'"),
        (b"\xff\xfe\x00", "not readable as YAML"),
        (b"a: \x00", "not readable as YAML"),
    ],
)
def test_files_that_are_no_configuration(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=rf"run\.yaml: .*{message.replace('[', '.')}"):
        load_config(file)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such configuration file"):
        load_config(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match=r"not readable as YAML: Is a directory"):
        load_config(tmp_path)


def test_a_byte_order_mark_is_no_key(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(BASE, encoding="utf-8-sig")
    assert load_config(file).data.options == {"path": "bars"}


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
odd = st.sampled_from(["000001", "NO", "3e-4", "1", "13:00", "2024-01-02", "null", "true", "~"])
options = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False) | names | odd,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=60)
@given(
    symbols=st.none() | st.lists(names | odd, min_size=1, max_size=3),
    extra=st.dictionaries(names, options, max_size=3),
    rate=st.floats(min_value=1e-300, max_value=1e300),
    constants=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    first=st.dates(),
    length=st.integers(0, 300),
    hours=st.none() | st.lists(st.tuples(odd, names), max_size=2),
    path=names.filter(lambda text: "\x00" not in text),
)
def test_what_a_run_folder_says_reads_back(
    tmp_path_factory: pytest.TempPathFactory,
    symbols: Any,
    extra: Any,
    rate: float,
    constants: Any,
    first: Any,
    length: int,
    hours: Any,
    path: str,
) -> None:
    last = first.fromordinal(min(first.toordinal() + length, first.max.toordinal()))
    config: Config = validate(
        Config,
        {
            "data": {
                "options": extra,
                "symbols": symbols,
                "start": first,
                "session": {"hours": hours},
                "forward_return": {"price": "close", "horizon": 5, "lag": 1},
            },
            "splits": {"train": [first, last]},
            "synthetic": {"path": path, "plants": [{"expression": "$close"}]},
            "grammar": {"constants": constants},
            "training": {"learning_rate": rate},
        },
        "test",
    )
    file = tmp_path_factory.getbasetemp() / "config.yaml"
    file.write_text(config.to_yaml(), encoding="utf-8", newline="")
    again = load_config(file)
    assert again == config
    assert again.to_yaml() == config.to_yaml()


def test_every_key_is_documented() -> None:
    keys = keys_of(Config)
    assert len({key.option for key in keys}) == len(keys) > 80
    assert [key.option for key in keys if not key.meaning] == []
    assert [path for path, section in sections_of(Config) if not section.__doc__] == []
    assert not any("typing" in describe_type(key.annotation) for key in keys)


def test_the_page_is_current() -> None:
    assert (ROOT / PAGE).read_text(encoding="utf-8") == document(), "run `make docs`"


def test_types_in_words() -> None:
    words = {".".join(key.path): describe_type(key.annotation) for key in keys_of(Config)}
    assert words["training.n_envs"] == "whole number > 0"
    assert words["training.target_kl"] == "number > 0, or none"
    assert words["grammar.token_limit"] == "whole number ≥ 3 and ≤ 60"
    assert words["grammar.windows"] == "list of whole number > 0"
    assert words["splits.valid"] == "[date, date], or none"
    assert words["data.session.hours"] == "list of [text, text], or none"
    assert words["data.bar_label"] == "one of left, right"
    assert words["synthetic.plants"] == "list of {expression, weight}"
    assert words["data.options"] == "mapping"


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.name)
def test_shipped_configurations(file: Path) -> None:
    config = load_config(file)
    assert config.splits.valid is not None and config.splits.test is not None
    assert config.data.forward_return.lag >= 1
    command = shlex.split(file.read_text(encoding="utf-8").splitlines()[0].removeprefix("#"))
    name = f"configs/{file.name}"
    assert command == ["python", "scripts/rlgen_train.py", "--config", name, "--out", f"runs/{file.stem}"]


def test_three_configurations_are_shipped() -> None:
    assert {file.stem for file in SHIPPED} >= {"demo", "us_1min", "crypto_1min"}
