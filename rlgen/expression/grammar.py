"""The token game: formulas written token by token, of which every one ends valid.

1. A game's state is a stack of codes (see `completion`), a pending window, and per height k of the
   stack the row cost_k: the fewest tokens that complete it, by the code of its top item.
2. A move is allowed if what it leaves can be completed with the tokens that remain. Since that is
   exact, an allowed move always leaves an allowed one: no mask is empty, and every game ends in a
   formula within the token limit, with at least one field. End is allowed when the stack is one series.
3. All games are stepped at once, as arrays; there is no loop over games.

Tokens are counted without begin and end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rlgen.errors import ConfigError, ExpressionError
from rlgen.expression.completion import CONSTANT, NEVER, Completion
from rlgen.expression.tokens import BEGIN, PAD, Vocabulary
from rlgen.expression.tree import MAX_DEPTH, Expression

_CHUNK = 1024
"""Games that `uniform_expressions` plays at once."""


class Grammar:
    """What formulas may be written: a vocabulary, a token limit, and whether units are checked.

    Raises:
        ConfigError: a token limit that leaves room for no formula or is above the trees' limit.
    """

    def __init__(self, vocabulary: Vocabulary, token_limit: int, check_units: bool = False) -> None:
        # A tree has at most as many levels as tokens, so that no game can write one too deep.
        if not 1 <= token_limit <= MAX_DEPTH:
            raise ConfigError(f"grammar.token_limit: must be 1 to {MAX_DEPTH} tokens, was {token_limit}")
        self.vocabulary = vocabulary
        self.token_limit = token_limit
        self.check_units = check_units
        self.completion = Completion(vocabulary, check_units)

    def describe(self) -> dict[str, Any]:
        """The grammar as plain data, for checkpoints."""
        return {
            "vocabulary": self.vocabulary.describe(),
            "token_limit": self.token_limit,
            "check_units": self.check_units,
        }


class Games:
    """n token games of one grammar.

    Attributes:
        tokens: (n, token_limit + 2) int64 ids: begin, the formula's tokens, end; padding after that.
        length: (n,) int64 tokens so far, begin and end included.
        finished: (n,) bool games whose formula has ended. Such a game stays as it is, its mask allows
            only end, and end changes nothing, until it is reset.
    """

    def __init__(self, grammar: Grammar, n: int) -> None:
        self.grammar = grammar
        self.n = n
        self._completion = grammar.completion
        self._rows = np.arange(n)
        heights = grammar.token_limit + 2
        self.tokens = np.full((n, heights), PAD, np.int64)
        self.length = np.ones(n, np.int64)
        self.finished = np.zeros(n, bool)
        self._height = np.zeros(n, np.int64)
        # Row 0 of each stack is the ground: nothing there.
        self._codes = np.full((n, heights), self._completion.none, np.int64)
        self._window = np.zeros(n, np.int64)  # 1 + window move on top, 0: none
        self._costs = np.full((n, heights, self._completion.n_codes + 1), NEVER, np.int16)
        self._costs[:, 0] = self._completion.bottom
        self._masks: np.ndarray | None = None

        tables = self._completion
        n_columns = tables.n_codes + 1
        # Laid out for `_allowed_moves`: operator results as offsets into the rows of costs.
        shifted = tables.after - n_columns * tables.two_operands
        self._after = shifted.reshape(n_columns * n_columns, -1)
        self._merge_of_pushes = np.ascontiguousarray(tables.merge[:, :, tables.push_code])
        self._operators_of_window = [np.flatnonzero(fits) for fits in tables.fits[1:]]
        self.reset(self._rows)

    def reset(self, indices: np.ndarray) -> None:
        """Start these games over."""
        self.tokens[indices] = PAD
        self.tokens[indices, 0] = BEGIN
        self.length[indices] = 1
        self.finished[indices] = False
        self._height[indices] = 0
        self._window[indices] = 0
        self._masks = None

    def masks(self) -> np.ndarray:
        """(n, V) bool: the tokens that each game allows; a fresh array, no row of it empty."""
        return self._current_masks().copy()

    def step(self, actions: np.ndarray) -> np.ndarray:
        """Append one token to every game.

        Args:
            actions: (n,) token ids.

        Returns:
            (n,) bool: games that are finished.

        Raises:
            ExpressionError: a token that its game's mask forbids; then no game was changed.
        """
        actions = np.asarray(actions)
        if actions.shape != (self.n,) or actions.dtype.kind not in "iu":
            raise ExpressionError(f"one token id per game ({self.n}) is needed, was {actions!r}")
        inside = (actions >= 0) & (actions < self.grammar.vocabulary.size)
        legal = inside & self._current_masks()[self._rows, np.where(inside, actions, 0)]
        if not legal.all():
            game = int(np.argmin(legal))
            so_far = self.grammar.vocabulary.to_text(self.tokens[game, 1 : self.length[game]])
            raise ExpressionError(f"game {game}: token {actions[game]} is not allowed after: {so_far}")
        open_games = np.flatnonzero(~self.finished)
        self._append(open_games, actions[open_games].astype(np.int64))
        return self.finished.copy()

    def expression(self, i: int) -> Expression:
        """The formula of a finished game.

        Raises:
            ExpressionError: the game has not finished.
        """
        ids = self.tokens[i, 1 : self.length[i] - 1].tolist()
        if not self.finished[i]:
            so_far = self.grammar.vocabulary.to_text(self.tokens[i, 1 : self.length[i]])
            raise ExpressionError(f"game {i} has not finished its formula, was: {so_far}")
        return self.grammar.vocabulary.to_expression(ids)

    def state(self) -> dict[str, np.ndarray]:
        """All that a checkpoint needs, as plain arrays."""
        return {"tokens": self.tokens.copy(), "length": self.length.copy()}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Continue from a `state()` of as many games of an equal grammar, by playing its tokens again.

        Raises:
            ExpressionError: the arrays have another shape, or tokens that the grammar forbids.
        """
        tokens, length = np.asarray(state["tokens"]), np.asarray(state["length"])
        if tokens.shape != self.tokens.shape or length.shape != self.length.shape:
            raise ExpressionError(
                f"a state of {self.tokens.shape} tokens is needed, was {tokens.shape} of {length.shape} games"
            )
        self.reset(self._rows)
        for column in range(1, int(length.max(initial=1))):
            rows = np.flatnonzero(length > column)
            actions = tokens[rows, column].astype(np.int64)
            known = (actions >= 0) & (actions < self.grammar.vocabulary.size) & ~self.finished[rows]
            if not (known.all() and self._current_masks()[rows, actions].all()):
                raise ExpressionError(f"the state's tokens in column {column} do not fit the grammar")
            self._append(rows, actions)

    def _current_masks(self) -> np.ndarray:
        if self._masks is None:
            self._masks = self._allowed_moves()[:, self._completion.token_move]
        return self._masks

    def _top_and_below(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        height = self._height[rows]
        return self._codes[rows, height], self._codes[rows, np.maximum(height - 1, 0)]

    def _cost_of_push(self, here: np.ndarray, top: np.ndarray, merge: np.ndarray) -> np.ndarray:
        """(m, P) fewest tokens after a push; here (m, U) cost_k, top (m,) codes, merge (U, U+1, P)."""
        return (merge.take(top, axis=1) + here.T[:, :, None]).min(0)

    def _allowed_moves(self) -> np.ndarray:
        """(n, moves) bool, columns as in `Completion.token_move`."""
        tables = self._completion
        n_operators, n_pushes, _ = tables.n_moves
        n_columns = tables.n_codes + 1
        top, below = self._top_and_below(self._rows)
        left = (self.grammar.token_limit + 1 - self.length)[:, None]
        no_window = self._window == 0
        allowed = np.zeros((self.n, tables.end_move + 2), bool)

        # Operators: results of two items stand one row lower. On the ground that leads to the last
        # column of the row before, which is NEVER as it is in every row.
        row = self._rows * self._costs.shape[1] + self._height
        result = self._after.take(below * n_columns + top, axis=0)
        cost = self._costs.take(result + (row * n_columns)[:, None])
        np.logical_and(cost < left, tables.fits.take(self._window, axis=0), out=allowed[:, :n_operators])

        # Pushes and windows go on top of an item, not of a window.
        here = self._costs.reshape(-1, n_columns).take(row, axis=0)[:, : tables.n_codes]
        pushed = self._cost_of_push(here, top, self._merge_of_pushes) < left
        first_window = n_operators + n_pushes
        np.logical_and(pushed, no_window[:, None], out=allowed[:, n_operators:first_window])
        affordable = cost < left - 1
        for w, operators in enumerate(self._operators_of_window):
            allowed[:, first_window + w] = affordable.take(operators, axis=1).any(1) & no_window

        allowed[:, tables.end_move] = (self._height == 1) & (top != CONSTANT) & no_window
        if self.finished.any():
            allowed[self.finished] = False
            allowed[self.finished, tables.end_move] = True
        return allowed

    def _append(self, rows: np.ndarray, actions: np.ndarray) -> None:
        """Append allowed tokens to the games `rows`."""
        tables = self._completion
        n_operators, n_pushes, _ = tables.n_moves
        first_window = n_operators + n_pushes
        self._masks = None
        self.tokens[rows, self.length[rows]] = actions
        self.length[rows] += 1
        move = tables.token_move[actions]
        top, below = self._top_and_below(rows)

        where = np.flatnonzero(move < n_operators)
        games, moves = rows[where], move[where]
        height = self._height[games] - tables.two_operands[moves]
        self._height[games] = height
        self._codes[games, height] = tables.after[below[where], top[where], moves]
        self._window[games] = 0

        where = np.flatnonzero((move >= n_operators) & (move < first_window))
        games = rows[where]
        height = self._height[games]
        here = self._costs[games, height, : tables.n_codes]
        cost = self._cost_of_push(here, top[where], tables.merge)
        self._costs[games, height + 1, : tables.n_codes] = np.minimum(cost, NEVER)
        self._codes[games, height + 1] = tables.push_code[move[where] - n_operators]
        self._height[games] = height + 1

        where = np.flatnonzero((move >= first_window) & (move < tables.end_move))
        self._window[rows[where]] = 1 + move[where] - first_window
        self.finished[rows[move == tables.end_move]] = True


def uniform_expressions(grammar: Grammar, n: int, seed: int) -> list[Expression]:
    """n formulas by the policy that picks each allowed token with equal probability.

    The baseline that a search has to beat, and what tests and benchmarks draw. Games are played to
    their end one batch after another, so that short formulas are not favoured.
    """
    random = np.random.default_rng(seed)
    expressions: list[Expression] = []
    while len(expressions) < n:
        games = Games(grammar, min(_CHUNK, n - len(expressions)))
        while not games.finished.all():
            games.step(sample_uniform(games.masks(), random))
        expressions += [games.expression(i) for i in range(games.n)]
    return expressions


def sample_uniform(masks: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """(n,) int64: per row of masks (n, V) one of the allowed tokens, each with equal probability."""
    place = np.floor(random.random(len(masks)) * masks.sum(1))
    return (np.cumsum(masks, axis=1) > place[:, None]).argmax(1)
