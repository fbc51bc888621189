"""Rules over programs and traces: what a person should know about a config before it runs."""

from rolecall.experiment.lint.finding import Finding, Rule
from rolecall.experiment.lint.rules import RULES

__all__ = ['RULES', 'Finding', 'Rule']
