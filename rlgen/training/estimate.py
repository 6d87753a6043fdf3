"""A dry run: everything is loaded and built, one iteration is tried on a part, nothing is written.

1. Synthetic bars, where configured, go to a temporary folder; no panel store is written.
2. One rollout is played; some of its formulas are scored, after a few that pay for compiling; one
   pass of learning is done. Their times are scaled to an iteration and to the run.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rlgen.config import Config
from rlgen.training.workshop import Workshop

WARM_UP = 8
"""Formulas scored before the clock runs: the first use of an operator compiles its kernel."""
TRIED = 32
"""Formulas timed."""


def estimate(config: Config) -> str:
    """Sizes, and an estimate of time and memory, as lines for a terminal.

    Raises:
        As `train`.
    """
    with (
        tempfile.TemporaryDirectory(prefix="rlgen-") as folder,
        Workshop(_elsewhere(config, Path(folder))) as workshop,
    ):
        return "\n".join([str(workshop.panel.report), "", *_sizes(workshop), *_times(workshop)])


def _elsewhere(config: Config, folder: Path) -> Config:
    """The configuration with all that it would write put into `folder`."""
    data: dict[str, Any] = {"store": None}
    changes: dict[str, Any] = {}
    if config.synthetic is not None:
        there = folder / "synthetic.parquet"
        options = {
            key: str(there) if str(value) == str(config.synthetic.path) else value
            for key, value in config.data.options.items()
        }
        data["options"] = options
        changes["synthetic"] = config.synthetic.model_copy(update={"path": there})
    return config.model_copy(update={"data": config.data.model_copy(update=data), **changes})


def _sizes(workshop: Workshop) -> list[str]:
    panel, model, training = workshop.panel, workshop.model, workshop.config.training
    n_bars, n_stocks = panel.shape
    vocabulary = workshop.env.grammar.vocabulary
    per_iteration = training.n_envs * training.n_steps
    lines = [
        f"panel: {len(panel.fields)} fields × {n_bars} bars × {n_stocks} stocks, "
        f"{in_bytes(sum(values.nbytes for values in panel.fields.values()))}"
    ]
    lines += [
        f"  {name}: {len(calculator.panel.bars)} bars from {calculator.panel.bars[0]} to "
        f"{calculator.panel.bars[-1]}"
        for name, calculator in workshop.calculators.items()
    ]
    lines += [
        f"formulas: {vocabulary.size} tokens, at most {workshop.env.grammar.token_limit} each",
        f"policy: {sum(weight.numel() for weight in model.policy.parameters())} weights",
        f"device {workshop.device}, {workshop.threads} threads",
        f"iterations: {-(-training.total_steps // per_iteration)} of {per_iteration} steps",
    ]
    return lines


def _times(workshop: Workshop) -> list[str]:
    model, training = workshop.model, workshop.config.training
    model.begin()
    clock = [time.monotonic()]
    model.generate()
    clock.append(time.monotonic())
    formulas = model.waiting
    workshop.pool.offer_batch([game.expression for game in formulas[:WARM_UP]])
    model.waiting = formulas[WARM_UP : WARM_UP + TRIED] or formulas
    tried = max(len(model.waiting), 1)
    clock.append(time.monotonic())
    model.score()
    clock.append(time.monotonic())
    model.n_epochs = 1
    model.train()
    clock.append(time.monotonic())
    generate, score, learn = clock[1] - clock[0], clock[3] - clock[2], clock[4] - clock[3]
    score *= len(formulas) / tried
    learn *= training.n_epochs
    iterations = -(-training.total_steps // (training.n_envs * training.n_steps))
    total = iterations * (generate + score + learn)
    # The caches fill up to the budget in the course of a run.
    peak = peak_memory() + workshop.config.calculator.memory_budget
    return [
        f"per iteration, about: {generate:.2f} s playing, {score:.2f} s scoring {len(formulas)} formulas, "
        f"{learn:.2f} s learning",
        f"whole run, about: {in_time(total)}",
        f"memory: {in_bytes(peak_memory())} by now, up to about {in_bytes(peak)} with the budget used up",
        "nothing was written",
    ]


def peak_memory() -> int:
    """Bytes of memory that this process has held at most."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def in_bytes(number: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "KB", "MB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} GB"


def in_time(seconds: float) -> str:
    """A duration for people."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
