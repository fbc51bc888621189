"""Models that need no weights: what they reply and how they weigh follows from the request alone."""

import itertools
import json
import re
import zlib

from rolecall import Reply
from rolecall.models import Scored

REPLIES = (
    'The answer is A.',
    'B',
    'Let us see.\n\nFirst 3, then 4, so it is 7.\n#### 7',
    '<think>\nC looks right, or D?\n</think>\n\n**D**',
    r'Therefore \boxed{18}.',
    'yes',
    'no, because “天气” 🙂 says otherwise',
    '',
    'So the answer is 42. Then again: the answer is (C)',
    '{"answer": "B"}',
    '[[7]]',
    'positive',
)
ROLES = dict(
    round=[dict(role='HUMAN', api_role='HUMAN'), dict(role='BOT', api_role='BOT', generate=True)],
    reserved_roles=[dict(role='SYSTEM', api_role='SYSTEM')],
)
_WORD = re.compile(r'\s*\S+|\s+$')


def text_of(request):
    """The request as one text."""
    return request if isinstance(request, str) else json.dumps(request, ensure_ascii=False, sort_keys=True)


def answer(request):
    """One of the replies."""
    return REPLIES[zlib.crc32(text_of(request).encode()) % len(REPLIES)]


def answer_or_fail(request):
    """One of the replies, or one of the ways in which a reply does not come."""
    number = zlib.crc32(text_of(request).encode()) % 5
    if number == 0:
        raise ValueError('the function is out of order')
    if number == 1:
        return Reply('', outcome='filtered', reason='the function declines')
    return answer(request)


def judge(request):
    """A verdict: right or wrong, with a rating."""
    number = zlib.crc32(text_of(request).encode())
    return f'{"AB"[number % 2]}\n[[{number % 10 + 1}]]'


def strict_judge(request):
    """Finds most answers wrong."""
    return 'A' if zlib.crc32(text_of(request).encode()) % 4 == 0 else 'B'


def prefer(request):
    """Which of two answers is better."""
    return ('[[A]]', '[[B]]', '[[C]]')[zlib.crc32(text_of(request).encode()) % 3]


def score(requests):
    """A loss for every word but the first, the same wherever the word stands."""
    return [_weigh(text_of(request)) for request in requests]


def _weigh(text):
    words = _WORD.findall(text)
    ends = list(itertools.accumulate(map(len, words)))
    numbers = [zlib.crc32(word.strip().encode()) for word in words]
    losses = (None, *(-0.25 * (1 + number % 16) for number in numbers[1:]))[: len(words)]
    places = tuple(zip([0, *ends], ends, strict=False))
    likeliest = tuple(place > 0 and number % 3 > 0 for place, number in enumerate(numbers))
    return Scored(tuple(number % 10_000 for number in numbers), losses, places, greedy=likeliest)


def text_model(abbr='text', **more):
    """A base model that completes text and weighs it."""
    return dict(abbr=abbr, type=answer, score=score, max_out_len=32, **more)


def chat_model(abbr='chat', **more):
    """A model behind an API with system, user and assistant."""
    return dict(abbr=abbr, type=answer, meta_template=ROLES, max_out_len=32, **more)
