"""Rules over programs and traces: what a person should know about a config before it runs."""

from rolecall.lint.finding import Finding, Rule
from rolecall.lint.rules import RULES

__all__ = ['RULES', 'Finding', 'Rule']
