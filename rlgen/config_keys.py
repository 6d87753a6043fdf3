"""The keys of a configuration, read off its models: paths, types, defaults and meanings.

`--help`, `docs/configuration.md` and the command line's overrides all go by these lists, so that a new
key is one line in a model and nothing else.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo


@dataclass(frozen=True)
class Key:
    """One key of a configuration."""

    path: tuple[str, ...]
    annotation: Any
    """Its type, with bounds."""
    required: bool
    default: Any
    """None where it is required, too."""
    meaning: str
    """The docstring, on one line."""

    @property
    def option(self) -> str:
        """As on the command line."""
        return "--" + ".".join(self.path).replace("_", "-")


def section_of(annotation: Any) -> type[BaseModel] | None:
    """The model that a key holds, if it is a section (also one that may be left out)."""
    bare = without_none(annotation)
    return bare if isinstance(bare, type) and issubclass(bare, BaseModel) else None


def sections_of(
    model: type[BaseModel], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], type[BaseModel]]]:
    """Each section's path and model, outer ones before inner ones, in order."""
    for name, field in model.model_fields.items():
        if (section := section_of(field.annotation)) is not None:
            yield (*path, name), section
            yield from sections_of(section, (*path, name))


def own_keys(model: type[BaseModel], path: tuple[str, ...] = ()) -> list[Key]:
    """The keys of one section, those of inner sections not among them."""
    return [
        Key(
            (*path, name),
            with_bounds(field),
            field.is_required(),
            None if field.is_required() else field.get_default(call_default_factory=True),
            " ".join((field.description or "").split()),
        )
        for name, field in model.model_fields.items()
        if section_of(field.annotation) is None
    ]


def keys_of(model: type[BaseModel]) -> list[Key]:
    """Every key of a configuration."""
    found = own_keys(model)
    for path, section in sections_of(model):
        found += own_keys(section, path)
    return found


def with_bounds(field: FieldInfo) -> Any:
    """A field's type, together with what pydantic has split off it."""
    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation


def without_none(annotation: Any) -> Any:
    """X of `X | None`, and of `Annotated[X, …]`; anything else as it is."""
    if get_origin(annotation) is Annotated:
        return without_none(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        rest = [part for part in get_args(annotation) if part is not NoneType]
        return without_none(rest[0]) if len(rest) == 1 else annotation
    return annotation


def may_be_none(annotation: Any) -> bool:
    """Whether a key of this type may be left out."""
    if get_origin(annotation) is Annotated:
        return may_be_none(get_args(annotation)[0])
    return get_origin(annotation) in (Union, UnionType) and NoneType in get_args(annotation)


NAMES = {str: "text", bool: "true or false", int: "whole number", float: "number", Path: "path", Any: "any"}
BOUNDS = {"gt": "> ", "ge": "≥ ", "lt": "< ", "le": "≤ "}


def describe_type(annotation: Any) -> str:
    """A type in words: `whole number > 0, or none`."""
    if may_be_none(annotation):
        return f"{describe_type(without_none_only(annotation))}, or none"
    origin, items = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        bounds = [text for note in items[1:] for text in _bounds(note)]
        return " ".join([describe_type(items[0]), " and ".join(bounds)]).strip()
    if origin is Literal:
        return f"one of {', '.join(str(item) for item in items)}"
    if origin is dict:
        return "mapping"
    if origin is tuple:
        if Ellipsis in items:
            return f"list of {describe_type(items[0])}"
        return f"[{', '.join(describe_type(item) for item in items)}]"
    if annotation is dt.date:
        return "date"
    if (section := section_of(annotation)) is not None:
        return "{" + ", ".join(section.model_fields) + "}"
    return NAMES.get(annotation, str(annotation))


def without_none_only(annotation: Any) -> Any:
    """X of `X | None`, its bounds kept."""
    if get_origin(annotation) is Annotated:
        return without_none_only(get_args(annotation)[0])
    return next(part for part in get_args(annotation) if part is not NoneType)


def _bounds(note: Any) -> list[str]:
    if isinstance(note, FieldInfo):
        return [text for part in note.metadata for text in _bounds(part)]
    return [f"{sign}{getattr(note, name):g}" for name, sign in BOUNDS.items() if hasattr(note, name)]


def describe_default(key: Key) -> str:
    """A key's default in words."""
    if key.required:
        return "must be stated"
    return describe_value(key.default)


def describe_value(value: Any) -> str:
    """A value as one would write it in the file."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple | list):
        return "[" + ", ".join(describe_value(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {describe_value(item)}" for name, item in value.items()) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)
