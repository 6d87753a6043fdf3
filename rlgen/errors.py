"""The errors that a user can cause, all under one parent.

A script catches `RlgenError`, prints its message as one line and leaves with exit status 2.
A message names the place (file, column, row, key or token), the value found ("was …") and
what would be right.
"""


class RlgenError(Exception):
    """A mistake in what the user gave: data, an expression, a configuration, a run folder."""


class DataError(RlgenError):
    """A data file, bar table or panel that cannot be used as it is."""


class ExpressionError(RlgenError):
    """A formula that does not parse, reads the future, or uses an unknown name."""


class ConfigError(RlgenError):
    """A configuration file or command line that cannot be used as it is."""


class CheckpointError(RlgenError):
    """A run folder, checkpoint or pool file that is truncated, foreign, or already in use."""
