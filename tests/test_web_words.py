"""The page's words: every one that the page can show has a line in the Chinese table, and no view says anything else."""

import re
from pathlib import Path

import pytest

from rolecall.experiment.lint.subject import SEVERITIES
from rolecall.experiment.previews.blocks import _HAPPENED
from rolecall.runs.store.labels import LABELS
from rolecall.ui.report.counts import VERDICTS
from rolecall.ui.report.score_text import OUTCOMES
from rolecall.ui.views.chinese import read_chinese
from rolecall.ui.views.looks import LOOKS

pytest.importorskip('aiohttp')
from rolecall.ui.web.page_json import CHANGED, NO_CONFIG
from rolecall.ui.web.run_documents import _OTHER_VERDICTS

ASSETS = Path(__file__).resolve().parent.parent / 'src/rolecall/ui/web/assets'
DRAWING = ASSETS.parent.parent / 'report/assets/draw.js'
VIEWS = sorted(ASSETS.glob('*.js'))
STRING = r"""(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")"""
COUNTED = ('row', 'message', 'token', 'run', 'line', 'edit', 'finding', 'character', *SEVERITIES[:2])
SERVED = [
    *(look.meaning for look in LOOKS.values()),
    *OUTCOMES,
    *OUTCOMES.values(),
    *VERDICTS,
    *_OTHER_VERDICTS,
    *SEVERITIES,
    *LABELS,
    *_HAPPENED.values(),
    *('not asked', 'answered by'),
    *('class', 'answer_position', 'precision', 'recall', 'F1', 'predicted'),
    *('shots', 'skipped', 'hidden', 'context', 'size', 'fingerprint', 'tokens', 'boundaries', 'tokenizer', 'budget'),
    *(
        'input tokens',
        'output tokens',
        'time',
        'training rows',
        'dropped to fit',
        'belongs to',
        'stored as',
        'not finished',
    ),
    CHANGED,
    NO_CONFIG,
]
"""What the server says in fixed words."""


def find_words(text):
    return {(one or other).replace("\\'", "'") for one, other in re.findall(rf'\bt\({STRING}', text)}


TABLE = read_chinese('page')


def test_the_table_is_read_whole():
    assert len(TABLE) > 250
    assert TABLE['Explore'] == '浏览'


def test_every_word_of_the_views_is_in_the_table():
    used = set().union(*(find_words(path.read_text('utf-8')) for path in VIEWS))
    used |= set(re.findall(r"translate\('([^']*)'\)", DRAWING.read_text('utf-8')))
    assert len(used) > 150
    assert sorted(used - set(TABLE)) == []


def test_every_word_of_the_server_is_in_the_table():
    assert sorted({word for word in SERVED if word not in TABLE}) == []


def test_counted_nouns_are_in_the_table():
    nouns = set().union(
        *(re.findall(r"countOf\((?:[^()]|\([^()]*\))*?, '(\w+)'\)", path.read_text()) for path in VIEWS)
    )
    assert nouns <= set(COUNTED)
    assert sorted(f'{{n}} {noun}' for noun in COUNTED if f'{{n}} {noun}' not in TABLE) == []


def test_a_translation_fills_the_same_places():
    places = {key: sorted(re.findall(r'\{\w+\}', key)) for key in TABLE}
    assert [key for key, wanted in places.items() if sorted(re.findall(r'\{\w+\}', TABLE[key])) != wanted] == []


def test_nothing_in_the_table_is_unused():
    texts = ''.join(path.read_text('utf-8') for path in [*VIEWS, DRAWING, DRAWING.with_name('report.js')])
    known = {*SERVED, *(f'{{n}} {noun}' for noun in COUNTED), 'accuracy', 'mean of rows'}
    unused = [key for key in TABLE if key not in known and not any(f'{q}{key}{q}' in texts for q in '\'"')]
    assert unused == []


@pytest.mark.parametrize('path', VIEWS, ids=lambda path: path.name)
def test_no_view_has_words_of_its_own_in_its_markup(path):
    """Texts between tags, labels and placeholders come from `t`."""
    for markup in templates_of(path.read_text('utf-8')):
        plain = re.sub(r'<(code|kbd|h1)\b[^>]*>.*?</\1>', '', markup)
        bare = re.findall(r'(?:^|>)([^<>]*[A-Za-z]{3,}[^<>]*)(?:<|$)', plain) if '<' in markup else []
        said = re.findall(r'\b(?:aria-label|placeholder|title|label|alt)="([^"]*[A-Za-z]{3,}[^"]*)"', markup)
        assert [words for words in (*bare, *said) if words.strip()] == []


def test_words_in_markup_would_be_noticed():
    assert list(templates_of('html`<p class="x">Hello ${t(`a ${b} c`)}</p>`; // html`<b>no</b>`')) == [
        '<p class="x">Hello </p>'
    ]


def templates_of(text):
    """The literal parts of every html`…` in a script, without what is computed in them."""
    found, stack, at = [], [], 0
    while at < len(text):
        mode = stack[-1] if stack else None
        character = text[at]
        if mode is not None and mode[0] == 'template':
            if character == '\\':
                at += 1
            elif character == '`':
                stack.pop()
                found += [''.join(mode[2])] if mode[1] else []
            elif text.startswith('${', at):
                stack.append(('code',))
                at += 1
            else:
                mode[2].append(character)
        elif character in '\'"':
            at = re.compile(rf'(?:[^{character}\\]|\\.)*').match(text, at + 1).end()
        elif text.startswith('//', at):
            at = text.find('\n', at) if '\n' in text[at:] else len(text)
        elif re.compile(r'(?<=[=(:,!?&|] )/(?![*/])(?:[^/\\\n\[]|\\.|\[(?:[^\]\\]|\\.)*\])+/').match(text, at):
            at = re.compile(r'/(?:[^/\\\n\[]|\\.|\[(?:[^\]\\]|\\.)*\])+/').match(text, at).end() - 1
        elif character == '`':
            stack.append(('template', text[:at].endswith('html'), []))
        elif character == '{':
            stack.append(('code',))
        elif character == '}':
            stack.pop()
        at += 1
    return found
