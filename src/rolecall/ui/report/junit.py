"""JUnit files, as continuous integration shows them: a test for each row of a run, or for each verdict of a gate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, ElementTree, SubElement

from rolecall.core.prompts.pieces import text_of
from rolecall.insight.gate import GateResult
from rolecall.runs.atomic import write_atomically
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.strings import printable

_LONG = 2000
_PASSED = 1.0
_NOT_IN_XML = re.compile(r'[\ud800-\udfff\ufffe\uffff]')


def write_run(reader: RunReader, target: str | Path) -> None:
    """A suite for each dataset × model, a test for each row. Rows that were not answered are errors, not failures."""
    _write((_suite(' × '.join(pair), map(_row_case, reader.results(*pair))) for pair in reader.pairs()), target)


def write_gate(result: GateResult, target: str | Path) -> None:
    """One suite with a test for each dataset × model."""
    cases = []
    for pair in result.pairs:
        case = Element('testcase', classname='gate', name=_text(f'{pair.dataset} × {pair.model}'))
        if pair.verdict != 'not worse':
            kind = 'failure' if pair.verdict == 'worse' else 'error'
            SubElement(case, kind, message=_text(pair.verdict)).text = _text(pair.line)
        cases.append(case)
    _write([_suite(f'{result.right} against {result.left}', cases)], target)


def _row_case(result: Result) -> Element:
    case = Element('testcase', classname=_text(f'{result.dataset}.{result.model}'), name=f'row {result.row}')
    if result.seconds is not None:
        case.set('time', f'{result.seconds:.3f}')
    reply = '\n'.join(result.replies)
    if result.outcome not in ('ok', 'unparsed'):
        SubElement(case, 'error', message=_text(result.outcome)).text = _text(result.reason)
    elif result.score is None:
        SubElement(case, 'skipped', message='not scored')
    elif result.correct is False or (result.correct is None and result.score < _PASSED):
        message = result.reason or f'expected {text_of(result.gold)}' if result.gold is not None else result.reason
        SubElement(case, 'failure', message=_text(message or 'wrong')).text = _text(reply)
    return case


def _suite(name: str, cases: Iterable[Element]) -> Element:
    suite = Element('testsuite', name=_text(name))
    suite.extend(cases)
    for attribute, kind in (('failures', 'failure'), ('errors', 'error'), ('skipped', 'skipped')):
        suite.set(attribute, str(sum(case.find(kind) is not None for case in suite)))
    suite.set('tests', str(len(suite)))
    return suite


def _text(text: str) -> str:
    """Text that XML can hold."""
    return _NOT_IN_XML.sub('\ufffd', printable(text[:_LONG]))


def _write(suites: Iterable[Element] | Iterator[Element], target: str | Path) -> None:
    root = Element('testsuites')
    root.extend(suites)
    with write_atomically(target) as part:
        ElementTree(root).write(part, encoding='utf-8', xml_declaration=True)
