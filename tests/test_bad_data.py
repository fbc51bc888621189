"""The user's own loaders and files: found where they are, and what is wrong with them said with place and remedy."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from helpers import config, requests, template
from rolecall.core.prompts.pieces import text_of
from rolecall.errors import ConfigError, DataError, RenderError
from rolecall.experiment.experiment import preview
from rolecall.experiment.opening.loading import load_config
from rolecall.sources.config.reference import Reference
from rolecall.sources.datasets import FileOptions, first, open_dataset, open_file, parse_range
from rolecall.ui.cli.main import main
from rolecall.usercode import printing_to_stderr

ENTRY = """
    abbr='d', reader_cfg=dict(input_columns=['q']),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='Q: {q}')),
"""
MODEL = "models = [dict(abbr='m', type='OpenAI', path='gpt')]\n"
TOOLS = """
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Named:
    q: str

def load(path):
    print('loading')
    return [{'q': Named(f'from {path}').q}]

class GSM8KDataset:
    @staticmethod
    def load(path):
        return {'test': [{'q': 'by class'}]}

class Selfish:
    def load(self, path):
        return []

class Bare:
    pass

rows = [{'q': 'x'}]
"""


def write(folder: Path, entry: str, before: str = '', models: str = MODEL) -> Path:
    """A config file whose one dataset has this in its entry."""
    file = folder / 'main.py'
    file.write_text(f'{before}\n{models}datasets = [dict({ENTRY} {entry})]\n')
    return file


def asked(file: Path) -> list[Any]:
    return [one.prompt for one in preview(file)]


def test_the_users_own_class_goes_before_the_benchmark_of_its_name(tmp_path: Path) -> None:
    own = """
class GSM8KDataset:
    @staticmethod
    def load(path):
        return [{'q': f'own {path}'}]
"""
    assert asked(write(tmp_path, "type=GSM8KDataset, path='x'", own)) == ['Q: own x']


def test_the_users_own_class_may_be_called_rows() -> None:
    class Rows:
        @staticmethod
        def load() -> list[dict[str, str]]:
            return [{'q': 'own'}]

    assert open_dataset({'type': Rows}).test[0] == {'q': 'own'}


@pytest.mark.parametrize(
    'kind',
    [
        'GSM8KDataset',
        'opencompass.GSM8KDataset',
        'opencompass.datasets.GSM8KDataset',
        'opencompass.datasets.gsm8k.GSM8KDataset',
        'ais_bench.benchmark.datasets.GSM8KDataset',
        'mmengine.registry.GSM8KDataset',
        Reference('opencompass.datasets.GSM8KDataset'),
    ],
    ids=str,
)
def test_names_of_other_systems_mean_ours(kind: Any, tmp_path: Path) -> None:
    (tmp_path / 'test.jsonl').write_text('{"question": "q"}\n')
    assert open_dataset({'type': kind, 'path': str(tmp_path)}).test[0] == {'question': 'q'}


@pytest.mark.parametrize(
    ('kind', 'expected'),
    [
        ('mytools.load', 'Q: from x'),
        ('mytools.GSM8KDataset', 'Q: by class'),
        ('mytools.GSM8KDataset.load', 'Q: by class'),
        ('inner.tools.load', 'Q: from x'),
        ('package.load', 'Q: from x'),
    ],
)
def test_a_dotted_path_leads_to_a_file_beside_the_config(kind: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / 'inner').mkdir()
    (tmp_path / 'package').mkdir()
    for name in ('mytools.py', 'inner/tools.py', 'package/__init__.py'):
        (tmp_path / name).write_text(TOOLS)
    assert asked(write(tmp_path, f"type='{kind}', path='x'")) == [expected]
    assert 'mytools' not in sys.modules


def test_a_dotted_path_leads_to_an_importable_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / 'importable_tools.py').write_text(TOOLS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, 'importable_tools', raising=False)
    assert open_dataset({'type': 'importable_tools.load', 'path': 'x'}).test[0] == {'q': 'from x'}


@pytest.mark.parametrize(
    ('kind', 'what'),
    [
        (
            'nowhere.GSM8KDataset',
            r"cannot import the dataset 'nowhere.GSM8KDataset': no module 'nowhere'[\s\S]*--data train=FILE",
        ),
        (
            Reference('nowhere.datasets.GSM8KDataset'),
            "no module 'nowhere.datasets'.*\n.*Write 'GSM8KDataset' for the built-in",
        ),
        ('nowhere.Rows', "cannot import the dataset 'nowhere.Rows'"),
        ('json.nowhere.load', "cannot import the dataset 'json.nowhere.load': 'json' has no 'nowhere.load'"),
        ('a..b', "cannot import the dataset 'a..b'"),
        ('.load', "cannot import the dataset '.load'"),
        ('mytools.lod', r"mytools.py' has no 'lod'\.\n  Did you mean 'load'"),
        ('mytools.rows', "'mytools.rows' is a list; expected a function"),
        ('mytools.Bare', "the class 'mytools.Bare' has no load"),
        ('mytools.Selfish', 'mytools.Selfish.load takes self[\\s\\S]*staticmethod'),
        ('broken.load', r"importing 'broken' raised KeyError: 'x' \(.*broken.py:2\)"),
        ('misspelt.load', r"importing 'misspelt' raised SyntaxError: .*misspelt.py, line 1"),
        ('needy.load', r"importing 'needy' raised ModuleNotFoundError: No module named 'no_such_thing'"),
    ],
)
def test_a_dotted_path_that_leads_nowhere_is_told(kind: str, what: str, tmp_path: Path) -> None:
    (tmp_path / 'mytools.py').write_text(TOOLS)
    (tmp_path / 'broken.py').write_text("x = {}\nx['x']\n")
    (tmp_path / 'misspelt.py').write_text('def load(:\n')
    (tmp_path / 'needy.py').write_text('import no_such_thing\n')
    with pytest.raises(ConfigError, match=what) as refused:
        open_dataset({'type': kind, 'path': 'x'}, base=tmp_path)
    assert refused.value.problems[0].where == 'type'


LOADERS = """
import functools

def raising(path):
    return [{'q': {}['nothing']}]

def lazily(path):
    for n in (1, 0):
        yield {'q': str(1 // n)}

def in_a_split(path):
    return {'test': lazily(path)}

def leaving(path):
    raise SystemExit

def deeper(path):
    import json
    return json.loads('{')

def nothing():
    return []

def more(path, name):
    return []

class Selfish:
    def load(self, path):
        return []

class Bare:
    pass
"""


@pytest.mark.parametrize(
    ('kind', 'what', 'remedy'),
    [
        ('raising', r"the loader 'raising' raised KeyError: 'nothing' \(.*main.py:5\)", '--data train=FILE'),
        ('lazily', r"the loader 'lazily' raised ZeroDivisionError: .*main.py:9\)", '--data train=FILE'),
        ('in_a_split', r"'in_a_split' raised ZeroDivisionError: .*main.py:9\)", '--data train=FILE'),
        ('leaving', r"'leaving' raised SystemExit \(.*main.py:15\)", '--data train=FILE'),
        ('deeper', r"'deeper' raised JSONDecodeError: .*main.py:19\)", '--data train=FILE'),
        ('functools.partial(raising)', r"the loader 'raising' raised KeyError", '--data train=FILE'),
        ('nothing', r"'nothing' \(.*main.py:21\) cannot be called with this entry: got an unexpected keyword argument 'path'", 'other keys'),
        ('more', r"'more' .* cannot be called with this entry: missing a required argument: 'name'", 'It receives the other keys .*: path'),
        ('Selfish', r"Selfish.load takes self", 'staticmethod'),
        ('Bare', r"the class 'Bare' has no load", '--data train=FILE'),
    ],
)  # fmt: skip
def test_what_a_loader_does_wrong_is_told_with_its_place(kind: str, what: str, remedy: str, tmp_path: Path) -> None:
    file = write(tmp_path, f"type={kind}, path='x'", LOADERS)
    with pytest.raises(ConfigError, match=rf'{what}[\s\S]*{remedy}') as refused:
        list(preview(file))
    assert refused.value.problems[0].where == 'datasets[0].type'


def test_the_exception_of_a_loader_is_the_cause() -> None:
    def load() -> None:
        raise KeyError('x')

    with pytest.raises(ConfigError) as refused:
        open_dataset({'type': load})
    assert isinstance(refused.value.__cause__, KeyError)


def test_a_decorated_loader_is_a_loader() -> None:
    @functools.lru_cache
    def load(path: str) -> list[dict[str, str]]:
        return [{'q': path}]

    assert open_dataset({'type': load, 'path': 'x'}).test[0] == {'q': 'x'}


def test_rows_that_cannot_be_gone_through_are_told() -> None:
    def rows() -> Iterator[dict[str, Any]]:
        yield {'q': dict[str, str]()['x']}

    with pytest.raises(ConfigError, match=r"raised KeyError: 'x' \(.*test_bad_data.py:\d+\)") as refused:
        open_dataset({'type': 'Rows', 'test': rows()})
    assert refused.value.problems[0].where == 'test'


@pytest.mark.parametrize(
    ('key', 'value', 'what'),
    [
        ('columns', 5, 'must be a list of column names, got 5'),
        ('columns', 'ab', "must be a list of column names, got 'ab'"),
        ('columns', [1], r'must be a list of column names, got \[1\]'),
        ('columns', ['a', 'a'], 'duplicate column name'),
        ('encoding', 5, 'must be a string, got 5'),
        ('field', [], r'must be a string, got \[\]'),
        ('format', 5, 'must be a string, got 5'),
        ('file_name', 5, 'must be a file name below path, got 5'),
        ('num_repeats', 'x', "must be a positive integer, got 'x'"),
        ('num_repeats', 0, 'must be a positive integer, got 0'),
        ('num_repeats', 1.5, 'must be a positive integer, got 1.5'),
    ],
)
def test_an_option_of_the_wrong_kind_is_told(key: str, value: Any, what: str, tmp_path: Path) -> None:
    (tmp_path / 'rows.csv').write_text('a\n1\n')
    with pytest.raises(ConfigError, match=what) as refused:
        open_dataset({'path': str(tmp_path / 'rows.csv'), key: value})
    assert refused.value.problems[0].where == key


@pytest.mark.parametrize('kind', ['HumanevalDataset', 'MBPPDatasetV2'])
def test_repeats_of_a_benchmark_are_a_number(kind: str, tmp_path: Path) -> None:
    file = tmp_path / 'rows.jsonl'
    file.write_text('{"text": "", "test_list": []}\n' * 12)
    with pytest.raises(ConfigError, match='must be a positive integer'):
        open_dataset({'type': kind, 'path': str(file), 'num_repeats': 'x'})


@pytest.mark.parametrize('encoding', [5, 'klingon', 'hex', 'a\0b', 'undefined'])
def test_an_encoding_that_is_none_is_told(encoding: Any) -> None:
    with pytest.raises(DataError, match="unknown encoding .*; use a name such as 'utf-8'"):
        FileOptions(encoding=encoding)


@pytest.mark.parametrize(
    ('entry', 'error', 'what'),
    [
        ({'type': 'GSM8KDataset', 'path': ['x']}, ConfigError, 'must be the location of the data'),
        ({'path': 'x' * 5000}, DataError, 'no such file or folder'),
        ({'path': 'a\0b'}, DataError, 'no such file or folder'),
        ({'path': '~no-such-user-here/x'}, DataError, 'no such file or folder'),
        ({'path': '**x'}, DataError, 'no file matches|invalid file pattern'),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_path_that_cannot_be_one_is_told(entry: dict[str, Any], error: type[Exception], what: str) -> None:
    with pytest.raises(error, match=what):
        open_dataset(entry)


WRONGLY_ENCODED = [
    ('a.jsonl', '{"n": 1}\n'.encode('utf-16'), 'Convert it to UTF-8: UTF-16 is not supported'),
    ('a.csv', 'n\n1\n'.encode('utf-16'), 'Convert it to UTF-8: UTF-16 is not supported'),
    ('a.json', '[{"n": 1}]'.encode('utf-16'), 'Convert it to UTF-8: UTF-16 is not supported'),
    ('b.csv', '问题\n多少\n'.encode('gb18030'), "encoding='gb18030' in a config"),
    ('b.json', '[{"n": "多少"}]'.encode('gb18030'), "encoding='gb18030' in a config"),
]


@pytest.mark.parametrize(('name', 'content', 'remedy'), WRONGLY_ENCODED, ids=[case[0] for case in WRONGLY_ENCODED])
def test_skipping_is_not_offered_for_a_file_that_it_cannot_help(
    name: str, content: bytes, remedy: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    for options in (FileOptions(), FileOptions(on_error='skip')):
        with pytest.raises(DataError) as refused:
            list(open_file(path, options))
        assert remedy in str(refused.value)
        assert "on_error='skip'" not in str(refused.value)


def test_lines_in_another_encoding_can_be_read_or_skipped(tmp_path: Path) -> None:
    path = tmp_path / 'a.jsonl'
    path.write_bytes('{"n": "多少"}\n'.encode('gb18030'))
    with pytest.raises(DataError, match=r"encoding='gb18030' in a config.*on_error='skip'"):
        list(open_file(path))
    assert list(open_file(path, FileOptions(on_error='skip'))) == []
    assert open_dataset({'type': 'Zorgon', 'encoding': 'gb18030'}, data={'test': path}).test[0] == {'n': '多少'}


def test_utf_16_without_a_mark_is_suspected(tmp_path: Path) -> None:
    path = tmp_path / 'a.jsonl'
    path.write_bytes('{"n": 1}\n'.encode('utf-16-le'))
    with pytest.raises(DataError, match='if the file is UTF-16, convert it to UTF-8'):
        list(open_file(path))


CIRCLE: dict[str, Any] = {}
CIRCLE['inside'] = CIRCLE
DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ('value', 'what'),
    [
        (10**5000, 'an integer has too many digits to write out'),
        ([10**5000], 'a list cannot be written as JSON: .*limit'),
        (CIRCLE, 'a dict cannot be written as JSON: Circular reference'),
        ({(1, 2): 3}, 'a dict cannot be written as JSON: keys must be str'),
        (DEEP, 'a list is nested too deeply'),
    ],
    ids=['long number', 'long number in a list', 'circle', 'odd key', 'deep'],
)
def test_a_value_that_cannot_be_written_out_names_its_column(value: Any, what: str) -> None:
    with pytest.raises(RenderError, match=rf'{what}.*Convert it to a string'):
        text_of(value)
    with pytest.raises(RenderError, match=f"demo, row 0: column 'question': {what}"):
        requests([{'question': value, 'answer': ''}], template('{question}'))


def test_any_number_of_rows_may_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = config([{'question': 'q', 'answer': 'a'}], template('{question}'))
    assert len(list(preview(whole, limit=10**20))) == 1
    with pytest.raises(DataError, match='the number of rows must not be negative, got -1'):
        list(preview(whole, limit=-1))
    assert list(first([{'n': 1}, {'n': 2}], None)) == [{'n': 1}, {'n': 2}]
    file = str(write(tmp_path, "test=[{'q': '1'}]"))
    many = '99999999999999999999'
    assert main(['view', file, '--row', many]) != 0
    assert f'd has no row {many}: it has 1 row,' in capsys.readouterr().err
    assert main(['view', file, '-n', many, '--json']) == 0
    assert main(['lint', file, '--limit', many]) in (0, 1)


def test_a_range_of_thousands_of_digits_is_no_range() -> None:
    with pytest.raises(DataError, match='is not a range'):
        parse_range(f'[{"9" * 5000}:]')


@pytest.mark.parametrize(
    ('content', 'what'),
    [
        (b'{broken', r'tokenizer_config.json: not valid JSON: .*line 1 column 2'),
        (b'[]', r'tokenizer_config.json: must hold a JSON object, found list'),
        (b'\xff', r'tokenizer_config.json: cannot be read: .*0xff'),
    ],
)
def test_a_broken_tokenizer_config_is_told(content: bytes, what: str, tmp_path: Path) -> None:
    (tmp_path / 'tokenizer_config.json').write_bytes(content)
    models = f"models = [dict(abbr='m', type='HuggingFacewithChatTemplate', path={str(tmp_path)!r})]\n"
    file = write(tmp_path, "test=[{'q': '1'}]", models=models)
    with pytest.raises(ConfigError, match=rf"{what}.*give the template itself as chat_template='…'") as refused:
        list(preview(file))
    assert refused.value.problems[0].where == f'{file}:2: models[0].chat_template'


def test_a_chat_template_beside_the_tokenizer_config_that_is_no_text_is_told(tmp_path: Path) -> None:
    (tmp_path / 'tokenizer_config.json').write_text('{}')
    (tmp_path / 'chat_template.jinja').write_bytes(b'\xff')
    model = {'type': 'HuggingFacewithChatTemplate', 'path': str(tmp_path)}
    with pytest.raises(ConfigError, match=r'chat_template.jinja: cannot be read'):
        list(preview(config([], template('x'), model=model)))


@pytest.mark.parametrize('rounds', [3, 'x', {'a': 1}])
def test_a_meta_template_of_an_unknown_model_with_a_wrong_round_is_told(rounds: Any) -> None:
    model = {'type': 'MyModel', 'meta_template': {'round': rounds}}
    with pytest.raises(ConfigError, match='expected a list of roles') as refused:
        list(preview(config([], template('x'), model=model)))
    assert refused.value.problems[0].where == 'models[0].meta_template.round'


PRINTING = """
import sys
print('from the config')
sys.stdout.write('written by the config')
def load(path):
    print('from the loader')
    yield {'q': path}
    print('from the generator')
"""


@pytest.mark.parametrize('command', [['view', '--json'], ['export', 'requests']])
def test_what_a_config_or_loader_prints_stays_out_of_the_output(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, "type=load, path='x'", PRINTING)
    assert main([*command, str(file)]) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line) for line in out.splitlines()]
    for told in ('from the config', 'written by the config', 'from the loader', 'from the generator'):
        assert told in err
        assert told not in out


def test_a_config_that_fails_leaves_standard_output_as_it_was(tmp_path: Path) -> None:
    before = sys.stdout
    (tmp_path / 'base.py').write_text('x = 1 / 0\n')
    (tmp_path / 'main.py').write_text('from .base import x\n')
    with pytest.raises(ConfigError):
        load_config(tmp_path / 'main.py')
    assert sys.stdout is before


def test_standard_output_comes_back_when_the_last_thread_leaves() -> None:
    before = sys.stdout
    both_inside, one_left = Barrier(2), Barrier(2)

    def enters_first() -> None:
        with printing_to_stderr:
            both_inside.wait(10)
        one_left.wait(10)

    def leaves_last() -> None:
        with printing_to_stderr:
            both_inside.wait(10)
            one_left.wait(10)
            assert sys.stdout is sys.stderr
            with printing_to_stderr:
                pass
            assert sys.stdout is sys.stderr

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(enters_first), pool.submit(leaves_last)]:
            done.result(20)
    assert sys.stdout is before
