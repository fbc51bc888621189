"""JUnit files of runs and gates."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import parse

import rolecall
from rolecall.ui.cli.main import main

ROWS = [{'q': f'{number}', 'a': 'yes'} for number in range(40)]


def answer(prompt: str) -> str:
    if '39' in prompt:
        raise ValueError('\x00 no answer')
    return 'no <b>\x01\ufffe</b>' if '7' in prompt else 'yes'


def always(prompt: str) -> str:
    return 'yes'


def test_rows_are_tests_and_rows_without_an_answer_are_errors(tmp_path: Path) -> None:
    rolecall.run(ROWS, template='Q{q}', answer='a', metric='exact', model=answer, out=tmp_path / 'run', quiet=True)
    assert main(['report', str(tmp_path / 'run'), '--csv', '--junit', str(tmp_path / 'rows.xml')]) == 0
    [suite] = parse(tmp_path / 'rows.xml').getroot()
    assert (suite.get('name'), suite.get('tests')) == ('rows × answer', '40')
    assert (suite.get('failures'), suite.get('errors')) == ('4', '1')
    failures = [case.get('name') for case in suite if case.find('failure') is not None]
    assert failures == ['row 7', 'row 17', 'row 27', 'row 37']
    assert suite[7][0].get('message') == 'expected yes'
    assert '<b>' in (suite[7][0].text or '')


def test_verdicts_of_a_gate_are_tests(tmp_path: Path) -> None:
    for name, model in (('old', always), ('new', answer)):
        rolecall.run(
            ROWS[:39],
            template='Q{q}',
            answer='a',
            metric='exact',
            model={'type': 'Function', 'function': model, 'abbr': 'm'},
            out=tmp_path / name,
            quiet=True,
        )
    junit = tmp_path / 'gate.xml'
    assert main(['compare', str(tmp_path / 'old'), str(tmp_path / 'new'), '--gate', '--junit', str(junit)]) == 1
    [suite] = parse(junit).getroot()
    assert [(case.get('name'), case[0].tag, case[0].get('message')) for case in suite] == [
        ('rows × m', 'failure', 'worse')
    ]
    assert main(['compare', str(tmp_path / 'old'), str(tmp_path / 'new'), '--junit', str(junit)]) == 2
