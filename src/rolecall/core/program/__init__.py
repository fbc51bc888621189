"""Prompts × render: a wording, its examples and a renderer, compiled once and run for each row.

`compile` returns a `Program`: `program(row)` is the request, `program.trace(row)` the same with the origin of every
character. `VaryingProgram` picks different examples per row; `DialogueProgram` runs several turns per row.
"""

from rolecall.lazy_names import attach

__getattr__, __dir__ = attach(__name__, __file__)
