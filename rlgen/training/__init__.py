"""Training: the four phases, the run loop, the run folder, and scoring with what came out.

1. `ppo`: the phases of an iteration; `episodes`: a rollout as whole episodes.
2. `trainer`: the loop; `workshop`: what it works with; `summary`: what it ends with.
3. `run_folder`, `checkpoint` (with `tree`), `writers`: files; `interrupt`: signals.
4. `demo`: synthetic bars with planted formulas; `estimate`: the dry run; `score`: a saved pool's
   signal on new bars.
"""

from rlgen.training.ppo import AlphaPPO
from rlgen.training.score import score_pool
from rlgen.training.trainer import RunResult, train

__all__ = ["AlphaPPO", "RunResult", "score_pool", "train"]
