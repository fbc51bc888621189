"""Prompts × render: a wording, its examples and a model side, compiled once and run for each row.

`compile` gives a `Program`: `program(row)` is the request, `program.trace(row)` the same with every character's origin.
The other programs are for what a row can change beyond its values: which examples it gets (`VaryingProgram`), and how
many turns it has (`DialogueProgram`).
"""

from rolecall.program.compiled import Program, Trace, compile, compile_labels, fingerprint
from rolecall.program.dialogue import DialogueProgram, InferMode
from rolecall.program.varying import VaryingProgram

__all__ = [
    'DialogueProgram',
    'InferMode',
    'Program',
    'Trace',
    'VaryingProgram',
    'compile',
    'compile_labels',
    'fingerprint',
]
