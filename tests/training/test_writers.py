import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from stable_baselines3.common.logger import Logger

from rlgen.training.interrupt import StopRequest
from rlgen.training.writers import Console, JsonLines, TensorBoard


def test_json_lines_hold_plain_numbers_in_order(tmp_path: Path) -> None:
    writer = JsonLines(tmp_path / "metrics.jsonl")
    logger = Logger(str(tmp_path), [writer])
    logger.record("train/loss", np.float32(0.5))
    logger.record("pool/size", np.int64(3))
    logger.record("eval/valid_pooled_ic", float("nan"))
    logger.dump(step=128)
    logger.record("train/loss", 0.25)
    logger.dump(step=256)
    logger.close()
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert lines[0] == '{"step": 128, "eval/valid_pooled_ic": null, "pool/size": 3, "train/loss": 0.5}'
    assert json.loads(lines[1]) == {"step": 256, "train/loss": 0.25}


def test_json_lines_go_on_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    for step in (1, 2):
        writer = JsonLines(path)
        writer.write({"a": 1}, {}, step)
        assert writer.position() == path.stat().st_size
        writer.close()
    assert len(path.read_text().splitlines()) == 2


def test_tensorboard_gets_the_scalars(tmp_path: Path) -> None:
    logger = Logger(str(tmp_path), [TensorBoard(tmp_path / "tensorboard")])
    logger.record("train/loss", 0.5)
    logger.record("train/n_updates", 7, exclude="tensorboard")
    logger.record("eval/valid_icir", float("nan"))
    logger.dump(step=10)
    logger.close()
    (file,) = (tmp_path / "tensorboard").iterdir()
    content = file.read_bytes()
    assert b"train/loss" in content
    assert b"n_updates" not in content
    assert b"icir" not in content


def test_plain_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(1000, 0)
    console.progress(50, {"pool": "3", "ic": "0.0412"})
    console.line("a word")
    console.close()
    assert capsys.readouterr().out == "step   50/1000 pool 3 ic 0.0412\na word\n"


def test_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    console = Console(1000, 100)
    console.progress(500, {"pool": "3"})
    console.line("a word")
    console.progress(1000, {"pool": "4"})
    console.close()
    said = capsys.readouterr().out
    assert "1000/1000" in said
    assert "pool 4" in said
    assert "a word" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_the_first_signal_is_noted_and_the_handlers_come_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with StopRequest() as stop:
        assert stop.name is None
        os.kill(os.getpid(), number)
        assert stop.name == number.name
        assert signal.getsignal(number) == before
    assert signal.getsignal(number) == before


def test_a_second_interrupt_is_not_held_back() -> None:
    # A process that was started in the background ignores SIGINT; here it must mean what it does at
    # a terminal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), StopRequest():
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
