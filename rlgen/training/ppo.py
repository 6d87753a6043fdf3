"""MaskablePPO over token games, its iteration split into phases that are one call each.

1. `generate`: the policy plays all games in lock-step until the rollout is full. One token costs
   one position, since the keys and values of each game are kept; they are computed afresh at the
   start of a rollout, because games in progress carry over an update and the weights have changed.
2. `score`: the formulas that ended are evaluated together and offered to the pool in the order
   (step, game); the offers' rewards go into the rollout, then returns and advantages follow.
3. `train`: the PPO update of sb3-contrib on the same loss, but over whole episodes: one causal
   pass over an episode's tokens gives all of its samples.

`learn()` of sb3-contrib runs these in turn. A saved model is sb3-contrib's zip and loads as a
plain `MaskablePPO` as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.buffers import MaskableRolloutBuffer
from sb3_contrib.common.maskable.utils import get_action_masks
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import explained_variance
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor
from torch.nn import functional

from rlgen.alphapool import Offer
from rlgen.env import AlphaVecEnv, Finished
from rlgen.errors import RlgenError
from rlgen.expression import PAD
from rlgen.policy import TransformerPolicy
from rlgen.training.episodes import Episodes, Minibatch


class AlphaPPO(MaskablePPO):
    """`MaskablePPO` with `generate`, `score` and `train`; arguments and files are its own.

    The policy is a `TransformerPolicy`. With an `AlphaVecEnv` in deferred mode rewards come from
    `score`, with any other environment from its steps.
    """

    policy: TransformerPolicy

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.waiting: list[Finished] = []
        """Formulas of the rollout whose reward `score` has still to fill in."""
        self._last_values: Tensor | None = None
        self._weights: list[torch.nn.Parameter] = []
        super().__init__(*args, **kwargs)

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "waiting", "_last_values", "_weights"]

    def begin(self) -> None:
        """Reset the games and the counters, as `learn()` does before its first rollout."""
        self._setup_learn(0, None)

    def run_state(self) -> dict[str, Any]:
        """What a run needs besides weights, games and generators to go on, as plain values and arrays."""
        if self._last_obs is None or self._last_episode_starts is None or self.ep_info_buffer is None:
            raise RuntimeError("run_state() comes after begin()")
        return {
            "num_timesteps": self.num_timesteps,
            "n_updates": self._n_updates,
            "observations": np.array(self._last_obs),
            "episode_starts": np.array(self._last_episode_starts),
            "episodes": [dict(episode) for episode in self.ep_info_buffer],
        }

    def set_run_state(self, state: dict[str, Any]) -> None:
        """Go on from `run_state()`; the games themselves are set by their own `set_state`."""
        self.begin()
        self.num_timesteps = int(state["num_timesteps"])
        self._n_updates = int(state["n_updates"])
        self._last_obs = np.array(state["observations"])
        self._last_episode_starts = np.array(state["episode_starts"])
        assert self.ep_info_buffer is not None
        self.ep_info_buffer.extend(dict(episode) for episode in state["episodes"])

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: RolloutBuffer,
        n_rollout_steps: int,
        use_masking: bool = True,
    ) -> bool:
        """`generate`, then `score`: what sb3-contrib's `learn()` calls before `train`."""
        if not self.generate(callback):
            return False
        self.score()
        callback.on_rollout_end()
        return True

    @torch.no_grad()
    def generate(self, callback: BaseCallback | None = None) -> bool:
        """Play `n_steps` tokens in every game; False if the callback stopped it.

        Raises:
            RuntimeError: a game allows no action, or the policy's numbers are not finite.
        """
        env, buffer, policy = self.env, self.rollout_buffer, self.policy
        if env is None or self._last_obs is None:
            raise RuntimeError("generate() needs an environment that has been reset")
        policy.set_training_mode(False)
        buffer.reset()
        if callback is not None:
            callback.on_rollout_start()
        decoder = policy.decoder(env.num_envs)
        observations = np.asarray(self._last_obs)
        # Everything but the last tokens, which the first step reads.
        decoder.prefill(observations, np.count_nonzero(observations != PAD, axis=1) - 1)
        ids, positions = self._last_tokens(observations)
        for _ in range(self.n_steps):
            masks = get_action_masks(env)
            # An empty row would silently become a uniform choice among forbidden actions.
            if not masks.any(axis=1).all():
                raise RuntimeError(f"game {int(masks.any(axis=1).argmin())} allows no action")
            hidden = decoder.step(ids, positions)
            actions, values, log_probabilities = policy.act(
                hidden, torch.as_tensor(masks, device=self.device)
            )
            played = actions.cpu().numpy()
            after, rewards, dones, infos = env.step(played)
            observations = np.asarray(after)
            self.num_timesteps += env.num_envs
            if callback is not None:
                callback.update_locals(locals())
                if not callback.on_step():
                    return False
            self._update_info_buffer(infos, dones)
            buffer.add(
                self._last_obs,
                played,
                rewards,
                self._last_episode_starts,
                values,
                log_probabilities,
                action_masks=masks,
            )
            self._last_obs = observations
            self._last_episode_starts = dones
            ids, positions = self._last_tokens(observations)
        self._last_values = policy.values(decoder.step(ids, positions))
        inner = env.unwrapped
        self.waiting = inner.take_finished() if isinstance(inner, AlphaVecEnv) else []
        return True

    def _last_tokens(self, observations: np.ndarray) -> tuple[Tensor, Tensor]:
        """The last token (n,) of each observation, and its position (n,)."""
        positions = np.count_nonzero(observations != PAD, axis=1) - 1
        last = observations[np.arange(len(observations)), positions]
        return torch.as_tensor(last, device=self.device), torch.as_tensor(positions, device=self.device)

    def score(self) -> list[Offer]:
        """Offer the rollout's formulas to the pool; fill in rewards, returns and advantages.

        Returns:
            the offers in the order (step, game); empty where the environment scored itself.
        """
        buffer, finished = self.rollout_buffer, self.waiting
        offers: Sequence[Offer] = []
        if finished and self.env is not None:
            env = self.env.unwrapped
            # The ledger's step: tokens written, over all games, when the formula ended.
            before = self.num_timesteps - self.n_steps * self.n_envs
            offers = env.pool.offer_batch(  # type: ignore[attr-defined]
                [game.expression for game in finished],
                [before + (game.step + 1) * self.n_envs for game in finished],
            )
            for game, offer in zip(finished, offers, strict=True):
                reward = np.float32(offer.reward * env.reward_scale)  # type: ignore[attr-defined]
                buffer.rewards[game.step, game.game] = reward
                game.episode["r"] = float(reward)
        self.waiting = []
        if self._last_values is None or self._last_episode_starts is None:
            raise RuntimeError("score() comes after generate()")
        buffer.compute_returns_and_advantage(self._last_values, self._last_episode_starts)
        return list(offers)

    def train(self) -> None:
        """The PPO update over the rollout's episodes; the loss is sb3-contrib's.

        Raises:
            RlgenError: the loss or the gradient is not finite; the weights are then still those
                before that step.
        """
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        episodes = Episodes(self.rollout_buffer, self.device)
        self._weights = list(self.policy.parameters())
        statistics: list[dict[str, Tensor]] = []
        for epoch in range(self.n_epochs):
            finished = self._pass(episodes, epoch, statistics)
            self._n_updates += 1
            if not finished:
                break
        self._record(statistics)

    def _pass(self, episodes: Episodes, epoch: int, statistics: list[dict[str, Tensor]]) -> bool:
        """One pass over the episodes; False if the policy has moved further than `target_kl` allows."""
        for minibatch in episodes.minibatches(self.batch_size):
            loss, numbers = self.loss(minibatch)
            statistics.append(numbers)
            if self.target_kl is not None and numbers["approx_kl"] > 1.5 * self.target_kl:
                return False
            self._step(loss, epoch)
        return True

    def loss(self, minibatch: Minibatch) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of MaskablePPO on a minibatch, and what is logged of it (no gradients)."""
        clip_range = self.clip_range(self._current_progress_remaining)  # type: ignore[operator]
        values, log_probabilities, entropies = self.policy.evaluate_episodes(
            minibatch.ids, minibatch.rows, minibatch.positions, minibatch.actions, minibatch.masks
        )
        advantages = minibatch.advantages
        if self.normalize_advantage and len(advantages) > 1:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        log_ratio = log_probabilities - minibatch.old_log_probabilities
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1 - clip_range, 1 + clip_range)
        policy_loss = -torch.min(advantages * ratio, advantages * clipped).mean()
        if self.clip_range_vf is not None:
            limit = self.clip_range_vf(self._current_progress_remaining)  # type: ignore[operator]
            values = minibatch.old_values + (values - minibatch.old_values).clamp(-limit, limit)
        value_loss = functional.mse_loss(minibatch.returns, values)
        entropy_loss = -entropies.mean()
        loss = policy_loss + self.ent_coef * entropy_loss + self.vf_coef * value_loss
        with torch.no_grad():
            numbers = {
                "policy_gradient_loss": policy_loss.detach(),
                "value_loss": value_loss.detach(),
                "entropy_loss": entropy_loss.detach(),
                "loss": loss.detach(),
                # Schulman, "Approximating KL divergence" (2020): the estimator k3.
                "approx_kl": ((ratio - 1) - log_ratio).mean(),
                "clip_fraction": ((ratio - 1).abs() > clip_range).float().mean(),
            }
        return loss, numbers

    def _step(self, loss: Tensor, epoch: int) -> None:
        """One step of the optimizer, unless a number is not finite."""
        # A list made once, and gradients dropped by hand: small minibatches would spend a tenth of
        # their time in the conveniences of Module and Optimizer.
        weights = self._weights
        for weight in weights:
            weight.grad = None
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(weights, self.max_grad_norm)
        if not torch.isfinite(norm):
            what = "gradient" if torch.isfinite(loss) else "loss"
            value = norm.item() if what == "gradient" else loss.item()
            raise RlgenError(
                f"training: the {what} was {value} at step {self.num_timesteps}, epoch {epoch + 1}; "
                f"a smaller training.learning_rate or training.reward_scale may help"
            )
        self.policy.optimizer.step()

    def _record(self, statistics: list[dict[str, Tensor]]) -> None:
        for name in statistics[0]:
            values = torch.stack([numbers[name] for numbers in statistics]).cpu().numpy()
            self.logger.record(f"train/{name}", float(values[-1] if name == "loss" else values.mean()))
        buffer: MaskableRolloutBuffer = self.rollout_buffer
        variance = explained_variance(buffer.values.flatten(), buffer.returns.flatten())
        self.logger.record("train/explained_variance", float(variance))
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        clip_range = self.clip_range(self._current_progress_remaining)  # type: ignore[operator]
        self.logger.record("train/clip_range", clip_range)
