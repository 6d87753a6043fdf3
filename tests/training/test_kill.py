"""Real processes, really killed."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.training.small import files_of, make_config

CODE = """
import sys
from pathlib import Path
from rlgen.training import train
from tests.training.small import make_config
train(make_config(Path(sys.argv[1]), training={"checkpoint_every": 1}), sys.argv[2], resume=True)
print("done", flush=True)
"""


def start(folder: Path, run: Path) -> subprocess.Popen[str]:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", CODE, str(folder), str(run)]
    return subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_run_killed_again_and_again_ends_as_if_nothing_had_been(tmp_path: Path) -> None:
    make_config(tmp_path)
    undisturbed = start(tmp_path, tmp_path / "undisturbed")
    assert undisturbed.stdout is not None
    began = None
    for line in undisturbed.stdout:
        began = began or (time.monotonic() if line.startswith("step") else None)
        ended = time.monotonic()
    assert undisturbed.wait() == 0
    assert began is not None
    duration = ended - began
    kills = 0
    for _ in range(5):
        process = start(tmp_path, tmp_path / "run")
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("step"):
                break
        time.sleep(random.uniform(0, duration / 3))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
    assert kills > 0
    last = start(tmp_path, tmp_path / "run")
    said, errors = last.communicate()
    assert last.returncode == 0, errors
    assert said.endswith("done\n")
    assert files_of(tmp_path / "run") == files_of(tmp_path / "undisturbed")
