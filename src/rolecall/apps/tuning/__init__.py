"""Fine-tuning of a local model on the prompts that inference sends: `tune` tells the whole story."""

from rolecall.apps.tuning.tune import TuneResult, tune
from rolecall.apps.tuning.tune_settings import TuneSettings

__all__ = ['TuneResult', 'TuneSettings', 'tune']
