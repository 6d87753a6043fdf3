"""What the pool says to an offer, and what it remembers of a candidate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from rlgen.expression import Expression


class Reason(StrEnum):
    """Why a candidate is in or out; a `str` with the value below."""

    ADMITTED = "admitted"
    DUPLICATE = "duplicate"
    """It is a member already."""
    CORRELATED = "correlated"
    """Its |mutual IC| with a member is above `maximum_correlation`."""
    LOW_COVERAGE = "low_coverage"
    """After its warm-up it covers less than `minimum_coverage` of the labelled cells."""
    NO_DISPERSION = "no_dispersion"
    """No bar has an IC: it is constant across the stocks of every bar."""
    BELOW_THRESHOLD = "below_threshold"
    """Its own |pooled IC| is below `minimum_ic`, or it lifts the objective by less than
    `minimum_gain`."""
    EVICTED_ITSELF = "evicted_itself"
    """The pool is full, and of all factors it would contribute least."""
    EVALUATION_FAILED = "evaluation_failed"
    """The calculator could not evaluate it."""


@dataclass(frozen=True)
class Offer:
    """The pool's answer."""

    expression: str
    """The candidate, in canonical text."""
    reward: float
    """What the offer earns; see `AlphaPool`."""
    admitted: bool
    reason: Reason
    ic: float
    """The candidate's own pooled IC on the measured bars; NaN if it has none."""
    rank_ic: float
    """Its own pooled rank IC."""
    coverage: float
    """Σ n_t / Σ N_t of the measured bars."""
    objective: float
    """The objective of the combined signal with the candidate in; 0 if it was not tried."""
    evicted: str | None = None
    """The member that left for it."""
    message: str | None = None
    """The calculator's error, with reason `evaluation_failed`."""


@dataclass(frozen=True)
class Member:
    """A factor in the pool."""

    expression: Expression
    weight: float
    ic: float
    """Its own pooled IC on the measured bars."""
    rank_ic: float
    """Its own pooled rank IC."""


@dataclass(frozen=True)
class Candidate:
    """What holds for an expression whatever the pool's members are: remembered by canonical text."""

    ic: float
    rank_ic: float
    coverage: float
    verdict: Reason | None = None
    """The reason for which it is refused before any trial, or None."""
    message: str | None = None

    def to_json(self) -> list[Any]:
        """The fields in order; NaN as null."""
        numbers = (self.ic, self.rank_ic, self.coverage)
        return [*(x if math.isfinite(x) else None for x in numbers), self.verdict, self.message]

    @classmethod
    def from_json(cls, fields: list[Any]) -> Candidate:
        """The inverse of `to_json`."""
        ic, rank_ic, coverage = (math.nan if x is None else float(x) for x in fields[:3])
        verdict, message = fields[3:]
        return cls(ic, rank_ic, coverage, None if verdict is None else Reason(verdict), message)
