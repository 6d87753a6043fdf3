"""The policy: a causal transformer whose last token's vector gives the action and the value.

`TransformerPolicy` is an ordinary policy of sb3-contrib's `MaskablePPO`: the transformer is its
features extractor, which reads the hidden vector at the last token of an observation, and two
linear heads stand on it. Two ways of asking for many states at once are added, with the same
numbers up to rounding:

- `evaluate_episodes`: all states of an episode from one pass over its tokens (learning);
- `decoder()` with `act`: one token at a time with cached keys and values (playing).
"""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor, nn

from rlgen.expression import PAD
from rlgen.policy import masked
from rlgen.policy.transformer import CausalTransformer, Decoder


class LastToken(BaseFeaturesExtractor):
    """Observations (N, L) of token ids to the hidden vector (N, d) at each row's last token."""

    def __init__(self, observation_space: spaces.Box, **transformer: Any) -> None:
        super().__init__(observation_space, transformer["d_model"])
        vocabulary_size = int(observation_space.high.max()) + 1
        self.transformer = CausalTransformer(vocabulary_size, observation_space.shape[0], **transformer)

    def forward(self, observations: Tensor) -> Tensor:
        """Hidden vectors (N, d); ids may come as floats, as stable-baselines3 hands them over."""
        ids = observations.long()
        content = ids != PAD
        columns = torch.arange(ids.shape[1], device=ids.device)
        last = (content * columns).amax(dim=1)
        # Columns that are padding in every row change nothing and cost time.
        width = int(last.max()) + 1
        hidden = self.transformer(ids[:, :width])
        return hidden[torch.arange(len(ids), device=ids.device), last]


class TransformerPolicy(MaskableActorCriticPolicy):
    """A `MaskablePPO` policy on observations of token ids: Box (L,) whose `high` is V - 1.

    Args:
        observation_space: the environment's.
        action_space: the environment's, `Discrete(V)`.
        lr_schedule: stable-baselines3's learning rate schedule.
        d_model: width.
        n_layers: blocks.
        n_heads: attention heads.
        dropout: dropout; above 0, playing and learning disagree.
        **others: of `MaskableActorCriticPolicy`, such as `optimizer_class`.
    """

    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Schedule,
        d_model: int = 64,
        n_layers: int = 2,
        n_heads: int = 4,
        dropout: float = 0.0,
        **others: Any,
    ) -> None:
        self.sizes: dict[str, Any] = {
            "d_model": d_model,
            "n_layers": n_layers,
            "n_heads": n_heads,
            "dropout": dropout,
        }
        if others.get("optimizer_class", torch.optim.Adam) is torch.optim.Adam:
            # One kernel for all weights: four times faster than the loop over them, same numbers.
            others["optimizer_kwargs"] = {"eps": 1e-5, "fused": True} | (others.get("optimizer_kwargs") or {})
        others |= {
            "net_arch": [],
            "ortho_init": False,
            "features_extractor_class": LastToken,
            "features_extractor_kwargs": dict(self.sizes),
        }
        super().__init__(observation_space, action_space, lr_schedule, **others)

    def _build(self, lr_schedule: Schedule) -> None:
        super()._build(lr_schedule)
        # Near-uniform over the allowed actions at the start, and values near zero. The optimizer
        # holds references to these very tensors, so they are filled in place.
        for head in (self.action_net, self.value_net):
            assert isinstance(head, nn.Linear)
            nn.init.normal_(head.weight, std=0.01 / self.features_dim**0.5)
            nn.init.zeros_(head.bias)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        fixed = ("net_arch", "ortho_init", "features_extractor_class", "features_extractor_kwargs")
        return {key: value for key, value in data.items() if key not in fixed} | self.sizes

    @property
    def transformer(self) -> CausalTransformer:
        """The network below the two heads."""
        return self.features_extractor.transformer  # type: ignore[return-value]

    def decoder(self, n_rows: int) -> Decoder:
        """A key and value cache for `n_rows` games; it reads the weights anew at every step."""
        return Decoder(self.transformer, n_rows)

    @torch.no_grad()
    def act(self, hidden: Tensor, masks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Draw an action for each hidden vector (N, d) under masks (N, V) bool.

        Returns:
            actions (N,) int64, values (N,), log-probabilities (N,) of the actions.
        """
        log_probabilities = masked.masked_log_softmax(self.action_net(hidden), masks)
        actions = masked.sample(log_probabilities)
        return actions, self.values(hidden), masked.log_probability(log_probabilities, actions)

    def values(self, hidden: Tensor) -> Tensor:
        """Values (N,) of hidden vectors (N, d)."""
        return self.value_net(hidden).squeeze(-1)

    def evaluate_episodes(
        self, ids: Tensor, rows: Tensor, positions: Tensor, actions: Tensor, masks: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """`evaluate_actions` for n states that are prefixes of M episodes, in one pass over those.

        Args:
            ids: (M, L) int64 token ids of the episodes, padded on the right.
            rows: (n,) the episode of each state.
            positions: (n,) the position of each state's last token.
            actions: (n,) the action taken there.
            masks: (n, V) bool, the actions allowed there.

        Returns:
            values (n,), log-probabilities (n,), entropies (n,), with gradients.
        """
        # One index into the flat positions: its gradient is a plain scatter.
        hidden = self.transformer(ids).flatten(0, 1).index_select(0, rows * ids.shape[1] + positions)
        log_probabilities = masked.masked_log_softmax(self.action_net(hidden), masks)
        return (
            self.values(hidden),
            masked.log_probability(log_probabilities, actions),
            masked.entropy(log_probabilities, masks),
        )
