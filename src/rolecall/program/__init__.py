"""Prompts × render: a wording, its examples and a renderer, compiled once and run for each row.

`compile` returns a `Program`: `program(row)` is the request, `program.trace(row)` the same with the origin of every
character. `VaryingProgram` picks different examples per row; `DialogueProgram` runs several turns per row.
"""

from rolecall.program.compiled import Fingerprinter, Program, Trace, compile, compile_labels, fingerprint
from rolecall.program.dialogue import DialogueProgram, InferMode
from rolecall.program.varying import VaryingProgram

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
