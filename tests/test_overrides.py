from pathlib import Path
from typing import Any

import pytest

from rlgen.config import Config, apply_overrides, load_config, validate
from rlgen.config_keys import Key, describe_value, keys_of
from rlgen.errors import ConfigError

TREE: dict[str, Any] = {
    "data": {
        "adapter": "csv",
        "options": {"path": "bars", "columns": {"close": "Close"}},
        "forward_return": {"price": "close", "horizon": 5, "lag": 1},
    },
    "splits": {"train": ["2024-01-02", "2024-01-05"]},
}
CONFIG: Config = validate(Config, TREE, "test")


def changed(arguments: str, *more: str) -> Config:
    return apply_overrides(CONFIG, [*arguments.split(), *more])


def value_at(config: Config, path: str) -> Any:
    value: Any = config
    for name in path.split("."):
        value = value[name] if isinstance(value, dict) else getattr(value, name)
    return value


@pytest.mark.parametrize(
    ("arguments", "path", "value"),
    [
        ("--training.total-steps 20000", "training.total_steps", 20000),
        ("--training.total_steps 20000", "training.total_steps", 20000),
        ("--training.total-steps=2e4", "training.total_steps", 20000),
        ("--training.learning-rate 3e-4", "training.learning_rate", 3e-4),
        ("--training.target-kl none", "training.target_kl", None),
        ("--training.seed 1 --training.seed 2", "training.seed", 2),
        ("--grammar.windows 5 10 20", "grammar.windows", (5, 10, 20)),
        ("--grammar.windows=[5,10]", "grammar.windows", (5, 10)),
        ("--grammar.windows 7", "grammar.windows", (7,)),
        ("--grammar.constants -1.0 3e-4", "grammar.constants", (-1.0, 3e-4)),
        ("--grammar.constants []", "grammar.constants", ()),
        ("--grammar.fields close volume", "grammar.fields", ("close", "volume")),
        ("--grammar.fields None", "grammar.fields", None),
        ("--grammar.check-units", "grammar.check_units", True),
        ("--grammar.check-units false", "grammar.check_units", False),
        ("--data.symbols 000001 600000 NO", "data.symbols", ("000001", "600000", "NO")),
        ("--data.store build/panel", "data.store", Path("build/panel")),
        (
            "--data.session.hours 09:30 11:30 13:00 15:00",
            "data.session.hours",
            (("09:30", "11:30"), ("13:00", "15:00")),
        ),
        ("--data.options.path elsewhere", "data.options.path", "elsewhere"),
        ("--data.options.symbol-width 6", "data.options.symbol_width", 6),
        ("--data.options.symbol-pattern {symbol}.csv", "data.options.symbol_pattern", "{symbol}.csv"),
        ("--data.options.header datetime open", "data.options.header", ["datetime", "open"]),
        ("--data.options.columns.close Adj-Close", "data.options.columns.close", "Adj-Close"),
        ("--data.options.columns.my-name x", "data.options.columns.my-name", "x"),
        ("--data.options.columns {close:Last}", "data.options.columns", "{close:Last}"),
        ("--synthetic.path bars.parquet --synthetic.seed 3", "synthetic.seed", 3),
        ("--calculator.device cuda", "calculator.device", "cuda"),
    ],
)
def test_spellings(arguments: str, path: str, value: Any) -> None:
    found = value_at(changed(arguments), path)
    assert found == value and type(found) is type(value)


def test_values_with_spaces_and_whole_mappings() -> None:
    assert changed("--data.options.columns.close", "Adj Close").data.options["columns"] == {
        "close": "Adj Close"
    }
    assert changed("--data.options.columns", "{close: Last}").data.options["columns"] == {"close": "Last"}
    plants = "[{expression: 'Mean($close,5)', weight: 2}]"
    made = changed("--synthetic.path bars.parquet --synthetic.plants", plants)
    assert made.synthetic is not None and made.synthetic.plants[0].weight == 2.0
    one = changed(
        "--synthetic.path x --synthetic.plants", "{expression: $close}", "{expression: $open, weight: -1}"
    )
    assert one.synthetic is not None
    assert [(plant.expression, plant.weight) for plant in one.synthetic.plants] == [
        ("$close", 1.0),
        ("$open", -1.0),
    ]


def test_only_what_is_named_changes() -> None:
    config = changed("--data.options.path elsewhere")
    assert config.data.options["columns"] == {"close": "Close"}
    assert CONFIG.data.options == TREE["data"]["options"]
    assert apply_overrides(config, ["--data.options.path", "bars"]) == CONFIG
    assert apply_overrides(CONFIG, []) == CONFIG


def test_a_section_that_is_there_can_be_left_out() -> None:
    assert apply_overrides(changed("--synthetic.path x"), ["--synthetic", "none"]) == CONFIG


# A forward return needs one of two sources; the configuration at hand has this one.
NEEDED = "--data.forward-return.price"


@pytest.mark.parametrize(
    "key",
    [key for key in keys_of(Config) if not key.required and key.option != NEEDED],
    ids=lambda key: key.option,
)
def test_every_key_takes_its_default_from_the_command_line(key: Key) -> None:
    config = changed("--synthetic.path x", key.option, describe_value(key.default))
    assert value_at(config, ".".join(key.path)) == key.default


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "--training.totl-steps 3",
            "--training.totl-steps: unknown key; did you mean --training.total-steps",
        ),
        ("--training.device cuda", "--training.device: unknown key; did you mean --calculator.device?"),
        ("--nothing.like_it 3", "--nothing.like_it: unknown key; --help lists all"),
        ("--data.adapter.x 3", "--data.adapter.x: unknown key"),
        ("--training.seed", "--training.seed: needs a value"),
        ("--data.options.path", "--data.options.path: needs a value"),
        ("--training.seed 1 2", "--training.seed: takes one value, was 1 2"),
        ("--training.seed x", "--training.seed: must be a whole number, was 'x'"),
        ("--training.seed 1.5", "--training.seed: must be a whole number, was '1.5'"),
        ("--training.seed none", "--training.seed: must be a whole number, was 'none'"),
        ("--training.learning-rate inf", "--training.learning-rate: must be a finite number, was 'inf'"),
        ("--splits.train 2024-01-01", "--splits.train: takes 2 values, was 2024-01-01"),
        (
            "--splits.train 2024-01-01 2024-13-01",
            "--splits.train.1: must be a date such as 2024-01-31, was '2024-13-01'",
        ),
        ("--grammar.windows 5 x", "--grammar.windows.1: must be a whole number, was 'x'"),
        ("--grammar.windows [5", "--grammar.windows: must be YAML, was '[5': line 1"),
        ("--grammar.check-units maybe", "--grammar.check-units: must be true or false, was 'maybe'"),
        ("--data.session.hours 09:30 11:30 13:00", "--data.session.hours: takes groups of 2 values"),
        ("--data bars", "--data: is a section; give one of its keys, such as --data.adapter"),
        ("--data.session none", "--data.session: is a section"),
        ("--data.bar-label up", "--data.bar-label: must be 'left' or 'right', was 'up'"),
        ("stray --training.seed 3", "'stray': must follow an option"),
        (
            "--data.options.path.deep 3",
            "--data.options.path.deep: data.options.path must be a mapping of keys",
        ),
        ("--synthetic.seed 3", "synthetic.path: must be stated"),
    ],
)
def test_mistakes_name_the_option(arguments: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        changed(arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_override_may_supply_what_the_file_lacks(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("data: {options: {path: x}, forward_return: {price: close, horizon: 5}}\nsplits:\n")
    arguments = ["--splits.train", "2024-01-02", "2024-01-05", "--data.forward-return.lag", "1"]
    assert load_config(file, arguments).data.forward_return.lag == 1
    with pytest.raises(
        ConfigError, match=r"run\.yaml: data\.forward_return\.lag: must be stated; --tr.*'x'$"
    ):
        load_config(file, [*arguments[:3], "--training.seed", "x"])
