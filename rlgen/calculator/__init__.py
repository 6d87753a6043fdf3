"""Formulas × panel → values and scores, on CPU or GPU; and the proof that they do not look ahead."""

from rlgen.calculator.calculator import Calculator, choose_device
from rlgen.calculator.causality import CausalityReport, check_causality

__all__ = ["Calculator", "CausalityReport", "check_causality", "choose_device"]
