"""`rolecall config list`: every part that a config can name, with one line each and where it comes from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rolecall.ui.cli.config.list import KINDS
from rolecall.ui.cli.main import main


def lines(*arguments: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(['config', 'list', *arguments]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ('kind', 'shown'),
    [
        ('templates', 'PromptTemplate           A prompt with fields'),
        ('retriever', 'ZeroRetriever           No examples'),
        ('models', 'LlamaCpp                     A GGUF model on this machine'),
        ('metrics', 'AccEvaluator '),
        ('postprocessors', 'first_number_postprocess         The first number in digits.'),
        ('datasets', 'GSM8KDataset             Files below path: train = train.jsonl, test = test.jsonl.'),
        ('lint-rules', 'unfilled-field '),
        ('meta_templates', 'HUMAN <|im_start|>user⏎…<|im_end|>⏎  BOT <|im_start|>assistant⏎…<|im_end|>⏎'),
        ('meta_templates', 'HUMAN → HUMAN  BOT → BOT'),
    ],
)
def test_a_kind_is_listed_with_one_line_each(kind: str, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    listed = [' '.join(line.split()) for line in lines(kind, capsys=capsys)]
    assert any(' '.join(shown.split()) in line for line in listed)


def test_every_kind_is_listed_and_every_part_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    parts = [json.loads(line) for line in lines('--json', capsys=capsys)]
    assert {part['kind'] for part in parts} == set(KINDS)
    assert [part for part in parts if not part['summary'] or part['origin'] != 'rolecall'] == []
    assert not any(part['summary'].startswith('partial(') for part in parts)


def test_an_unknown_kind_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['config', 'list', 'retreivers']) == 2
    assert "Did you mean 'retrievers'?" in capsys.readouterr().err


def test_plugins_are_listed_with_their_package_even_if_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    info = tmp_path / 'acme-2.1.dist-info'
    info.mkdir()
    (info / 'METADATA').write_text('Metadata-Version: 2.1\nName: acme\nVersion: 2.1\n')
    (info / 'entry_points.txt').write_text(
        '[rolecall.retrievers]\nBroken = acme_no_such:Broken\nLoud = acme_list:Loud\nZeroRetriever = acme_list:Loud\n'
    )
    (tmp_path / 'acme_list.py').write_text('class Loud:\n    """Shouts."""\n')
    monkeypatch.syspath_prepend(tmp_path)
    shown = [line.split(None, 1)[1] for line in lines('retrievers', capsys=capsys) if '[acme 2.1]' in line]
    assert "No module named 'acme_no_such'" in shown[0]
    assert shown[1:] == [
        'Shouts. [acme 2.1]',
        "Shouts. Hidden by the built-in of that name; use 'acme_list:Loud'. [acme 2.1]",
    ]
