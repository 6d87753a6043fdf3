"""What both environments share: the grammar for a panel's fields, and the two spaces."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from rlgen.config import GrammarConfig, validate
from rlgen.errors import ConfigError
from rlgen.expression import Grammar, Vocabulary

GrammarLike = Grammar | GrammarConfig | Mapping[str, Any] | None


def build_grammar(panel_fields: Iterable[str], grammar: GrammarLike = None) -> Grammar:
    """The grammar over a panel's fields.

    Args:
        panel_fields: the fields that the panel has.
        grammar: one ready-made; or `GrammarConfig`, or a mapping of its keys; None: its defaults.

    Raises:
        ConfigError: an unknown key, a field that the panel lacks, or nothing to build formulas of.
    """
    if isinstance(grammar, Grammar):
        return grammar
    config = (
        grammar
        if isinstance(grammar, GrammarConfig)
        else validate(GrammarConfig, dict(grammar or {}), "grammar")
    )
    known = list(panel_fields)
    wanted = known if config.fields is None else list(config.fields)
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        raise ConfigError(
            f"grammar.fields: the panel has {', '.join(known) or 'none'}; was {', '.join(unknown) or 'empty'}"
        )
    vocabulary = Vocabulary(wanted, config.operators, config.windows, config.constants)
    return Grammar(vocabulary, config.token_limit, check_units=config.check_units)


@dataclasses.dataclass(frozen=True)
class GameSpaces:
    """Observation and action space of the games of a grammar.

    An observation is the row of token ids so far, (token_limit + 2,) int64: begin, the formula's
    tokens in postfix order, end; padding (0) after that. An action is a token id.
    """

    observation: spaces.Box
    action: spaces.Discrete

    @staticmethod
    def of(grammar: Grammar) -> GameSpaces:
        """The spaces for V tokens and the grammar's token limit."""
        size = grammar.vocabulary.size
        shape = (grammar.token_limit + 2,)
        return GameSpaces(spaces.Box(0, size - 1, shape, dtype=np.int64), spaces.Discrete(size))
