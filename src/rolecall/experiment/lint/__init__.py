"""Rules over programs and traces: what a person should know about a config before it runs."""

from rolecall.experiment.lint.rules import RULES
from rolecall.experiment.lint.subject import Finding, Rule

__all__ = ['RULES', 'Finding', 'Rule']
