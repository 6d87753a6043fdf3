"""What holds for the repository as a whole: which way imports point, sizes, words, commands."""

import ast
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

HARD_LIMIT = 800
SCRIPT_LIMIT = 100

# Room by room, what it may import besides itself. A room is a module or package below `rlgen`, or a folder.
BOTTOM = {"errors", "files"}
TOOLS = {"memory", "compiling", "workers"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "files": {"errors"},
    "caching": set(),
    "memory": {"errors"},
    "compiling": set(),
    "workers": set(),
    "yaml_text": set(),
    "config_keys": set(),
    "overrides": {"errors", "config_keys", "yaml_text"},
    "validation": {"errors", "config_keys"},
    "config": {"errors", "config_keys", "overrides", "validation", "yaml_text"},
    "commandline": {"errors", "config_keys"},
    "document_config": {"config", "config_keys", "files"},
    "schema": {"errors"},
    "data_adapters": {*BOTTOM, "schema"},
    "expression": {*BOTTOM},
    "metrics": {*BOTTOM, *TOOLS},
    "panel": {*BOTTOM, "config", "schema", "data_adapters"},
    "calculator": {*BOTTOM, *TOOLS, "config", "expression", "metrics", "panel"},
    "alphapool": {*BOTTOM, *TOOLS, "config", "expression", "metrics", "panel", "calculator"},
    "env": {*BOTTOM, "config", "expression", "alphapool"},
    "policy": {"errors", "expression"},
    "training": {
        *BOTTOM,
        *TOOLS,
        *("config", "schema", "data_adapters", "expression", "metrics", "panel"),
        *("calculator", "alphapool", "env", "policy"),
    },
}


def modules(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def room_of(module: str) -> str | None:
    """`rlgen.panel.build` → `panel`; a library → None; `rlgen` itself → `rlgen`."""
    parts = module.split(".")
    if parts[0] == "data_adapters":
        return "data_adapters"
    if parts[0] != "rlgen":
        return None
    return parts[1] if len(parts) > 1 else "rlgen"


def imported(path: Path) -> Iterator[str]:
    """Rooms that a module imports anywhere, inside functions and for type checking, too."""
    package = name_of(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            # `from rlgen import metrics` imports the module of that name.
            names = [f"rlgen.{alias.name}" for alias in node.names] if origin == "rlgen" else [origin]
        for name in names:
            room = room_of(name)
            if room is not None:
                yield room


def test_imports_point_one_way() -> None:
    wrong = []
    for path in modules("rlgen", "data_adapters"):
        room = room_of(name_of(path))
        assert room is not None
        if room == "rlgen":
            continue  # The top: it may name everything, and imports nothing heavy (see test_caching).
        assert room in ALLOWED, f"{name_of(path)}: say in ALLOWED what this room may import"
        wrong += [
            f"{name_of(path)} imports {other}"
            for other in sorted(set(imported(path)))
            if other not in ALLOWED[room] | {room}
        ]
    assert wrong == []


def test_the_order_has_no_circle() -> None:
    order: list[str] = []
    left = dict(ALLOWED)
    while left:
        ready = [room for room, below in left.items() if below <= set(order)]
        assert ready, f"a circle among {sorted(left)}"
        order += ready
        for room in ready:
            del left[room]
    line = ["errors", "config", "data_adapters", "panel", "calculator", "alphapool", "env", "training"]
    assert [room for room in order if room in line] == line


def test_the_import_check_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.test_repository.ROOT", tmp_path)
    (tmp_path / "rlgen" / "expression").mkdir(parents=True)
    path = tmp_path / "rlgen" / "expression" / "tree.py"
    path.write_text(
        "import numpy\nfrom rlgen import metrics\nfrom ..panel import x\nfrom .parser import y\n"
        "def f():\n    import rlgen.training.ppo\n    from data_adapters import csv\n"
    )
    found = set(imported(path))
    assert found == {"metrics", "panel", "expression", "training", "data_adapters"}


def test_sizes() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in sources()}
    too_long = {name_of(path): n for path, n in lengths.items() if path.suffix == ".py" and n > HARD_LIMIT}
    assert too_long == {}
    scripts = {path.name: n for path, n in lengths.items() if path.parent == ROOT / "scripts"}
    assert len(scripts) >= 4
    assert {name: n for name, n in scripts.items() if n >= SCRIPT_LIMIT} == {}


def sources() -> list[Path]:
    """Every text file of the repository's own."""
    folders = ("rlgen", "data_adapters", "scripts", "configs", "tests", "benchmarks", "docs", ".ci")
    found = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    found += [
        path for path in ROOT.iterdir() if path.suffix in (".md", ".toml", ".txt") or path.name == "Makefile"
    ]
    return [
        path
        for path in found
        if "__pycache__" not in path.parts and path.suffix not in (".pyc", ".parquet", ".gz", ".svg", ".png")
    ]


# Put together here, so that this file is none of those that hold them.
UNFINISHED = re.compile("|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "raise NotImplemented" + "Error"]))
MACHINE = re.compile(r"(?<![\w.])/(?:" + "|".join(["ro" + "ot", "ho" + "me", "wo" + "rk"]) + r")/\w")
SWALLOWED = re.compile(r"except(?: Exception| BaseException)?:\s*(?:pass|\.\.\.)")


def test_words_that_must_not_stand_here() -> None:
    found = []
    for path in sources():
        text = path.read_text(encoding="utf-8")
        for pattern in (UNFINISHED, MACHINE, SWALLOWED):
            found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in pattern.finditer(text)]
    assert found == []


def test_public_functions_have_docstrings() -> None:
    bare = []
    for path in modules("rlgen", "data_adapters", "scripts"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if not ast.get_docstring(tree):
            bare.append(name_of(path))
        for node in tree.body:
            inner = node.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_") else []
            for item in [node, *inner]:
                public = isinstance(item, ast.FunctionDef | ast.ClassDef) and not item.name.startswith("_")
                if public and not ast.get_docstring(item):
                    bare.append(f"{name_of(path)}.{item.name}")
    assert bare == []


def test_commands_in_the_documentation_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert {"install", "train", "test", "test-all", "check", "bench", "docs", "clean", "help"} <= targets
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / ".ci" / "run"]
    for page in pages:
        lines = page.read_text(encoding="utf-8").splitlines()
        text = "\n".join(line for line in lines if not line.endswith("(planned)"))
        for target in re.findall(r"(?:`|^\s*(?:step )?)make ([a-z-]+)", text, re.MULTILINE):
            assert target in targets, f"{page.name}: make {target}"
        for name in re.findall(r"\b(?:scripts/rlgen_[a-z_]+\.(?:py|sbatch)|configs/\w+\.yaml)", text):
            assert (ROOT / name).exists(), f"{page.name}: {name}"


def test_links_in_the_documentation_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if not link.startswith(("http:", "https:", "mailto:")):
                assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_what_must_be_executable_is() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    first = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert first[0] == "#!/usr/bin/env bash" and "set -euo pipefail" in first
    for script in [ROOT / ".ci" / "run", ROOT / "scripts" / "rlgen_train.sbatch"]:
        subprocess.run(["bash", "-n", str(script)], check=True)


def test_what_the_project_needs_is_pinned() -> None:
    pins = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    )
    assert pins["torch"].startswith("2.")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    declared = set(re.findall(r'"([A-Za-z0-9_.-]+)>=', project.split("[tool.")[0])) - {"setuptools"}
    normal = {re.sub(r"[-_.]+", "-", name).lower() for name in pins}
    assert {re.sub(r"[-_.]+", "-", name).lower() for name in declared} <= normal
