"""How many tokens a half-written formula still needs at least: tables, computed once per grammar.

A half-written formula is a stack of items: constants and series, and perhaps a window on top. What
can be done with an item depends on its *code* alone: 0 is a constant; the others are series, one code
if units are not checked, else one per unit within ±`MAX_EXPONENT`.

1. **Moves.** Tokens that the stack cannot tell apart are one move: operators of equal arity, window
   minimum and typing rule; fields of equal unit; constants; windows that the same operators accept.
   `after[below, top, move]` is the code of an operator move's result, or `NONE`.
2. **Cheapest pieces.** `make[u]`: fewest tokens that write an item of code u from nothing.
   `convert[u, w]`: fewest tokens that turn the top item from u to w and leave the others alone: by
   operators of one operand, or by writing another item and joining it. Both are least fixed points of
   the moves (shortest derivations of a small grammar).
3. **Merging.** `merge[t, u, w]`: fewest tokens that turn the two top items, t below u, into one
   item w: convert u, then join.
4. The fewest tokens that complete a stack whose top item, at height k, has code u, are then
       cost_k(u) = min over w of merge[code at height k−1, u, w] + cost_{k−1}(w)
   with cost_0(w) = 0 for series and `merge[NONE, u, w] = convert[u, w]`. It is exact: whatever
   completes a stack first turns its top item into one that is then joined to the one below.
"""

from __future__ import annotations

import numpy as np

from rlgen.expression.operators import Operator
from rlgen.expression.tokens import END, Vocabulary
from rlgen.expression.tree import Constant, Field
from rlgen.expression.units import FIELD_UNITS, NO_UNIT, Unit, result_unit

MAX_EXPONENT = 2
"""Largest exponent, either sign, of price and of volume in a formula whose units are checked."""
NEVER = 1000
"""More tokens than any game has; sums of three fit the tables' int16."""
CONSTANT = 0

_Move = tuple[int, bool, str, bool, int]


class Completion:
    """The tables for a vocabulary. U codes, A operator moves, P push moves, W window moves.

    Attributes:
        token_move: (V,) each token's column among all moves: A operator moves, P pushes, W windows,
            end, and one that is never allowed.
        after: (U+1, U+1, A) code of an operator move's result by the codes below and on top; index
            and value U (`none`) say that there is none.
        two_operands: (A,) whether the move takes two items.
        fits: (1+W, A) whether the move can be made with that window move on top; row 0: no window.
        push_code: (P,) code that a push puts on the stack.
        merge: (U, U+1, U) int16 `merge[w, t, u]` of the module's text, w first since minima are taken
            over it; t = U: nothing below.
        bottom: (U+1,) int16 cost_0.
    """

    def __init__(self, vocabulary: Vocabulary, check_units: bool) -> None:
        self.check_units = check_units
        self._make_codes()
        self._make_moves(vocabulary)
        self._make_after()
        self._make_costs()

    def _make_codes(self) -> None:
        exponents = range(-MAX_EXPONENT, MAX_EXPONENT + 1) if self.check_units else (0,)
        units = [(price, volume) for price in exponents for volume in exponents]
        self.units: list[Unit] = [NO_UNIT, *units]
        self.n_codes = self.none = len(self.units)
        self._code_of_unit = {unit: code for code, unit in enumerate(units, 1)}

    def _make_moves(self, vocabulary: Vocabulary) -> None:
        items = [vocabulary.item(token) for token in range(vocabulary.size)]
        operators: dict[_Move, Operator] = {}
        windows: dict[tuple[int, ...], int] = {}
        pushes: dict[int, int] = {}
        for item in items:
            if isinstance(item, Operator):
                operators.setdefault(_move_of(item), item)
        self._operators = list(operators.values())
        minima = sorted({row.minimum for row in self._operators if row.has_window})
        for item in items:
            if isinstance(item, int):
                accepted = tuple(minimum for minimum in minima if minimum <= item)
                windows.setdefault(accepted, len(windows))
            elif isinstance(item, Field | Constant):
                pushes.setdefault(self._push_code(item), len(pushes))
        self.n_moves = len(operators), len(pushes), len(windows)
        self.two_operands = np.array([row.arity == 2 for row in self._operators], bool)
        self.push_code = np.array(list(pushes), np.int64)
        self.fits = np.zeros((1 + len(windows), len(operators)), bool)
        self.fits[0] = [not row.has_window for row in self._operators]
        for accepted, w in windows.items():
            self.fits[1 + w] = [row.has_window and row.minimum in accepted for row in self._operators]

        first_push, first_window = len(operators), len(operators) + len(pushes)
        self.end_move = first_window + len(windows)
        self.token_move = np.full(vocabulary.size, self.end_move + 1)
        self.token_move[END] = self.end_move
        numbers = {move: number for number, move in enumerate(operators)}
        for token, item in enumerate(items):
            if isinstance(item, Operator):
                self.token_move[token] = numbers[_move_of(item)]
            elif isinstance(item, int):
                accepted = tuple(minimum for minimum in minima if minimum <= item)
                self.token_move[token] = first_window + windows[accepted]
            elif isinstance(item, Field | Constant):
                self.token_move[token] = first_push + pushes[self._push_code(item)]

    def _push_code(self, item: Field | Constant) -> int:
        if isinstance(item, Constant):
            return CONSTANT
        return self._code_of_unit[FIELD_UNITS.get(item.name, NO_UNIT) if self.check_units else NO_UNIT]

    def _make_after(self) -> None:
        size = self.n_codes + 1
        self.after = np.full((size, size, len(self._operators)), self.none)
        for a, row in enumerate(self._operators):
            for top in range(self.n_codes):
                if row.arity == 1:
                    self.after[:, top, a] = self._result(row, (top,))
                else:
                    for below in range(self.n_codes):
                        self.after[below, top, a] = self._result(row, (below, top))

    def _result(self, row: Operator, codes: tuple[int, ...]) -> int:
        constants = sum(code == CONSTANT for code in codes)
        if constants == len(codes) or (constants and not row.takes_constants):
            return self.none
        if not self.check_units:
            return self._code_of_unit[NO_UNIT]
        unit = result_unit(row, tuple(self.units[code] for code in codes))
        return self.none if unit is None else self._code_of_unit.get(unit, self.none)

    def _make_costs(self) -> None:
        size = self.n_codes
        single = np.full((size, size), NEVER, np.int16)
        join = np.full((size, size, size), NEVER, np.int16)
        codes = np.arange(size)
        for a in np.flatnonzero(self.fits.any(0)):
            cost = 1 + self._operators[a].has_window
            below, top = np.nonzero(self.after[:size, :size, a] != self.none)
            made = self.after[below, top, a]
            if self.two_operands[a]:
                join[below, top, made] = np.minimum(join[below, top, made], cost)
            else:
                single[top, made] = np.minimum(single[top, made], cost)

        make = np.full(size, NEVER, np.int16)
        make[self.push_code] = 1
        while True:
            joined = make[:, None, None] + make[None, :, None] + join
            shorter = np.minimum(make, np.minimum((make[:, None] + single).min(0), joined.min((0, 1))))
            if np.array_equal(shorter, make):
                break
            make = shorter

        convert = np.minimum(single, (make[None, :, None] + join).min(1))
        convert[codes, codes] = 0
        for via in range(size):
            convert = np.minimum(convert, convert[:, via, None] + convert[None, via, :])
        merge = np.full((size + 1, size, size), NEVER, np.int16)
        for code in range(size):
            merge[code] = (convert[:, :, None] + join[code][None]).min(1)
        merge[size] = convert
        self.merge = np.ascontiguousarray(np.minimum(merge, NEVER).transpose(2, 0, 1))

        self.bottom = np.zeros(size + 1, np.int16)
        self.bottom[[CONSTANT, self.none]] = NEVER


def _move_of(row: Operator) -> _Move:
    return row.arity, row.has_window, row.unit, row.takes_constants, row.minimum if row.has_window else 0
