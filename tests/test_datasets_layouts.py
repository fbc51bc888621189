"""Each dataset type reads the files its benchmark publishes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.benchmark_files import CASES, HUB_CASES, write_files

from rolecall.datasets import open_dataset
from rolecall.errors import DataError


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


def test_a_record_that_is_not_laid_out_so_is_named(tmp_path: Path) -> None:
    path = write_files(tmp_path, {'f.jsonl': [{'passage': {'text': 't'}}]})
    with pytest.raises(DataError, match='record 0 has an unexpected layout .*questions[\\s\\S]*columns: passage'):
        open_dataset({'type': 'MultiRCDataset', 'path': str(path)})


def test_a_hub_dataset_without_the_split_says_which_there_are(tmp_path: Path) -> None:
    write_files(tmp_path, {'train.jsonl': [{'task': 'n'}], 'dev.jsonl': [{'task': 'n'}]})
    with pytest.raises(DataError, match='no split validation, test. Available: dev, train'):
        open_dataset({'type': 'SmolInstructDataset', 'path': str(tmp_path), 'name': 'n'})
