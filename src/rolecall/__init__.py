"""Write the exact prompt every model receives, prove where each character came from."""

from rolecall._version import __version__

__all__ = ['__version__']
