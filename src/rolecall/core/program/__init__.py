"""Prompts × render: a wording, its examples and a renderer, compiled once and run for each row.

`compile` returns a `Program`: `program(row)` is the request, `program.trace(row)` the same with the origin of every
character. `VaryingProgram` picks different examples per row; `DialogueProgram` runs several turns per row.
"""

from rolecall.core.program.compiled import Fingerprinter, Program, Trace, compile, compile_labels, fingerprint
from rolecall.core.program.dialogue import DialogueProgram, InferMode
from rolecall.core.program.varying import VaryingProgram

__all__ = [
    'DialogueProgram',
    'Fingerprinter',
    'InferMode',
    'Program',
    'Trace',
    'VaryingProgram',
    'compile',
    'compile_labels',
    'fingerprint',
]
