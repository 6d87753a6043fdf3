"""What a run ends with: the best pool, its scores on every split, the oracle's beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rlgen.alphapool import AlphaPool, Member
from rlgen.metrics import Scores
from rlgen.training.demo import oracle_pool
from rlgen.training.run_folder import RunFolder
from rlgen.training.workshop import Workshop

COLUMNS = (
    ("pooled IC", "pooled_ic", ".4f"),
    ("rank", "pooled_rank_ic", ".4f"),
    ("raw", "raw_pooled_ic", ".4f"),
    ("mean IC", "mean_ic", ".4f"),
    ("ICIR", "icir", ".3f"),
    ("t", "t_stat", ".1f"),
    ("coverage", "coverage", ".3f"),
)
"""Heading, attribute of `Scores`, format."""


@dataclass(frozen=True)
class RunResult:
    """What a run ended with."""

    out: Path
    """The run folder."""
    factors: tuple[Member, ...]
    """The pool that was best on the validation split; ICs are those on the training split."""
    scores: Mapping[str, Scores]
    """Its scores by split, on every bar."""
    oracle: Mapping[str, Scores]
    """Scores of the planted formulas by split; empty where nothing is planted."""
    steps: int
    """Tokens written."""
    seconds: float
    """Time of all iterations, those before a resumption included."""
    stopped_by: str | None
    """The signal that ended the run early."""
    chosen_on_valid: bool
    """Whether the validation split chose the pool."""

    def text(self) -> str:
        """The same for a terminal."""
        how = "best on the validation split" if self.chosen_on_valid else "as it ended"
        lines = [f"\npool of {len(self.factors)}, {how}:", f"{'weight':>9} {'IC':>8} {'rank IC':>8}  formula"]
        lines += [
            f"{member.weight:>9.4f} {member.ic:>8.4f} {member.rank_ic:>8.4f}  {member.expression}"
            for member in sorted(self.factors, key=lambda member: -abs(member.weight))
        ]
        lines += ["", f"{'':8}" + "".join(f"{heading:>11}" for heading, _, _ in COLUMNS)]
        for split, scores in self.scores.items():
            lines.append(row(split, scores))
            if split in self.oracle:
                lines.append(row("  oracle", self.oracle[split]))
        if self.oracle:
            lines.append("oracle: the planted formulas themselves, with their own weights")
        lines.append(f"{self.steps} steps in {self.seconds:.1f} s")
        return "\n".join(lines)


def row(name: str, scores: Scores) -> str:
    """One line of the table of scores."""
    return f"{name:8}" + "".join(f"{getattr(scores, key):>11{form}}" for _, key, form in COLUMNS)


def summarise(
    workshop: Workshop, folder: RunFolder, steps: int, seconds: float, stopped_by: str | None
) -> RunResult:
    """Score the folder's pool, and the oracle if there is one, on every split."""
    calculators = workshop.calculators
    train = calculators["train"]
    pool = AlphaPool.load(folder.pool, train)
    oracle = oracle_pool(workshop.config, train)
    return RunResult(
        out=folder.root,
        factors=tuple(pool.factors),
        scores={name: pool.scores(calculator) for name, calculator in calculators.items()},
        oracle={}
        if oracle is None
        else {name: oracle.scores(calculator) for name, calculator in calculators.items()},
        steps=steps,
        seconds=seconds,
        stopped_by=stopped_by,
        chosen_on_valid="valid" in calculators,
    )
