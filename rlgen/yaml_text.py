"""YAML as people expect it: read without the surprises of YAML 1.1, written so that it reads back.

What YAML 1.1 makes of plain words, and what is read here instead:

- `13:00` is the number 780 (base 60), `000001` the number 1 (base 8): text here, since the one is a
  time and the other a symbol;
- `NO`, `ON`, `yes` are true or false: text here; only `true` and `false` in three spellings are not;
- `3e-4` is text: a number here;
- `2024-13-45` crashes the reader: dates are text here, and become dates where the configuration
  says that one belongs there.

A key that stands twice in one mapping is refused; YAML would silently keep the last.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

BOOL, INT, FLOAT, NULL = (f"tag:yaml.org,2002:{name}" for name in ("bool", "int", "float", "null"))
RESOLVERS = (
    (BOOL, re.compile(r"true|True|TRUE|false|False|FALSE"), "tTfF"),
    (INT, re.compile(r"[-+]?(0|[1-9][0-9_]*)"), "-+0123456789"),
    (
        FLOAT,
        re.compile(
            r"[-+]?((0|[1-9][0-9_]*)\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?"
            r"|[-+]?(0|[1-9][0-9_]*)[eE][-+]?[0-9]+|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
        ),
        "-+0123456789.",
    ),
    (NULL, re.compile(r"~|null|Null|NULL|"), ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:merge", re.compile(r"<<"), "<"),
)


class Reader(yaml.SafeLoader):
    """PyYAML's safe loader with the resolvers above, and without repeated keys."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - begins empty, so that add_implicit_resolver inherits none

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """As PyYAML's, and refuse a repeated key."""
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                line = key.start_mark.line + 1
                if key.value in lines:
                    raise yaml.constructor.ConstructorError(
                        problem=f"the key `{key.value}` stands twice, first in line {lines[key.value]}",
                        problem_mark=key.start_mark,
                    )
                lines[key.value] = line
        return super().construct_mapping(node, deep)


class Writer(yaml.SafeDumper):
    """PyYAML's safe dumper; quotes what its own resolvers or `Reader`'s take for no text, dates apart."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's name
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeDumper.yaml_implicit_resolvers.items()
    }

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists inside mappings."""
        super().increase_indent(flow, False)


def _whole(pattern: re.Pattern[str]) -> re.Pattern[str]:
    return re.compile(f"^(?:{pattern.pattern})$")


for _tag, _pattern, _first in RESOLVERS:
    Reader.add_implicit_resolver(_tag, _whole(_pattern), list(_first))
    Writer.add_implicit_resolver(_tag, _whole(_pattern), list(_first))
# A list of plain values on one line: [09:30, 11:30] reads better than two lines of dashes.
Writer.add_representer(
    list,
    lambda writer, items: writer.represent_sequence(
        "tag:yaml.org,2002:seq",
        items,
        flow_style=not any(isinstance(item, dict) for item in items),
    ),
)
# PyYAML folds these line ends into blanks, unless they are escaped.
Writer.add_representer(
    str,
    lambda writer, text: writer.represent_scalar(
        "tag:yaml.org,2002:str", text, style='"' if any(end in text for end in "\x85\u2028\u2029") else None
    ),
)


def read_yaml(text: str) -> Any:
    """The plain Python value of a YAML text.

    Raises:
        ValueError: not YAML, or a key stands twice; one line with line and column.
    """
    try:
        return yaml.load(text, Loader=Reader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        told = " ".join(part for part in (error.context, error.problem) if part)
        raise ValueError(place + " ".join(told.split())) from None
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def write_yaml(tree: Any) -> str:
    """A plain Python value as YAML text that `read_yaml` reads back to an equal one."""
    return yaml.dump(tree, Dumper=Writer, sort_keys=False, allow_unicode=True, width=100)
