import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlgen.errors import CheckpointError
from rlgen.training.checkpoint import (
    list_checkpoints,
    random_state,
    read_checkpoint,
    set_random_state,
    usable_checkpoints,
    write_checkpoint,
)
from rlgen.training.tree import load_tree, save_tree


def save_policy(path: Path) -> None:
    path.write_bytes(b"weights")


def write(folder: Path, step: int, keep: int = 3, **state: Any) -> Path:
    return write_checkpoint(folder, step, state, save_policy, keep)


def test_trees_come_back_with_their_bits(tmp_path: Path) -> None:
    tree = {
        "number": 0.1 + 0.2,
        "large": 2**63,
        "none": None,
        "flag": True,
        "text": "Größe",
        "list": [1, [2.5, "x"], {"deep": np.arange(6, dtype=np.int16).reshape(2, 3)}],
        "numpy": np.float64(1 / 3),
        "nan": float("nan"),
        "tensor": torch.tensor([1e-45, torch.inf]),
    }
    save_tree(tree, tmp_path / "state")
    back = load_tree(tmp_path / "state")
    assert np.isnan(back.pop("nan"))
    np.testing.assert_array_equal(back.pop("tensor"), np.array([1e-45, np.inf], np.float32))
    array = back["list"][2].pop("deep")
    assert array.dtype == np.int16
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]
    expected = {k: v for k, v in tree.items() if k not in ("nan", "tensor")}
    expected["list"][2].pop("deep")  # type: ignore[index, union-attr, call-overload]
    assert back == expected


@pytest.mark.parametrize("bad", [{"a": {1: 2}}, {"a": [object()]}, {"a": np.array([None])}, {"__array__": 1}])
def test_what_is_not_plain_is_refused(tmp_path: Path, bad: Any) -> None:
    with pytest.raises(TypeError):
        save_tree(bad, tmp_path / "state")


def test_generators_go_on_where_they_were() -> None:
    random.seed(1)
    np.random.seed(2)  # noqa: NPY002
    torch.manual_seed(3)
    np.random.normal()  # noqa: NPY002 (leaves half of a pair behind)
    state = random_state()
    expected = [random.random(), np.random.normal(), torch.rand(3).tolist()]  # noqa: NPY002
    set_random_state(state)
    assert [random.random(), np.random.normal(), torch.rand(3).tolist()] == expected  # noqa: NPY002


def test_generators_survive_a_checkpoint(tmp_path: Path) -> None:
    path = write(tmp_path, 5, random=random_state())
    expected = [random.random(), np.random.random(), torch.rand(2).tolist()]  # noqa: NPY002
    set_random_state(read_checkpoint(path)["random"])
    assert [random.random(), np.random.random(), torch.rand(2).tolist()] == expected  # noqa: NPY002


def test_the_newest_are_kept(tmp_path: Path) -> None:
    for step in (100, 20, 3000, 500):
        write(tmp_path, step, keep=2)
    assert [path.name for path in list_checkpoints(tmp_path)] == ["step_000000003000", "step_000000000500"]
    assert {path.name for path in tmp_path.iterdir()} == {"step_000000003000", "step_000000000500"}


def test_writing_one_again_replaces_it(tmp_path: Path) -> None:
    write(tmp_path, 7, value=1)
    path = write(tmp_path, 7, value=2)
    assert read_checkpoint(path)["value"] == 2


@pytest.mark.parametrize("name", ["policy.zip", "state.json", "state.npz", "manifest.json"])
@pytest.mark.parametrize("damage", ["missing", "truncated", "changed"])
def test_damage_is_named_and_the_one_before_is_used(tmp_path: Path, name: str, damage: str) -> None:
    write(tmp_path, 1, value="old", array=np.arange(3))
    newest = write(tmp_path, 2, value="new", array=np.arange(3))
    file = newest / name
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    elif damage == "truncated":
        file.write_bytes(content[: len(content) // 2])
    else:
        file.write_bytes(content[:-2] + b"~~")
    said: list[str] = []
    path, state = next(usable_checkpoints(tmp_path, said.append))
    assert path.name == "step_000000000001"
    assert state["value"] == "old"
    assert len(said) == 1
    assert str(newest) in said[0]


def test_a_failed_write_leaves_those_before_it(tmp_path: Path) -> None:
    before = write(tmp_path, 1, value=1)

    def full(path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(CheckpointError, match="could not be written: No space left on device"):
        write_checkpoint(tmp_path, 2, {}, full, 1)
    assert [path.name for path in tmp_path.iterdir()] == [before.name]
    assert read_checkpoint(before)["value"] == 1


def test_what_a_killed_process_left_half_written_goes_with_the_next_one(tmp_path: Path) -> None:
    (tmp_path / ".step_000000000003").mkdir()
    (tmp_path / ".step_000000000003" / "policy.zip").write_bytes(b"half")
    assert list_checkpoints(tmp_path) == []
    path = write(tmp_path, 4)
    assert list(tmp_path.iterdir()) == [path]


def test_a_foreign_folder_is_no_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "step_000000000009"
    folder.mkdir()
    (folder / "manifest.json").write_text('{"schema": 99, "files": {}}')
    with pytest.raises(CheckpointError, match="schema must be 1, was 99"):
        read_checkpoint(folder)
    assert list_checkpoints(tmp_path / "absent") == []
