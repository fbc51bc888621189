"""What is fuzzed: a way to make hostile input for each reader, and the call that has to survive it.

A target returns, or raises one of our errors. It prints no memory address, takes a bounded time and bounded memory.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
import resource
import sqlite3
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))
from helpers import API, LM, config, template
from rolecall import preview
from rolecall.core.render.chat_template import ChatTemplate
from rolecall.errors import RolecallError
from rolecall.experiment.opening.loading import load_config
from rolecall.models.anthropic import wire as anthropic
from rolecall.models.http.body import EVENT_END, EventReader, parse_json
from rolecall.models.http.connection import MALFORMED
from rolecall.models.http.failures import embedded_error, read_rate_limits, retry_after, status_error
from rolecall.models.openai import wire as openai
from rolecall.models.openai.logprobs import read_echo, read_prompt_logprobs
from rolecall.models.protocol import Reply
from rolecall.models.tokenizers.gguf import chat_settings, read_metadata
from rolecall.models.tokenizers.tokenizer import load_tokenizer
from rolecall.runs.store.codec import as_stored, pack_scored, read_reply, write_reply
from rolecall.runs.store.directory import FILE
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.store.writer import Store
from rolecall.scoring.scorecard import Scorecard
from rolecall.sources.datasets.formats import open_file
from rolecall.ui.cli.main import main
from test_runs_store import finish, keep
from test_tokenizers import byte_level, gguf_bytes

__all__ = ['TARGETS', 'Target', 'check']

SECONDS, MEGABYTES = 8.0, 300
"""What one input may take at the most; far more than any should, because machines are busy."""
_ADDRESS = re.compile(r'\bat 0x[0-9a-f]{6,}')


@dataclass(frozen=True)
class Target:
    """One reader: hostile input for it, and the call. The call may return text, which is searched for addresses."""

    inputs: st.SearchStrategy[Any]
    call: Callable[[Any], object]
    allowed: tuple[type[BaseException], ...] = (RolecallError,)
    weight: float = 1.0
    """How many examples it gets, compared with others: fewer if one takes long."""


def check(target: Target, given: Any) -> None:
    """Call the target; raises if it breaks a promise."""
    before, began = _megabytes(), time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            shown = target.call(given)
    except target.allowed as error:
        shown = str(error)
        if not shown.strip():
            raise AssertionError(f'{type(error).__name__} says nothing') from error
    took, more = time.perf_counter() - began, _megabytes() - before
    assert took < SECONDS, f'took {took:.1f} s'
    assert more < MEGABYTES, f'took {more:.0f} MB'
    if isinstance(shown, str):
        assert not _ADDRESS.search(shown), f'prints an address: {shown[:300]}'
        assert 'Traceback' not in shown, shown[-500:]


def _megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# -- hostile values ----------------------------------------------------------------------------------------------------


def nest(depth: int, inner: Any = None) -> Any:
    for _ in range(depth):
        inner = [inner] if depth % 2 else {'a': inner}
    return inner


WORDS = st.sampled_from(
    [
        *(
            '',
            ' ',
            '\0',
            '\ud800',
            '\x1b[2J',
            '\u202e',
            'ä' * 300,
            'a' * 5000,
            '{',
            '}',
            '{{',
            '{}',
            '{question}',
            '{answer}',
        ),
        *(
            '{question!r:>9}',
            '{question.__class__}',
            '{question[0]}',
            '</E>',
            '%s',
            '${HOME}',
            '../x',
            '/dev/zero',
            'x.y.z',
        ),
        *(
            'http://[::1',
            'HUMAN',
            'BOT',
            'SYSTEM',
            'begin',
            'end',
            'round',
            'role',
            'prompt',
            'type',
            'nan',
            '-1',
            '1e999',
        ),
        *(
            'PromptTemplate',
            'GenInferencer',
            'PPLInferencer',
            'FixKRetriever',
            'AccEvaluator',
            'true',
            'null',
            '<|im_end|>',
        ),
    ]
)
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**30, 10**400]),
    st.floats(),
    st.text(max_size=12),
    WORDS,
)
JUNK = st.one_of(
    PLAIN,
    st.recursive(
        PLAIN,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4), st.dictionaries(st.one_of(WORDS, st.text(max_size=5)), inner, max_size=4)
        ),
        max_leaves=6,
    ),
    st.sampled_from([60, 201, 900]).map(nest),
    st.integers(30, 80).map(lambda size: dict.fromkeys(map(str, range(size)))),
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if len(path) > 12:
        return found
    if isinstance(value, dict):
        found += [place for key, inner in value.items() for place in _places(inner, (*path, key))]
    elif isinstance(value, list):
        found += [place for at, inner in enumerate(value) for place in _places(inner, (*path, at))]
    return found


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value


@st.composite
def mutated(draw: st.DrawFn, *valid: Any) -> Any:
    """A valid value with one to three of its places replaced, removed or added to."""
    value = [_copy(draw(st.sampled_from(valid)))]
    for _ in range(draw(st.integers(1, 3))):
        places = [place for place in _places(value) if place]
        *way, last = draw(st.sampled_from(places))
        holder = value
        for step in way:
            holder = holder[step]
        action = draw(st.sampled_from(['replace', 'replace', 'replace', 'remove', 'add']))
        if action == 'replace':
            holder[last] = draw(JUNK)
        elif action == 'remove' and way:
            del holder[last]
        elif isinstance(holder, dict):
            holder[draw(WORDS)] = draw(JUNK)
        else:
            holder.insert(0, draw(JUNK)) if way else None
    return value[0]


@st.composite
def mutated_bytes(draw: st.DrawFn, *valid: bytes) -> bytes:
    """Valid bytes with pieces flipped, cut out, doubled or put in."""
    data = bytearray(draw(st.sampled_from(valid)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.sampled_from(['flip', 'cut', 'put', 'double', 'end'])):
            case 'flip' if data:
                data[at] = draw(st.integers(0, 255))
            case 'cut':
                del data[at : at + draw(st.integers(1, 9))]
            case 'put':
                data[at:at] = draw(
                    st.one_of(st.binary(max_size=8), st.sampled_from([b'"', b'{', b'[' * 2000, b'\0', b'\xff']))
                )
            case 'double':
                data[at:at] = data[at : at + 40]
            case _:
                del data[at:]
    return bytes(data)


@lru_cache(maxsize=1)
def _folder() -> Path:
    """A folder for files of this process."""
    return Path(tempfile.mkdtemp(prefix='rolecall-fuzz-'))


def _write(name: str, content: bytes | str) -> Path:
    path = _folder() / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode('utf-8', 'surrogatepass'))
    return path


def _command(*arguments: str) -> str:
    """What a command prints; it must end as commands do."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
    assert code in (0, 1, 2), f'exit code {code}'
    return out.getvalue() + err.getvalue()


# -- configs, templates ------------------------------------------------------------------------------------------------

ROWS = [{'question': 'How many?', 'answer': '3', 'options': ['a', 'b'], 'n': 1} for _ in range(3)]
SPEECHES = {
    'begin': [{'role': 'SYSTEM', 'fallback_role': 'HUMAN', 'prompt': 'Be brief.'}, '</E>'],
    'round': [{'role': 'HUMAN', 'prompt': 'Q: {question}'}, {'role': 'BOT', 'prompt': '{answer}'}],
}
CONFIGS = [
    config(ROWS, template('Q: {question}\nA: {answer}'), meta=LM),
    config(ROWS, template(SPEECHES, ice_token='</E>'), template('Q: {question} {answer}'), ROWS, meta=API, api=True),
    config(
        ROWS,
        template({'A': '{question} yes', 'B': '{question} no'}),
        inferencer={'type': 'PPLInferencer', 'max_out_len': 5, 'labels': ['A', 'B']},
        model={'abbr': 'x', 'type': 'OpenAI', 'path': 'gpt', 'key': 'k', 'base_url': 'http://127.0.0.1:9', 'retry': 1},
    ),
]
for one in CONFIGS:
    one['datasets'][0]['eval_cfg'] = {
        'evaluator': {'type': 'AccEvaluator'},
        'pred_postprocessor': {'type': 'first_number'},
    }


def read_config(given: tuple[Any, list[str]]) -> str:
    written, command = given
    if not isinstance(written, dict):
        written = {'models': written}
    names = {name: value for name, value in written.items() if isinstance(name, str) and name.isidentifier()}
    lines = ''.join(f'{name} = {value!r}\n' for name, value in names.items())
    path = _write('config.py', f'inf = nan = 1e999\n{lines}')
    return _command(*command, str(path))


def read_config_text(given: bytes) -> str:
    return _command('view', str(_write('text.py', given)))


COMMANDS = st.sampled_from([['view'], ['lint'], ['config', 'show'], ['export', 'requests'], ['view', '--json']])
TEMPLATES = st.one_of(
    st.lists(st.one_of(WORDS, st.sampled_from(['{question}', '{answer}', '\n', 'Q'])), max_size=6).map(''.join),
    mutated(SPEECHES, {'A': 'yes {question}', 'B': SPEECHES}),
)


def fill_template(given: tuple[Any, Any, Any]) -> str:
    written, row, meta = given
    rows = [row if isinstance(row, dict) else {'question': row, 'answer': row}]
    shown = preview(config(rows, template(written), template('{question}{answer}'), ROWS, meta=meta, api=meta is API))
    return ''.join(str(one.request) for one in islice(shown, 3))


JINJA = st.sampled_from(
    [
        *(
            '{{',
            '}}',
            '{%',
            '%}',
            '{#',
            '#}',
            ' ',
            '\n',
            'for',
            'm',
            'in',
            'messages',
            'if',
            'endif',
            'endfor',
            'else',
            'set',
            '==',
        ),
        *(
            'x',
            '=',
            '[',
            ']',
            '(',
            ')',
            '{',
            '}',
            '.',
            ',',
            '|',
            '-',
            '+',
            '*',
            '**',
            '//',
            '%',
            '~',
            "'a'",
            '"role"',
            '0',
            '99999999',
        ),
        *(
            'm.role',
            "m['content']",
            'bos_token',
            'raise_exception',
            'tojson',
            'trim',
            'join',
            'namespace',
            'range',
            'loop.index0',
        ),
        *(
            'macro',
            'endmacro',
            'not',
            'and',
            'is',
            'defined',
            'add_generation_prompt',
            '__class__',
            'format',
            'strftime_now',
            ':',
        ),
        *(
            '{{ m }}',
            '{% for m in messages %}',
            '{% endfor %}',
            '{{ messages }}',
            '{% if x %}',
            '{% endif %}',
            '{{ x * 999999 }}',
        ),
    ]
)
CHATML = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] | trim }}<|im_end|>\n{% endfor %}"


def render_chat(given: tuple[str, list[Any]]) -> str:
    source, messages = given
    return ChatTemplate(source, bos_token='<s>').render(messages)


# -- data files --------------------------------------------------------------------------------------------------------

JSONL = ''.join(json.dumps(row) + '\n' for row in ROWS).encode()
CSV = b'question,answer,n\n"How, many?",3,1\n"two\nlines",4,2\n'
FILES = [
    ('a.jsonl', JSONL),
    ('a.json', json.dumps(ROWS).encode()),
    ('a.json', json.dumps({'data': ROWS, 'version': 1}).encode()),
    ('a.csv', CSV),
    ('a.tsv', CSV.replace(b',', b'\t')),
    ('a.txt', b'one\ntwo\n'),
    ('a.jsonl.gz', gzip.compress(JSONL, mtime=0)),
    ('a.csv.gz', gzip.compress(CSV, mtime=0)),
]


def read_rows(given: tuple[str, bytes]) -> str:
    name, content = given
    rows = open_file(_write(name, content))
    found = list(islice(rows, 20))
    if len(rows):
        rows[0]
    return str(found)[:10_000]


# -- replies -----------------------------------------------------------------------------------------------------------

CALL = {'id': 'c1', 'type': 'function', 'function': {'name': 'f', 'arguments': '{"x": 1}'}}
USAGE = {'prompt_tokens': 3, 'completion_tokens': 1, 'prompt_tokens_details': {'cached_tokens': 2}}
OPENAI = {
    'choices': [
        {'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': '<think>a</think>b', 'tool_calls': [CALL]}},
        {'index': 1, 'finish_reason': 'length', 'message': {'content': [{'type': 'text', 'text': 'x'}], 'refusal': None, 'reasoning': 'r'}},
    ],
    'usage': USAGE,
}  # fmt: skip
EVENTS = [
    {'choices': [{'index': 0, 'delta': {'role': 'assistant', 'content': 'a', 'reasoning_content': 'r'}}]},
    {
        'choices': [
            {
                'index': 0,
                'delta': {'tool_calls': [{'index': 0, 'id': 'c', 'function': {'name': 'f', 'arguments': '{'}}]},
            }
        ]
    },
    {'choices': [{'index': 0, 'text': 'b', 'finish_reason': 'stop'}]},
    {'choices': [], 'usage': USAGE},
]
ECHO = {
    'choices': [
        {
            'text': '',
            'logprobs': {'tokens': ['a', ' b', 'c'], 'token_logprobs': [None, -1.5, -2], 'text_offset': [0, 1, 3]},
        }
    ],
    'usage': {'prompt_tokens': 2},
}
PROMPT_LOGPROBS = {
    'choices': [
        {'prompt_logprobs': [None, {'7': {'logprob': -1.5, 'decoded_token': ' b', 'rank': 1}, '9': {'logprob': -2.0}}]}
    ]
}
MESSAGE = {
    'type': 'message',
    'stop_reason': 'end_turn',
    'usage': {'input_tokens': 3, 'output_tokens': 2, 'cache_read_input_tokens': 1},
    'content': [
        {'type': 'thinking', 'thinking': 'hm', 'signature': 's'},
        {'type': 'text', 'text': 'b'},
        {'type': 'tool_use', 'id': 'c', 'name': 'f', 'input': {'x': 1}},
    ],
}
ANTHROPIC_EVENTS = [
    {'type': 'message_start', 'message': {**MESSAGE, 'content': []}},
    {'type': 'content_block_start', 'index': 0, 'content_block': {'type': 'text', 'text': ''}},
    {'type': 'content_block_delta', 'index': 0, 'delta': {'type': 'text_delta', 'text': 'b'}},
    {
        'type': 'content_block_start',
        'index': 1,
        'content_block': {'type': 'tool_use', 'id': 'c', 'name': 'f', 'input': {}},
    },
    {'type': 'content_block_delta', 'index': 1, 'delta': {'type': 'input_json_delta', 'partial_json': '{"x": 1}'}},
    {'type': 'content_block_stop', 'index': 1},
    {'type': 'message_delta', 'delta': {'stop_reason': 'end_turn'}, 'usage': {'output_tokens': 2}},
    {'type': 'message_stop'},
]


def _store(reply: Reply) -> None:
    """What was read can be stored, and read again."""
    read_reply(write_reply(reply))


def _decode(value: Any) -> Any:
    """A value as it comes over the wire; what JSON cannot carry was refused before."""
    try:
        return parse_json(json.dumps(value))
    except RecursionError:
        return None


def read_openai(value: Any) -> None:
    _store(openai.read_reply(_decode(value), seconds=1.0))


def read_openai_stream(events: Any) -> None:
    answer = openai.StreamedAnswer()
    for event in _decode(events):
        answer.take(event)
        answer.read_text(event)
    if answer.finished:
        _store(openai.read_reply(answer.join()))


def read_anthropic(value: Any) -> None:
    _store(anthropic.read_message(_decode(value), seconds=1.0))


def read_anthropic_stream(events: Any) -> None:
    answer = anthropic.StreamedMessage()
    for event in _decode(events):
        answer.take(event)
        answer.read_text(event)
    if answer.finished:
        _store(anthropic.read_message(answer.join()))


def read_logprobs(given: tuple[Any, Any]) -> None:
    value, prompt = given
    pack_scored(as_stored(read_echo(_decode(value), prompt=prompt)))


def read_vllm_logprobs(given: tuple[Any, Any]) -> None:
    value, prompt = given
    pack_scored(as_stored(read_prompt_logprobs(_decode(value), prompt=prompt)))


def read_error(given: tuple[Any, int, dict[str, str]]) -> str:
    value, status, headers = given
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return str(status_error('server', status, headers, body)) + str(embedded_error('server', value))


def read_events(given: tuple[bytes, int]) -> None:
    data, size = given
    reader = EventReader()
    found = [event for at in range(0, len(data), size) for event in reader.feed(data[at : at + size])]
    for event in [*found, *reader.feed(EVENT_END)]:
        with contextlib.suppress(ValueError):
            parse_json(event)


HEADER = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            '1',
            '-1',
            '1e999',
            'nan',
            'inf',
            '9' * 400,
            'Wed, 21 Oct 2026 07:28:00 +999999999',
            '6m0s',
            '2026-13-45T99:99:99Z',
        ]
    ),
    st.from_regex(r'\A[0-9.]{1,5}(ms|s|m|h|d)?([0-9]{1,3}s)?\Z'),
    mutated_bytes(b'Wed, 21 Oct 2026 07:28:00 GMT', b'2026-10-21T07:28:00.123+02:00').map(
        lambda raw: raw.decode('latin-1')
    ),
)
HEADERS = st.dictionaries(
    st.sampled_from(
        [
            *('Retry-After', 'retry-after-ms'),
            *(
                f'x-ratelimit-{part}-{unit}'
                for part in ('limit', 'remaining', 'reset')
                for unit in ('requests', 'tokens')
            ),
            *(
                f'anthropic-ratelimit-{unit}-{part}'
                for part in ('limit', 'remaining', 'reset')
                for unit in ('requests', 'tokens')
            ),
        ]
    ),
    HEADER,
    max_size=6,
)


def read_headers(headers: Mapping[str, str]) -> None:
    pause = retry_after(headers)
    assert pause is None or 0 <= pause <= 86_400
    for limit in read_rate_limits(headers).values():
        assert limit.remaining >= 0
        assert 0 <= limit.reset < 1e30


# -- run directories ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _run() -> bytes:
    folder = _folder() / 'whole'
    store = Store(folder)
    keep(store, **{f'{row:032x}': Reply('an answer of some length ' * 9) for row in range(40)})
    replies = ('an answer of some length ' * 9,)
    finish(store, *(Result('d', 'm', row, 'ok', replies=replies, fingerprints=(f'{row:032x}',)) for row in range(40)))
    store.record_scores([Scorecard('d', 'm', 'accuracy', 50.0, scored=40, total=40, outcomes={'ok': 40})])
    store.record_start({'pairs': [{'dataset': 'd', 'model': 'm'}]}, '{}')
    store.close()
    return (folder / FILE).read_bytes()


CELLS = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.binary(max_size=30), st.text(max_size=30),
    st.sampled_from(['{}', '[]', '[' * 5000, '{"replies": 5}', '{"outcome": []}', '{"value": 1e999}', 'null']),
    mutated({'prediction': 'x', 'replies': ['a'], 'score': 1.0, 'details': {}, 'usage': {'input_tokens': 1}}).map(json.dumps),
)  # fmt: skip
DAMAGE = st.one_of(
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=20),
    st.lists(st.tuples(st.floats(0, 1), st.just(-1)), min_size=1, max_size=4),
    st.tuples(
        st.sampled_from(
            [
                *(
                    'rows.result',
                    'rows.outcome',
                    'rows.row',
                    'rows.dataset',
                    'rows.model',
                    'requests.reply',
                    'requests.request',
                ),
                *(
                    'scores.card',
                    'starts.manifest',
                    'starts.config',
                    'starts.started',
                    'requests.fingerprint',
                    'rows.checksum',
                ),
            ]
        ),
        CELLS,
        st.booleans(),
    ),
)


def read_run(damage: Any) -> str:
    folder = _folder() / 'damaged'
    folder.mkdir(exist_ok=True)
    for name in os.listdir(folder):
        (folder / name).unlink()
    data = bytearray(_run())
    if isinstance(damage, list):
        for at, value in damage:
            place = int(at * (len(data) - 1))
            if value < 0:
                data[place : place + 4096] = bytes(len(data[place : place + 4096]))
            else:
                data[place] = value
    (folder / FILE).write_bytes(data)
    if isinstance(damage, tuple):
        column, cell, unchecked = damage
        table, _, name = column.partition('.')
        with contextlib.closing(sqlite3.connect(folder / FILE)) as db, contextlib.suppress(sqlite3.Error, UnicodeError):
            db.execute(f'UPDATE OR IGNORE {table} SET {name} = ? WHERE rowid % 7 = 1', (cell,))
            if unchecked and table in ('rows', 'requests'):
                db.execute(f'UPDATE {table} SET checksum = NULL')
            db.commit()
    with contextlib.suppress(RolecallError), RunReader(folder) as reader:
        list(reader.results()), reader.scorecards(), reader.manifest(), reader.config(), reader.created
        reader.rows_after(('', '', -1), limit=5)
    return (
        _command('report', str(folder))
        + _command('export', 'results', '--prompts', str(folder))
        + _command('doctor', str(folder))
    )


# -- GGUF files, tokenizers, task files --------------------------------------------------------------------------------

GGUF = gguf_bytes(byte_level())
TOKENIZER = {
    'version': '1.0',
    'added_tokens': [{'id': 3, 'content': '<s>', 'special': True, 'single_word': False, 'lstrip': False, 'rstrip': False, 'normalized': False}],
    'normalizer': {'type': 'NFC'},
    'pre_tokenizer': {'type': 'Whitespace'},
    'post_processor': None,
    'decoder': None,
    'model': {'type': 'BPE', 'vocab': {'a': 0, 'b': 1, '?': 2}, 'merges': [], 'unk_token': '?'},
}  # fmt: skip
WORD_PIECE = TOKENIZER | {
    'model': {'type': 'WordPiece', 'vocab': {'a': 0, '[UNK]': 1}, 'unk_token': '[UNK]', 'continuing_subword_prefix': '##', 'max_input_chars_per_word': 9}
}  # fmt: skip
TOKENIZER_CONFIG = {
    'bos_token': '<s>',
    'eos_token': {'content': '</s>'},
    'add_bos_token': True,
    'chat_template': CHATML,
}


def read_gguf(data: bytes) -> str:
    path = _write('a.gguf', data)
    return str(read_metadata(path, arrays=('tokenizer.ggml.tokens',)))[:5000] + str(chat_settings(path))


def read_tokenizer(given: tuple[Any, Any]) -> str:
    folder = _folder() / 'tokenizer'
    folder.mkdir(exist_ok=True)
    for name, value in zip(('tokenizer.json', 'tokenizer_config.json'), given, strict=True):
        try:
            (folder / name).write_text(json.dumps(value))
        except RecursionError:
            (folder / name).write_text('[' * 3000)
    found = load_tokenizer(folder)
    text = 'a b <s> ä\n\0'
    ids = found.encode(text)
    found.offsets(text)
    return found.decode(ids) + str(found.special_tokens)


TASK = b"""task: qa
output_type: multiple_choice
training_split: train
test_split: test
doc_to_text: "{{question}}?"
doc_to_choice: options
doc_to_target: n
num_fewshot: 1
fewshot_config: {sampler: first_n}
generation_kwargs: {until: ["\\n"], do_sample: false}
metric_list:
  - metric: acc
    aggregation: mean
    higher_is_better: true
filter_list:
  - name: a
    filter: [{function: regex, regex_pattern: "(\\\\d+)"}, {function: take_first}]
"""
_YAML = st.sampled_from(
    [
        *(
            b'&a [*a]',
            b'!!python/object/apply:os.system [id]',
            b'!function utils.f',
            b'<<: *x',
            b'? : [',
            b'{{',
            b'{% for',
            b'---\n',
        ),
        *(
            b'include: task.yaml\n',
            b'group: qa\ntask: [qa]\n',
            b'\t',
            b'|2-',
            b'\x00',
            b'1e999',
            b'.nan',
            b'2026-02-30',
            b'0x' + b'f' * 5000,
        ),
        *(
            b'*missing',
            b'[' * 1500,
            b'{{ question * 99999999 }}',
            b'dataset_path: ../../etc\n',
            b'repeats: -1\n',
            b'process_docs: 5\n',
        ),
    ]
)


@st.composite
def tasks(draw: st.DrawFn) -> bytes:
    data = draw(st.one_of(mutated_bytes(TASK), st.just(TASK)))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(_YAML) + data[at:]
    return data


def read_task(data: bytes) -> str:
    loaded: dict[str, Any] = dict(load_config(_write('task.yaml', data)))
    shown = preview(loaded, data={'train': ROWS, 'test': ROWS})  # type: ignore[arg-type]  # rows in place of files
    return ''.join(str(one.request) for one in islice(shown, 4))


MALFORMED_TOO = (RolecallError, *MALFORMED)
"""The models turn these into errors of ours (`malformed_error`)."""

TARGETS: dict[str, Target] = {
    'config': Target(st.tuples(mutated(*CONFIGS), COMMANDS), read_config, weight=0.6),
    'config text': Target(
        mutated_bytes(''.join(f'{name} = {value!r}\n' for name, value in CONFIGS[0].items()).encode()),
        read_config_text,
        weight=0.4,
    ),
    'template fill': Target(st.tuples(TEMPLATES, JUNK, st.sampled_from([None, LM, API])), fill_template),
    'meta template': Target(st.tuples(st.just(SPEECHES), st.just(ROWS[0]), mutated(LM, API)), fill_template),
    'chat template': Target(
        st.tuples(
            st.one_of(
                st.lists(JINJA, max_size=25).map(' '.join),
                mutated_bytes(CHATML.encode()).map(lambda raw: raw.decode('utf-8', 'replace')),
            ),
            mutated([{'role': 'user', 'content': 'hi'}, {'role': 'assistant', 'content': 'ho', 'tool_calls': [CALL]}]),
        ),
        render_chat,
    ),
    'data file': Target(
        st.sampled_from(FILES).flatmap(lambda file: st.tuples(st.just(file[0]), mutated_bytes(file[1]))), read_rows
    ),
    'OpenAI reply': Target(mutated(OPENAI), read_openai, MALFORMED_TOO),
    'OpenAI stream': Target(mutated(EVENTS), read_openai_stream, MALFORMED_TOO),
    'log-probabilities by echo': Target(
        st.tuples(mutated(ECHO), st.sampled_from(['a b', [1, 2]])), read_logprobs, MALFORMED_TOO
    ),
    'log-probabilities of a prompt': Target(
        st.tuples(mutated(PROMPT_LOGPROBS), st.sampled_from(['a b', [5, 7]])), read_vllm_logprobs, MALFORMED_TOO
    ),
    'Anthropic reply': Target(mutated(MESSAGE), read_anthropic, MALFORMED_TOO),
    'Anthropic stream': Target(mutated(ANTHROPIC_EVENTS), read_anthropic_stream, MALFORMED_TOO),
    'error reply': Target(
        st.tuples(
            st.one_of(
                mutated({'error': {'message': 'no', 'code': 'x', 'type': 'y', 'innererror': {'code': 'z'}}}), JUNK
            ),
            st.sampled_from([302, 400, 401, 429, 500, 599]),
            HEADERS,
        ),
        read_error,
    ),
    'event stream': Target(
        st.tuples(
            mutated_bytes(b''.join(f'data: {json.dumps(event)}\r\n\r\n'.encode() for event in EVENTS)),
            st.integers(1, 50),
        ),
        read_events,
    ),
    'headers': Target(HEADERS, read_headers),
    'run directory': Target(DAMAGE, read_run, weight=0.5),
    'GGUF file': Target(mutated_bytes(GGUF, GGUF[:200]), read_gguf),
    'tokenizer files': Target(
        st.one_of(
            st.tuples(mutated(TOKENIZER, WORD_PIECE), st.just(TOKENIZER_CONFIG)),
            st.tuples(st.just(TOKENIZER), mutated(TOKENIZER_CONFIG)),
        ),
        read_tokenizer,
        weight=0.6,
    ),
    'lm-eval task': Target(tasks(), read_task, weight=0.6),
}
