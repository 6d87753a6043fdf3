"""Values checked by the models: types that refuse what pydantic lets pass, and errors on one line.

pydantic turns `true` into 1 where a number belongs, and 20240102 into a day of 1970 where a date
belongs (it counts seconds); both are refused or read as meant here. `1e5` is a whole number.
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from rlgen.config_keys import keys_of, section_of, without_none
from rlgen.errors import ConfigError

LONGEST_VALUE = 80


def _number(value: Any) -> Any:
    """Refuse true and false as numbers."""
    if isinstance(value, bool):
        raise ValueError(f"must be a number, was {str(value).lower()}")
    return value


def _whole_number(value: Any) -> Any:
    """Refuse true and false; read the text `1e5`, as it comes from the command line."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]+(\.[0-9]*)?[eE]\+?[0-9]{1,2}", value):
        return float(value)
    return _number(value)


def _date(value: Any) -> Any:
    """Dates, and ISO 8601 dates as text; 20240102, which YAML reads as a number, too."""
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    try:
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise ValueError
        return dt.date.fromisoformat(str(value))
    except ValueError:
        raise ValueError(f"must be a date such as 2024-01-31, was {shown(value)}") from None


Number = Annotated[float, BeforeValidator(_number)]
WholeNumber = Annotated[int, BeforeValidator(_whole_number)]
Fraction = Annotated[Number, Field(ge=0.0, le=1.0)]
PositiveInt = Annotated[WholeNumber, Field(gt=0)]
NonNegativeInt = Annotated[WholeNumber, Field(ge=0)]
PositiveFloat = Annotated[Number, Field(gt=0.0)]
NonNegativeFloat = Annotated[Number, Field(ge=0.0)]
Seed = Annotated[WholeNumber, Field(ge=0, lt=2**32)]
"""What numpy's older generators, which stable-baselines3 seeds, can take."""
Threads = Annotated[WholeNumber, Field(ge=0, le=256)]
"""More have crashed torch, whose pools take several times as many, and no machine has the cores for them."""
Date = Annotated[dt.date, BeforeValidator(_date)]
Symbol = Annotated[str, Field(coerce_numbers_to_str=True)]
"""Text; 600000 without quotes is the symbol `600000` (YAML keeps the zeros of 000001 by itself)."""


def validate(
    model: type[Any],
    tree: Mapping[str, Any],
    where: str,
    options: Mapping[tuple[str, ...], str] | None = None,
) -> Any:
    """`model.model_validate(tree)`, its errors as one `ConfigError` line naming each key's path.

    Args:
        model: the section or whole configuration.
        tree: plain values.
        where: what the message calls the place that the values came from.
        options: {path of a key: command-line option that gave its value}, named in place of `where`.
    """
    try:
        return model.model_validate(dict(tree))
    except ValidationError as error:
        raise ConfigError(describe_errors(error, model, where, options or {})) from None


def describe_errors(
    error: ValidationError,
    model: type[BaseModel],
    where: str,
    options: Mapping[tuple[str, ...], str],
) -> str:
    """Each problem as `where: path: what is wrong, was value`, joined with `; `, where only once."""
    in_tree, on_command_line = [], []
    for problem in error.errors(include_url=False):
        place = tuple(problem["loc"])
        message = _message(problem, model)
        if problem["type"] == "missing" and place and isinstance(place[-1], int):
            place = place[:-1]  # A list that is too short: the list is the place.
        given = next((path for path in options if place[: len(path)] == path), None)
        if given is not None:
            rest = "".join(f".{part}" for part in place[len(given) :])
            on_command_line.append(f"{options[given]}{rest}: {message}")
        else:
            path = ".".join(str(part) for part in place)
            in_tree.append(f"{path}: {message}" if path else message)
    in_tree[:1] = [f"{where}: {first}" for first in in_tree[:1]]
    return "; ".join(in_tree + on_command_line)


PLAIN = {
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be text, in quotes where YAML reads something else",
    "path_type": "must be a path",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping of keys",
    "model_type": "must be a mapping of keys",
    "model_attributes_type": "must be a mapping of keys",
    "too_long": "must have fewer values",
    "invalid_key": "must be a name",
}


def _message(problem: Any, model: type[BaseModel]) -> str:
    """What is wrong with one value, in the words of this house."""
    kind, place = problem["type"], tuple(problem["loc"])
    if kind == "extra_forbidden":
        return f"unknown key{_hint(model, place)}"
    if kind == "missing" and place and isinstance(place[-1], int):
        return f"must have more values, was {shown(problem['input'])}"
    if kind == "missing":
        return "must be stated"
    message = problem["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    message = " ".join(PLAIN.get(kind, message).split())
    return message if re.search(r"\bwas\b", message) else f"{message}, was {shown(problem['input'])}"


def shown(value: Any) -> str:
    """A value on one line, cut where it is long."""
    text = "none" if value is None else repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def _hint(model: type[BaseModel], place: Sequence[str | int]) -> str:
    """Which key was probably meant: a close name in the same section, or the same name elsewhere."""
    annotation: Any = model
    for part in place[:-1]:
        bare = without_none(annotation)
        if isinstance(part, int):
            annotation = get_args(bare)[0] if get_origin(bare) is tuple else Any
        else:
            section = section_of(bare)
            annotation = section.model_fields[part].annotation if section is not None else Any
    section = section_of(annotation)
    names = list(section.model_fields) if section is not None else []
    name = str(place[-1])
    close = difflib.get_close_matches(name, names, n=2)
    if not close:
        close = [".".join(key.path) for key in keys_of(model) if key.path[-1] == name]
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; there are {', '.join(names)}" if names else ""
