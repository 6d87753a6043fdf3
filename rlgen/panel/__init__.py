"""Panels: bars as dense arrays, with a calendar, a universe and a forward return."""

from rlgen.panel.forward_return import ForwardReturn
from rlgen.panel.loader import load_panel
from rlgen.panel.panel import Panel
from rlgen.panel.report import LoadReport

__all__ = ["ForwardReturn", "LoadReport", "Panel", "load_panel"]
