"""Nested dicts, lists, numbers, texts and arrays in two plain files: JSON and npz, no pickle.

The JSON file holds the structure, with `{"__array__": "a3"}` in the place of an array; the npz file
holds the arrays under those names. Reading gives equal structures and bit-equal arrays; tuples come
back as lists.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

ARRAY = "__array__"


def save_tree(tree: Any, stem: Path) -> None:
    """Write `stem`.json and `stem`.npz.

    Raises:
        TypeError: something that is neither plain nor an array, or a mapping whose keys are no texts.
    """
    arrays: dict[str, np.ndarray] = {}
    plain = _strip(tree, arrays, "")
    stem.with_suffix(".json").write_text(json.dumps(plain) + "\n", encoding="utf-8")
    with stem.with_suffix(".npz").open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def load_tree(stem: Path) -> Any:
    """What `save_tree` wrote to `stem`.json and `stem`.npz."""
    plain = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))
    with np.load(stem.with_suffix(".npz"), allow_pickle=False) as arrays:
        return _fill(plain, arrays)


def _strip(tree: Any, arrays: dict[str, np.ndarray], where: str) -> Any:
    """The tree with arrays moved out."""
    if isinstance(tree, torch.Tensor):
        tree = tree.detach().cpu().numpy()
    if isinstance(tree, np.generic):
        tree = tree.item()
    if tree is None or isinstance(tree, bool | int | float | str):
        return tree
    if isinstance(tree, np.ndarray) and tree.dtype != object:
        name = f"a{len(arrays)}"
        arrays[name] = tree
        return {ARRAY: name}
    if isinstance(tree, Mapping):
        if not all(isinstance(key, str) for key in tree) or ARRAY in tree:
            raise TypeError(f"{where or 'tree'}: keys must be texts other than {ARRAY}")
        return {key: _strip(value, arrays, f"{where}.{key}") for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [_strip(value, arrays, f"{where}[{i}]") for i, value in enumerate(tree)]
    raise TypeError(f"{where or 'tree'}: cannot be stored, was {type(tree).__name__}")


def _fill(plain: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The plain tree with arrays put back."""
    if isinstance(plain, dict):
        if plain.keys() == {ARRAY}:
            return arrays[plain[ARRAY]]
        return {key: _fill(value, arrays) for key, value in plain.items()}
    if isinstance(plain, list):
        return [_fill(value, arrays) for value in plain]
    return plain
