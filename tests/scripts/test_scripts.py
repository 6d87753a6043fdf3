"""The scripts as a user calls them: quick help, one line for a mistake, nothing half-written."""

import datetime as dt
import importlib.util
import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rlgen.config import Config
from tests.conftest import ROOT
from tests.training.small import make_config

TRAIN, SCORE = ROOT / "scripts" / "rlgen_train.py", ROOT / "scripts" / "rlgen_score.py"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def call(script: Path, *arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(script), *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )


def main_of(script: Path) -> Callable[[Sequence[str]], None]:
    main: Callable[[Sequence[str]], None] = runpy.run_path(str(script))["main"]
    return main


def write_config(folder: Path, **sections: dict[str, Any]) -> Path:
    file = folder / "run.yaml"
    file.write_text(make_config(folder, **sections).to_yaml())
    return file


@pytest.mark.parametrize("script", [TRAIN, SCORE], ids=lambda script: script.stem)
def test_help_is_quick(script: Path) -> None:
    code = (
        "import runpy, sys\n"
        f"sys.argv = [{str(script)!r}, '--help']\n"
        "try:\n"
        f"    runpy.run_path({str(script)!r}, run_name='__main__')\n"
        "except SystemExit as end:\n"
        "    assert end.code == 0, end\n"
        "slow = {'torch', 'numba', 'pandas', 'pyarrow'} & set(sys.modules)\n"
        "assert not slow, slow\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ") and f"python scripts/{script.name}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "rlgen_train: the following arguments are required: --config"),
        ("--config none.yaml", "rlgen_train: none.yaml: no such configuration file"),
        ("--config run.yaml --training.sed 3", "--training.sed: unknown key; did you mean --training.seed"),
        ("--config run.yaml --pool.capacity few", "--pool.capacity: must be a whole number, was 'few'"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, arguments: str, message: str) -> None:
    write_config(tmp_path)
    done = call(TRAIN, *arguments.split(), folder=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr and len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["run.yaml"]


def test_what_train_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []

    def train(config: Config, out: Path, **options: bool) -> SimpleNamespace:
        told.append((config.training.seed, str(out), options))
        return SimpleNamespace(stopped_by="SIGUSR1" if config.training.seed == 1 else None)

    monkeypatch.setattr("rlgen.training.train", train)
    main, file = main_of(TRAIN), str(write_config(tmp_path))
    main(["--config", file])
    main(["--training.seed", "3", "--config", file, "--out", "x", "--resume", "--dry-run"])
    with pytest.raises(SystemExit) as caught:
        main(["--config", file, "--training.seed=1"])
    assert caught.value.code == 138
    assert told == [
        (0, "runs/run", {"resume": False, "dry_run": False}),
        (3, "x", {"resume": True, "dry_run": True}),
        (1, "runs/run", {"resume": False, "dry_run": False}),
    ]


def test_what_score_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[Any] = []

    def score_pool(run: Path, data: Path | None, **options: Any) -> SimpleNamespace:
        told.append((run, data, options))
        return SimpleNamespace(num_rows=7)

    monkeypatch.setattr("rlgen.training.score_pool", score_pool)
    main = main_of(SCORE)
    main(["--run", "runs/a"])
    arguments = "--run a --data b.parquet --since 2024-01-02 --out c.parquet --pool p.json"
    main(arguments.split())
    assert told == [
        (Path("runs/a"), None, {"since": None, "out": Path("runs/a/signal.parquet"), "pool": None}),
        (
            Path("a"),
            Path("b.parquet"),
            {"since": dt.date(2024, 1, 2), "out": Path("c.parquet"), "pool": Path("p.json")},
        ),
    ]
    assert capsys.readouterr().out == "runs/a/signal.parquet: 7 rows\nc.parquet: 7 rows\n"


def test_a_run_and_its_score(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, run = write_config(tmp_path), tmp_path / "run"
    main_of(TRAIN)(["--config", str(file), "--out", str(run), "--training.total-steps", "240"])
    assert json.loads((run / "pool.json").read_text())["factors"]
    main_of(SCORE)(["--run", str(run), "--since", "2024-01-10"])
    assert (run / "signal.parquet").stat().st_size > 0
    assert "signal.parquet: " in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_is_stopped_and_goes_on(tmp_path: Path) -> None:
    file, run = write_config(tmp_path), tmp_path / "run"
    arguments = [str(TRAIN), "--config", str(file), "--out", str(run)]
    with subprocess.Popen(
        [sys.executable, "-u", *arguments, "--training.total-steps", "1e6"],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        until = time.monotonic() + 240
        while not (run / "metrics.jsonl").exists() or not (run / "metrics.jsonl").stat().st_size:
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGINT, output
    assert "Traceback" not in output
    steps = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    again = call(TRAIN, *arguments[1:])
    assert again.returncode == 2 and "already holds a run" in again.stderr
    on = call(TRAIN, *arguments[1:], "--resume", "--training.total-steps", "1")
    assert on.returncode == 0, on.stderr
    assert steps and (run / "pool.json").exists()


def test_scripts_are_importable_without_running() -> None:
    for script in (TRAIN, SCORE):
        spec = importlib.util.spec_from_file_location(script.stem, script)
        assert spec is not None and spec.loader is not None
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
