"""What the scripts share: options beside configuration keys, and mistakes told in one line.

1. `ScriptParser` is argparse for a script's own options. `split` first takes the overrides of the
   configuration out of the arguments (an option with a dot in its name, `--training.seed 3`, and what
   follows it), so that argparse only sees what it knows.
2. `run` calls a script's `main` and turns its end into an exit status: 0; 2 for a user's mistake, with
   its message on one line; 130 for Ctrl-C. Anything else is a defect and keeps its traceback.

Nothing here imports torch: `--help` is quick.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from pydantic import BaseModel

from rlgen.config_keys import describe_default, describe_type, own_keys, sections_of
from rlgen.errors import ConfigError, RlgenError

USER_MISTAKE = 2
INTERRUPTED = 130


class ScriptParser(argparse.ArgumentParser):
    """argparse whose mistakes are `ConfigError`s and whose help lists the configuration's keys.

    Args:
        description: what the script does.
        overrides: the configuration whose keys the command line may override; None: no overrides.
    """

    def __init__(self, description: str | None, overrides: type[BaseModel] | None = None) -> None:
        super().__init__(
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.overrides = overrides

    def split(self, arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
        """The script's own options, and the arguments that override the configuration.

        Raises:
            ConfigError: an option that is unknown, lacks its value or has one that does not fit.
        """
        own: list[str] = []
        overriding: list[str] = []
        target = own
        for argument in arguments:
            if argument == "-h" or argument.startswith("--"):
                target = overriding if self.overrides and self._is_override(argument) else own
            target.append(argument)
        return self.parse_args(own), overriding

    def _is_override(self, argument: str) -> bool:
        name = argument[2:].partition("=")[0]
        if name in ("", "help") or f"--{name}" in self._option_string_actions:
            return False
        return "." in name or name.replace("-", "_") in (self.overrides or BaseModel).model_fields

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage and leaving."""
        raise ConfigError(f"{message}; --help lists the options")

    def format_help(self) -> str:
        """Own options, then every key of the configuration with its type, default and meaning."""
        text = super().format_help()
        return text if self.overrides is None else f"{text}\n{format_keys(self.overrides)}"


def format_keys(model: type[BaseModel]) -> str:
    """Every key of a configuration as an option, with type, default and meaning, by section."""
    width = max(min(shutil.get_terminal_size().columns, 110), 60)
    wrap = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    lines = ["configuration keys, each of which overrides the file's value (defaults in brackets):"]
    for path, section in sections_of(model):
        wrap.initial_indent = wrap.subsequent_indent = ""
        meaning = " ".join((section.__doc__ or "").split())
        lines += ["", *wrap.wrap(f"{'.'.join(path)}: {meaning}")]
        for key in own_keys(section, path):
            wrap.initial_indent, wrap.subsequent_indent = "  ", "      "
            lines += wrap.wrap(f"{key.option}  {describe_type(key.annotation)}  ({describe_default(key)})")
            wrap.initial_indent = "      "
            lines += wrap.wrap(key.meaning)
    return "\n".join(lines) + "\n"


def run(main: Callable[[Sequence[str]], None], arguments: Sequence[str] | None = None) -> NoReturn:
    """Call `main` with the command line's arguments and leave with its exit status."""
    name = Path(sys.argv[0]).stem
    logging.basicConfig(format="%(message)s")
    logging.getLogger("rlgen").setLevel(logging.INFO)
    try:
        main(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except RlgenError as error:
        _leave(f"{name}: {_one_line(error)}", USER_MISTAKE)
    except KeyboardInterrupt:
        _leave(f"{name}: interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader went away (`| head`): leave nothing to flush when the interpreter shuts down.
        _silence(sys.stdout)
        raise SystemExit(1) from None
    except OSError as error:
        if error.filename is None:
            raise
        # The system refuses a path that the user named: no permission, no space, no folder.
        _leave(f"{name}: {error.filename}: {error.strerror}", USER_MISTAKE)
    raise SystemExit(0)


def _leave(message: str, status: int) -> NoReturn:
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    print(message, file=sys.stderr)
    raise SystemExit(status)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def _silence(stream: IO[Any]) -> None:
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
