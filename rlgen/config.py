"""The configuration: YAML into frozen pydantic models, overridden from the command line.

1. `load_config(path)` reads the YAML file and validates it; an unknown key, a wrong type or a
   contradiction is a `ConfigError` that names the file and the path of the key.
2. It puts overrides from the command line over the file's values before they are validated, by the
   same paths (`--training.total-steps 20000`).
3. `Config.to_yaml()` writes the resolved configuration, every default spelled out, so that a run
   folder says exactly what was run; reading it back gives an equal `Config`.

Every field carries a docstring with its unit; `docs/configuration.md` is generated from them.
Relative paths are relative to the working directory.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rlgen.errors import ConfigError
from rlgen.overrides import merge, parse_overrides
from rlgen.validation import (
    Date,
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    Number,
    PositiveFloat,
    PositiveInt,
    Seed,
    Symbol,
    Threads,
    WholeNumber,
    validate,
)
from rlgen.yaml_text import read_yaml, write_yaml

__all__ = ["Config", "Section", "apply_overrides", "load_config", "validate"]


class Section(BaseModel):
    """What all sections share: immutable, unknown keys refused, docstrings as descriptions."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        ser_json_inf_nan="constants",
        validate_default=True,
    )


class SessionConfig(Section):
    """Which trading day a bar belongs to, and which bars of a day count."""

    rule: Literal["date", "column", "calendar", "cut"] = "date"
    """`date`: the bar's calendar date. `column`: a column of the data. `calendar`: an exchange
    calendar (needs the optional package exchange_calendars). `cut`: bars from `cut` on belong to
    the next date that has a day bar."""
    column: str | None = None
    """Rule `column`: the column that holds the session (a date or a label that sorts by time)."""
    calendar: str | None = None
    """Rule `calendar`: the exchange calendar's name, for example `XSHG` or `XNYS`."""
    cut: str | None = None
    """Rule `cut`: exchange-local time `HH:MM`, for example `18:00`."""
    hours: tuple[tuple[str, str], ...] | None = None
    """Trading hours as pairs of `HH:MM`, exchange-local; bars outside are dropped and counted.
    With bars labelled `left` a pair is [from, to), with `right` it is (from, to]."""

    @model_validator(mode="after")
    def _named(self) -> SessionConfig:
        for rule in ("column", "calendar", "cut"):
            value = getattr(self, rule)
            if (self.rule == rule) != (value is not None):
                raise ValueError(
                    f"rule {rule} goes with the key `{rule}`; rule was {self.rule}, `{rule}` was {value}"
                )
        return self


class UniverseConfig(Section):
    """Which cells (bar, stock) count. All conditions given must hold; none: every present cell.

    A rule at a bar uses only sessions before that bar's own.
    """

    column: str | None = None
    """A boolean column of the data."""
    membership: Path | None = None
    """A CSV or parquet file with columns `symbol`, `from`, `to` (dates, both inclusive, `to` may
    be empty)."""
    minimum_price: NonNegativeFloat | None = None
    """Last close of the previous session at least this, in currency."""
    minimum_median_amount: NonNegativeFloat | None = None
    """Median traded amount per session over the previous `median_sessions` sessions, in currency."""
    median_sessions: PositiveInt = 20
    """Number of previous sessions that the median amount looks at."""
    minimum_sessions: NonNegativeInt | None = None
    """Sessions with at least one bar since listing, the current one not counted."""
    exclude_halted: bool = False
    """Leave out a stock in a session if it had no traded volume in the whole previous session."""


class ForwardReturnConfig(Section):
    """The target: the return from bar t+lag to bar t+lag+horizon. All three of source, horizon
    and lag must be stated, since purge, t-statistics and decay depend on them."""

    column: str | None = None
    """A ready-made return column of the data; exclusive with `price`."""
    price: str | None = None
    """The price field that the return is computed from; exclusive with `column`."""
    horizon: PositiveInt
    """Length of the return, in bars."""
    lag: NonNegativeInt
    """Bars between the factor's bar and the start of the return: 1 is the honest value, 0 only
    shows what it hides."""
    across_sessions: bool = False
    """Let a return reach across a session's end; by default such labels are missing."""
    transform: Literal["none", "demean", "winsorize", "rank", "group-neutral"] = "none"
    """Transform for the objective, per bar across the universe. `winsorize` clips at the
    `winsorize` quantiles on both sides; `group-neutral` subtracts the group's mean."""
    winsorize: Annotated[Number, Field(gt=0.0, lt=0.5)] = 0.01
    """Share of names clipped on each side by `winsorize`."""
    group_column: str | None = None
    """The column that names the group, for `group-neutral`."""

    @model_validator(mode="after")
    def _one_source(self) -> ForwardReturnConfig:
        if (self.column is None) == (self.price is None):
            raise ValueError(
                f"needs one of `column` and `price`; was column {self.column}, price {self.price}"
            )
        if (self.transform == "group-neutral") != (self.group_column is not None):
            raise ValueError("transform group-neutral and `group_column` go together")
        return self


class DataConfig(Section):
    """Where bars come from and how they become a panel."""

    adapter: str = "parquet"
    """`parquet`, `csv`, `day_files`, or a private adapter as `module:Class`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the adapter's class; `docs/adapters.md` lists those of each."""
    start: Date | None = None
    """First date read, inclusive; default the first there is."""
    end: Date | None = None
    """Last date read, inclusive; default the last there is."""
    symbols: tuple[Symbol, ...] | None = None
    """Symbols read; default all."""
    fields: tuple[str, ...] | None = None
    """Fields kept in the panel, for formulas to use; default every numeric column."""
    bar_label: Literal["left", "right"] = "right"
    """Which side of the bar its time stamp marks: `left` its start, `right` its end."""
    timezone: str | None = None
    """The exchange's time zone, for example `America/New_York`: time stamps with a zone are
    converted to it and made naive. Not needed where they are naive already."""
    session: SessionConfig = SessionConfig()
    universe: UniverseConfig = UniverseConfig()
    forward_return: ForwardReturnConfig
    windows: Literal["continuous", "session"] = "continuous"
    """`continuous`: a rolling window runs across nights. `session`: it never reaches across its
    session's start."""
    min_periods: Fraction = 0.5
    """Share of a window's bars that must be present, else the result is missing."""
    store: Path | None = None
    """Folder for the built panel as memory-mapped arrays, reopened if the source is unchanged;
    default: build in memory."""

    @model_validator(mode="after")
    def _starts_first(self) -> DataConfig:
        if self.start is not None and self.end is not None and self.start > self.end:
            raise ValueError(f"start must not be after end; was {self.start} and {self.end}")
        if self.symbols is not None and not self.symbols:
            raise ValueError("symbols must name at least one, or be left out for all; was empty")
        return self


class PlantConfig(Section):
    """One formula planted into the synthetic forward return."""

    expression: str
    """The formula."""
    weight: Number = 1.0
    """Its share of the planted signal, a factor on its cross-sectional z-score."""


class SyntheticConfig(Section):
    """Synthetic minute bars, written once as parquet and then read like any other data."""

    path: Path
    """The parquet file to write; written if it is absent or was written with other settings."""
    seed: NonNegativeInt = 0
    """Seed of the market (not of the search)."""
    n_stocks: PositiveInt = 100
    """Stocks."""
    n_sessions: PositiveInt = 20
    """Trading days."""
    session_minutes: PositiveInt = 240
    """Bars per day, half of them before the lunch break."""
    start: Date = dt.date(2024, 1, 2)
    """First trading day; weekends are skipped."""
    plants: tuple[PlantConfig, ...] = ()
    """The formulas planted in the column `forward_return`, each with `expression` (the formula) and
    `weight` (default 1, a factor on its cross-sectional z-score)."""
    information_coefficient: Fraction = 0.05
    """Pooled IC of the planted signal with the forward return, in expectation."""
    halted: Fraction = 0.002
    """Share of (stock, day) pairs without any bar."""
    late_listed: Fraction = 0.04
    """Share of stocks that list after the first day."""
    missing: Fraction = 0.005
    """Share of single bars that are missing."""
    zero_volume: Fraction = 0.01
    """Share of bars with zero volume and an unchanged price."""


class SplitsConfig(Section):
    """Date ranges [first, last], both inclusive, in order, without overlap."""

    train: tuple[Date, Date]
    """Dates that the search sees."""
    valid: tuple[Date, Date] | None = None
    """Dates that choose the best pool."""
    test: tuple[Date, Date] | None = None
    """Dates that choose nothing."""
    embargo: NonNegativeInt = 0
    """Further gap between splits, in bars: labels of a split's last bars are dropped in addition
    to the lag + horizon that a label needs."""

    @model_validator(mode="after")
    def _ordered(self) -> SplitsConfig:
        last: tuple[str, Date] | None = None
        for name, dates in self.ranges().items():
            if dates[0] > dates[1]:
                raise ValueError(f"{name} ends before it starts, was {dates[0]} to {dates[1]}")
            if last is not None and dates[0] <= last[1]:
                raise ValueError(
                    f"{name} starts {dates[0]}, not after {last[0]} ends ({last[1]}): splits must not overlap"
                )
            last = name, dates[1]
        return self

    def ranges(self) -> dict[str, tuple[Date, Date]]:
        """The splits that are given, by name, in order."""
        named = {"train": self.train, "valid": self.valid, "test": self.test}
        return {name: dates for name, dates in named.items() if dates is not None}


class GrammarConfig(Section):
    """What formulas the search may write."""

    fields: tuple[str, ...] | None = None
    """Fields that formulas may use; default all fields of the panel."""
    operators: tuple[str, ...] | None = None
    """Operators that formulas may use; default all."""
    windows: tuple[PositiveInt, ...] = (5, 10, 20, 30, 60, 120, 240)
    """Windows of rolling operators, in bars."""
    constants: tuple[Number, ...] = (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0)
    """Constants that formulas may use."""
    token_limit: Annotated[WholeNumber, Field(ge=3, le=60)] = 15
    """Tokens of a formula at most, begin and end not counted."""
    check_units: bool = False
    """Forbid adding, subtracting or comparing quantities of different units (price, volume)."""


class CalculatorConfig(Section):
    """How formulas are evaluated."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto`: cuda where there is one, else cpu."""
    threads: Threads = 0
    """CPU threads; 0: as many as the process may use."""
    memory_budget: Annotated[WholeNumber, Field(ge=2**20)] = 2**31
    """Bytes for everything beyond the panel's own files, over all splits: intermediate results, waiting
    candidates, cached values, the pool's z-scores. What does not fit goes to files that vanish with the
    run, on the run folder's disk; values and ICs do not depend on it."""


class PoolConfig(Section):
    """The pool of formulas and its objective."""

    capacity: PositiveInt = 10
    """Formulas kept at most."""
    ic_weight: NonNegativeFloat = 1.0
    """Weight of the pooled IC in the objective."""
    rank_ic_weight: NonNegativeFloat = 0.25
    """Weight of the pooled rank IC in the objective."""
    raw_ic_weight: NonNegativeFloat = 0.0
    """Weight of the raw pooled IC (one correlation over all stocks and bars) in the objective."""
    weighting: Literal["ridge", "lasso", "non-negative"] = "ridge"
    """How the formulas' weights are fitted."""
    penalty: NonNegativeFloat = 0.01
    """Penalty of the fit, relative to the mean diagonal of the Gram matrix."""
    maximum_correlation: Fraction = 0.95
    """A candidate whose absolute mutual IC with a member is above this is refused."""
    minimum_coverage: Fraction = 0.7
    """A candidate that covers less of the cells after its warm-up is refused."""
    minimum_ic: NonNegativeFloat = 0.0
    """A candidate whose own absolute pooled IC is below this is refused."""
    minimum_gain: NonNegativeFloat = 1e-5
    """A candidate that raises the objective by less than this is refused."""
    reward: Literal["gain", "level"] = "gain"
    """What an offer earns: the objective with the candidate (`level`), or that less the objective
    before (`gain`)."""
    min_names: PositiveInt | None = None
    """Names that a bar needs to have an IC; default min(10, max(3, ceil(S/2)))."""
    bar_stride: PositiveInt = 1
    """ICs during training are measured on every n-th bar; final numbers use every bar."""


class PolicyConfig(Section):
    """The transformer that writes formulas."""

    d_model: PositiveInt = 64
    """Width."""
    n_layers: PositiveInt = 2
    """Layers."""
    n_heads: PositiveInt = 4
    """Attention heads."""
    dropout: Fraction = 0.0
    """Dropout; anything above 0 makes rollout and update disagree."""

    @model_validator(mode="after")
    def _divides(self) -> PolicyConfig:
        if self.d_model % self.n_heads:
            raise ValueError(f"d_model must be a multiple of n_heads; was {self.d_model} and {self.n_heads}")
        return self


class TrainingConfig(Section):
    """The search: MaskablePPO over token games."""

    seed: Seed = 0
    """Seed of everything random in the search."""
    total_steps: PositiveInt = 100_000
    """Tokens written, over all games."""
    n_envs: PositiveInt = 128
    """Games played in lock-step."""
    n_steps: PositiveInt = 16
    """Tokens per game and iteration: an iteration is n_envs × n_steps tokens."""
    batch_size: PositiveInt = 256
    """Tokens per gradient step."""
    n_epochs: PositiveInt = 4
    """Passes over an iteration's tokens."""
    learning_rate: PositiveFloat = 3e-4
    """Adam's step size."""
    gamma: Fraction = 1.0
    """Discount per token."""
    gae_lambda: Fraction = 0.95
    """Generalised advantage estimation."""
    clip_range: PositiveFloat = 0.2
    """PPO's clip range."""
    entropy_coefficient: NonNegativeFloat = 0.03
    """Weight of the entropy bonus."""
    value_coefficient: NonNegativeFloat = 0.5
    """Weight of the value loss."""
    max_gradient_norm: PositiveFloat = 0.5
    """Gradient clipping."""
    target_kl: PositiveFloat | None = None
    """Stop an update early above 1.5 times this."""
    reward_scale: PositiveFloat = 100.0
    """Factor between a pool's reward (an IC) and the policy's."""
    checkpoint_every: PositiveInt = 20
    """Iterations between checkpoints."""
    keep_checkpoints: PositiveInt = 3
    """Checkpoints kept."""
    evaluate_every: PositiveInt = 5
    """Iterations between evaluations of the pool on the validation split."""
    threads: Threads = 1
    """CPU threads of torch; 0: as many as the process may use. A network of the usual size gains little
    from a second one, and on a machine that others use too, each waits for the slower: 0.6 s became
    30 s an iteration."""


class Config(Section):
    """A whole run."""

    data: DataConfig
    splits: SplitsConfig
    synthetic: SyntheticConfig | None = None
    grammar: GrammarConfig = GrammarConfig()
    calculator: CalculatorConfig = CalculatorConfig()
    pool: PoolConfig = PoolConfig()
    policy: PolicyConfig = PolicyConfig()
    training: TrainingConfig = TrainingConfig()

    def to_yaml(self) -> str:
        """The resolved configuration as YAML; `load_config` reads it back to an equal one."""
        return write_yaml(self.model_dump(mode="json"))


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a configuration file, and command-line overrides such as `--training.seed 3`.

    Raises:
        ConfigError: the file is missing or not YAML, a key is unknown, a value has the wrong type
            or contradicts another; the message names the file or the option, and the key's path.
    """
    path = Path(path)
    try:
        tree = read_yaml(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such configuration file") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path}: not readable as YAML: {reason}") from None
    if not isinstance(tree, dict):
        was = "empty" if tree is None else repr(tree)[:60]
        raise ConfigError(f"{path}: must be a mapping of sections, was {was}")
    return _with_overrides(tree, overrides, str(path))


def apply_overrides(config: Config, overrides: Sequence[str]) -> Config:
    """`config` with command-line overrides by the same paths.

    Raises:
        ConfigError: as `load_config`.
    """
    return _with_overrides(config.model_dump(), overrides, "configuration")


def _with_overrides(tree: Mapping[str, Any], arguments: Sequence[str], where: str) -> Config:
    # Overrides come before validation: what is missing in the file may be given on the command line.
    overrides = parse_overrides(Config, arguments)
    options = {override.path: override.option for override in overrides}
    config: Config = validate(Config, merge(tree, overrides), where, options)
    return config
