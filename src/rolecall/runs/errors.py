"""What can stop a run as a whole."""

from __future__ import annotations

from rolecall.errors import RolecallError

__all__ = ['RunError']


class RunError(RolecallError):
    """A run cannot start or go on. What was finished before is kept."""
