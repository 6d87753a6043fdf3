"""The shell scripts, with stand-ins for what they call."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT

SBATCH, MAKE_VENV = ROOT / "scripts" / "rlgen_train.sbatch", ROOT / "scripts" / "make_venv.sh"

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")


def executable(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def slurm(tmp_path: Path) -> dict[str, str]:
    """An environment as in a job, with a `scontrol` and a Python that write down their arguments."""
    folder = tmp_path / "bin"
    folder.mkdir()
    executable(folder / "scontrol", f'echo scontrol "$@" >> {tmp_path}/calls')
    python = executable(folder / "python", f'echo "$@" >> {tmp_path}/calls; exit "${{STATUS:-0}}"')
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("SLURM")},
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "RLGEN_PYTHON": str(python),
        "SLURM_JOB_ID": "7",
        "SLURM_SUBMIT_DIR": str(tmp_path),
    }


def submit(slurm: dict[str, str], **more: str) -> subprocess.CompletedProcess[str]:
    command = ["bash", str(SBATCH), "--config", "a b.yaml"]
    return subprocess.run(command, env=slurm | more, capture_output=True, text=True, timeout=60)


def test_a_first_start_does_not_resume(slurm: dict[str, str], tmp_path: Path) -> None:
    done = submit(slurm)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "calls").read_text() == "-u scripts/rlgen_train.py --config a b.yaml\n"


def test_a_restart_resumes(slurm: dict[str, str], tmp_path: Path) -> None:
    assert submit(slurm, SLURM_RESTART_COUNT="1").returncode == 0
    assert (tmp_path / "calls").read_text() == "-u scripts/rlgen_train.py --config a b.yaml --resume\n"


def test_only_a_run_that_ran_out_of_time_is_queued_again(slurm: dict[str, str], tmp_path: Path) -> None:
    assert submit(slurm, STATUS="2").returncode == 2
    assert "scontrol" not in (tmp_path / "calls").read_text()
    assert submit(slurm, STATUS="138").returncode == 138
    assert (tmp_path / "calls").read_text().endswith("scontrol requeue 7\n")


def test_the_signal_is_passed_on(slurm: dict[str, str], tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    executable(
        Path(slurm["RLGEN_PYTHON"]),
        f"trap 'echo saved >> {tmp_path}/calls; exit 138' USR1; touch {ready}; while :; do sleep 0.1; done",
    )
    with subprocess.Popen(["bash", str(SBATCH)], env=slurm, stdout=subprocess.DEVNULL) as process:
        until = time.monotonic() + 30
        while not ready.exists():
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(signal.SIGUSR1)
        assert process.wait(timeout=30) == 138
    assert (tmp_path / "calls").read_text() == "saved\nscontrol requeue 7\n"


def test_an_old_python_is_refused(tmp_path: Path) -> None:
    old = executable(tmp_path / "old", "exit 1")
    done = subprocess.run(
        ["sh", str(MAKE_VENV), str(tmp_path / "venv"), str(old)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "needs Python 3.11 or newer, was" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_without_any_pip_the_remedy_is_named(tmp_path: Path) -> None:
    """A Python that is new enough and can do nothing else."""
    script = 'case "$2" in *version_info*) exit 0;; *) exit 1;; esac'
    bare = executable(tmp_path / "bare", script)
    done = subprocess.run(
        ["sh", str(MAKE_VENV), str(tmp_path / "venv"), str(bare)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.endswith("    apt-get install -y python3-venv\n")
    assert not (tmp_path / "venv").exists()
