import ast
import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlgen
from rlgen.alphapool import AlphaPool, Reason, read_ledger
from rlgen.calculator import Calculator
from rlgen.config import load_config
from rlgen.errors import CheckpointError, ConfigError, ExpressionError, RlgenError
from rlgen.memory import Memory
from rlgen.panel import load_panel
from rlgen.training import AlphaPPO, RunResult, train
from tests.training.small import PLANT, files_of, make_config


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, RunResult]:
    """Folder of the bars, run folder, result of an undisturbed run."""
    folder = tmp_path_factory.mktemp("run")
    result = train(make_config(folder), folder / "run")
    assert result is not None
    return folder, folder / "run", result


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def without_clock(path: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in line.items() if not k.startswith("time/")} for line in lines(path)]


def test_a_run_leaves_a_whole_folder(finished: tuple[Path, Path, RunResult]) -> None:
    folder, run, result = finished
    assert {path.name for path in run.iterdir()} == {
        "checkpoints",
        "config.yaml",
        "environment.json",
        "ledger.jsonl",
        "metrics.jsonl",
        "pool.json",
        "pool_last.json",
        "tensorboard",
    }
    assert load_config(run / "config.yaml") == make_config(folder)
    environment = json.loads((run / "environment.json").read_text())
    assert environment["panel"] == load_panel(make_config(folder)).fingerprint
    assert environment["device"] == "cpu"
    assert environment["packages"]["torch"]
    assert len(list((run / "tensorboard").iterdir())) == 1
    assert [path.name for path in sorted((run / "checkpoints").iterdir())] == [
        "step_000000000720",
        "step_000000000960",
    ]
    assert result.steps == 960
    assert result.stopped_by is None


def test_metrics_have_a_line_per_iteration_and_keys_by_section(
    finished: tuple[Path, Path, RunResult],
) -> None:
    metrics = lines(finished[1] / "metrics.jsonl")
    assert [line["step"] for line in metrics] == list(range(120, 961, 120))
    for number, line in enumerate(metrics, 1):
        sections = {key.split("/")[0] for key in line} - {"step"}
        assert sections == {"train", "pool", "time", "eval"} if number % 2 == 0 else {"train", "pool", "time"}
        assert line["train/iteration"] == number
        for phase in ("generate", "score", "train"):
            assert line[f"time/{phase}"] > 0


def test_the_logged_ics_are_those_of_the_pools_signal(finished: tuple[Path, Path, RunResult]) -> None:
    folder, run, _ = finished
    last = lines(run / "metrics.jsonl")[-1]
    panel = load_panel(make_config(folder))
    pool = AlphaPool.load(run / "pool_last.json", Calculator(panel.split("train"), "cpu", 1))
    scores = pool.scores()
    assert last["pool/pooled_ic"] == pytest.approx(scores.pooled_ic, abs=1e-9)
    assert last["pool/pooled_rank_ic"] == pytest.approx(scores.pooled_rank_ic, abs=1e-9)
    valid = pool.scores(Calculator(panel.split("valid"), "cpu", 1))
    assert last["eval/valid_pooled_ic"] == pytest.approx(valid.pooled_ic, abs=1e-9)


def test_the_best_pool_on_validation_is_kept(finished: tuple[Path, Path, RunResult]) -> None:
    _, run, result = finished
    evaluated = [line for line in lines(run / "metrics.jsonl") if "eval/valid_objective" in line]
    best = max(line["eval/valid_objective"] for line in evaluated)
    assert evaluated[-1]["eval/best_objective"] == best
    scores = result.scores["valid"]
    assert best == pytest.approx(
        scores.coverage * (scores.pooled_ic + 0.25 * scores.pooled_rank_ic), abs=1e-9
    )


def test_scores_on_every_split_stand_beside_the_oracles(finished: tuple[Path, Path, RunResult]) -> None:
    _, _, result = finished
    assert set(result.scores) == set(result.oracle) == {"train", "valid", "test"}
    assert np.mean([result.oracle[name].pooled_ic for name in result.oracle]) == pytest.approx(0.2, abs=0.05)
    text = result.text()
    for member in result.factors:
        assert str(member.expression) in text
    assert f"{result.oracle['test'].pooled_ic:.4f}" in text
    assert "best on the validation split" in text


def test_the_ledger_has_a_line_per_distinct_candidate(finished: tuple[Path, Path, RunResult]) -> None:
    run = finished[1]
    ledger = list(read_ledger(run / "ledger.jsonl"))
    formulas = [line["formula"] for line in ledger]
    assert len(set(formulas)) == len(formulas) == lines(run / "metrics.jsonl")[-1]["pool/evaluations"]
    steps = [line["step"] for line in ledger]
    assert steps == sorted(steps)
    assert 12 <= steps[0] <= steps[-1] <= 960
    assert {line["reason"] for line in ledger} <= {str(reason) for reason in Reason}


def test_two_runs_with_one_seed_are_identical_and_another_seed_differs(
    finished: tuple[Path, Path, RunResult],
) -> None:
    folder, run, _ = finished
    train(make_config(folder), folder / "again")
    assert files_of(folder / "again") == files_of(run)
    assert without_clock(folder / "again" / "metrics.jsonl") == without_clock(run / "metrics.jsonl")
    train(make_config(folder, training={"seed": 1, "total_steps": 120}), folder / "other")
    first = (run / "ledger.jsonl").read_bytes()
    assert not first.startswith((folder / "other" / "ledger.jsonl").read_bytes())


def test_the_memory_budget_changes_nothing_but_where_arrays_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spilled: list[Path | None] = []
    in_file = Memory._in_file

    def watched(memory: Memory, size: int) -> Any:
        spilled.append(memory.folder)
        return in_file(memory, size)

    monkeypatch.setattr(Memory, "_in_file", watched)
    found = []
    for name, budget in (("ample", 2**31), ("tight", 2**20)):
        config = make_config(
            tmp_path,
            synthetic={"n_stocks": 40, "session_minutes": 240},
            training={"total_steps": 240},
            calculator={"memory_budget": budget},
        )
        assert not spilled, "the ample budget has room for all"
        train(config, tmp_path / name / "run")
        found.append(files_of(tmp_path / name / "run", "pool.json", "ledger.jsonl"))
    assert found[0] == found[1]
    assert spilled and set(spilled) == {tmp_path}, "on the disk of the run folder, which was not there yet"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ample", "bars.parquet", "tight"]


def test_a_folder_that_holds_a_run_is_refused_unchanged(finished: tuple[Path, Path, RunResult]) -> None:
    folder, run, _ = finished
    before = files_of(run)
    with pytest.raises(CheckpointError, match="already holds a run; continue it with --resume"):
        train(make_config(folder), run)
    assert files_of(run) == before
    file = folder / "file"
    file.write_text("")
    with pytest.raises(CheckpointError, match="must be a folder, was a file"):
        train(make_config(folder), file)


def test_resuming_a_finished_run_changes_nothing(finished: tuple[Path, Path, RunResult]) -> None:
    folder, run, result = finished
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    again = train(make_config(folder), run, resume=True)
    assert again is not None
    assert again.factors == result.factors
    assert again.steps == result.steps
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


class Killed(BaseException):
    """Stands for a process that is gone from one moment to the next."""


@pytest.mark.parametrize(("phase", "call"), [("generate", 5), ("score", 4), ("train", 7), ("score", 1)])
def test_a_run_killed_at_any_point_resumes_to_identical_results(
    finished: tuple[Path, Path, RunResult],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    phase: str,
    call: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, run, _ = finished
    original, calls = getattr(AlphaPPO, phase), []

    def killed(self: AlphaPPO) -> Any:
        result = original(self)
        calls.append(1)
        if len(calls) == call:
            raise Killed
        return result

    monkeypatch.setattr(AlphaPPO, phase, killed)
    with pytest.raises(Killed):
        train(make_config(folder), tmp_path / "run")
    monkeypatch.undo()
    train(make_config(folder), tmp_path / "run", resume=True)
    assert files_of(tmp_path / "run") == files_of(run)
    assert without_clock(tmp_path / "run" / "metrics.jsonl") == without_clock(run / "metrics.jsonl")
    said = capsys.readouterr().out
    assert ("resuming from" in said) == (call > 3)
    assert ("starting over" in said) == (call <= 3)


@pytest.mark.parametrize(("phase", "iterations"), [("generate", 4), ("score", 5), ("train", 5)])
def test_a_signal_ends_a_run_after_the_phase_with_a_usable_folder(
    finished: tuple[Path, Path, RunResult],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    phase: str,
    iterations: int,
) -> None:
    """In the fifth iteration: one whose games are still played is taken back, else it is completed."""
    folder, run, _ = finished
    original, calls = getattr(AlphaPPO, phase), []

    def signalled(self: AlphaPPO) -> Any:
        calls.append(1)
        if len(calls) == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        return original(self)

    monkeypatch.setattr(AlphaPPO, phase, signalled)
    before = signal.getsignal(signal.SIGTERM)
    result = train(make_config(folder), tmp_path / "run")
    assert result is not None
    assert result.stopped_by == "SIGTERM"
    assert result.steps == 120 * iterations
    assert signal.getsignal(signal.SIGTERM) == before
    assert (tmp_path / "run" / "pool.json").exists()
    assert (tmp_path / "run" / "checkpoints" / f"step_{120 * iterations:012d}").is_dir()
    monkeypatch.undo()
    train(make_config(folder), tmp_path / "run", resume=True)
    assert files_of(tmp_path / "run") == files_of(run)


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(
    finished: tuple[Path, Path, RunResult], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, run, _ = finished
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    newest = copy / "checkpoints" / "step_000000000960"
    content = (newest / "state.npz").read_bytes()
    (newest / "state.npz").write_bytes(content[:-10])
    train(make_config(folder), copy, resume=True)
    said = capsys.readouterr().out
    assert f"{newest / 'state.npz'}: damaged" in said
    assert "step_000000000720" in said
    assert files_of(copy) == files_of(run)
    for checkpoint in (copy / "checkpoints").iterdir():
        (checkpoint / "manifest.json").write_text("{")
    with pytest.raises(CheckpointError, match="no checkpoint is whole"):
        train(make_config(folder), copy, resume=True)


def test_a_run_can_be_made_longer(finished: tuple[Path, Path, RunResult], tmp_path: Path) -> None:
    folder, run, _ = finished
    train(make_config(folder, training={"total_steps": 480}), tmp_path / "run")
    train(make_config(folder), tmp_path / "run", resume=True)
    assert files_of(tmp_path / "run", "ledger.jsonl", "pool_last.json", "config.yaml") == files_of(
        run, "ledger.jsonl", "pool_last.json", "config.yaml"
    )


def test_a_run_is_not_continued_with_another_search_or_other_data(
    finished: tuple[Path, Path, RunResult], tmp_path: Path
) -> None:
    folder, run, _ = finished
    with pytest.raises(CheckpointError, match=r"pool\.capacity was 3 when the run began and is 4 now"):
        train(make_config(folder, pool={"capacity": 4}), run, resume=True)
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    bars = tmp_path / "bars.parquet"
    other = make_config(tmp_path, synthetic={"seed": 5})
    (copy / "config.yaml").write_text(other.to_yaml())
    with pytest.raises(CheckpointError, match="another panel"):
        train(other, copy, resume=True)
    assert bars.exists()


def test_an_unwritable_folder_is_a_clear_error(
    finished: tuple[Path, Path, RunResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _, _ = finished
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be written"):
        train(make_config(folder), tmp_path / "file" / "run")


def test_a_loss_that_is_not_finite_ends_the_run_with_its_checkpoints_intact(
    finished: tuple[Path, Path, RunResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, run, _ = finished
    original, calls = AlphaPPO.score, []

    def poisoned(self: AlphaPPO) -> Any:
        offers = original(self)
        calls.append(1)
        if len(calls) == 5:
            self.rollout_buffer.returns[0, 0] = np.nan
        return offers

    monkeypatch.setattr(AlphaPPO, "score", poisoned)
    with pytest.raises(RlgenError, match="the loss was nan at step 600"):
        train(make_config(folder), tmp_path / "run")
    monkeypatch.undo()
    train(make_config(folder), tmp_path / "run", resume=True)
    assert files_of(tmp_path / "run") == files_of(run)


def test_a_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = make_config(tmp_path)
    assert train(config, tmp_path / "run", dry_run=True) is None
    assert list(tmp_path.iterdir()) == []
    said = capsys.readouterr().out
    assert "panel: 2 fields × 320 bars × 12 stocks" in said
    assert "iterations: 8 of 120 steps" in said
    assert "whole run, about" in said
    assert "memory" in said


@pytest.mark.parametrize(
    ("section", "changes", "error", "message"),
    [
        ("grammar", {"fields": ["close", "bid"]}, ConfigError, "grammar.fields.*was bid"),
        ("synthetic", {"plants": [{"expression": "Mean($close,"}]}, ExpressionError, "Mean"),
        ("splits", {"test": ["2024-02-01", "2024-02-05"]}, ConfigError, "no bars from 2024-02-01"),
    ],
)
def test_what_cannot_be_used_leaves_no_folder(
    tmp_path: Path, section: str, changes: dict[str, Any], error: type[RlgenError], message: str
) -> None:
    with pytest.raises(error, match=message):
        train(make_config(tmp_path, **{section: changes}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_without_a_validation_split_the_pool_is_the_last_one(
    finished: tuple[Path, Path, RunResult], tmp_path: Path
) -> None:
    folder, _, _ = finished
    splits = {"train": ["2024-01-02", "2024-01-05"], "valid": None, "test": None}
    config = make_config(folder, splits=splits, training={"total_steps": 240})
    result = train(config, tmp_path / "run")
    assert result is not None
    assert (
        files_of(tmp_path / "run", "pool.json").popitem()[1]
        == (tmp_path / "run" / "pool_last.json").read_bytes()
    )
    assert set(result.scores) == {"train"}
    assert "as it ended" in result.text()


def test_the_planted_formula_is_in_reach(finished: tuple[Path, Path, RunResult]) -> None:
    """The test is about the line from bars to pool: what is planted can be found again."""
    folder, _, result = finished
    panel = load_panel(make_config(folder))
    calculator = Calculator(panel.split("train"), "cpu", 1)
    pool = AlphaPool(calculator, 3)
    assert pool.offer(PLANT).admitted
    oracle = result.oracle["train"]
    expected = oracle.coverage * (oracle.pooled_ic + 0.25 * oracle.pooled_rank_ic)
    assert pool.objective == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("room", ["env", "policy", "training"])
def test_training_imports_nothing_that_only_reports_need(room: str) -> None:
    for module in (Path(rlgen.__file__).parent / room).glob("*.py"):
        imported = {
            name
            for node in ast.walk(ast.parse(module.read_text()))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
        }
        for package in ("matplotlib", "jinja2", "rlgen.report", "rlgen.export"):
            assert not any(name.startswith(package) for name in imported), (module, package)
