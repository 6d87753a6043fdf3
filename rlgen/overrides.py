"""Command-line overrides of a configuration: `--training.total-steps 20000`.

1. `parse_overrides` cuts the arguments into one group per option, finds each option's key in the
   models, and turns its values into the shape that the key's type asks for. It checks no values: that
   is the models' task, so that a value is refused in the same words wherever it comes from.
2. `merge` puts the values into the tree that the configuration file gave.

Spelling: `-` and `_` are the same in a key; `--key value` or `--key=value`; several values for a
list, `--grammar.windows 5 10 20`, or YAML, `"[5, 10, 20]"`; `none` where a key may be left out; true
or false, or nothing for true. Below a key that takes any mapping (`--data.options.path bars`) values
are read as YAML.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from pydantic import BaseModel

from rlgen.config_keys import keys_of, may_be_none, own_keys, section_of, without_none
from rlgen.errors import ConfigError
from rlgen.yaml_text import read_yaml


@dataclass(frozen=True)
class Override:
    """One override: where, what, and how it was spelled."""

    path: tuple[str, ...]
    value: Any
    option: str


def parse_overrides(model: type[BaseModel], arguments: Sequence[str]) -> list[Override]:
    """The overrides that arguments spell, in order.

    Raises:
        ConfigError: an argument that belongs to no option, an unknown key, too few or too many values.
    """
    groups: list[tuple[str, list[str]]] = []
    for argument in arguments:
        if argument.startswith("--"):
            option, equals, value = argument.partition("=")
            groups.append((option, [value] if equals else []))
        elif groups:
            groups[-1][1].append(argument)
        else:
            raise ConfigError(f"{argument!r}: must follow an option such as --training.seed")
    return [_parse(model, option, values) for option, values in groups]


def _parse(model: type[BaseModel], option: str, values: Sequence[str]) -> Override:
    parts = option.removeprefix("--").split(".")
    path: list[str] = []
    annotation: Any = model
    while parts:
        bare = without_none(annotation)
        if get_origin(bare) is dict or bare is Any:
            # Free keys. The first is an adapter's keyword; what lies deeper is the user's own name.
            path += [parts[0].replace("-", "_"), *parts[1:]]
            return Override(tuple(path), _free_value(values, option), option)
        name = parts[0].replace("-", "_")
        section = section_of(annotation)
        fields = section.model_fields if section is not None else {}
        if name not in fields:
            raise ConfigError(f"{option}: unknown key{_hint(model, option)}")
        path.append(name)
        annotation = fields[name].annotation
        parts = parts[1:]
    return Override(tuple(path), _value(annotation, values, option), option)


def _hint(model: type[BaseModel], option: str) -> str:
    known = [key.option for key in keys_of(model)]
    spelled = option.replace("_", "-")
    last = spelled.lstrip("-").rpartition(".")[2]
    close = [name for name in known if name.lstrip("-").rpartition(".")[2] == last]
    close = close or difflib.get_close_matches(spelled, known, n=2, cutoff=0.75)
    return f"; did you mean {' or '.join(close[:3])}?" if close else "; --help lists all"


def _value(annotation: Any, values: Sequence[str], option: str) -> Any:
    """Values from the command line in the shape of a key's type."""
    bare = without_none(annotation)
    if not values and bare is not bool:
        raise ConfigError(f"{option}: needs a value")
    if len(values) == 1 and may_be_none(annotation) and values[0].lower() in ("none", "null", "~"):
        return None
    if (section := section_of(annotation)) is not None:
        one = own_keys(section)[0].path[0].replace("_", "-")
        raise ConfigError(f"{option}: is a section; give one of its keys, such as {option}.{one}")
    if get_origin(bare) is dict:
        return _free_value(values, option)
    if get_origin(bare) is tuple:
        return _list(bare, values, option)
    if bare is bool and not values:
        return True
    if len(values) > 1:
        raise ConfigError(f"{option}: takes one value, was {' '.join(values)}")
    return values[0]


def _list(annotation: Any, values: Sequence[str], option: str) -> list[Any]:
    if len(values) == 1 and values[0].startswith("["):
        parsed = _yaml(values[0], option)
        return parsed if isinstance(parsed, list) else [parsed]
    items = get_args(annotation)
    if Ellipsis not in items:
        if len(values) != len(items):
            raise ConfigError(f"{option}: takes {len(items)} values, was {' '.join(values)}")
        return list(values)
    item = without_none(items[0])
    if get_origin(item) is tuple:
        size = len(get_args(item))
        if len(values) % size:
            raise ConfigError(f"{option}: takes groups of {size} values, was {' '.join(values)}")
        return [list(values[first : first + size]) for first in range(0, len(values), size)]
    if section_of(item) is not None:
        return [_yaml(value, option) for value in values]
    return list(values)


def _free_value(values: Sequence[str], option: str) -> Any:
    """What values mean where nothing says what they should be: YAML, or text if it is none."""
    if not values:
        raise ConfigError(f"{option}: needs a value")
    read = [_yaml_or_text(value) for value in values]
    return read[0] if len(read) == 1 else read


def _yaml_or_text(text: str) -> Any:
    try:
        value = read_yaml(text)
    except ValueError:
        return text  # A pattern such as `{symbol}.csv` begins like a mapping and is none.
    if isinstance(value, dict) and None in value.values():
        return text
    return value


def _yaml(text: str, option: str) -> Any:
    try:
        return read_yaml(text)
    except ValueError as error:
        raise ConfigError(f"{option}: must be YAML, was {text!r}: {error}") from None


def merge(tree: Mapping[str, Any], overrides: Sequence[Override]) -> dict[str, Any]:
    """A copy of `tree` in which the overrides stand; later ones win. `tree` is left as it is.

    Raises:
        ConfigError: an override below something that is no mapping.
    """
    result = dict(tree)
    for override in overrides:
        node = result
        for depth, name in enumerate(override.path[:-1], start=1):
            below = node.get(name)
            if not isinstance(below, Mapping | None):
                where = ".".join(override.path[:depth])
                raise ConfigError(f"{override.option}: {where} must be a mapping of keys, was {below!r}")
            node[name] = node = dict(below or {})
        node[override.path[-1]] = override.value
    return result
