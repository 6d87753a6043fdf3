"""Hundreds of token games stepped together as arrays, as a stable-baselines3 `VecEnv`.

A step appends one token to every game. A game that ends gives its formula and starts over at
once (stable-baselines3's convention: the last observation is in `infos[i]`). Rewards come

- immediately: the formulas that ended in this step are offered to the pool in the order of the
  games, which with the order of steps makes (step, game); or
- deferred: rewards stay 0 and the formulas wait, in the same order, for `take_finished()`. Offers
  made later in that order earn the same, since the games do not depend on the pool.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from rlgen.alphapool import AlphaPool
from rlgen.env.spaces import GameSpaces, GrammarLike, build_grammar
from rlgen.expression import Expression, Games


class Finished(NamedTuple):
    """A formula whose reward is still to come."""

    step: int
    """Steps of the environment before the one that ended it, since the last `take_finished()`."""
    game: int
    """The game's number."""
    expression: Expression
    episode: dict[str, Any]
    """The episode's statistics as in `infos[game]["episode"]`: whoever scores sets "r"."""


class AlphaVecEnv(VecEnv):
    """`n_envs` token games against one pool.

    `step` returns observations (n, token_limit + 2) int64, rewards (n,) float32, dones (n,) bool,
    infos. Where a game ended, `infos[i]` holds `expression` (text), `terminal_observation`,
    `episode` ("r" reward, "l" tokens, "t" seconds since the start), and in immediate mode
    `reason` and `admitted`.

    Args:
        pool: what formulas are offered to.
        grammar: as for `AlphaEnv`.
        n_envs: games.
        reward_scale: factor between an offer's reward and the environment's.
        deferred: leave the scoring to the caller of `take_finished()`.
    """

    def __init__(
        self,
        pool: AlphaPool,
        grammar: GrammarLike = None,
        n_envs: int = 128,
        reward_scale: float = 1.0,
        deferred: bool = False,
    ) -> None:
        self.pool = pool
        self.grammar = build_grammar(pool.calculator.panel.fields, grammar)
        self.reward_scale = reward_scale
        self.deferred = deferred
        self.games = Games(self.grammar, n_envs)
        spaces = GameSpaces.of(self.grammar)
        self.render_mode = None
        super().__init__(n_envs, spaces.observation, spaces.action)
        self._actions = np.zeros(n_envs, dtype=np.int64)
        self._waiting: list[Finished] = []
        self._steps = 0
        self._started = time.monotonic()

    def action_masks(self) -> np.ndarray:
        """(n, V) bool: the tokens that each game allows."""
        return self.games.masks()

    def reset(self) -> np.ndarray:
        """Start all games over; formulas that wait for a score are dropped."""
        self.games.reset(np.arange(self.num_envs))
        self._waiting.clear()
        self._steps = 0
        self._reset_seeds()
        self._reset_options()
        return self.games.tokens.copy()

    def step_async(self, actions: np.ndarray) -> None:
        """Take the actions (n,) of the next `step_wait`."""
        self._actions = np.asarray(actions, dtype=np.int64).reshape(self.num_envs)

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Append one token to every game.

        Raises:
            ExpressionError: an action that its game's mask forbids.
        """
        dones = self.games.step(self._actions)
        rewards = np.zeros(self.num_envs, dtype=np.float32)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        ended = np.flatnonzero(dones)
        if len(ended):
            expressions = [self.games.expression(int(game)) for game in ended]
            self._describe(ended, expressions, infos)
            if self.deferred:
                self._waiting += [
                    Finished(self._steps, int(game), expression, infos[game]["episode"])
                    for game, expression in zip(ended, expressions, strict=True)
                ]
            else:
                self._score(ended, expressions, rewards, infos)
            self.games.reset(ended)
        self._steps += 1
        return self.games.tokens.copy(), rewards, dones.copy(), infos

    def _describe(
        self, ended: np.ndarray, expressions: Sequence[Expression], infos: list[dict[str, Any]]
    ) -> None:
        seconds = round(time.monotonic() - self._started, 6)
        for game, expression in zip(ended, expressions, strict=True):
            length = int(self.games.length[game]) - 1
            infos[game] = {
                "expression": str(expression),
                "terminal_observation": self.games.tokens[game].copy(),
                "episode": {"r": 0.0, "l": length, "t": seconds},
                "TimeLimit.truncated": False,
            }

    def _score(
        self,
        ended: np.ndarray,
        expressions: Sequence[Expression],
        rewards: np.ndarray,
        infos: list[dict[str, Any]],
    ) -> None:
        for game, offer in zip(ended, self.pool.offer_batch(expressions), strict=True):
            rewards[game] = offer.reward * self.reward_scale
            infos[game]["episode"]["r"] = float(rewards[game])
            infos[game]["reason"] = str(offer.reason)
            infos[game]["admitted"] = bool(offer.admitted)

    def take_finished(self) -> list[Finished]:
        """The formulas that ended since the last call, by (step, game); step counting restarts."""
        waiting, self._waiting = self._waiting, []
        self._steps = 0
        return waiting

    def close(self) -> None:
        """Nothing is held open."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The attribute, once per game asked for: all games share it."""
        value = getattr(self, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute that all games share."""
        setattr(self, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> Any:
        """Call a method; `action_masks` gives one array (n, V), which sb3-contrib stacks as it is."""
        result = getattr(self, method_name)(*args, **kwargs)
        if method_name == "action_masks":
            return result if indices is None else result[list(self._get_indices(indices))]
        return [result for _ in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """Games are never wrapped."""
        return [False for _ in self._get_indices(indices)]
