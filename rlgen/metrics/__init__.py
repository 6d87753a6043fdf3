"""IC, rank IC and their kin on plain arrays: definitions in docs/metrics.md.

1. `functions`: the public metrics, one function each; `score` computes all of them at once.
2. `target`: a forward return prepared once (masked, ranked) for measuring many factors.
3. `cpu` and `gpu`: per-bar numbers by numba `kernels` and by torch.
4. `summary`: from per-bar numbers to printed ones, in session order.

A new metric goes into `summary`, `Scores` and `functions`, with a twin in
tests/reference_metrics.py. Importing compiles nothing.
"""

from rlgen.metrics.bars import BarScores
from rlgen.metrics.cpu import zscore
from rlgen.metrics.functions import (
    by_stock_ic,
    coverage,
    ic,
    icir,
    mean_ic,
    pooled_ic,
    pooled_rank_ic,
    rank_ic,
    raw_pooled_ic,
    score,
    t_stat,
)
from rlgen.metrics.summary import session_sums, sum_over_bars
from rlgen.metrics.target import Scores, Target, default_min_names
from rlgen.metrics.threads import set_threads

__all__ = [
    "BarScores",
    "Scores",
    "Target",
    "by_stock_ic",
    "coverage",
    "default_min_names",
    "ic",
    "icir",
    "mean_ic",
    "pooled_ic",
    "pooled_rank_ic",
    "rank_ic",
    "raw_pooled_ic",
    "score",
    "session_sums",
    "set_threads",
    "sum_over_bars",
    "t_stat",
    "zscore",
]
