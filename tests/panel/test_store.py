import json
import os
import threading

import numpy as np
import pandas as pd
import pytest
import yaml

from rlgen.config import Config
from rlgen.errors import ConfigError, DataError
from rlgen.panel import ForwardReturn, Panel, load_panel
from rlgen.panel import loader as loader_module
from rlgen.panel.store import MANIFEST, write_store
from tests.panel.panels import same_panel, small_frame


def write_bars(path, frame=None):
    """A parquet file of bars, its time of change moved on so that it counts as another."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    (small_frame(n_days=5) if frame is None else frame).to_parquet(path, index=False)
    if before:
        os.utime(path, ns=(before + 10**9, before + 10**9))


@pytest.fixture
def make_config(tmp_path):
    """Configurations of one parquet file; keyword arguments go into the data section."""
    write_bars(tmp_path / "bars.parquet")

    def make(splits=None, **data):
        defaults = {
            "options": {"path": str(tmp_path / "bars.parquet")},
            "forward_return": {"price": "close", "horizon": 2, "lag": 1},
            "store": tmp_path / "stores/panel",
        }
        splits = splits or {"train": ("2024-01-02", "2024-01-03"), "valid": ("2024-01-04", "2024-01-31")}
        return Config(data=defaults | data, splits=splits)

    return make


@pytest.fixture
def builds(monkeypatch):
    """Every build appends to this list."""
    calls = []
    build = loader_module._build
    monkeypatch.setattr(loader_module, "_build", lambda *args: calls.append(1) or build(*args))
    return calls


def leftovers(store):
    """What lies beside a store: nothing must."""
    return [
        path.name for path in store.parent.iterdir() if path.name not in (store.name, f".{store.name}.lock")
    ]


def is_mapped(array):
    """Whether an array's memory is a file's."""
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return False


def test_reopened_as_it_was_built(make_config, builds):
    in_memory = load_panel(make_config(store=None))
    config = make_config()
    first, second = load_panel(config), load_panel(config)
    assert len(builds) == 2  # in memory, and once for the store
    for panel in (first, second):
        same_panel(panel, in_memory)
        assert panel.fingerprint == in_memory.fingerprint
        assert str(panel.report) == str(in_memory.report) and panel.report == in_memory.report
        same_panel(panel.split("train"), in_memory.split("train"))
        same_panel(panel.cut(9), in_memory.cut(9))
        other = {"close": in_memory.fields["close"] * 2}
        same_panel(panel.with_fields(other), in_memory.with_fields(other))
        assert (
            is_mapped(panel.fields["close"]) and is_mapped(panel.universe) and is_mapped(panel.forward_return)
        )
        assert type(panel.fields["close"]) is np.ndarray
    assert leftovers(config.data.store) == []


def test_everything_optional_is_stored(tmp_path, make_config):
    frame = small_frame(n_days=5)
    frame["sector"] = frame.symbol.map({"000001": "b", "000002": "c", "600000": "b"})
    frame["tradable"] = np.arange(len(frame)) % 5 > 0
    write_bars(tmp_path / "bars.parquet", frame)
    (tmp_path / "members.csv").write_text("symbol,from,to\n000001,2024-01-03,\n600000,2024-01-01,\n")
    options = {
        "forward_return": {
            "price": "close", "horizon": 2, "lag": 1, "transform": "group-neutral", "group_column": "sector",
        },
        "universe": {
            "column": "tradable", "membership": tmp_path / "members.csv", "minimum_median_amount": 1.0,
        },
        "fields": ("open",),
    }  # fmt: skip
    splits = {"train": ("2024-01-03", "2024-01-31")}
    in_memory = load_panel(make_config(splits, store=None, **options))
    load_panel(make_config(splits, **options))
    stored = load_panel(make_config(splits, **options))
    same_panel(stored, in_memory)
    assert list(stored.fields) == ["open"] and 0 < stored.universe.mean() < 1
    np.testing.assert_array_equal(stored.groups["sector"], in_memory.groups["sector"])
    same_panel(stored.cut(17), in_memory.cut(17))
    assert stored.report == in_memory.report
    # Another membership file is another panel.
    (tmp_path / "members.csv").write_text("symbol,from,to\n000001,2024-01-04,\n")
    assert load_panel(make_config(splits, **options)).universe.sum() < stored.universe.sum()


def test_another_source_or_configuration_is_built_again(tmp_path, make_config, builds):
    first = load_panel(make_config())
    load_panel(make_config({"train": ("2024-01-02", "2024-01-05")}))
    assert len(builds) == 1  # other splits are other ranges of the same panel
    load_panel(make_config(windows="session"))
    assert len(builds) == 2
    load_panel(make_config())
    assert len(builds) == 3
    frame = small_frame(n_days=5)
    frame["close"] *= 2
    write_bars(tmp_path / "bars.parquet", frame)
    changed = load_panel(make_config())
    assert len(builds) == 4
    np.testing.assert_allclose(changed.fields["close"], 2 * first.fields["close"], rtol=1e-6)
    assert changed.fingerprint != first.fingerprint


def truncate(store):
    path = store / "006.npy"
    path.write_bytes(path.read_bytes()[:-1])


def lengthen(store):
    path = store / "006.npy"
    path.write_bytes(path.read_bytes() + b"x")


def remove(store):
    (store / "003.npy").unlink()


def cut_manifest(store):
    text = (store / MANIFEST).read_text()
    (store / MANIFEST).write_text(text[: len(text) // 2])


def empty_manifest(store):
    (store / MANIFEST).write_text("[]")


def other_manifest(store):
    manifest = json.loads((store / MANIFEST).read_text())
    manifest["report"]["nonsense"] = 1
    (store / MANIFEST).write_text(json.dumps(manifest))


def not_numpy(store):
    path = store / "006.npy"
    path.write_bytes(b"x" * path.stat().st_size)


@pytest.mark.parametrize(
    "damage", [truncate, lengthen, remove, cut_manifest, empty_manifest, other_manifest, not_numpy]
)
def test_a_damaged_store_is_built_again(make_config, builds, damage):
    config = make_config()
    # Held in memory: the damage goes through to arrays that are mapped.
    expected = load_panel(make_config(store=None))
    load_panel(config)
    damage(config.data.store)
    assert len(builds) == 2
    same_panel(load_panel(config), expected)
    assert len(builds) == 3
    load_panel(config)
    assert len(builds) == 3
    assert leftovers(config.data.store) == []


def test_other_peoples_files_are_left_alone(tmp_path, make_config, builds):
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter.txt").write_text("years of work")
    with pytest.raises(DataError, match="thesis must be empty or hold a stored panel"):
        load_panel(make_config(store=folder))
    with pytest.raises(DataError, match="must be a folder, was a file"):
        load_panel(make_config(store=folder / "chapter.txt"))
    with pytest.raises(DataError, match="must be empty or hold a stored panel"):
        write_store(Panel.from_frame(small_frame()), folder, "key")
    assert [path.name for path in folder.iterdir()] == ["chapter.txt"] and not builds
    (tmp_path / "empty").mkdir()
    load_panel(make_config(store=tmp_path / "empty"))
    assert (tmp_path / "empty" / MANIFEST).exists()


def test_a_failed_write_leaves_the_old_store(make_config, monkeypatch, tmp_path):
    config = make_config()
    first = load_panel(config)
    write_bars(tmp_path / "bars.parquet", small_frame(n_days=5, seed=1))
    save, saved = np.save, []

    def full_disk(path, values, **options):
        if len(saved) == 5:
            raise OSError(28, "No space left on device")
        saved.append(path)
        save(path, values, **options)

    monkeypatch.setattr(np, "save", full_disk)
    with pytest.raises(DataError, match=r"stores/panel cannot be written: No space left on device"):
        load_panel(config)
    monkeypatch.undo()
    assert leftovers(config.data.store) == []
    assert json.loads((config.data.store / MANIFEST).read_text())["fingerprint"] == first.fingerprint


def test_nothing_is_stored_if_a_split_is_wrong(make_config):
    config = make_config({"train": ("2024-01-02", "2024-01-03"), "test": ("2025-01-01", "2025-02-01")})
    with pytest.raises(ConfigError, match=r"splits.test: no bars"):
        load_panel(config)
    assert not config.data.store.exists()
    load_panel(make_config())
    with pytest.raises(ConfigError, match=r"splits.test: no bars"):
        load_panel(config)


def test_an_open_panel_survives_a_new_store(tmp_path, make_config):
    config = make_config()
    first = load_panel(config)
    before = np.array(first.fields["close"])
    write_bars(tmp_path / "bars.parquet", small_frame(n_days=5, seed=1))
    second = load_panel(config)
    np.testing.assert_array_equal(first.fields["close"], before)
    assert not np.array_equal(second.fields["close"], before)


def test_of_several_at_once_one_builds(make_config, builds):
    config, panels = make_config(), []
    threads = [threading.Thread(target=lambda: panels.append(load_panel(config))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(panels) == 4 and len({panel.fingerprint for panel in panels}) == 1
    assert len(builds) == 1 and leftovers(config.data.store) == []


def test_a_store_that_cannot_be_written(tmp_path, make_config):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="file/panel cannot be written"):
        load_panel(make_config(store=tmp_path / "file/panel"))


def test_readable_by_colleagues(make_config):
    config = make_config()
    load_panel(config)
    umask = os.umask(0)
    os.umask(umask)
    assert config.data.store.stat().st_mode & 0o777 == 0o777 & ~umask


def test_load_by_file_and_by_name(tmp_path, make_config):
    config = make_config(store=None)
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    assert load_panel(path).fingerprint == load_panel(str(path)).fingerprint == Panel.load(config).fingerprint


def test_source_that_is_not_there(make_config, tmp_path):
    config = make_config(options={"path": str(tmp_path / "nowhere.parquet")})
    with pytest.raises((DataError, ConfigError), match="nowhere"):
        load_panel(config)
    assert not config.data.store.exists()


def test_a_configured_field_that_looks_ahead_is_refused_unread(make_config, tmp_path):
    (tmp_path / "bars.parquet").unlink()
    config = make_config(fields=("close", "forward_return"))
    with pytest.raises(ConfigError, match="forward_return can be no field"):
        load_panel(config)


def test_frame_and_file_have_one_fingerprint(make_config):
    config = make_config(store=None)
    frame = pd.read_parquet(config.data.options["path"])
    assert (
        Panel.from_frame(frame, ForwardReturn(2, price="close")).fingerprint == load_panel(config).fingerprint
    )
