"""What a search needs, built from a configuration: panel, calculators, pool, games, model.

A calculator's values do not depend on its memory budget; the splits that are only scored now and
then get a smaller one than the training split.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from stable_baselines3.common.save_util import load_from_zip_file

from rlgen import metrics
from rlgen.alphapool import AlphaPool
from rlgen.calculator import Calculator, choose_device
from rlgen.config import Config
from rlgen.env import AlphaVecEnv, build_grammar
from rlgen.errors import CheckpointError
from rlgen.panel import Panel, load_panel
from rlgen.policy import TransformerPolicy
from rlgen.training.demo import prepare_synthetic
from rlgen.training.ppo import AlphaPPO
from rlgen.workers import available_threads


class Workshop:
    """The parts of a search; a context manager that ends their threads.

    Args:
        config: the configuration.
        prepare: makes data that is made, not found; for a dry run, nothing.
        spill_folder: where arrays go that the memory budget has no room for; None: the system's
            folder for temporary files.

    Attributes:
        panel: all bars.
        calculators: by split, `train` first.
        pool: empty, on the training split.
        env: the games.
        model: untrained.
        device: of values and networks.
        threads: of torch.
    """

    def __init__(
        self,
        config: Config,
        prepare: Callable[[Config], object] = prepare_synthetic,
        spill_folder: Path | None = None,
    ) -> None:
        self.config = config
        self.device = choose_device(config.calculator.device)
        self.threads = config.training.threads or available_threads()
        torch.set_num_threads(self.threads)
        metrics.set_threads(config.calculator.threads)
        # Checks of every sample's shape and support would take a third of the time of playing.
        torch.distributions.Distribution.set_default_validate_args(False)
        prepare(config)
        self.panel: Panel = load_panel(config)
        grammar = build_grammar(self.panel.fields, config.grammar)
        self.calculators: dict[str, Calculator] = {}
        for name in self.panel.split_names:
            # At most three splits: together they stay within the budget.
            budget = config.calculator.memory_budget * (6 if name == "train" else 1) // 8
            self.calculators[name] = Calculator(
                self.panel.split(name),
                config.calculator.device,
                config.calculator.threads,
                budget,
                spill_folder=spill_folder,
            )
        self.pool = AlphaPool(self.calculators["train"], **config.pool.model_dump())
        training = config.training
        self.env = AlphaVecEnv(self.pool, grammar, training.n_envs, training.reward_scale, deferred=True)
        self.model = AlphaPPO(
            TransformerPolicy,
            self.env,
            learning_rate=training.learning_rate,
            n_steps=training.n_steps,
            batch_size=training.batch_size,
            n_epochs=training.n_epochs,
            gamma=training.gamma,
            gae_lambda=training.gae_lambda,
            clip_range=training.clip_range,
            ent_coef=training.entropy_coefficient,
            vf_coef=training.value_coefficient,
            max_grad_norm=training.max_gradient_norm,
            target_kl=training.target_kl,
            policy_kwargs=config.policy.model_dump(),
            seed=training.seed,
            device=self.device,
        )

    def identity(self) -> dict[str, Any]:
        """What a checkpoint must share with this search to be continued by it."""
        return {"panel": self.panel.fingerprint, "grammar": self.env.grammar.describe()}

    def load_policy(self, path: Path) -> None:
        """Weights and optimizer from a policy's zip, without unpickling anything.

        Raises:
            CheckpointError: the file holds another network.
        """
        try:
            _, parameters, _ = load_from_zip_file(path, device=self.device, load_data=False)
            self.model.set_parameters(parameters, exact_match=True, device=self.device)
        except (ValueError, RuntimeError, KeyError) as error:
            raise CheckpointError(
                f"{path}: not this network's weights: {' '.join(str(error).split())}"
            ) from None

    def close(self) -> None:
        """End the calculators' threads."""
        for calculator in self.calculators.values():
            calculator.close()

    def __enter__(self) -> Workshop:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
