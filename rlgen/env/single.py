"""One token game as a `gymnasium.Env`, for any algorithm that can mask actions.

1. A game starts with the token "begin". Each action appends a token; `action_masks()` allows
   those after which the formula can still be completed within the token limit.
2. The token "end" finishes the formula: it is offered to the pool at once, and the offer's reward
   times `reward_scale` is the episode's only reward.
3. An action that the mask forbids ends the episode at once, without a formula: the reward is
   `-reward_scale`, below what any formula earns, and the reason is `illegal_action`.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from rlgen.alphapool import AlphaPool
from rlgen.env.spaces import GameSpaces, GrammarLike, build_grammar
from rlgen.expression import Games

ILLEGAL_ACTION = "illegal_action"


class AlphaEnv(gymnasium.Env[np.ndarray, np.int64]):
    """One token game against a pool.

    Observation: Box (token_limit + 2,) int64 token ids, padded with 0. Action: Discrete(V).
    At an episode's end `info["expression"]` is the formula's text (None after an illegal action),
    `info["reason"]` the pool's reason code, `info["admitted"]` whether the pool took it.

    Args:
        pool: what formulas are offered to.
        grammar: a `Grammar`, a `GrammarConfig`, a mapping of its keys, or None for its defaults
            with all fields of the pool's panel.
        reward_scale: factor between an offer's reward and the environment's.

    Raises:
        ConfigError: the grammar names a field that the panel lacks.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (gymnasium's own declaration)

    def __init__(self, pool: AlphaPool, grammar: GrammarLike = None, reward_scale: float = 1.0) -> None:
        self.pool = pool
        self.grammar = build_grammar(pool.calculator.panel.fields, grammar)
        self.reward_scale = reward_scale
        spaces = GameSpaces.of(self.grammar)
        self.observation_space = spaces.observation
        self.action_space = spaces.action
        self._games = Games(self.grammar, 1)

    def action_masks(self) -> np.ndarray:
        """(V,) bool: the tokens after which the formula can still be completed."""
        return self._games.masks()[0]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a new game. Nothing in a game is random; `seed` seeds `np_random` as usual."""
        super().reset(seed=seed, options=options)
        self._games.reset(np.array([0]))
        return self._observation(), {}

    def step(self, action: np.int64 | int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Append a token; see the module's text for rewards and `info`."""
        if not self.action_masks()[int(action)]:
            info = {"expression": None, "reason": ILLEGAL_ACTION, "admitted": False}
            return self._observation(), -self.reward_scale, True, False, info
        finished = self._games.step(np.array([int(action)]))
        if not finished[0]:
            return self._observation(), 0.0, False, False, {}
        expression = self._games.expression(0)
        offer = self.pool.offer(expression)
        info = {"expression": str(expression), "reason": str(offer.reason), "admitted": bool(offer.admitted)}
        return self._observation(), float(offer.reward) * self.reward_scale, True, False, info

    def _observation(self) -> np.ndarray:
        return self._games.tokens[0].copy()
