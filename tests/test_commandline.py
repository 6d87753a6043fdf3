import sys
from collections.abc import Sequence

import pytest

from rlgen.commandline import ScriptParser, run
from rlgen.config import Config
from rlgen.config_keys import keys_of
from rlgen.errors import ConfigError, DataError


def make_parser() -> ScriptParser:
    parser = ScriptParser("What it does.", overrides=Config)
    parser.add_argument("--config", required=True)
    parser.add_argument("--resume", action="store_true")
    return parser


def test_overrides_are_taken_out_wherever_they_stand() -> None:
    arguments = "--training.seed 3 --config a.yaml --grammar.constants -1.0 -1e-3 --resume --pool.capacity=5"
    given, overrides = make_parser().split(arguments.split())
    assert (given.config, given.resume) == ("a.yaml", True)
    assert overrides == ["--training.seed", "3", "--grammar.constants", "-1.0", "-1e-3", "--pool.capacity=5"]


def test_a_whole_section_is_an_override_unless_the_script_has_such_an_option() -> None:
    _, overrides = make_parser().split(["--config", "a", "--synthetic", "none"])
    assert overrides == ["--synthetic", "none"]
    parser = ScriptParser(None, overrides=Config)
    parser.add_argument("--data")
    given, overrides = parser.split(["--data", "bars", "--data.adapter", "csv"])
    assert given.data == "bars" and overrides == ["--data.adapter", "csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "the following arguments are required: --config"),
        ("--config", "--config: expected one argument"),
        ("--config a --conf b", "unrecognized arguments: --conf b"),
        ("--config a stray", "unrecognized arguments: stray"),
        ("--config a --resume=3", "--resume"),
    ],
)
def test_mistakes_are_config_errors(arguments: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        make_parser().split(arguments.split())
    assert "\n" not in str(caught.value)


def test_without_a_configuration_a_dotted_option_is_unknown() -> None:
    with pytest.raises(ConfigError, match=r"unrecognized arguments: --training\.seed 3"):
        ScriptParser(None).split(["--training.seed", "3"])


def test_help_lists_every_key(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as caught:
        make_parser().split(["--help", "--training.seed", "3"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert [key.option for key in keys_of(Config) if f"\n  {key.option}  " not in text] == []
    assert max(map(len, text.splitlines())) <= 110
    assert "--training.total-steps  whole number > 0  (100000)\n      Tokens written, over all games." in text


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ConfigError("a.yaml: wrong,\n  was 3"), 2, "prog: a.yaml: wrong, was 3\n"),
        (DataError("bars.csv: empty"), 2, "prog: bars.csv: empty\n"),
        (KeyboardInterrupt(), 130, "prog: interrupted\n"),
        (PermissionError(13, "Permission denied", "runs/x"), 2, "prog: runs/x: Permission denied\n"),
        (BrokenPipeError(), 1, ""),
        (SystemExit(138), 138, ""),
    ],
)
def test_endings(
    error: BaseException,
    status: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def main(arguments: Sequence[str]) -> None:
        assert arguments == ["--x"]
        raise error

    monkeypatch.setattr(sys, "argv", ["scripts/prog.py", "--x"])
    monkeypatch.setattr("rlgen.commandline._silence", lambda stream: None)
    with pytest.raises(SystemExit) as caught:
        run(main)
    assert caught.value.code == status
    assert capsys.readouterr().err == message


@pytest.mark.parametrize("error", [ZeroDivisionError("a defect"), OSError("no file named")])
def test_a_defect_keeps_its_traceback(error: Exception) -> None:
    def main(arguments: Sequence[str]) -> None:
        raise error

    with pytest.raises(type(error)):
        run(main, [])


def test_success_leaves_with_zero() -> None:
    seen: list[Sequence[str]] = []
    with pytest.raises(SystemExit) as caught:
        run(seen.append, ["a"])
    assert caught.value.code == 0 and seen == [["a"]]
