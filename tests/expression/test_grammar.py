"""The token game against an exhaustive search, and random games at every limit."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache

import numpy as np
import pytest

from rlgen.errors import ConfigError, ExpressionError
from rlgen.expression import (
    BEGIN,
    END,
    OPERATORS,
    PAD,
    Constant,
    Field,
    Games,
    Grammar,
    Operator,
    Vocabulary,
    parse,
    sample_uniform,
    uniform_expressions,
    unit_of,
)
from rlgen.expression.completion import MAX_EXPONENT
from rlgen.expression.units import FIELD_UNITS, NO_UNIT, result_unit

FIELDS = ["open", "close", "volume", "amount", "spread"]
WINDOWS = [1, 2, 5, 20]
CONSTANTS = [-1.0, 0.5, 2.0]
ROLLING = [row.name for row in OPERATORS.values() if row.family == "rolling"]
CROSS_SECTION = ["CSRank", "CSZscore"]
ELEMENTWISE = [row.name for row in OPERATORS.values() if row.takes_constants]

VOCABULARIES = {
    "all": (FIELDS, None, WINDOWS, CONSTANTS),
    "one field": (["close"], None, WINDOWS, CONSTANTS),
    "only rolling": (FIELDS, ROLLING, WINDOWS, CONSTANTS),
    "only cross-section": (FIELDS, CROSS_SECTION, WINDOWS, CONSTANTS),
    "only elementwise": (FIELDS, ELEMENTWISE, WINDOWS, CONSTANTS),
    "no constants": (FIELDS, None, WINDOWS, []),
    "no windows": (FIELDS, None, [], CONSTANTS),
    "only window 1": (FIELDS, None, [1], CONSTANTS),
    "only Corr": (FIELDS, ["Corr"], WINDOWS, CONSTANTS),
    "only Corr, no windows": (FIELDS, ["Corr"], [], CONSTANTS),
    "only Kurt": (FIELDS, ["Kurt"], WINDOWS, CONSTANTS),
    "only Add": (FIELDS, ["Add"], WINDOWS, CONSTANTS),
    "Add and CSRank": (FIELDS, ["Add", "CSRank"], WINDOWS, CONSTANTS),
    "Add and Corr": (FIELDS, ["Add", "Corr"], WINDOWS, CONSTANTS),
    "Sub, Cov and Skew": (FIELDS, ["Sub", "Cov", "Skew"], WINDOWS, CONSTANTS),
    "only Pow": (FIELDS, ["Pow"], WINDOWS, CONSTANTS),
    "only Abs": (FIELDS, ["Abs"], WINDOWS, CONSTANTS),
    "no operators": (FIELDS, [], WINDOWS, CONSTANTS),
    "Var and Less": (["close", "volume"], ["Var", "Less"], [2], []),
}


@pytest.mark.parametrize("check_units", [False, True], ids=["plain", "units"])
@pytest.mark.parametrize("name", VOCABULARIES)
def test_every_random_game_ends_valid(name, check_units):
    vocabulary = Vocabulary(*VOCABULARIES[name])
    random = np.random.default_rng(1)
    for limit in range(1, 31) if name == "all" else (1, 2, 3, 4, 5, 6, 8, 11, 15, 30):
        grammar = Grammar(vocabulary, limit, check_units)
        games = Games(grammar, 24)
        for steps in range(limit + 2):
            masks = games.masks()
            assert masks.shape == (24, vocabulary.size) and masks.any(1).all()
            assert not masks[:, [PAD, BEGIN]].any()
            if games.finished.all():
                break
            assert steps <= limit, "a game is longer than the token limit and its end"
            games.step(sample_uniform(masks, random))
        for i in range(games.n):
            expression = games.expression(i)
            assert expression.fields and expression.n_tokens == games.length[i] - 2 <= limit
            assert parse(str(expression)) == expression
            if check_units:
                unit_of(expression)


# -- an exhaustive search, from the rules alone ---------------------------------------------------


def oracle(vocabulary: Vocabulary, check_units: bool):
    """successors(stack) -> {token: next stack}, and completable(stack, left), by trying everything.

    A stack is a tuple of items: a window's int, "constant", or a series' unit.
    """

    def unit(name):
        return FIELD_UNITS.get(name, NO_UNIT) if check_units else NO_UNIT

    def apply(row: Operator, stack):
        window = stack[-1] if stack and isinstance(stack[-1], int) else None
        if (window is not None) != row.has_window or (window is not None and window < row.minimum):
            return None
        rest = stack[:-1] if row.has_window else stack
        operands = rest[-row.arity :]
        if len(operands) != row.arity or all(x == "constant" for x in operands):
            return None
        if "constant" in operands and not row.takes_constants:
            return None
        if not check_units:
            return (*rest[: -row.arity], NO_UNIT)
        result = result_unit(row, tuple(NO_UNIT if x == "constant" else x for x in operands))
        if result is None or max(abs(x) for x in result) > MAX_EXPONENT:
            return None
        return (*rest[: -row.arity], result)

    @cache
    def successors(stack):
        after = {}
        for token in range(vocabulary.size):
            item = vocabulary.item(token)
            new = None
            if isinstance(item, Operator):
                new = apply(item, stack)
            elif item is not None and not (stack and isinstance(stack[-1], int)):
                if isinstance(item, Field):
                    new = (*stack, unit(item.name))
                else:
                    new = (*stack, "constant" if isinstance(item, Constant) else item)
            if new is not None:
                after[token] = new
        return after

    def ended(stack):
        return len(stack) == 1 and isinstance(stack[0], tuple)

    @cache
    def completable(stack, left):
        if ended(stack):
            return True
        return left > 0 and any(completable(new, left - 1) for new in set(successors(stack).values()))

    return successors, ended, completable


BRUTE_FORCE = {
    "mixed": (["close", "volume"], ["CSRank", "Add", "Mul", "Mean", "Std", "Kurt", "Corr"], [1, 3, 5], [2.0]),
    "no free join": (["close", "volume", "spread"], ["Less", "Log", "Var", "Skew"], [2, 3], [0.5]),
    "pairs": (["close", "amount"], ["Cov", "Greater", "Rank"], [1, 2], [0.5]),
    "quotients": (["close", "amount"], ["Div", "Sub", "Pow"], [], [0.5]),
    "pairs alone": (["close", "volume"], ["Corr"], [2], [0.5]),
    "cross-section": (["close", "volume"], ["Sub", "CSRank"], [], []),
}


@pytest.mark.parametrize("check_units", [False, True], ids=["plain", "units"])
@pytest.mark.parametrize("name", BRUTE_FORCE)
def test_masks_equal_an_exhaustive_search(name, check_units):
    vocabulary = Vocabulary(*BRUTE_FORCE[name])
    successors, ended, completable = oracle(vocabulary, check_units)
    for limit in range(1, 8):
        grammar = Grammar(vocabulary, limit, check_units)
        # One game per distinct state: its stack, and one way to write it.
        states = {(): []}
        for used in range(limit + 1):
            games = Games(grammar, len(states))
            tokens = np.full_like(games.tokens, PAD)
            for i, ids in enumerate(states.values()):
                tokens[i, : used + 1] = [BEGIN, *ids]
            games.set_state({"tokens": tokens, "length": np.full(len(states), used + 1)})
            masks = games.masks()
            following = {}
            for i, (stack, ids) in enumerate(states.items()):
                expected = {END} if ended(stack) else set()
                for token, new in successors(stack).items():
                    if used < limit and completable(new, limit - used - 1):
                        expected.add(token)
                        following.setdefault(new, [*ids, token])
                assert set(np.flatnonzero(masks[i])) == expected, (limit, vocabulary.to_text(ids))
            states = following


# -- games ----------------------------------------------------------------------------------------

SMALL = Grammar(Vocabulary(["close", "volume"], ["Abs", "Add", "Mean", "Corr"], [5], [2.0]), 7)


def play(games: Games, *texts: str) -> np.ndarray:
    ids = {text: i for i, text in enumerate(games.grammar.vocabulary.tokens)}
    finished = np.zeros(games.n, bool)
    for column in zip(*(text.split() for text in texts), strict=True):
        finished = games.step(np.array([ids[token] for token in column]))
    return finished


def test_two_games_by_hand():
    games = Games(SMALL, 2)
    assert games.tokens.dtype == np.int64 and games.tokens.shape == (2, 9)
    assert not play(games, "$close 5 Mean", "$close $volume 5").any()
    assert games.length.tolist() == [4, 4]
    allowed = [set(np.array(SMALL.vocabulary.tokens)[mask]) for mask in games.masks()]
    assert allowed == [{"<end>", "$close", "$volume", "2.0", "5", "Abs"}, {"Mean", "Corr"}]
    assert play(games, "<end>", "Corr").tolist() == [True, False]
    assert str(games.expression(0)) == "Mean($close,5)"
    # A finished game stays as it is until it is reset.
    assert games.masks()[0].nonzero()[0].tolist() == [END]
    before = games.tokens[0].copy()
    assert play(games, "<end>", "<end>").tolist() == [True, True]
    assert (
        games.tokens[0].tolist() == before.tolist() and str(games.expression(1)) == "Corr($close,$volume,5)"
    )
    games.reset(np.array([0]))
    assert games.tokens[0].tolist() == [BEGIN] + [PAD] * 8 and games.length.tolist() == [1, 6]
    assert games.finished.tolist() == [False, True]
    assert (games.masks()[0] == Games(SMALL, 1).masks()[0]).all()


@pytest.mark.parametrize("token", [PAD, BEGIN, END, -1, 10**6])
def test_an_illegal_action_is_refused_and_changes_nothing(token):
    games = Games(SMALL, 2)
    with pytest.raises(ExpressionError, match=f"game 1: token {token} is not allowed after"):
        games.step(np.array([3, token]))
    assert games.length.tolist() == [1, 1]
    with pytest.raises(ExpressionError, match="one token id per game"):
        games.step(np.array([3]))
    with pytest.raises(ExpressionError, match="game 0 has not finished"):
        games.expression(0)


def test_masks_are_fresh_arrays():
    games = Games(SMALL, 1)
    games.masks()[:] = True
    assert not games.masks()[0, PAD]


@pytest.mark.parametrize("check_units", [False, True])
def test_state_continues_exactly(check_units):
    grammar = Grammar(Vocabulary(*VOCABULARIES["all"]), 12, check_units)
    random = np.random.default_rng(3)
    games = Games(grammar, 50)
    for _ in range(40):
        twin = Games(grammar, 50)
        twin.set_state(games.state())
        assert (twin.masks() == games.masks()).all() and (twin.finished == games.finished).all()
        actions = sample_uniform(games.masks(), random)
        assert (twin.step(actions) == games.step(actions)).all()
        assert (twin.tokens == games.tokens).all() and (twin.length == games.length).all()
        assert (twin.masks() == games.masks()).all()
        games.reset(np.flatnonzero(games.finished & (random.random(50) < 0.8)))


@pytest.mark.parametrize(
    "change",
    [
        lambda s: {**s, "tokens": s["tokens"][:, :-1]},
        lambda s: {**s, "length": s["length"] + 1},
        lambda s: {"tokens": np.where(s["tokens"] == 3, 99, s["tokens"]), "length": s["length"]},
    ],
)
def test_a_foreign_state_is_refused(change):
    games = Games(SMALL, 2)
    play(games, "$close 5 Mean", "$close $volume 5")
    with pytest.raises(ExpressionError):
        Games(SMALL, 2).set_state(change(games.state()))


@pytest.mark.parametrize("limit", [0, 101])
def test_a_grammar_needs_room_and_bounds_it(limit):
    with pytest.raises(ConfigError, match=rf"grammar\.token_limit: .*was {limit}"):
        Grammar(SMALL.vocabulary, limit)


def test_the_longest_games_give_trees_that_can_be_made():
    deep = Grammar(Vocabulary(["close"], ["Abs"]), 100)
    assert max(x.depth for x in uniform_expressions(deep, 200, 0)) > 5
    games = Games(deep, 1)
    play(games, " ".join(["$close", *["Abs"] * 99]))
    assert games.masks()[0].nonzero()[0].tolist() == [END]
    games.step(np.array([END]))
    assert games.expression(0).depth == 100


def test_description_is_plain_data():
    assert json.loads(json.dumps(SMALL.describe())) == SMALL.describe()


# -- the uniform policy ---------------------------------------------------------------------------


def test_uniform_expressions_repeat_with_their_seed():
    grammar = Grammar(Vocabulary(*VOCABULARIES["all"]), 15)
    first = uniform_expressions(grammar, 300, 5)
    assert len(first) == 300 and first == uniform_expressions(grammar, 300, 5)
    assert first != uniform_expressions(grammar, 300, 6)
    used = Counter(token for x in first for token in grammar.vocabulary.to_ids(x))
    assert set(used) == set(range(3, grammar.vocabulary.size)), "a uniform policy meets every token"


def test_sampling_is_uniform_over_what_is_allowed():
    masks = np.tile(np.array([[False, True, True, False, True]]), (30_000, 1))
    counts = np.bincount(sample_uniform(masks, np.random.default_rng(0)), minlength=5)
    assert counts[[0, 3]].sum() == 0
    assert abs(counts[[1, 2, 4]] - 10_000).max() < 400  # five standard deviations
