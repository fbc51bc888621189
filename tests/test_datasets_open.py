"""Datasets from config entries: readers, splits, inline rows, files, folders, functions, hubs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rolecall.errors import ConfigError, DataError, MissingExtraError
from rolecall.sources.datasets import Dataset, ListRows, Reader, Rows, open_dataset
from rolecall.sources.datasets.dataset import DATASETS


def put(folder: Path, name: str, *rows: dict[str, Any]) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(''.join(json.dumps(row) + '\n' for row in rows))
    return path


def values(rows: Rows) -> list[Any]:
    return [row['n'] for row in rows]


def both(dataset: Dataset) -> tuple[list[Any], list[Any]]:
    return values(dataset.train), values(dataset.test)


@pytest.mark.parametrize(
    ('cfg', 'expected'),
    [
        ({}, Reader()),
        ({'input_columns': ['a', 'b'], 'output_column': 'c'}, Reader(('a', 'b'), 'c')),
        ({'input_columns': ' a  b '}, Reader(('a', 'b'))),
        ({'input_columns': ('with space',), 'output_column': None}, Reader(('with space',))),
        (
            {'train_split': 'dev', 'test_split': 'val', 'test_range': '[0:5]', 'train_range': 3},
            Reader((), None, 'dev', 'val', 3, '[0:5]'),
        ),
        ({'input_template': 'x', 'output_template': 'y'}, Reader(input_template='x', output_template='y')),
    ],
)
def test_a_reader_is_made_from_its_config(cfg: dict[str, Any], expected: Reader) -> None:
    assert Reader.from_config(cfg) == expected


def test_all_problems_of_a_reader_are_reported_at_once_with_suggestions() -> None:
    cfg = {
        'input_colums': 'a',
        'output_column': 3,
        'test_range': '[0:5',
        'train_range': True,
        'train_split': None,
        'input_columns': [1],
    }
    with pytest.raises(ConfigError) as caught:
        open_dataset({'test': [], 'reader_cfg': cfg})
    assert {problem.where for problem in caught.value.problems} == {f'reader_cfg.{key}' for key in cfg}
    assert "Did you mean 'input_columns'?" in str(caught.value)
    with pytest.raises(ConfigError, match='must be a list of column names'):
        Reader.from_config({'input_columns': 3})


ONE, TWO, THREE = {'n': 1}, {'n': 2}, {'n': 3}


@pytest.mark.parametrize(
    ('entry', 'train', 'test'),
    [
        ({'type': 'Rows', 'train': [ONE], 'test': [TWO]}, [1], [2]),
        ({'type': 'Rows', 'test': [TWO]}, [], [2]),
        ({'test': (TWO,)}, [], [2]),
        ({'type': 'Rows', 'test': iter([ONE, TWO])}, [], [1, 2]),
        ({'type': 'Rows', 'test': ListRows([ONE])}, [], [1]),
        ({'type': 'Rows', 'splits': {'dev': [ONE], 'val': [TWO]}, 'reader_cfg': {'train_split': 'dev', 'test_split': 'val'}}, [1], [2]),
        # Rows given for a role serve that role whatever the split is called.
        ({'type': 'Rows', 'train': [ONE], 'test': [TWO], 'reader_cfg': {'train_split': 'dev', 'test_split': 'val'}}, [1], [2]),
        ({'type': 'Rows', 'test': [TWO], 'reader_cfg': {'train_split': 'dev'}}, [], [2]),
        ({'type': 'Rows', 'test': [ONE, TWO, THREE], 'train': [ONE, TWO], 'reader_cfg': {'test_range': '[1:]', 'train_range': '[0]'}}, [1], [2, 3]),
    ],
)  # fmt: skip
def test_inline_rows(entry: dict[str, Any], train: list[int], test: list[int]) -> None:
    assert both(open_dataset(entry)) == (train, test)


def test_no_column_is_added_to_a_row() -> None:
    row = {'question': 'q', 'idx': 'MY-ID-77', 'subdivision': None}
    assert open_dataset({'abbr': 'a', 'test': [row]}).test[0] is row


def test_the_same_split_for_both_roles_is_the_same_rows() -> None:
    entry = {
        'splits': {'test': [ONE, TWO]},
        'reader_cfg': {'train_split': 'test', 'test_range': '[:1]', 'train_range': '[:1]'},
    }
    dataset = open_dataset(entry)
    assert dataset.train is dataset.test
    assert both(dataset) == ([1], [1])
    entry['reader_cfg'] = {'train_split': 'test', 'test_range': '[:1]'}
    assert both(open_dataset(entry)) == ([1, 2], [1])


@pytest.mark.parametrize(
    ('entry', 'where', 'what'),
    [
        ({'test': [ONE, 'x']}, 'test', r'test\[1\]: a row must be a mapping of columns to values, got str'),
        ({'test': [{1: 2}]}, 'test', 'a column name must be a string, got 1'),
        ({'test': ONE}, 'test', 'must be a list of rows, got one mapping'),
        ({'test': 5}, 'test', 'got int'),
        ({'splits': {'dev': [1]}}, "splits['dev']", 'must be a mapping'),
        ({'splits': [ONE]}, 'splits', 'must be a mapping of split names'),
        ({'type': 'File'}, 'path', 'path or data_files is missing'),
        ({'type': 'File', 'path': 7}, 'path', 'got 7'),
        ({'type': 'File', 'path': []}, 'path', r'got \[\]'),
        ({'type': 'GSM8KDataset'}, 'path', 'must be the location of the data'),
        ({'type': 'HFDataset'}, 'path', 'must be a hub dataset'),
        ({'type': 'GSMK8Dataset', 'path': 'x'}, 'type', "'GSMK8Dataset'.*\n.*Did you mean 'GSM8KDataset'.*--data train=FILE test=FILE"),
        ({'type': 'opencompass.datasets.Zorgon', 'path': 'x'}, 'type', "unsupported dataset 'opencompass.datasets.Zorgon'.*\n.*rolecall config list datasets.*--data train=FILE test=FILE"),
        ('nonsense', '', 'a dataset must be a mapping'),
    ],
)  # fmt: skip
def test_an_entry_that_cannot_be_used_says_where_and_why(entry: Any, where: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what) as caught:
        open_dataset(entry)
    assert caught.value.problems[0].where == where


def test_all_problems_of_inline_rows_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        open_dataset({'train': [1], 'test': [2]})
    assert [problem.where for problem in caught.value.problems] == ['train', 'test']


def test_a_missing_test_split_names_what_exists(tmp_path: Path) -> None:
    put(tmp_path, 'train.jsonl', ONE)
    put(tmp_path, 'dev.jsonl', TWO)
    with pytest.raises(DataError, match=r"no split 'test' \(reader_cfg.test_split\). Available splits: 'dev', 'train'"):
        open_dataset({'path': str(tmp_path)})


def test_a_missing_train_split_matters_only_if_it_was_asked_for(tmp_path: Path) -> None:
    put(tmp_path, 'test.jsonl', ONE)
    assert len(open_dataset({'path': str(tmp_path)}).train) == 0
    with pytest.raises(DataError, match="no split 'dev'"):
        open_dataset({'path': str(tmp_path), 'reader_cfg': {'train_split': 'dev'}})


def test_one_file_serves_every_split(tmp_path: Path) -> None:
    path = put(tmp_path, 'rows.jsonl', ONE, TWO)
    dataset = open_dataset(
        {'type': 'JsonlDataset', 'path': str(path), 'reader_cfg': {'test_split': 'train', 'test_range': '[:1]'}}
    )
    assert both(dataset) == ([1, 2], [1])


LAYOUTS: list[tuple[str, dict[str, Any], list[int], list[int]]] = [
    ('folder of splits', {'path': 'd'}, [1], [2]),
    ('one file', {'path': 'd/train.jsonl'}, [1], [1]),
    ('file name below a path', {'type': 'CustomDataset', 'path': 'd', 'file_name': 'test.jsonl'}, [2], [2]),
    ('several files', {'path': ['d/train.jsonl', 'd/test.jsonl']}, [1, 2], [1, 2]),
    ('pattern', {'path': 'shards/part-*.jsonl'}, [1, 2, 3], [1, 2, 3]),
    ('folder without splits', {'path': 'shards'}, [1, 2, 3], [1, 2, 3]),
    ('files by split', {'data_files': {'train': 'shards/part-*.jsonl', 'test': ['d/test.jsonl', 'd/train.jsonl']}}, [1, 2, 3], [2, 1]),
    ('folders by split', {'path': 'nested'}, [1, 2], [3]),
    ('paths for roles', {'type': 'Rows', 'train': 'shards/part-*.jsonl', 'test': ['d/test.jsonl']}, [1, 2, 3], [2]),
    ('named by format', {'type': 'HFDataset', 'path': 'json', 'data_files': 'd/test.jsonl', 'split': 'train'}, [2], [2]),
    ('named by format, no split', {'type': 'HFDataset', 'path': 'json', 'data_files': 'd/test.jsonl', 'reader_cfg': {'test_split': 'train'}}, [2], [2]),
    ('named by format, by split', {'type': 'HFDataset', 'path': 'json', 'data_files': {'train': 'd/train.jsonl', 'test': 'd/test.jsonl'}}, [1], [2]),
    ('repeats by split', {'data_files': {'test': 'shards/part-*.jsonl'}, 'num_repeats': 2, 'reader_cfg': {'test_range': '[:3]'}}, [], [1, 1, 2]),
    ('repeats', {'type': 'CodeCustomDataset', 'path': 'shards', 'num_repeats': 2, 'reader_cfg': {'test_range': '[:3]', 'train_range': '[0]'}}, [1], [1, 1, 2]),
]  # fmt: skip


@pytest.mark.parametrize(('entry', 'train', 'test'), [case[1:] for case in LAYOUTS], ids=[case[0] for case in LAYOUTS])
def test_files_in_many_layouts(entry: dict[str, Any], train: list[int], test: list[int], tmp_path: Path) -> None:
    put(tmp_path, 'd/train.jsonl', ONE)
    put(tmp_path, 'd/test.jsonl', TWO)
    put(tmp_path, 'd/dataset_infos.json')
    put(tmp_path, 'd/.hidden/test.jsonl', THREE)
    for number, row in enumerate((ONE, TWO, THREE)):
        put(tmp_path, f'shards/part-{number}.jsonl', row)
    put(tmp_path, 'nested/train/a.jsonl', ONE)
    put(tmp_path, 'nested/train/b.jsonl', TWO)
    put(tmp_path, 'nested/more/law_test-00000-of-00001.jsonl', THREE)
    dataset = open_dataset(entry, base=tmp_path)
    assert both(dataset) == (train, test)
    assert [dataset.train[index]['n'] for index in range(-len(train), 0)] == train


def test_a_folder_whose_files_tell_their_split_only_in_part_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, 'train.jsonl', ONE)
    put(tmp_path, 'more.jsonl', ONE)
    with pytest.raises(DataError, match=r'cannot tell the split of these files: more\.jsonl'):
        open_dataset({'path': str(tmp_path)})


def test_a_folder_without_data_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match='no file of a known format'):
        open_dataset({'path': str(tmp_path)})


def test_a_path_that_does_not_exist_lists_the_places_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('COMPASS_DATA_CACHE', str(tmp_path / 'cache'))
    with pytest.raises(DataError) as caught:
        open_dataset({'type': 'GSM8KDataset', 'path': 'opencompass/gsm8k'}, base=tmp_path)
    for place in (tmp_path / 'data/gsm8k', tmp_path / 'cache/data/gsm8k', Path.cwd() / 'opencompass/gsm8k'):
        assert str(place) in str(caught.value)
    with pytest.raises(DataError, match='no file matches'):
        open_dataset({'path': 'none-*.jsonl'}, base=tmp_path)


def test_data_in_the_usual_cache_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('COMPASS_DATA_CACHE', str(tmp_path))
    put(tmp_path, 'data/gsm8k/test.jsonl', ONE)
    assert values(open_dataset({'type': 'GSM8KDataset', 'path': 'opencompass/gsm8k'}).test) == [1]


def test_rows_can_be_supplied_for_a_type_that_has_no_loader(tmp_path: Path) -> None:
    entry = {
        'type': 'Zorgon',
        'abbr': 'z',
        'path': 'nowhere',
        'reader_cfg': {'train_split': 'dev', 'test_range': '[:1]'},
    }
    test, train = put(tmp_path, 'a.jsonl', ONE, TWO), put(tmp_path, 'b.jsonl', THREE)
    assert both(open_dataset(entry, data={'train': train, 'test': str(test)})) == ([3], [1])
    assert both(open_dataset(entry, data={'test': test})) == ([], [1])
    assert open_dataset(entry, data={'test': test}).name == 'z'
    with pytest.raises(DataError, match="no split 'test'"):
        open_dataset(entry, data={'train': train})


def squares(count: int, offset: int = 0) -> Iterator[dict[str, int]]:
    return ({'n': n * n + offset} for n in range(count))


class OwnDataset:
    """A loader class as other frameworks' configs use them."""

    @staticmethod
    def load(count: int) -> dict[str, Any]:
        return {'train': squares(count), 'test': list(squares(count, 1))}


def test_a_function_gives_rows_and_receives_the_other_keys_of_the_entry() -> None:
    entry = {
        'abbr': 'own',
        'type': squares,
        'count': 3,
        'offset': 1,
        'infer_cfg': {},
        'reader_cfg': {'test_range': '[1:]'},
    }
    assert both(open_dataset(entry)) == ([1, 2, 5], [2, 5])


def test_a_class_with_load_gives_splits() -> None:
    assert both(open_dataset({'type': OwnDataset, 'count': 2})) == ([0, 1], [1, 2])


def test_a_function_that_gives_no_rows_is_an_error() -> None:
    with pytest.raises(DataError, match=r'\(\)\[0\]: a row must be a mapping'):
        open_dataset({'type': lambda: [1]})
    with pytest.raises(DataError, match='got NoneType'):
        open_dataset({'type': lambda: None})


@pytest.mark.parametrize(
    ('entry', 'name'),
    [
        ({'abbr': 'a', 'name': 'b', 'test': []}, 'a'),
        ({'name': 'b', 'test': []}, 'b'),
        ({'test': []}, 'dataset'),
    ],
)
def test_the_name_of_a_dataset(entry: dict[str, Any], name: str) -> None:
    assert open_dataset(entry).name == name


def test_a_range_that_does_not_fit_names_its_key() -> None:
    with pytest.raises(DataError, match=r"test_range: '\[5\]' selects row 5, but the data has 1 row"):
        open_dataset({'test': [ONE], 'reader_cfg': {'test_range': '[5]'}})


def test_known_types_can_be_listed() -> None:
    assert {'Rows', 'File', 'HFDataset', 'GSM8KDataset', 'MMLUProDataset'} <= set(DATASETS)


def test_the_room_imports_nothing_heavy() -> None:
    code = "import sys, rolecall.sources.datasets; print({'numpy', 'pyarrow', 'pandas', 'datasets', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True, env={**os.environ})
    assert done.stdout.strip() == 'set()'


def test_the_hub_package_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, 'datasets', None)
    with pytest.raises(MissingExtraError, match=r"datasets is needed to load 'glue': pip install 'rolecall\[data\]'"):
        open_dataset({'type': 'HFDataset', 'path': 'glue', 'name': 'cola'})


@pytest.mark.heavy
@pytest.mark.filterwarnings('default')
def test_hub_datasets_and_saved_folders_are_read_through_their_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv('HF_HUB_OFFLINE', '1')
    datasets = pytest.importorskip('datasets')
    cache = {'cache_dir': str(tmp_path / 'cache')}
    put(tmp_path, 'plain/train.jsonl', ONE, TWO)
    put(tmp_path, 'plain/test.jsonl', THREE)
    dataset = open_dataset({'type': 'HFDataset', 'path': 'plain', **cache}, base=tmp_path)
    assert both(dataset) == ([1, 2], [3])
    assert dataset.train[-1] == TWO
    with pytest.raises(IndexError):
        dataset.train[2]
    whole = open_dataset({'type': 'HFDataset', 'path': str(tmp_path / 'plain'), 'split': 'train[:1]', **cache})
    assert both(whole) == ([1], [1])
    saved = datasets.DatasetDict(
        {'train': datasets.Dataset.from_list([ONE]), 'test': datasets.Dataset.from_list([TWO])}
    )
    saved.save_to_disk(str(tmp_path / 'saved'))
    assert both(open_dataset({'type': 'HFDataset', 'path': 'saved'}, base=tmp_path)) == ([1], [2])
    assert both(open_dataset({'type': 'HFDataset', 'path': 'saved', 'split': 'test'}, base=tmp_path)) == ([2], [2])
    with pytest.raises(DataError, match='failed to load it'):
        open_dataset({'type': 'HFDataset', 'path': str(tmp_path / 'nowhere'), **cache})


def test_files_that_are_given_are_what_they_are_given_for(tmp_path: Path) -> None:
    for name in ('train', 'test'):
        (tmp_path / f'{name}.jsonl').write_text(f'{{"q": "from {name}"}}\n')
    files = {name: tmp_path / f'{name}.jsonl' for name in ('train', 'test')}
    entry = {'type': 'HFDataset', 'path': 'json', 'reader_cfg': {'test_split': 'train', 'train_split': 'test'}}
    opened = open_dataset(entry, data=files)
    assert (opened.train[0]['q'], opened.test[0]['q']) == ('from train', 'from test')


def counted(path: str, n: int = 1) -> list[dict[str, Any]]:
    return [{'q': str(i)} for i in range(n)]


def plain(path: str) -> list[dict[str, Any]]:
    return [{'q': path}]


def test_a_loader_gets_n_if_it_asks_for_it() -> None:
    assert [len(open_dataset({'type': load, 'path': 'x', 'n': 3}).test) for load in (counted, plain)] == [3, 1]


class Lazy:
    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {}

    def __iter__(self) -> Any:
        yield {'q': 1}
        raise KeyError('boom')


def lazily(path: str) -> Any:
    return Lazy()


def test_rows_that_raise_are_a_problem_of_their_loader() -> None:
    rows = open_dataset({'type': lazily, 'path': 'x'}).test
    with pytest.raises(ConfigError, match="raised KeyError: 'boom'"):
        list(rows)
