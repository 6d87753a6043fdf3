"""Kernels use vectors as wide as the processor has, unless the user chose."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from rlgen import compiling


class Features(dict):
    def flatten(self):
        return ",".join(("+" if on else "-") + name for name, on in sorted(self.items()))


@pytest.mark.parametrize(
    ("features", "set_before", "avx", "expected"),
    [
        (Features(avx512f=True, sse2=True), None, True, "+avx512f,+sse2,-prefer-256-bit"),
        (Features(avx512f=False, avx2=True), None, True, None),
        (Features(avx512f=True), "+mine", True, "+mine"),
        (Features(avx512f=True), None, False, None),
    ],
)
def test_wide_vectors_where_there_are_some(monkeypatch, features, set_before, avx, expected):
    config = SimpleNamespace(CPU_FEATURES=set_before, ENABLE_AVX=avx)
    monkeypatch.setattr(compiling, "numba", SimpleNamespace(config=config))
    monkeypatch.setattr(compiling, "binding", SimpleNamespace(get_host_cpu_features=lambda: features))
    monkeypatch.delenv("NUMBA_CPU_FEATURES", raising=False)
    compiling.widen_vectors()
    assert expected == config.CPU_FEATURES


def test_an_unknown_processor_is_left_alone(monkeypatch):
    def unknown():
        raise RuntimeError

    config = SimpleNamespace(CPU_FEATURES=None, ENABLE_AVX=True)
    monkeypatch.setattr(compiling, "numba", SimpleNamespace(config=config))
    monkeypatch.setattr(compiling, "binding", SimpleNamespace(get_host_cpu_features=unknown))
    monkeypatch.delenv("NUMBA_CPU_FEATURES", raising=False)
    compiling.widen_vectors()
    assert config.CPU_FEATURES is None


def test_the_environment_wins(tmp_path):
    code = "from rlgen import compiling; import numba; print(numba.config.CPU_FEATURES)"
    environment = os.environ | {"NUMBA_CPU_FEATURES": "+sse2"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "+sse2"
