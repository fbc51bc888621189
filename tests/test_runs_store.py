"""What a run leaves on disk."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecall.errors import RunError
from rolecall.models.protocol import Reply, Scored, Usage
from rolecall.runs.result_files import export_results, result_lines
from rolecall.runs.store.codec import as_stored, pack_scored, read_reply, unpack_scored, write_reply
from rolecall.runs.store.database import Group
from rolecall.runs.store.directory import FILE
from rolecall.runs.store.lookup import Failure
from rolecall.runs.store.results import Result, SettledMarks
from rolecall.runs.store.row_codec import decode_result, encode_result
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.store.writer import Store
from rolecall.runs.versions import hide_secrets

ROW = Result('d', 'm', 0, 'ok', prediction='4', gold=0, fingerprints=('f',), replies=('4',), shots=(1, 2))


def keep(store: Store, **replies: Any) -> None:
    async def write() -> None:
        for key, reply in replies.items():
            store.add_reply(key, f'request {key}', reply, then=lambda: None)
        await store.wait_until_saved()

    asyncio.run(write())


def finish(store: Store, *results: Result) -> list[int]:
    safe: list[int] = []

    async def write() -> None:
        for result in results:
            store.add_results([result], then=lambda row=result.row: safe.append(row))
        await store.wait_until_saved()

    asyncio.run(write())
    return safe


def test_what_is_kept_is_found_again(tmp_path: Path) -> None:
    reply = Reply('4', 'filtered', 'why', 'thoughts', ({'name': 'f'},), Usage(1, 2, None, 0.5))
    scored = Scored((5, -1), (None, -0.5), ((0, 1), (1, 3)), Usage(input_tokens=2))
    store = Store(tmp_path / 'run')
    keep(store, reply=reply, scored=scored, failed=Failure('it broke'))
    store.close()
    store = Store(tmp_path / 'run')
    assert (store.find_reply('reply'), store.find_reply('scored')) == (reply, scored)
    assert store.find_reply('failed') == 'it broke'
    assert isinstance(store.find_reply('failed'), Failure)
    assert store.find_reply('unknown') is None
    store.close()
    with RunReader(tmp_path / 'run') as archive:
        assert archive.request('reply') == 'request reply'
        assert archive.reply('scored') == scored


def test_a_row_is_told_of_when_another_process_could_read_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    seen: list[int] = []

    async def write() -> None:
        for row in range(20):
            result = Result('d', 'm', row, 'ok')
            store.add_results([result], then=lambda row=row: seen.append(row in on_disk()))
        await store.wait_until_saved()

    def on_disk() -> set[int]:
        with RunReader(tmp_path) as archive:
            return set(archive.outcomes('d', 'm'))

    asyncio.run(write())
    store.close()
    assert seen == [True] * 20


def test_a_group_that_was_taken_and_not_written_is_written_in_the_end(tmp_path: Path) -> None:
    store = Store(tmp_path)

    async def interrupt() -> None:
        store.add_results([ROW], then=lambda: None)
        store._take_group()  # as Ctrl-C may leave it: taken, and the thread never started on it

    asyncio.run(interrupt())
    store.close()
    with RunReader(tmp_path) as archive:
        assert [result.row for result in archive.results()] == [ROW.row]


@pytest.mark.parametrize(
    ('fault', 'told'),
    [
        (RuntimeError('no such thing'), 'cannot be used: no such thing'),
        (MemoryError(), 'cannot be used: MemoryError'),
        (sqlite3.OperationalError('disk I/O error'), 'cannot be used: disk I/O error'),
    ],
    ids=['bug', 'memory', 'disk'],
)
def test_whatever_ends_the_thread_that_writes_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception, told: str
) -> None:
    store = Store(tmp_path)
    finish(store, ROW)

    def fail(put: str, entries: object) -> list[str]:
        raise fault

    async def write() -> None:
        store.add_results([replace(ROW, row=1)], then=lambda: None)
        await store.broken
        monkeypatch.undo()
        store.add_results([replace(ROW, row=2)], then=lambda: None)
        await store.wait_until_saved()

    monkeypatch.setattr(store._transactions, '_put_all', fail)
    with pytest.raises(RunError, match=told):
        asyncio.run(write())
    store.close()
    with RunReader(tmp_path) as archive:
        assert [result.row for result in archive.results()] == [0]


def test_a_callback_that_raises_ends_the_run_and_what_was_gathered_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path)
    called: list[bool] = []

    async def write() -> None:
        store.add_results([ROW], then=lambda: [][0])
        await store.broken
        store.add_results([replace(ROW, row=1)], then=lambda: called.append(True))
        await store.wait_until_saved()

    with pytest.raises(IndexError):
        asyncio.run(write())
    store.close()
    with RunReader(tmp_path) as archive:
        assert [result.row for result in archive.results()] == [0, 1]
    assert not called


@pytest.mark.parametrize(
    ('rows', 'length', 'waits'), [(5001, 1, True), (70, 1 << 20, True), (100, 1, False)], ids=['many', 'large', 'few']
)
def test_rows_to_come_wait_while_many_or_large_ones_wait_to_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, length: int, waits: bool
) -> None:
    store, disk = Store(tmp_path), threading.Event()
    write_group = store._transactions.write_group
    monkeypatch.setattr(store._transactions, 'write_group', lambda group: disk.wait() and write_group(group))

    async def write() -> None:
        store.add_results([ROW], then=lambda: None)
        await asyncio.sleep(0)  # its group is taken
        reply = Reply(os.urandom(length).hex())
        for row in range(rows):
            store.add_reply(f'{row:032x}', 'request', reply, then=lambda: None)
            store.add_results([replace(ROW, row=row)], then=lambda: None)
        waiting = asyncio.ensure_future(store.wait_for_room())
        await asyncio.sleep(0)
        assert waiting.done() != waits
        disk.set()
        await waiting
        await store.wait_until_saved()

    asyncio.run(write())
    store.close()


def test_every_commit_takes_all_that_came_before_it_so_that_no_answer_waits_for_more_than_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, disk, commits = Store(tmp_path), threading.Semaphore(0), list[list[int]]()
    write_group = store._transactions.write_group

    def write_slowly(group: Group) -> list[str]:
        commits.append([int(entry[0].hex(), 16) for entry in group.requests])
        disk.acquire()
        return write_group(group)

    monkeypatch.setattr(store._transactions, 'write_group', write_slowly)

    async def write() -> None:
        arrived: list[int] = []
        for number in range(1, 40):
            store.add_reply(f'{number:032x}', 'request', Reply('x'), then=lambda: None)
            arrived.append(number)
            if number % 7 == 0:
                disk.release()
                under_way = len(commits)
                while len(commits) == under_way:
                    await asyncio.sleep(0.001)
                assert [row for commit in commits for row in commit] == arrived
            await asyncio.sleep(0)
        disk.release(9)
        await store.wait_until_saved()

    asyncio.run(write())
    store.close()
    assert 6 <= len(commits) <= 8


def test_what_is_recorded_at_once_waits_for_the_group_that_is_being_written(tmp_path: Path) -> None:
    store = Store(tmp_path)
    safe: list[int] = []

    async def write() -> None:
        for row in range(50):
            store.add_results([replace(ROW, row=row)], then=lambda row=row: safe.append(row))
            await asyncio.sleep(0)
            store.record_digests('d', f'm{row}', asking='a', scoring='s')
        await store.wait_until_saved()

    asyncio.run(write())
    assert safe == list(range(50))
    assert all(store.digests('d', f'm{row}') == ('a', 's') for row in range(50))
    store.close()
    with RunReader(tmp_path) as archive:
        assert len(list(archive.results())) == 50


@pytest.mark.parametrize('model', ['m', 'nul\0inside'])
@pytest.mark.parametrize('trusted', [True, False])
def test_settled_rows_are_marked_by_their_columns_whatever_sqlite_makes_of_them(
    tmp_path: Path, model: str, trusted: bool
) -> None:
    scores = [1 / 3, 1.0, 0.1, 0.0, *[2 / 7] * 40]
    rows = [Result('d', model, row, 'ok', score=score, settled=True) for row, score in enumerate(scores)]
    store = Store(tmp_path)
    finish(store, *rows[:3], replace(rows[3], settled=False), *rows[4:])
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute('UPDATE rows SET score = 0.7 WHERE row = 1')
    db.close()
    finished = [number for numbers, _ in store.finished_rows('d', model, ['ok']) for number in numbers]
    assert finished == [0, *range(2, 44)]
    if trusted:
        store.update_rows([rows[1]])
        store.trust_rows('d', model)
    found = list(store.marks('d', model))
    store.close()
    own = [one.row for one in found if isinstance(one, Result)]
    marked = [score for one in found if isinstance(one, SettledMarks) for score in one.scores]
    assert own == [3]
    assert marked == [*scores[: 2 if trusted else 1], scores[2], *scores[4:]]


def test_falsy_gold_answers_are_stored(tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store, *(Result('d', 'm', i, 'ok', gold=gold) for i, gold in enumerate([0, '', False, None])))
    store.close()
    with RunReader(tmp_path) as archive:
        assert [result.gold for result in archive.results()] == [0, '', False, None]


def test_a_second_process_is_turned_away(tmp_path: Path) -> None:
    store = Store(tmp_path)
    code = 'import sys; from rolecall.runs.store.writer import Store; Store(sys.argv[1])'
    second = subprocess.run([sys.executable, '-c', code, str(tmp_path)], capture_output=True, text=True, check=False)
    store.close()
    assert f'another process is running here (process {os.getpid()}' in second.stderr
    assert subprocess.run([sys.executable, '-c', code, str(tmp_path)], check=False).returncode == 0


def test_a_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / 'file'
    file.write_text('')
    for place in (file / 'run', Path('/proc/rolecall-run')):
        with pytest.raises(RunError, match='cannot be'):
            Store(place)


@contextmanager
def nobody() -> Iterator[None]:
    """Root may write anywhere, so this is done as somebody else."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_read_only_directory_is_an_error() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        with nobody(), pytest.raises(RunError, match='cannot be written'):
            Store(folder)
        Path(folder).chmod(0o755)


def test_a_full_disk_stops_the_run_and_corrupts_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    finish(store, ROW)
    pages = store._transactions.connection.execute('PRAGMA page_count').fetchone()[0]
    store._transactions.connection.execute(f'PRAGMA max_page_count={pages}')
    safe: list[int] = []

    async def write() -> None:
        for row in range(1, 50):
            store.add_results(
                [Result('d', 'm', row, 'ok', prediction='x' * 4000)], then=lambda row=row: safe.append(row)
            )
        await store.wait_until_saved()

    with pytest.raises(RunError, match=r'disk is full.*\nFinished rows are kept'):
        asyncio.run(write())
    store.close()
    assert not safe
    assert store.failure is not None
    store = Store(tmp_path)
    assert finish(store, Result('d', 'm', 1, 'ok')) == [1]
    store.close()
    with RunReader(tmp_path) as archive:
        assert list(archive.outcomes('d', 'm')) == [0, 1]


@pytest.mark.parametrize('trouble', ['garbage', 'later version'])
def test_a_file_that_is_no_store_of_ours_is_an_error(tmp_path: Path, trouble: str) -> None:
    if trouble == 'garbage':
        (tmp_path / FILE).write_bytes(b'not a database' * 100)
    else:
        db = sqlite3.connect(tmp_path / FILE)
        db.execute('PRAGMA user_version=99')
        db.close()
    for opens in (Store, RunReader):
        with pytest.raises(RunError, match='cannot be|later version'):
            opens(tmp_path)
    with pytest.raises(RunError, match='no run found'):
        RunReader(tmp_path / 'nothing')


TEXT = st.text(st.characters(codec=None), max_size=20)


@given(TEXT, TEXT, st.none() | st.integers(0, 2**40))
def test_replies_and_results_are_read_as_they_were_written(text: str, reason: str, tokens: int | None) -> None:
    reply = Reply(text, 'failed', reason, usage=Usage(tokens))
    assert read_reply(write_reply(reply)) == reply
    result = Result('d', 'm', 1, 'ok', reason, prediction=[text, None], details={'k': text}, input_tokens=tokens)
    assert decode_result(('d', 'm', 1, 'ok', encode_result(result)), lambda fingerprint: None) == result


@given(st.lists(st.tuples(st.integers(-1, 2**31 - 1), st.none() | st.floats(-1e6, 0)), max_size=30))
def test_scores_survive_storage_exactly_once_rounded(tokens: list[tuple[int, float | None]]) -> None:
    scored = as_stored(Scored(tuple(i for i, _ in tokens), tuple(value for _, value in tokens)))
    assert unpack_scored(pack_scored(scored)) == scored
    assert as_stored(scored) == scored


def test_no_key_gets_into_a_snapshot() -> None:
    config = {
        'models': [
            {'key': 'sk-1', 'openai_api_key': 'sk-2', 'headers': {'X-Auth': 'sk-3'}, 'url': 'http://me:sk-4@host/v1'},
            {'api_key': ['sk-5', 'sk-6'], 'path': 'gpt', 'max_tokens': 5, 'meta_template': {'eos_token_id': 2}},
        ],
        'datasets': [{'ice_token': '</E>', 'test': [{'key': 'a column'}] * 200}],
    }
    shown = hide_secrets(config)
    assert 'sk-' not in json.dumps(shown)
    assert shown['models'][1] == {
        'api_key': '***',
        'path': 'gpt',
        'max_tokens': 5,
        'meta_template': {'eos_token_id': 2},
    }
    assert shown['datasets'] == [{'ice_token': '</E>', 'test': '200 rows'}]


# -- export ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> Path:
    store = Store(tmp_path / 'run')
    finish(store, ROW, Result('d', 'm', 1, 'failed', 'no, really', details={'x': float('nan')}, gold=['a', '"b"']))
    store.close()
    return tmp_path / 'run'


def test_every_row_is_one_json_object(run: Path) -> None:
    first, second = map(json.loads, result_lines(run))
    keys = ['dataset', 'model', 'row', 'outcome', 'prediction', 'gold', 'score', 'fingerprint']
    assert list(first)[: len(keys)] == keys
    assert (first['prediction'], first['gold']) == ('4', 0)
    assert (second['outcome'], second['reason'], second['details']) == ('failed', 'no, really', {'x': None})


def test_rows_as_csv_and_parquet(run: Path, tmp_path: Path) -> None:
    assert export_results(run, tmp_path / 'rows.csv', format='csv') == 2
    import csv

    rows = list(csv.DictReader((tmp_path / 'rows.csv').read_text(encoding='utf-8').splitlines()))
    assert [row['outcome'] for row in rows] == ['ok', 'failed']
    assert json.loads(rows[1]['gold']) == ['a', '"b"']
    parquet = pytest.importorskip('pyarrow.parquet')
    assert export_results(run, tmp_path / 'rows.parquet', format='parquet') == 2
    table = parquet.read_table(tmp_path / 'rows.parquet').to_pylist()
    assert [row['row'] for row in table] == [0, 1]
    assert table[1]['gold'] == '["a", "\\"b\\""]'
