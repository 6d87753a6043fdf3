"""Shared by the tests of this room."""

from tests.one_thread import one_thread

__all__ = ["one_thread"]
