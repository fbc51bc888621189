"""Task files, chat templates, tokenizers, logs and run directories of others: refused with a sentence, in time."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rolecall import load_config, run_config
from rolecall.compat.lm_eval.functions import load_function
from rolecall.compat.lm_eval.task_file import read_task_file
from rolecall.core.render.chat_template import ChatTemplate
from rolecall.errors import ConfigError, DataError, RenderError, RunError
from rolecall.runs.store.directory import RunLock
from rolecall.runs.store.labels import Labels
from rolecall.runs.store.run_reader import RunReader
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.metrics.assertions import Assertion
from rolecall.scoring.metrics.metric import Answer
from rolecall.ui.cli.main import main
from test_imports import write_eval, write_opencompass, write_samples
from test_runs import dataset

TASK = 'task: t\ntest_split: test\n'


def in_a_process(code: str, *words: str) -> str:
    """What the code prints; fails if the interpreter crashes or hangs."""
    done = subprocess.run([sys.executable, '-c', code, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[-500:])
    return done.stdout


@pytest.mark.parametrize('nested', ['[', '{a: ', '- ', '? '], ids=['list', 'mapping', 'dashes', 'keys'])
@pytest.mark.parametrize('form', ['task', 'config'])
def test_yaml_that_nests_without_end_is_an_error(nested: str, form: str, tmp_path: Path) -> None:
    text = 'a: ' if nested in '[{a: ' else 'a:\n  '
    path = tmp_path / 'file.yaml'
    path.write_text((TASK if form == 'task' else 'models: []\n') + text + nested * 100_000)
    code = (
        'import sys\nfrom rolecall import load_config\nfrom rolecall.errors import ConfigError\n'
        'try: load_config(sys.argv[1])\nexcept ConfigError as error: print(error)'
    )
    assert 'is not YAML: nested too deeply.' in in_a_process(code, str(path))


@pytest.mark.parametrize('form', ['task', 'config'])
def test_yaml_whose_aliases_multiply_is_an_error(form: str, tmp_path: Path) -> None:
    lists = [f'- &a{n} [{", ".join([f"*a{n - 1}"] * 9)}]' for n in range(1, 10)]
    start = TASK + 'metadata:\n' if form == 'task' else 'models: []\nmore:\n'
    path = tmp_path / 'file.yaml'
    path.write_text(start + '\n'.join(['- &a0 [x]', *lists]))
    with pytest.raises(
        ConfigError, match=r'file.yaml:\d+\n  is not YAML: aliases stand for more than 1,000,000 values'
    ):
        load_config(path)


def test_yaml_of_an_ordinary_depth_is_read(tmp_path: Path) -> None:
    path = tmp_path / 'task.yaml'
    path.write_text(TASK + 'a: ' + '[' * 300 + ']' * 300 + '\nlist: [' + '{a: 1}, ' * 2000 + ']')
    assert len(read_task_file(path).values['list']) == 2000


DEEP = [
    '{{ x' + '|e' * 40_000 + ' }}',
    '{{ ' + '-' * 60_000 + '1 }}',
    '{{ x' + '.a' * 9_000 + ' }}',
    '{{ x' + '()' * 3_000 + ' }}',
]


@pytest.mark.parametrize('source', DEEP, ids=['filters', 'signs', 'attributes', 'calls'])
def test_a_chat_template_that_nests_without_end_is_an_error(source: str, tmp_path: Path) -> None:
    (tmp_path / 'template').write_text(source)
    code = (
        'import sys, threading\nfrom rolecall.core.render.chat_template import ChatTemplate\n'
        'from rolecall.errors import RenderError\n'
        'def parse():\n'
        '    try: ChatTemplate(open(sys.argv[1]).read())\n    except RenderError as error: print(error)\n'
        'threading.stack_size(1 << 19)\nthread = threading.Thread(target=parse)\nthread.start()\nthread.join()'
    )
    assert 'the chat template was stopped: it ' in in_a_process(code, str(tmp_path / 'template'))


@pytest.mark.parametrize('token', [{'x': 1}, {'content': 5}, [{'x': 1}]])
def test_a_special_token_of_another_shape_is_an_error(token: Any) -> None:
    with pytest.raises(RenderError, match=r"needs a text or an object with 'content', got"):
        ChatTemplate.from_tokenizer_config({'chat_template': '{{ bos_token }}', 'bos_token': token})


@pytest.mark.parametrize('place', ['/dev/zero', 'fifo', 'folder'])
def test_an_include_that_is_not_a_file_is_an_error(place: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / 'fifo')
    (tmp_path / 'folder').mkdir()
    (tmp_path / 'task.yaml').write_text(f'{TASK}include: {place}\n')
    with pytest.raises(ConfigError, match=r'cannot be read: (it is not a regular file|Is a directory)'):
        read_task_file(tmp_path / 'task.yaml')


@pytest.mark.parametrize('name', ['{folder}/evil.f', '../evil.f', '..evil.f', '~/evil.f', 'a/b.f'])
def test_a_function_outside_the_task_s_folder_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / 'evil.py').write_text(f'open({str(tmp_path / "ran")!r}, "w")\ndef f(): pass')
    (tmp_path / 'task').mkdir()
    path = tmp_path / 'task' / 'task.yaml'
    path.write_text(f'{TASK}process_docs: !function {name.format(folder=tmp_path)}\n')
    with pytest.raises(ConfigError, match='is a path, not a module'):
        load_function(read_task_file(path).values['process_docs'])
    assert not (tmp_path / 'ran').exists()


@pytest.mark.parametrize('part', ['prompts: [file://NAME]', 'prompts: [x]\ntests: file://NAME'])
@pytest.mark.parametrize('name', ['fifo', '/dev/zero', 'fifo.yaml', 'zero.yaml'])
def test_special_files_named_by_a_config_of_promptfoo_are_refused(
    part: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for fifo in ('fifo', 'fifo.yaml'):
        os.mkfifo(tmp_path / fifo)
    (tmp_path / 'zero.yaml').symlink_to('/dev/zero')
    config = tmp_path / 'promptfooconfig.yaml'
    config.write_text(
        f'{part.replace("NAME", name)}\nproviders: [echo]\n' + 'tests: [{vars: {a: 1}}]\n' * ('[x]' not in part)
    )
    assert main(['view', str(config)]) == 2
    assert 'not a regular file' in capsys.readouterr().err


@pytest.mark.parametrize('kind', ['equals', 'python', 'is-json'])
@pytest.mark.parametrize('name', ['fifo', 'zero'])
def test_special_files_named_by_an_assertion_are_refused(kind: str, name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / 'fifo')
    (tmp_path / 'zero').symlink_to('/dev/zero')
    part = Assertion(kind, f'file://{name}', base=tmp_path)
    with pytest.raises((OSError, ScoringError), match='not a regular file'):
        part.check(Answer('{}'))


def test_special_files_in_a_folder_of_tasks_are_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / 'fifo.yaml')
    (tmp_path / 'zero.yaml').symlink_to('/dev/zero')
    (tmp_path / 'task.yaml').write_text(TASK)
    code = (
        'import sys\nfrom pathlib import Path\nfrom rolecall.compat.lm_eval.load_tasks import _index\n'
        'print(list(_index(Path(sys.argv[1])).by_name))'
    )
    assert in_a_process(code, str(tmp_path)) == "['t']\n"


@pytest.mark.parametrize('name', ['results_2024-01-01T00-00-00.json', 'samples_t_2024-01-01T00-00-00.jsonl'])
def test_a_sparse_file_in_a_log_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('rolecall.runs.logs.log._LARGEST_JSON', 1 << 20)
    (tmp_path / 'results_2024-01-01T00-00-00.json').write_text('{"results": {"t": {}}, "configs": {"t": {}}}')
    with (tmp_path / name).open('ab') as file:
        file.truncate(7 << 30)
    assert main(['runs', 'import', 'lm-eval', str(tmp_path), '--out', str(tmp_path / 'run')]) == 2
    assert '1,048,576' in capsys.readouterr().err


def link(path: Path, content: bytes) -> None:
    other = path.parent.parent / 'outside'
    other.write_bytes(content)
    path.symlink_to(other)


LOGS: dict[str, tuple[str, Callable[[Path], object]]] = {
    'link of lm-eval': ('lm-eval', lambda log: link(log / 'results_x.json', b'{}')),
    'FIFO of lm-eval': ('lm-eval', lambda log: os.mkfifo(log / 'results_x.json')),
    'FIFO of Inspect': ('inspect', lambda log: os.mkfifo(log / 'log.eval')),
    'link of Inspect': ('inspect', lambda log: link(log / 'log.eval', b'')),
    'link of OpenCompass': ('opencompass', lambda log: link(_model_folder(log) / 'sums.json', b'{"0": {}}')),
    'FIFO of OpenCompass': ('opencompass', lambda log: os.mkfifo(_model_folder(log) / 'sums.json')),
}


def _model_folder(log: Path) -> Path:
    (log / 'predictions' / 'm').mkdir(parents=True)
    return log / 'predictions' / 'm'


@pytest.mark.parametrize('case', LOGS)
def test_links_and_special_files_in_a_log_are_refused(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    harness, write = LOGS[case]
    (tmp_path / 'log').mkdir()
    write(tmp_path / 'log')
    codes: list[int] = []
    arguments = ['runs', 'import', harness, str(tmp_path / 'log'), '--out', str(tmp_path / 'run')]
    thread = threading.Thread(target=lambda: codes.append(main(arguments)), daemon=True)
    thread.start()
    thread.join(30)
    assert codes == [2]
    message = capsys.readouterr().err
    assert any(reason in message for reason in ('it is a link', 'it is not a regular file', 'no log of Inspect found'))


def test_a_link_that_the_user_gives_is_followed(tmp_path: Path) -> None:
    write_eval(tmp_path / 'log.eval', one={'id': 1, 'input': '?', 'target': '2', 'scores': {}})
    (tmp_path / 'latest.eval').symlink_to(tmp_path / 'log.eval')
    assert main(['runs', 'import', 'inspect', str(tmp_path / 'latest.eval'), '--out', str(tmp_path / 'run')]) == 0


def test_half_a_surrogate_pair_in_a_log_becomes_a_replacement_character(tmp_path: Path) -> None:
    write_eval(
        tmp_path / 'i.eval', one={'id': 1, 'input': 'a\ud800', 'target': '\udfff', 'output': {'completion': '\ud800'}}
    )
    (tmp_path / 'l').mkdir()
    write_samples(
        tmp_path / 'l', b'{"doc_id": 0, "doc": {"\\ud800": "\\udc00"}, "target": "\\ud800", "resps": [["\\ud800x"]]}\n'
    )
    root = write_opencompass(tmp_path / 'o')
    file = next(root.rglob('predictions/*/sums.json'))
    file.write_text(file.read_text().replace('It is 2', '\\ud800 2'))
    for harness, source in (('inspect', 'i.eval'), ('lm-eval', 'l'), ('opencompass', 'o')):
        out = tmp_path / f'run-{harness}'
        assert main(['runs', 'import', harness, str(tmp_path / source), '--out', str(out)]) == 0
        with RunReader(out) as run:
            assert any('\ufffd' in str(reply) for row in run.results() for reply in (row.prediction, row.gold))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    config = {
        'models': [{'type': lambda prompt: 'A', 'abbr': 'm'}],
        'datasets': [dataset([{'question': 'Q', 'answer': 'A'}], '{question}')],
    }
    run_config(config, out=tmp_path / 'run')
    return tmp_path / 'run'


COMPUTED = {
    'view': (
        'ALTER TABLE rows RENAME TO other; CREATE VIEW rows AS WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 '
        "FROM c) SELECT 'd' dataset, 'm' model, n row, 'ok' outcome, '{}' result, NULL checksum FROM c"
    ),
    'generated column': (
        "ALTER TABLE rows ADD COLUMN more GENERATED ALWAYS AS (hex(zeroblob(40000)) GLOB '*0*0*0*0*0*0*0*1') VIRTUAL"
    ),
    'trigger': 'CREATE TRIGGER t AFTER INSERT ON rows BEGIN DELETE FROM requests; END',
}
COMMANDS: tuple[tuple[str, ...], ...] = (
    ('report', '{run}'), ('doctor', '{run}'), ('compare', '{run}', '{run}'), ('export', 'results', '{run}'),
)  # fmt: skip


@pytest.mark.parametrize('kind', COMPUTED)
def test_a_run_whose_database_computes_something_is_refused(
    kind: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with sqlite3.connect(run / 'run.sqlite') as db:
        db.executescript(COMPUTED[kind])
    for command in COMMANDS:
        assert main([word.format(run=run) for word in command]) in (1, 2)
        shown = capsys.readouterr()
        assert 'computed when it is read' in shown.err + shown.out


@pytest.mark.parametrize('manifest', ['5', '[]', '{"pairs": 5}', '{"pairs": [5]}', '{"models": [], "imported": 3}'])
def test_a_manifest_of_another_shape_is_damage(manifest: str, run: Path) -> None:
    with sqlite3.connect(run / 'run.sqlite') as db:
        db.execute('UPDATE starts SET manifest = ?', (manifest,))
    for command in COMMANDS:
        assert main([word.format(run=run) for word in command]) in (0, 1)


def test_labels_of_absurd_size_are_an_error(run: Path) -> None:
    with open(run / 'labels.jsonl', 'wb') as file:
        file.truncate(20 << 30)
    with pytest.raises(RunError, match=r'more than labels can take. Remove or shorten it.'):
        Labels(run).by_row()
    (run / 'labels.jsonl').unlink()
    assert Labels(run).by_row() == {}


def test_a_file_system_without_locks_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, 'flock', fail)
    with pytest.raises(RunError, match=r'cannot lock files \(No locks available\)'):
        RunLock(tmp_path)
    monkeypatch.undo()
    RunLock(tmp_path).release()


DEEP, HUGE, HALF = '[' * 200_000, '1' + '0' * 400, '\\ud800'
KEPT = '"name": "s", "dataset": "demo", "model": "m"'
BESIDE_A_RUN: dict[str, tuple[str, ...]] = {
    'notes.json': (f'{{"name": "{HALF}", "note": {{"a": [1]}}, "tags": [[1], "{HALF}"]}}', '{"name": null}'),
    'control.json': ('{"paused": 1, "concurrency": true, "dropped": 5}', f'{{"concurrency": {HUGE}, "dropped": [[1]]}}'),
    'scan.json': (
        f'[{{{KEPT}, "hits": "x", "total": [], "rows": []}}]', f'[{{{KEPT}, "hits": 5, "total": 1, "rows": []}}]',
        f'[{{{KEPT}, "hits": 1, "total": {HUGE}, "rows": []}}]',
        f'[{{{KEPT}, "hits": 1, "total": 2, "rows": [{{"row": "a", "excerpt": "{HALF}"}}]}}]',
    ),
    'sweep.json': ('[{"dataset": 5, "variants": [1], "best": null}]',),
    'labels.jsonl': (
        '{"dataset": "demo", "model": "m", "row": 1e999, "label": "correct"}\n',
        f'{{"dataset": "demo", "model": "m", "row": 0, "label": {HUGE}}}\n',
        f'{{"dataset": [], "model": "{HALF}", "row": -5, "label": "correct", "by": "{HALF}"}}\n',
        f'{{"dataset": "demo", "model": "m", "row": 0, "answer": "{HALF}"}}\n',
    ),
    'lock': (),
}  # fmt: skip
READS = (*COMMANDS, ('runs', 'list', '{run}'), ('runs', 'control', '{run}', '--pause'), ('runs', 'note', '{run}'))


def _hang(*arguments: Any) -> None:
    pytest.fail('a command never ends')


@pytest.mark.parametrize('name', BESIDE_A_RUN)
def test_what_a_stranger_puts_beside_a_run_is_no_fault(name: str, run: Path, tmp_path: Path) -> None:
    place, outside = run / name, tmp_path / 'outside'
    outside.write_text('precious')
    makes: list[Callable[[], Any]] = [
        lambda: os.mkfifo(place),
        lambda: place.symlink_to('/dev/zero'),
        lambda: place.symlink_to(outside),
        lambda: place.mkdir(),
        lambda: (place.touch(), os.truncate(place, 20 << 30)),
    ]
    for text in (DEEP, '5', '[]', f'"{HALF}"', *BESIDE_A_RUN[name]):
        makes.append(partial(place.write_text, text))
    before = signal.signal(signal.SIGALRM, _hang)
    try:
        for make in makes:
            if place.is_dir():
                place.rmdir()
            place.unlink(missing_ok=True)
            make()
            for command in READS:
                signal.alarm(30)
                assert main([word.format(run=run) for word in command]) in (0, 1, 2)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert outside.read_text() == 'precious'


@pytest.mark.parametrize('read', ['answers', 'layout', 'bench'])
def test_a_pipe_in_place_of_a_file_of_answers_rows_or_a_benchmark_is_refused_at_once(read: str, tmp_path: Path) -> None:
    from rolecall.runs.pair_scoring import read_given_answers
    from rolecall.runs.serving.bench_files import StoredBench
    from rolecall.sources.datasets.layouts import read_json

    os.mkfifo(tmp_path / 'bench.json')
    readers = {
        'answers': lambda: read_given_answers(str(tmp_path / 'bench.json'), 'qa', None),
        'layout': lambda: read_json(tmp_path / 'bench.json'),
        'bench': lambda: StoredBench.load(tmp_path),
    }
    with pytest.raises(DataError):
        readers[read]()
