"""Each dataset type reads the files its benchmark publishes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.benchmark_files import CASES, HUB_CASES, RECORDED, write_files

from rolecall.errors import ConfigError, DataError
from rolecall.sources.datasets import haystacks, open_dataset
from tables import in_one


@pytest.mark.parametrize(
    ('kind', 'options', 'files', 'expected'), [*CASES, *HUB_CASES], ids=[f'{one[0]}-{n}' for n, one in enumerate([*CASES, *HUB_CASES])]
)  # fmt: skip
def test_a_benchmark_is_read_from_its_published_files(
    kind: str, options: dict[str, Any], files: dict[str, Any], expected: dict[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    path = write_files(tmp_path, files)
    for split, rows in expected.items():
        entry = {'type': f'opencompass.datasets.{kind}', 'path': str(path), **options}
        opened = open_dataset({**entry, 'reader_cfg': {'test_split': 'test' if split == '*' else split}})
        assert list(opened.test) == rows


class ByteTokens:
    """A tokenizer whose tokens are bytes: vocabularies are downloaded."""

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        return list(text.encode())

    def decode(self, ids: list[int]) -> str:
        return bytes(ids).decode(errors='replace')


@pytest.mark.parametrize(('kind', 'options', 'files', 'expected'), RECORDED)
def test_rows_are_those_of_the_packages_own_loader(
    kind: str,
    options: dict[str, Any],
    files: dict[str, Any],
    expected: dict[str, list[dict[str, Any]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(haystacks, 'load_tokenizer', lambda name: ByteTokens())
    path = write_files(tmp_path, files)
    named = {key: f'{tmp_path}/{value[1:]}' if str(value)[:1] == '@' else value for key, value in options.items()}
    for split, rows in expected.items():
        entry = {'type': f'opencompass.datasets.{kind}', 'path': str(path), **named}
        opened = open_dataset({**entry, 'reader_cfg': {'test_split': 'test' if split == '*' else split}})
        ours = [{name: row.get(name) for name in wanted} for row, wanted in zip(opened.test, rows, strict=True)]
        assert json.loads(json.dumps(ours).replace(str(tmp_path), '@')) == rows


def test_a_record_that_is_not_laid_out_so_is_named(tmp_path: Path) -> None:
    path = write_files(tmp_path, {'f.jsonl': [{'passage': {'text': 't'}}]})
    with pytest.raises(DataError, match='record 0 has an unexpected layout .*questions[\\s\\S]*columns: passage'):
        open_dataset({'type': 'MultiRCDataset', 'path': str(path)})


def test_a_hub_dataset_without_the_split_says_which_there_are(tmp_path: Path) -> None:
    write_files(tmp_path, {'train.jsonl': [{'task': 'n'}], 'dev.jsonl': [{'task': 'n'}]})
    with pytest.raises(DataError, match='no split validation, test. Available: dev, train'):
        open_dataset({'type': 'SmolInstructDataset', 'path': str(tmp_path), 'name': 'n'})


@in_one
@pytest.mark.parametrize('kind', ['NeedleBenchATCDataset', 'RulerNiahDataset', 'CompassArenaSubjectiveBench'])
def test_a_type_whose_prompt_the_package_writes_says_so(kind: str) -> None:
    with pytest.raises(ConfigError, match=rf"writes the prompt of {kind} itself: [^\n]*foreign='real'. Or supply rows"):
        open_dataset({'type': f'opencompass.datasets.{kind}', 'path': 'data'})


BAD_BFCL: list[tuple[dict[str, Any], dict[str, Any], type[Exception], str]] = [
    ({'category': 3}, {}, ConfigError, 'must be a category of BFCL'),
    ({'category': 'simple'}, {}, DataError, 'no file BFCL_v3_simple.json here'),
    (
        {'category': 'simple'},
        {
            'BFCL_v3_simple.json': [{'id': 'a'}],
            'possible_answer/BFCL_v3_simple.json': [{'id': 'b', 'ground_truth': []}],
        },
        DataError,
        "record 'a' has no entry in possible_answer",
    ),
]


@pytest.mark.parametrize(('options', 'files', 'kind', 'said'), BAD_BFCL)
def test_function_call_files_that_do_not_fit_are_named(
    tmp_path: Path, options: dict[str, Any], files: dict[str, Any], kind: type[Exception], said: str
) -> None:
    write_files(tmp_path, {'readme.txt': '', **files})
    with pytest.raises(kind, match=said):
        open_dataset({'type': 'BFCLDataset', 'path': str(tmp_path), **options})


@pytest.mark.parametrize(
    ('kind', 'content', 'said'),
    [
        ('ARCPrizeDataset', '{"train": []}', 'not an ARC puzzle'),
        ('TEvalDataset', '[]', 'must be a mapping of records'),
        ('TEvalDataset', '{"0": {"origin_prompt": 5}}', "record '0' has an unexpected layout"),
    ],
)
def test_files_of_another_layout_are_named(tmp_path: Path, kind: str, content: str, said: str) -> None:
    path = write_files(tmp_path, {'f.json': content})
    with pytest.raises(DataError, match=said):
        open_dataset({'type': kind, 'path': str(path), 'name': 'n'})
