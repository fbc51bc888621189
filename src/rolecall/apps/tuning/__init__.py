"""Fine-tuning of a local model on the prompts that inference sends: `tune` tells the whole story."""

from rolecall.apps.tuning.settings import TuneSettings
from rolecall.apps.tuning.tune import TuneResult, tune

__all__ = ['TuneResult', 'TuneSettings', 'tune']
