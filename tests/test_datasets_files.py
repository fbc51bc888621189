"""Reading files: formats, compression, encodings, malformed input."""

from __future__ import annotations

import bz2
import gc
import gzip
import json
import lzma
import pickle
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecall.errors import ConfigError, DataError, MissingExtraError
from rolecall.sources.datasets import FileOptions, FileRows, Rows, count_skipped, open_dataset, open_file

ROWS = [
    {'question': '1+1=?', 'answer': '2'},
    {'question': '多少？\nzwei', 'answer': 'a "b", c'},
    {'question': '', 'answer': '0'},
]
JSONL = ''.join(json.dumps(row, ensure_ascii=False) + '\n' for row in ROWS)
CSV = 'question,answer\n1+1=?,2\n"多少？\nzwei","a ""b"", c"\n"","0"\n'

FILES: dict[str, str] = {
    'rows.jsonl': JSONL,
    'rows.ndjson': JSONL,
    'no_last_newline.jsonl': JSONL.rstrip('\n'),
    'windows.jsonl': JSONL.replace('\n', '\r\n'),
    'blank_lines.jsonl': '\n \n' + JSONL.replace('\n', '\n\n'),
    'lines.json': JSONL,
    'list.json': json.dumps(ROWS, indent=1),
    'columns.json': json.dumps({key: [row[key] for row in ROWS] for key in ROWS[0]}),
    'examples.json': json.dumps({'canary': 'x', 'examples': ROWS}),
    'by_id.json': json.dumps({str(index): row for index, row in enumerate(ROWS)}),
    'rows.csv': CSV,
    'rows.tsv': 'question\tanswer\n1+1=?\t2\n"多少？\nzwei"\t"a ""b"", c"\n""\t"0"\n',
}


def put(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def both_ways(rows: Rows) -> list[Any]:
    """The rows by index, which must be the same as by iteration before and after."""
    streamed = list(rows)
    assert [rows[index] for index in range(len(rows))] == streamed == list(rows)
    return streamed


def by_index(path: Path) -> list[Any]:
    rows = open_file(path)
    return [rows[index] for index in range(len(rows))]


@pytest.mark.parametrize('name', FILES)
def test_every_format_gives_the_same_rows(name: str, tmp_path: Path) -> None:
    rows = open_file(put(tmp_path, name, FILES[name]))
    assert both_ways(rows) == ROWS
    assert rows[-1] == ROWS[-1]
    with pytest.raises(IndexError):
        rows[3]


@pytest.mark.parametrize('name', FILES)
def test_a_byte_order_mark_is_no_data(name: str, tmp_path: Path) -> None:
    assert both_ways(open_file(put(tmp_path, name, b'\xef\xbb\xbf' + FILES[name].encode()))) == ROWS


def zipped(content: bytes) -> bytes:
    with tempfile.TemporaryFile() as file:
        with zipfile.ZipFile(file, 'w', zipfile.ZIP_DEFLATED) as archive:
            archive.writestr('folder/rows.jsonl', content)
        file.seek(0)
        return file.read()


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    'rows.jsonl.gz': gzip.compress,
    'rows.jsonl.bz2': bz2.compress,
    'rows.jsonl.xz': lzma.compress,
    'rows.zip': zipped,
}


@pytest.mark.parametrize('name', COMPRESSORS)
def test_compressed_files_are_read_as_they_are(name: str, tmp_path: Path) -> None:
    rows = open_file(put(tmp_path, name, COMPRESSORS[name](JSONL.encode())))
    assert both_ways(rows) == ROWS


@pytest.mark.parametrize('name', COMPRESSORS)
def test_a_broken_compressed_file_is_named(name: str, tmp_path: Path) -> None:
    path = put(tmp_path, name, COMPRESSORS[name](JSONL.encode())[:40])
    with pytest.raises(DataError, match=f'{path.name}: cannot read'):
        list(open_file(path))


def test_a_compressed_csv_and_a_compressed_json_work_too(tmp_path: Path) -> None:
    assert both_ways(open_file(put(tmp_path, 'rows.csv.gz', gzip.compress(CSV.encode())))) == ROWS
    assert both_ways(open_file(put(tmp_path, 'list.json.xz', lzma.compress(json.dumps(ROWS).encode())))) == ROWS


def test_the_plain_copy_of_a_compressed_file_goes_with_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, 'tempdir', str(tmp_path))
    path = put(tmp_path, 'rows.jsonl.gz', gzip.compress(JSONL.encode()))
    rows = open_file(path)
    assert len(rows) == 3
    assert len(list(tmp_path.glob('rolecall-*'))) == 1
    del rows
    gc.collect()
    assert not list(tmp_path.glob('rolecall-*'))


def test_a_zip_with_several_files_is_an_error(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / 'two.zip', 'w') as archive:
        archive.writestr('a.jsonl', '')
        archive.writestr('b.jsonl', '')
    with pytest.raises(DataError, match='exactly one file; this one contains 2'):
        open_file(tmp_path / 'two.zip')


@pytest.mark.parametrize('name', ['e.jsonl', 'e.json', 'e.csv', 'e.tsv', 'e.txt'])
@pytest.mark.parametrize('content', [b'', b'\xef\xbb\xbf', b'\n'])
def test_an_empty_file_has_no_rows(name: str, content: bytes, tmp_path: Path) -> None:
    assert both_ways(open_file(put(tmp_path, name, content))) == []


MALFORMED: list[tuple[str, str, bytes, str]] = [
    ('broken json', 'b.jsonl', b'{"n": 1}\n\n{"n": \n', r'b\.jsonl:3: not valid JSON: .*column'),
    ('not an object', 'b.jsonl', b'{"n": 1}\n[1]\n', r'b\.jsonl:2: a row must be a JSON object, got list'),
    ('bad utf-8', 'b.jsonl', b'{"n": 1}\n{"n": "\xff"}\n', r'b\.jsonl:2: not valid utf-8: byte 0xff at position 7'),
    ('deep nesting', 'b.jsonl', b'{"n": 1}\n{"n": ' + b'[' * 200_000 + b'\n', r'b\.jsonl:2: '),
    ('utf-16', 'b.jsonl', '{"n": 1}\n'.encode('utf-16'), r'b\.jsonl:1: the file is UTF-16'),
    ('utf-16 csv', 'b.csv', 'a,b\n1,2\n'.encode('utf-16'), r'b\.csv:1: the file is UTF-16'),
    ('ragged', 'b.csv', b'a,b\n1,2\n3\n', r'b\.csv:3: 1 field, expected 2'),
    ('too many fields', 'b.csv', b'a,b\n"x\ny",2\n3,4,5\n', r'b\.csv:4: 3 fields, expected 2'),
    ('open quote', 'b.csv', b'a,b\n1,2\n"3,4\n', r'b\.csv:3: a quoted cell begins here and never ends'),
    ('text after a quote', 'b.csv', b'a,b\n"1"x,2\n', r"b\.csv:2: ',' expected after '\"'"),
    ('bad utf-8 in csv', 'b.csv', b'a,b\n1,2\n\xff,2\n', r'b\.csv:3: not valid utf-8: byte 0xff'),
    ('bad header', 'b.csv', b'a\xff,b\n1,2\n', r'b\.csv:1: not valid utf-8'),
    ('twice the same column', 'b.csv', b'a,b,a\n1,2,3\n', r"b\.csv:1: duplicate column in the header: 'a'"),
    ('broken document', 'b.json', b'[{"n": 1},\n {"n": }]', r'b\.json:2: not valid JSON'),
    ('bad utf-8 in document', 'b.json', b'[{"n": 1},\n{"n":"\xff"}]', r'b\.json:2: not valid utf-8'),
    ('item that is no row', 'b.json', b'[{"n": 1}, 2]', r'b\.json: item 1 is int'),
    ('one object', 'b.json', b'{"a": 1}', r'b\.json: no rows found[\s\S]*\.jsonl'),
    ('unequal columns', 'b.json', b'{"a": [1], "b": [1, 2]}', r'b\.json: no rows found'),
    ('two lists of rows', 'b.json', b'{"x": [{"a": 1}], "y": [{"a": 1}]}', r"found rows under 'x', 'y'"),
    ('unknown suffix', 'b.xyz', b'', r'b\.xyz: unknown file format.*\.jsonl'),
]  # fmt: skip


@pytest.mark.parametrize(('what', 'name', 'content', 'message'), MALFORMED, ids=[case[0] for case in MALFORMED])
def test_malformed_input_names_file_and_line(
    what: str, name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    path = put(tmp_path, name, content)
    with pytest.raises(DataError, match=message):
        list(open_file(path))
    with pytest.raises(DataError, match=message):
        by_index(path)


@pytest.mark.parametrize(
    ('name', 'content', 'kept', 'left_out'),
    [
        ('s.jsonl', b'{"n": "1"}\nnope\n[]\n{"n": "2"}\n{"n": "\xff"}\n', ['1', '2'], 3),
        ('s.csv', b'n,m\n1,x\nragged\n\xff,x\n"a"b,x\n2,y\n', ['1', '2'], 3),
        ('s.json', b'[{"n": "1"}, 5, {"n": "2"}]', ['1', '2'], 1),
    ],
)
def test_skipping_leaves_malformed_records_out_and_counts_them(
    name: str, content: bytes, kept: list[str], left_out: int, tmp_path: Path
) -> None:
    rows = open_file(put(tmp_path, name, content), FileOptions(on_error='skip'))
    assert [row['n'] for row in both_ways(rows)] == kept
    assert count_skipped(rows) == left_out


def test_skipped_can_be_asked_first_and_is_zero_when_nothing_is_skipped(tmp_path: Path) -> None:
    path = put(tmp_path, 's.jsonl', '{}\nx\n')
    assert count_skipped(open_file(path, FileOptions(on_error='skip'))) == 1
    assert count_skipped(open_file(path)) == 0


def test_the_count_of_skipped_records_survives_ranges_and_joining(tmp_path: Path) -> None:
    put(tmp_path, 'a.jsonl', '{}\nx\n{}\n')
    put(tmp_path, 'b.jsonl', 'x\n{}\n')
    entry = {'path': ['a.jsonl', 'b.jsonl'], 'on_error': 'skip', 'reader_cfg': {'test_range': '[:2]'}}
    assert count_skipped(open_dataset(entry, base=tmp_path).test) == 2


def test_another_encoding_can_be_named(tmp_path: Path) -> None:
    path = put(tmp_path, 'g.csv', '问题\n多少\n'.encode('gb18030'))
    assert list(open_file(path, FileOptions(encoding='gb18030'))) == [{'问题': '多少'}]


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'format': 'jsnl'}, "Did you mean 'jsonl'"),
        ({'encoding': 'klingon'}, 'unknown encoding'),
        ({'encoding': 'utf-16'}, 'convert them to UTF-8'),
        ({'on_error': 'ignore'}, "'stop' or 'skip'"),
    ],
)
def test_wrong_options_are_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        FileOptions(**options)


def test_the_format_can_be_said_where_the_name_does_not_tell_it(tmp_path: Path) -> None:
    assert list(open_file(put(tmp_path, 'rows.data', JSONL), FileOptions(format='jsonl'))) == ROWS


def test_the_field_of_a_document_can_be_named(tmp_path: Path) -> None:
    path = put(tmp_path, 'd.json', json.dumps({'train': [{'n': 1}], 'test': [{'n': 2}]}))
    assert list(open_file(path, FileOptions(field='test'))) == [{'n': 2}]
    with pytest.raises(DataError, match=r"no field 'tests'\. Did you mean 'test'"):
        open_file(path, FileOptions(field='tests'))


def test_a_field_longer_than_the_csv_module_likes_is_read(tmp_path: Path) -> None:
    assert len(open_file(put(tmp_path, 'long.csv', 'a\n' + 'x' * 300_000 + '\n'))[0]['a']) == 300_000


def test_text_files_give_one_row_per_line(tmp_path: Path) -> None:
    assert both_ways(open_file(put(tmp_path, 't.txt', 'one\r\ntwo\rstill\n'))) == [
        {'text': 'one'},
        {'text': 'two\rstill'},
    ]


def test_a_file_that_changes_after_counting_is_noticed(tmp_path: Path) -> None:
    path = put(tmp_path, 'c.jsonl', '{"n": 1}\n')
    rows = open_file(path)
    assert len(rows) == 1
    put(tmp_path, 'c.jsonl', '{"other": 1}\n')
    with pytest.raises(DataError, match='the file changed'):
        rows[0]
    path.unlink()
    with pytest.raises(DataError, match='cannot read'):
        rows[0]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r'nowhere\.jsonl: no such file'):
        open_file(tmp_path / 'nowhere.jsonl')


def test_rows_of_a_file_can_be_sent_to_another_process(tmp_path: Path) -> None:
    rows = open_file(put(tmp_path, 'rows.jsonl', JSONL))
    assert list(pickle.loads(pickle.dumps(rows))) == ROWS


def test_streaming_the_first_rows_does_not_read_the_rest(tmp_path: Path) -> None:
    path = put(tmp_path, 'long.jsonl', '{"n": 1}\n' * 10 + 'not json\n')
    assert next(iter(FileRows(path))) == {'n': 1}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(codec='utf-8')),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec='utf-8')), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    st.lists(st.dictionaries(st.text(st.characters(codec='utf-8')), json_values, max_size=4), max_size=8), st.booleans()
)
def test_what_is_written_as_json_lines_is_what_is_read(rows: list[dict[str, Any]], ascii_only: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, 'rows.jsonl')
        path.write_text(
            ''.join(json.dumps(row, ensure_ascii=ascii_only) + '\n' for row in rows), encoding='utf-8', newline=''
        )
        assert both_ways(open_file(path)) == rows


@given(
    st.lists(
        st.lists(st.text(st.characters(codec='utf-8', exclude_characters='\r\0')), min_size=2, max_size=2), max_size=8
    )
)
def test_what_is_written_as_csv_is_what_is_read_but_for_empty_records(records: list[list[str]]) -> None:
    import csv

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, 'rows.csv')
        with path.open('w', encoding='utf-8', newline='') as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows([['a', 'b'], *records])
        assert [[row['a'], row['b']] for row in both_ways(open_file(path))] == list(filter(any, records))


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    pyarrow = pytest.importorskip('pyarrow')
    from pyarrow import parquet

    path = tmp_path / 'rows.parquet'
    parquet.write_table(
        pyarrow.Table.from_pylist([{'n': n, 'options': ['x', None]} for n in range(25)]), path, row_group_size=10
    )
    return path


def test_parquet_files_are_read_by_row_group(parquet: Path) -> None:
    rows = open_file(parquet)
    assert [row['n'] for row in both_ways(rows)] == list(range(25))
    assert rows[-1] == {'n': 24, 'options': ['x', None]}


def test_a_compressed_parquet_and_an_empty_one_are_read(parquet: Path) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    assert len(open_file(put(parquet.parent, 'rows.parquet.gz', gzip.compress(parquet.read_bytes())))) == 25
    write_table(pyarrow.table({'n': pyarrow.array([], pyarrow.int64())}), parquet)
    assert both_ways(open_file(parquet)) == []


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    pytest.importorskip('pyarrow')
    with pytest.raises(DataError, match=r'p\.parquet: not a readable Parquet file'):
        open_file(put(tmp_path, 'p.parquet', 'nope'))


def test_zstandard_files_are_read(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip('pyarrow')
    path = tmp_path / 'rows.jsonl.zst'
    with pyarrow.output_stream(str(path), compression='zstd') as stream:
        stream.write(JSONL.encode())
    assert both_ways(open_file(path)) == ROWS


@pytest.mark.parametrize(('name', 'content'), [('p.parquet', b'PAR1'), ('p.jsonl.zst', b'')])
def test_a_missing_package_is_named_with_its_extra(
    name: str, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, 'pyarrow', None)
    with pytest.raises(MissingExtraError, match=r'rolecall\[data\]'):
        list(open_file(put(tmp_path, name, content)))


def test_a_table_of_very_many_columns_takes_linear_time(tmp_path: Path) -> None:
    names = [f'c{number}' for number in range(100_000)]
    path = tmp_path / 'wide.csv'
    path.write_text(','.join(names) + '\n' + ','.join(['1'] * 100_000) + '\n')
    before = time.monotonic()
    assert len(open_file(path)[0]) == 100_000
    path.write_text(','.join([*names, 'c5']) + '\n')
    with pytest.raises(DataError, match="duplicate column in the header: 'c5'"):
        open_file(path)
    path.write_text(','.join(names) + '\n1\n')
    with pytest.raises(DataError, match='1 field, expected 100000'):
        open_file(path)[0]
    assert time.monotonic() - before < 60  # a quadratic reading takes many minutes


@pytest.mark.parametrize('suffix', ['.gz', '.xz', '.bz2', '.zip'])
@pytest.mark.parametrize('kind', ['jsonl', 'json', 'csv', 'txt'])
def test_a_decompression_bomb_is_refused(
    kind: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('rolecall.sources.datasets.compression._ALWAYS_FINE', 4 << 20)
    path = tmp_path / f'bomb.{kind}{suffix}'
    content = b'a' * (30 << 20) if kind == 'csv' else b' ' * (30 << 20)
    if suffix == '.zip':
        with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f'bomb.{kind}', content)
    else:
        pack = {'.gz': gzip.compress, '.xz': lzma.compress, '.bz2': bz2.compress}[suffix]
        path.write_bytes(pack(content))
    with pytest.raises(DataError, match='decompression bomb. If the data is right, unpack the file first'):
        len(open_file(path))


def test_data_that_packs_well_is_read(tmp_path: Path) -> None:
    path = tmp_path / 'rows.jsonl.gz'
    path.write_bytes(gzip.compress(b'{"question": "what is one plus one?", "answer": "2"}\n' * 100_000))
    assert len(open_file(path)) == 100_000


@pytest.mark.parametrize(
    ('content', 'rows'),
    [
        (b'\xef\xbb\xbfQuestion;Answer\r\n1,5+1?;2,5\r\n"a;b";c\r\n', [('1,5+1?', '2,5'), ('a;b', 'c')]),
        (b'Question\tAnswer\n1, 2?\t3\n', [('1, 2?', '3')]),
        (b'Question,Answer\n1;2?,3\n', [('1;2?', '3')]),
    ],
)
def test_a_csv_of_a_spreadsheet_is_divided_as_its_header_is(
    content: bytes, rows: list[tuple[str, str]], tmp_path: Path
) -> None:
    path = tmp_path / 'excel.csv'
    path.write_bytes(content)
    assert [tuple(row.values()) for row in open_file(path)] == rows
    assert [list(row) for row in open_file(path)] == [['Question', 'Answer']] * len(rows)


def test_what_spreadsheets_leave_empty_is_no_column_and_no_row(tmp_path: Path) -> None:
    path = put(tmp_path, 'sheet.csv', b'\xef\xbb\xbfq,a,,\r\n1+1,2,,\r\n,,,\r\n2+2,4,,\r\n,,,\r\n')
    rows = open_file(path)
    assert list(rows) == [rows[0], rows[1]] == [{'q': '1+1', 'a': '2'}, {'q': '2+2', 'a': '4'}]
    path.write_bytes(b'q,a,,\n1+1,2,,lost\n')
    with pytest.raises(DataError, match=r'sheet.csv:2: a value stands in a column without a name'):
        list(open_file(path))
    assert list(open_file(put(tmp_path, 'index.csv', b',q\n0,1+1\n'))) == [{'': '0', 'q': '1+1'}]


def test_nested_objects_become_columns_beside_the_object(tmp_path: Path) -> None:
    path = put(tmp_path, 'nested.jsonl', b'{"x": {"y": {"z": 1}, "w": [2]}, "x.w": 3}\n')
    [row] = open_dataset({'path': str(path), 'flatten': True}).test
    assert row == {'x': {'y': {'z': 1}, 'w': [2]}, 'x.w': 3, 'x.y': {'z': 1}, 'x.y.z': 1}
    with pytest.raises(ConfigError, match='flatten'):
        open_dataset({'path': str(path), 'flatten': 'yes'})
