"""Writes `docs/configuration.md` from the models of `rlgen.config`: `python -m rlgen.document_config`.

A test compares the file with `document()`; `make docs` brings it up to date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pydantic import BaseModel

from rlgen.config import Config
from rlgen.config_keys import describe_default, describe_type, own_keys, sections_of
from rlgen.files import write_text

PAGE = Path("docs/configuration.md")

INTRODUCTION = """\
# Configuration

<!-- Made by `make docs` from the models in rlgen/config.py. Change it there. -->

A run is described by one YAML file: `configs/demo.yaml`, `configs/us_1min.yaml` and
`configs/crypto_1min.yaml` are three. Every key has a default, except those that must be stated. Any key
can be overridden on the command line by its path, with `-` or `_`:

```
python scripts/rlgen_train.py --config configs/demo.yaml --training.seed 3 --grammar.windows 5 10 20
```

Several values make a list, `none` leaves out what may be left out, true and false need no value if true. Keys
below `data.options` are the adapter's own, `--data.options.path bars`. A key that does not exist, a value of
the wrong type and a key that stands twice are errors, with the path of the key. `config.yaml` in a run folder
says every key as it was used. Relative paths start at the working directory. All counts of time are in bars
unless a key says otherwise.

The file is YAML with four exceptions, which keep market data what it is: `000001`, `NO` and `09:30` are text,
not numbers or truth values, dates need no quotes, `3e-4` is a number.
"""


def document(model: type[BaseModel] = Config) -> str:
    """The page: one heading and table per section."""
    parts = [INTRODUCTION]
    for path, section in sections_of(model):
        meaning = " ".join((section.__doc__ or "").split())
        optional = len(path) == 1 and model.model_fields[path[0]].default is None
        note = " The whole section may be left out." if optional else ""
        rows = [
            f"| `{key.path[-1]}` | {cell(describe_type(key.annotation))} | {cell(describe_default(key))} "
            f"| {cell(key.meaning)} |"
            for key in own_keys(section, path)
        ]
        parts.append(f"## {'.'.join(path)}\n\n{meaning}{note}\n")
        parts.append("| key | type | default | meaning |\n|---|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def cell(text: str) -> str:
    """Text that cannot end a table's cell."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    write_text(Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE, document())
