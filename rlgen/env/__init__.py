"""The token game as reinforcement-learning environments, one game or hundreds."""

from rlgen.env.single import AlphaEnv
from rlgen.env.spaces import build_grammar
from rlgen.env.vector import AlphaVecEnv, Finished

__all__ = ["AlphaEnv", "AlphaVecEnv", "Finished", "build_grammar"]
