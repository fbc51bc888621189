"""The functions for `--model frozen_functions:answer`: importable, as an installed package is."""

from frozen_models import answer

__all__ = ['answer']
