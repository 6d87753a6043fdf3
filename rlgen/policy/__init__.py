"""The network that writes formulas: a causal transformer and the policy around it."""

from rlgen.policy.policy import TransformerPolicy
from rlgen.policy.transformer import CausalTransformer, Decoder

__all__ = ["CausalTransformer", "Decoder", "TransformerPolicy"]
