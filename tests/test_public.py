from pathlib import Path

import pytest

import rlgen
from rlgen.errors import ConfigError
from tests.training.small import make_config


def test_every_public_name_is_there() -> None:
    for name in rlgen.__all__:
        assert getattr(rlgen, name) is not None
    assert rlgen.AlphaPool.__name__ == "AlphaPool"
    assert rlgen.metrics.pooled_ic.__name__ == "pooled_ic"
    assert issubclass(rlgen.errors.DataError, rlgen.errors.RlgenError)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'rlgen' has no attribute 'nothing'"):
        rlgen.nothing  # noqa: B018


def test_load_panel_makes_the_demos_bars(tmp_path: Path) -> None:
    config = make_config(tmp_path, synthetic={"plants": []})
    file = tmp_path / "run.yaml"
    file.write_text(config.to_yaml())
    panel = rlgen.load_panel(file)
    assert (tmp_path / "bars.parquet").exists()
    assert rlgen.load_panel(config).fingerprint == panel.fingerprint
    assert panel.split("train").shape[1] == 12


def test_load_panel_refuses_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such configuration file"):
        rlgen.load_panel(str(tmp_path / "none.yaml"))
