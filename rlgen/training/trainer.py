"""A training run: from a configuration to a run folder.

1. `Workshop` opens the data and builds what a search needs: calculators of the splits, pool, games,
   model.
2. `Run` repeats iterations (generate, score, train), logs each, evaluates the pool on the
   validation split every few and keeps the best, and writes a checkpoint every N.
3. A signal lets the phase at hand finish. If that is `generate`, the iteration is taken back, else
   it is completed; then comes a checkpoint, and the run ends with a usable folder.
4. A resumed run restores the newest whole checkpoint and cuts its logs back to it. An iteration
   depends on nothing else, so the run ends as if it had never been interrupted.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from stable_baselines3.common.logger import Logger

from rlgen.alphapool import Ledger, Offer
from rlgen.config import Config
from rlgen.errors import CheckpointError
from rlgen.files import write_json, write_text
from rlgen.training.checkpoint import (
    list_checkpoints,
    random_state,
    set_random_state,
    usable_checkpoints,
    write_checkpoint,
)
from rlgen.training.estimate import estimate
from rlgen.training.interrupt import StopRequest
from rlgen.training.run_folder import RunFolder, describe_environment
from rlgen.training.summary import RunResult, summarise
from rlgen.training.workshop import Workshop
from rlgen.training.writers import Console, JsonLines, TensorBoard


def train(
    config: Config, out: str | Path, *, resume: bool = False, dry_run: bool = False
) -> RunResult | None:
    """Train as `config` says, into the run folder `out`.

    Args:
        config: the whole configuration.
        out: the run folder; made if absent.
        resume: go on from the newest checkpoint in `out`; without one, start over.
        dry_run: load, check, print sizes and an estimate of time and memory; write nothing.

    Returns:
        what came out; None after a dry run. `stopped_by` names the signal that ended the run early.

    Raises:
        CheckpointError: `out` holds a run and `resume` is off, or one that `config` does not continue.
        ConfigError, DataError, ExpressionError: the configuration or the data cannot be used.
        RlgenError: training broke down (a loss that is not finite).
    """
    folder = RunFolder(out)
    if resume:
        folder.check_same(config)
    else:
        folder.check_free()
    if dry_run:
        print(estimate(config), flush=True)
        return None
    started = time.monotonic()
    stop = StopRequest()
    with Workshop(config, spill_folder=folder.nearest) as workshop:
        print(workshop.panel.report, flush=True)
        if (stride := config.pool.bar_stride) > 1:
            print(f"ICs in training: every {stride}th bar; final ones: every bar", flush=True)
        run = Run(workshop, folder, resume)
        try:
            with stop:
                run.loop(stop)
        finally:
            run.close()
        result = summarise(workshop, folder, run.model.num_timesteps, run.seconds, stop.name)
        print(result.text(), flush=True)
        print(f"wall time {time.monotonic() - started:.1f} s; run folder {folder.root}", flush=True)
    return result


class Run:
    """The loop of one run.

    Args:
        workshop: what is trained, freshly built.
        folder: where it goes.
        resume: go on from the newest checkpoint.

    Raises:
        CheckpointError: the folder cannot be used.
    """

    def __init__(self, workshop: Workshop, folder: RunFolder, resume: bool) -> None:
        self.workshop, self.folder = workshop, folder
        self.config = workshop.config.training
        self.model, self.pool, self.games = workshop.model, workshop.pool, workshop.env.games
        self.iteration = 0
        self.seconds = 0.0
        """Wall time of all iterations, those before a resumption included."""
        self.best: dict[str, Any] = {"value": -math.inf, "step": 0, "pool": None}
        self._evaluated: tuple[str, dict[str, float]] | None = None
        self._logger: Logger | None = None
        state = self._find_state() if resume else None
        if state is not None and state["step"] >= self.config.total_steps:
            # Done already: nothing is opened, so that nothing changes.
            self.model.begin()
            self.model.num_timesteps, self.seconds = state["step"], state["seconds"]
        else:
            self._open(state)
            self.model.begin()
            if state is not None:
                self._restore(state)
        self.console = Console(self.config.total_steps, self.model.num_timesteps)

    # -- beginning ------------------------------------------------------------------------------

    def _find_state(self) -> dict[str, Any] | None:
        """The state to go on from; None: there is none, start over."""
        for path, state in usable_checkpoints(self.folder.checkpoints, lambda line: print(line, flush=True)):
            for key, now in self.workshop.identity().items():
                if state["identity"].get(key) != now:
                    raise CheckpointError(
                        f"{path}: another {key}: was {state['identity'].get(key)!r}, is {now!r} now"
                    )
            self.workshop.load_policy(path / "policy.zip")
            print(f"resuming from {path}, step {state['step']}", flush=True)
            return state
        if list_checkpoints(self.folder.checkpoints):
            raise CheckpointError(
                f"{self.folder.checkpoints}: no checkpoint is whole; start anew in another --out"
            )
        print(f"{self.folder.root}: no checkpoint to resume from; starting over", flush=True)
        self.folder.clear()
        return None

    def _open(self, state: dict[str, Any] | None) -> None:
        """Make the folder and open its logs, cut back to where `state` left them."""
        folder, workshop = self.folder, self.workshop
        try:
            folder.root.mkdir(parents=True, exist_ok=True)
            write_text(folder.config, workshop.config.to_yaml())
            environment = describe_environment(workshop.panel.fingerprint, workshop.device, workshop.threads)
            write_json(folder.environment, environment)
            with folder.metrics.open("ab") as file:
                file.truncate(0 if state is None else state["metrics_position"])
            self.pool.ledger = Ledger(folder.ledger, 0 if state is None else state["pool"]["ledger_position"])
            self._json_lines = JsonLines(folder.metrics)
            self._logger = Logger(str(folder.root), [self._json_lines, TensorBoard(folder.tensorboard)])
        except OSError as error:
            raise CheckpointError(f"{folder.root}: cannot be written: {error.strerror or error}") from None
        self.model.set_logger(self._logger)

    def _restore(self, state: dict[str, Any]) -> None:
        """Become the run that wrote `state`."""
        self.iteration, self.seconds = state["iteration"], state["seconds"]
        self.best = dict(state["best"])
        if self.best["value"] is None:
            self.best["value"] = -math.inf
        if self.best["pool"] is not None:
            write_text(self.folder.pool, self.best["pool"])
        self.pool.set_state(state["pool"])
        self._set_moment(state["moment"])

    def _moment(self) -> dict[str, Any]:
        """What changes while games are played: generators, games, counters."""
        return {"random": random_state(), "games": self.games.state(), "model": self.model.run_state()}

    def _set_moment(self, moment: dict[str, Any]) -> None:
        self.model.set_run_state(moment["model"])
        self.games.set_state(moment["games"])
        self.workshop.env.take_finished()
        # Last: whatever else is set may have drawn.
        set_random_state(moment["random"])

    # -- iterations -----------------------------------------------------------------------------

    def loop(self, stop: StopRequest) -> None:
        """Iterate until the steps are done or a signal came."""
        if self._logger is None:
            return
        while not self.finished:
            moment = self._moment()
            done = self.iterate(stop)
            if not done:
                self._set_moment(moment)
            if stop.name is not None:
                self.console.line(f"was asked to stop by {stop.name}: writing a checkpoint")
                break
            if self.iteration % self.config.checkpoint_every == 0 and not self.finished:
                self.checkpoint()
        self.checkpoint()

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return self.model.num_timesteps >= self.config.total_steps

    def iterate(self, stop: StopRequest) -> bool:
        """One iteration; False if a signal came while games were played, so that it does not count."""
        times = [time.monotonic()]
        evaluations = self.pool.evaluations
        self.model.generate()
        times.append(time.monotonic())
        if stop.name is not None:
            return False
        offers = self.model.score()
        times.append(time.monotonic())
        self.model.train()
        times.append(time.monotonic())
        self.iteration += 1
        if self.iteration % self.config.evaluate_every == 0 or self.finished:
            self.evaluate()
        times.append(time.monotonic())
        self.seconds += times[-1] - times[0]
        for name, begin, end in zip(
            ("generate", "score", "train", "evaluate"), times, times[1:], strict=False
        ):
            self.model.logger.record(f"time/{name}", end - begin)
        self._record(offers, times[-1] - times[0], self.pool.evaluations - evaluations)
        return True

    def evaluate(self) -> None:
        """Score the pool on the validation split; keep it as `pool.json` if it is the best so far.

        Without a validation split `pool.json` is the pool as it is.
        """
        calculator = self.workshop.calculators.get("valid")
        if len(self.pool) == 0:
            return
        self.pool.save(self.folder.pool_last)
        now = self.folder.pool_last.read_text(encoding="utf-8")
        if calculator is None:
            write_text(self.folder.pool, now)
            self.best = {"value": -math.inf, "step": self.model.num_timesteps, "pool": now}
            return
        if self._evaluated is None or self._evaluated[0] != now:
            self._evaluated = now, self._validate(calculator)
        numbers = self._evaluated[1]
        for name, number in numbers.items():
            self.model.logger.record(f"eval/valid_{name}", number)
        if numbers["objective"] > self.best["value"]:
            self.best = {"value": numbers["objective"], "step": self.model.num_timesteps, "pool": now}
            write_text(self.folder.pool, now)
        self.model.logger.record("eval/best_objective", self.best["value"])

    def _validate(self, calculator: Any) -> dict[str, float]:
        scores = self.pool.scores(calculator)
        weights = self.workshop.config.pool
        # The pool's own objective (docs/metrics.md): what is not covered counts as zero.
        objective = scores.coverage * (
            weights.ic_weight * zero_if_nan(scores.pooled_ic)
            + weights.rank_ic_weight * zero_if_nan(scores.pooled_rank_ic)
            + weights.raw_ic_weight * zero_if_nan(scores.raw_pooled_ic)
        )
        return {
            "objective": objective,
            "pooled_ic": scores.pooled_ic,
            "pooled_rank_ic": scores.pooled_rank_ic,
            "raw_pooled_ic": scores.raw_pooled_ic,
            "mean_ic": scores.mean_ic,
            "icir": scores.icir,
            "coverage": scores.coverage,
        }

    def _record(self, offers: list[Offer], seconds: float, evaluations: int) -> None:
        record, pool, model = self.model.logger.record, self.pool, self.model
        record("train/iteration", self.iteration)
        episodes = list(model.ep_info_buffer or ())
        if episodes:
            record("train/episode_reward", sum(e["r"] for e in episodes) / len(episodes))
            record("train/episode_length", sum(e["l"] for e in episodes) / len(episodes))
        record("pool/size", len(pool))
        record("pool/objective", pool.objective)
        record("pool/pooled_ic", pool.worth.ic)
        record("pool/pooled_rank_ic", pool.worth.rank_ic)
        record("pool/evaluations", pool.evaluations)
        record("pool/offers", len(offers))
        for reason in sorted({str(offer.reason) for offer in offers}):
            record(f"pool/offers_{reason}", sum(offer.reason == reason for offer in offers))
        steps = model.n_steps * model.n_envs
        record("time/iteration", seconds)
        record("time/total", self.seconds)
        record("time/steps_per_second", steps / seconds)
        record("time/evaluations_per_second", evaluations / seconds)
        shown = {
            "pool": str(len(pool)),
            "ic": f"{pool.worth.ic:.4f}",
            "valid": f"{self._evaluated[1]['pooled_ic']:.4f}" if self._evaluated else "-",
            "evaluated": str(pool.evaluations),
            "steps/s": f"{steps / seconds:.0f}",
        }
        model.logger.dump(step=model.num_timesteps)
        self.console.progress(model.num_timesteps, shown)

    # -- ending ---------------------------------------------------------------------------------

    def checkpoint(self) -> None:
        """Write a checkpoint, and the pool as it is."""
        self.pool.save(self.folder.pool_last)
        if not self.folder.pool.exists():
            self.pool.save(self.folder.pool)
        value = self.best["value"]
        state = {
            "identity": self.workshop.identity(),
            "config": self.workshop.config.model_dump(mode="json"),
            "iteration": self.iteration,
            "seconds": self.seconds,
            "best": {**self.best, "value": value if math.isfinite(value) else None},
            "pool": self.pool.state(),
            "metrics_position": self._json_lines.position(),
            "moment": self._moment(),
        }
        write_checkpoint(
            self.folder.checkpoints,
            self.model.num_timesteps,
            state,
            self.model.save,
            self.config.keep_checkpoints,
        )

    def close(self) -> None:
        """Close the logs."""
        self.console.close()
        if self._logger is not None:
            self._logger.close()
        if self.pool.ledger is not None:
            self.pool.ledger.close()
            self.pool.ledger = None


def zero_if_nan(value: float) -> float:
    """A pool without any IC is worth nothing."""
    return 0.0 if math.isnan(value) else value


__all__ = ["Run", "RunResult", "train"]
