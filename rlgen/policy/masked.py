"""A categorical distribution over the allowed actions, as plain functions.

The numbers are those of sb3-contrib's `MaskableCategorical`: a forbidden action's logit becomes
-1e8 and the rest is normalised. Only what one pass needs is computed, once, without the checks
and the intermediate objects of `torch.distributions`.
"""

from __future__ import annotations

import torch
from torch import Tensor

FORBIDDEN = -1e8
"""The logit of a forbidden action, sb3-contrib's value."""


def masked_log_softmax(logits: Tensor, masks: Tensor) -> Tensor:
    """Log-probabilities (N, V) of logits (N, V) where masks (N, V) bool allows; about -1e8 elsewhere."""
    return torch.where(masks, logits, FORBIDDEN).log_softmax(dim=-1)


def sample(log_probabilities: Tensor) -> Tensor:
    """One action (N,) per row, drawn with torch's generator of the tensor's device."""
    return torch.multinomial(log_probabilities.exp(), 1, True).squeeze(-1)


def log_probability(log_probabilities: Tensor, actions: Tensor) -> Tensor:
    """The entries (N,) of the actions (N,) taken."""
    return log_probabilities.gather(-1, actions[:, None]).squeeze(-1)


def entropy(log_probabilities: Tensor, masks: Tensor) -> Tensor:
    """Entropy (N,) in nats; forbidden actions add exactly nothing."""
    plogp = log_probabilities * log_probabilities.exp()
    return -torch.where(masks, plogp, 0.0).sum(-1)
