"""A run directory that is damaged, made by someone else, or given values that cannot be stored."""

from __future__ import annotations

import csv
import io
import os
import random
import sqlite3
import zlib
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

import toys
from rolecall.errors import RunError
from rolecall.models.protocol import Reply
from rolecall.runs import run_config
from rolecall.runs.result_files import result_lines
from rolecall.runs.store.copies import repair_run
from rolecall.runs.store.directory import FILE
from rolecall.runs.store.lookup import Failure
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.store.writer import Store
from rolecall.scoring.scorecard import Scorecard
from rolecall.ui.cli.main import main
from test_runs import config, dataset, questions
from test_runs_store import finish, keep


def test_text_that_is_not_unicode_and_values_that_json_cannot_hold_cost_no_other_row(tmp_path: Path) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    store = Store(tmp_path)
    keep(store, k1=Failure('half a character: \ud800'))
    keep(store, k2=Reply('fine \udfff'))
    finish(
        store,
        Result('d\ud800', 'm', 0, 'failed', reason='\ud800'),
        Result('d\ud800', 'm', 1, 'ok', prediction='x', details={'deep': deep}),
        Result('d\ud800', 'm', 2, 'ok', prediction=10**5000),
        Result('d\ud800', 'm', 3, 'ok', prediction='fine'),
    )
    assert [row.row for row in store.results('d\ud800', 'm')] == [0, 1, 2, 3]
    assert store.find_reply('k1') == 'half a character: \ufffd'
    store.close()
    with RunReader(tmp_path) as reader:
        assert [row.prediction for row in reader.results()][-1] == 'fine'
        assert not reader.damage


def test_one_entry_that_cannot_be_written_spoils_no_other(tmp_path: Path) -> None:
    told: list[str] = []
    store = Store(tmp_path, tell=told.append)
    finish(store, Result('d', 'm', 0, 'ok'), Result('d', 'm', 2**70, 'ok'), Result('d', 'm', 1, 'ok'))
    assert [row.row for row in store.results('d', 'm')] == [0, 1]
    assert len(told) == 1
    store.close()


@pytest.mark.parametrize('name', ['lock', FILE, f'{FILE}-wal', f'{FILE}-shm'])
@pytest.mark.parametrize('kind', ['symbolic link', 'dangling link', 'hard link', 'pipe'])
def test_files_that_lead_out_of_a_run_directory_are_refused(tmp_path: Path, name: str, kind: str) -> None:
    run, outside = tmp_path / 'run', tmp_path / 'precious'
    run.mkdir()
    outside.write_text('precious')
    if kind == 'pipe':
        os.mkfifo(run / name)
    elif kind == 'hard link':
        os.link(outside, run / name)
    else:
        (run / name).symlink_to(outside if kind == 'symbolic link' else tmp_path / 'new')
    with pytest.raises(RunError, match='symbolic link|regular file|hard link'):
        Store(run)
    with pytest.raises(RunError):
        RunReader(run)
    assert outside.read_text() == 'precious'
    assert not (tmp_path / 'new').exists()


def fill(directory: Path, rows: int = 400) -> None:
    store = Store(directory)
    keep(store, **{f'{row:032x}': Reply('an answer of some length ' * 20) for row in range(rows)})
    replies = ('an answer of some length ' * 20,)
    finish(store, *(Result('d', 'm', row, 'ok', replies=replies, fingerprints=(f'{row:032x}',)) for row in range(rows)))
    store.record_scores([Scorecard('d', 'm', 'accuracy', 50.0, scored=rows, total=rows, outcomes={'ok': rows})])
    store.record_start({'pairs': [{'dataset': 'd', 'model': 'm'}]}, '{}')
    store.close()


def test_a_long_reply_is_stored_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    text = 'x' * 100_000
    keep(store, k=Reply(text))
    result = Result('d', 'm', 0, 'ok', prediction=text, replies=(text,), fingerprint='k', fingerprints=('k',))
    finish(store, result)
    assert list(store.results('d', 'm')) == [result]
    store.close()
    with RunReader(tmp_path) as reader:
        assert list(reader.results()) == [result]
    assert (tmp_path / FILE).stat().st_size < 180_000


@pytest.mark.parametrize('seed', range(6))
@pytest.mark.parametrize('damage', ['flip bits', 'zero pages', 'truncate'])
def test_a_damaged_run_is_read_as_far_as_it_is_whole_and_can_be_repaired(
    tmp_path: Path, damage: str, seed: int
) -> None:
    fill(tmp_path / 'run')
    file, draw = tmp_path / 'run' / FILE, random.Random(seed)
    data = bytearray(file.read_bytes())
    if damage == 'flip bits':
        for _ in range(12):
            data[draw.randrange(8192, len(data))] ^= 1 << draw.randrange(8)
    elif damage == 'zero pages':
        for page in draw.sample(range(8, len(data) // 4096), 3):
            data[page * 4096 : (page + 1) * 4096] = bytes(4096)
    else:
        data = data[: int(len(data) * 0.7)]
    file.write_bytes(data)
    right = 'an answer of some length ' * 20
    checkup = repair_run(tmp_path / 'run', tmp_path / 'saved')
    assert not checkup.is_whole or checkup.whole['row'] == 400
    assert checkup.whole['request'] > 100
    with RunReader(tmp_path / 'saved') as reader:
        assert all(row.replies == (right,) for row in reader.results())
        assert not reader.damage
    with suppress(RunError), RunReader(tmp_path / 'run') as reader:
        assert all(row.replies == (right,) for row in reader.results())
        reader.scorecards(), reader.manifest(), reader.config()


@pytest.mark.parametrize('page', range(1, 24, 4))
def test_a_run_that_goes_on_in_a_damaged_directory_ends_with_a_remedy_or_asks_again(tmp_path: Path, page: int) -> None:
    written = config(toys.model(type=lambda request: 'a'), dataset(questions(60)))
    run_config(written, out=tmp_path)
    file = tmp_path / FILE
    with closing(sqlite3.connect(file)) as db:
        db.execute('PRAGMA wal_checkpoint(TRUNCATE)')
    data = bytearray(file.read_bytes())
    place = page % (len(data) // 4096) * 4096
    data[place : place + 4096] = random.Random(page).randbytes(4096)
    file.write_bytes(data)
    ended = ''
    try:
        ended = f'{sum(run_config(written, out=tmp_path).outcomes.values())} rows'
    except RunError as error:
        ended = str(error)
    assert ended == '60 rows' or 'rolecall doctor' in ended


@pytest.mark.parametrize(
    ('statement', 'kind'),
    [
        ('UPDATE rows SET result = 7, checksum = NULL WHERE row = 3', 'row'),
        ("UPDATE rows SET result = x'ff00', checksum = NULL WHERE row = 3", 'row'),
        ('UPDATE rows SET result = \'{"replies": 5}\', checksum = NULL WHERE row = 3', 'row'),
        ("UPDATE rows SET outcome = 'failed' WHERE row = 3", 'row'),
        ("UPDATE requests SET reply = '{}', checksum = NULL WHERE rowid = 4", 'row'),
        ("UPDATE scores SET card = '[' ", 'score'),
        ("UPDATE starts SET manifest = '['", 'start'),
    ],
)
def test_cells_of_the_wrong_kind_are_counted_and_named(tmp_path: Path, statement: str, kind: str) -> None:
    fill(tmp_path, rows=10)
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        db.execute(statement)
        db.commit()
    with RunReader(tmp_path) as reader:
        rows, cards, manifest = list(reader.results()), reader.scorecards(), reader.manifest()
        assert reader.damage.counts[kind] == 1
        assert reader.damage.named
    assert (len(rows), len(cards), bool(manifest)) == (10 - (kind == 'row'), kind != 'score', kind != 'start')
    assert main(['doctor', str(tmp_path)]) == 1


@pytest.mark.parametrize(
    'command',
    [
        ['report'],
        ['report', '--markdown'],
        ['report', '--csv'],
        ['report', '--html', 'page.html'],
        ['export', 'results'],
        ['export', 'results', '--format', 'csv'],
        ['compare', '--models', 'm', 'm'],
    ],
    ids=' '.join,
)
def test_commands_say_in_one_line_what_a_damaged_run_has_lost(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fill(tmp_path / 'run', rows=10)
    with closing(sqlite3.connect(tmp_path / 'run' / FILE)) as db:
        db.execute("UPDATE rows SET outcome = 'failed' WHERE row in (3, 4)")
        db.commit()
    words = 1 if command[0] == 'report' else 2 if command[0] == 'export' else 1
    assert main([*command[:words], 'run', *command[words:]]) == 0
    out, err = capsys.readouterr()
    [line] = [line for line in err.splitlines() if 'damaged' in line]
    assert 'damaged and left out: 2 rows' in line
    page = Path('page.html').read_text() if '--html' in command else out
    assert ('2 rows' in ' '.join(page.split())) == (command[0] == 'report' and '--csv' not in command)


@pytest.mark.parametrize('key', ['dataset, model, row DESC', 'dataset DESC, model, row', 'dataset, model DESC, row'])
def test_rows_that_are_out_of_order_end_every_reading(tmp_path: Path, key: str) -> None:
    """As flipped bits in row numbers leave them: the index promises an order that its entries do not have."""
    with closing(Store(tmp_path)) as store:
        finish(store, *(Result(f'd{n % 3}', f'm{n % 2}', n, 'ok', prediction=f'{n}') for n in range(60)))
    with closing(sqlite3.connect(tmp_path / FILE)) as db, db:
        db.execute('PRAGMA writable_schema=ON')
        db.execute('UPDATE sqlite_master SET sql = replace(sql, ?, ?)', ('dataset, model, row)', f'{key})'))
    with RunReader(tmp_path) as reader:
        assert len(list(reader.light_results())) < 1_000
        assert len(list(reader.results())) < 1_000


def test_the_doctor_notices_damaged_data(tmp_path: Path) -> None:
    fill(tmp_path, rows=2)
    assert main(['doctor', str(tmp_path)]) == 0
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        db.execute("INSERT INTO data VALUES ('d', 7, x'00', 1)")
        db.commit()
    assert main(['doctor', str(tmp_path)]) == 1


@pytest.mark.parametrize('table', ['scores', 'starts', 'answered', 'times', 'recipes', 'data'])
def test_a_damaged_table_hides_no_row(tmp_path: Path, table: str, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path / 'run', rows=10)
    file = tmp_path / 'run' / FILE
    with closing(sqlite3.connect(file)) as db:
        [page] = db.execute('SELECT rootpage FROM sqlite_master WHERE name = ?', [table]).fetchone()
    data = bytearray(file.read_bytes())
    data[(page - 1) * 4096 : page * 4096] = bytes(4096)
    file.write_bytes(data)
    assert main(['report', str(tmp_path / 'run')]) == 0
    assert ('damaged and left out' in capsys.readouterr().err) == (table in ('scores', 'starts'))
    assert main(['doctor', str(tmp_path / 'run')]) == 1
    assert repair_run(tmp_path / 'run', tmp_path / 'new').whole['row'] == 10
    assert main(['doctor', str(tmp_path / 'new')]) == 0


def test_a_config_that_is_damaged_is_noticed_and_left_out(tmp_path: Path) -> None:
    fill(tmp_path / 'run', rows=10)
    with closing(sqlite3.connect(tmp_path / 'run' / FILE)) as db:
        db.execute("UPDATE starts SET config = '{'")
        db.commit()
    assert main(['doctor', str(tmp_path / 'run')]) == 1
    assert main(['doctor', str(tmp_path / 'run'), '--repair', str(tmp_path / 'new')]) == 1
    assert main(['doctor', str(tmp_path / 'new')]) == 0


@pytest.mark.parametrize('size', [50, 600, 4096, 6000])
def test_a_file_of_which_nothing_is_left_is_not_offered_for_repair_again(
    tmp_path: Path, size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path / 'run', rows=60)
    file = tmp_path / 'run' / FILE
    file.write_bytes(file.read_bytes()[:size])
    assert main(['doctor', str(tmp_path / 'run'), '--repair', str(tmp_path / 'new')]) == 2
    said = capsys.readouterr().err
    assert f'{file}: cut off after {size:,} of ' in said
    assert 'Nothing in it can be saved: run the config in a new directory.' in said
    assert '--repair' not in said
    assert not (tmp_path / 'new').exists()


def test_a_damaged_table_definition_hides_no_other_table(tmp_path: Path) -> None:
    fill(tmp_path / 'run', rows=10)
    with closing(sqlite3.connect(tmp_path / 'run' / FILE)) as db:
        db.execute('PRAGMA writable_schema = ON')
        db.execute("UPDATE sqlite_master SET sql = replace(sql, 'TEXT', 'TEX\\') WHERE name = 'recipes'")
        db.commit()
    with RunReader(tmp_path / 'run') as reader:
        assert len(list(reader.results())) == 10
    repair_run(tmp_path / 'run', tmp_path / 'new')
    with RunReader(tmp_path / 'new') as reader:
        assert len(list(reader.results())) == 10


def test_a_bomb_in_a_cell_is_not_inflated(tmp_path: Path) -> None:
    fill(tmp_path, rows=2)
    bomb = zlib.compress(bytes(500 << 20), 9)
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        db.execute('UPDATE requests SET request = ?, checksum = NULL', (bomb,))
        db.commit()
    with RunReader(tmp_path) as reader:
        assert reader.request(f'{0:032x}') is None
        assert reader.damage.counts['request'] == 1


def test_formulas_in_csv_are_made_harmless(tmp_path: Path) -> None:
    store = Store(tmp_path)
    cells = ['=1+1', '+cmd', '-2', '@sum', 'plain', '-x', '\t=1', ' =1', 'two\nlines', 'two\r=1']
    finish(store, *(Result('d', 'm', row, 'ok', prediction=cell) for row, cell in enumerate(cells)))
    store.close()
    read = list(csv.DictReader(io.StringIO('\n'.join(result_lines(tmp_path, format='csv')), newline='')))
    assert [row['prediction'] for row in read] == [
        "'=1+1",
        "'+cmd",
        '-2',
        "'@sum",
        'plain',
        "'-x",
        "'\t=1",
        "' =1",
        *cells[8:],
    ]
    raw = list(csv.DictReader(io.StringIO('\n'.join(result_lines(tmp_path, format='csv', formulas=True)), newline='')))
    assert [row['prediction'] for row in raw] == cells
