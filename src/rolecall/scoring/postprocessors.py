"""Postprocessors by the names configs use, and how a config entry becomes a function from reply to answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

from rolecall.core.prompts.pieces import text_of
from rolecall.errors import ConfigError, Problem
from rolecall.patterns import search_groups
from rolecall.registry import Part, Registry
from rolecall.scoring.blame import blame_errors_on
from rolecall.scoring.readers.native import read_text
from rolecall.scoring.readers.reading import Page, Reading
from rolecall.scoring.reading_choice import read_meaning
from rolecall.scoring.texts import chinese_words

POSTPROCESSORS: Registry[Callable[..., Any]] = Registry(
    'postprocessor',
    'rolecall.compat.opencompass.evaluator_names:POSTPROCESSORS',
    is_ours=lambda name: False,
    spelling=lambda name: re.sub(r'_postprocess(?:or)?(?=_|$)', '', name.replace('-', '_')).lower(),
)
"""`first-option`, `first_option` and `first_option_postprocess` are the same name."""

_PATTERNS = ('answer_pattern', 're_pattern')


@dataclass(frozen=True, slots=True)
class Extractor:
    """A postprocessor with its options. Calling it gives the answer, `read` gives the reading with its place."""

    function: Callable[..., Any]
    name: str
    options: Mapping[str, Any]
    takes: tuple[str, ...] = ()
    """What else a reader of ours takes: the `row`, and the `forms` that the prompt asks for."""

    def __call__(self, reply: Any) -> Any:
        """The answer in a reply; None or an empty string if there is none."""
        answer = self.read(reply)
        return (answer.value if answer.counts else '') if isinstance(answer, Reading) else answer

    def read(self, reply: Any, row: Mapping[str, Any] | None = None) -> Any:
        """The answer in a reply to a row, as a `Reading` where the postprocessor gives one."""
        options = {**self.options, 'row': row} if 'row' in self.takes else self.options
        try:
            return self.function(reply if isinstance(reply, str) else text_of(reply), **options)
        except Exception:
            with blame_errors_on(f'the postprocessor {self.name}'):
                raise


def read_postprocessor(entry: Any, *, where: str = '', read_as: str | None = None) -> Extractor:
    """Resolve a config entry (a name, a function, or `{'type': …}` with options).

    A name of another system means what it means there, unless `read_as` is another one. Exceptions inside it are raised
    as `ScoringError`.

    >>> entry, reply = {'type': 'first_option_postprocess', 'options': 'ABCD'}, 'A is tempting, but the answer is C.'
    >>> read_postprocessor(entry)(reply), read_postprocessor(entry, read_as='own')(reply)
    ('C', 'C')
    >>> read_postprocessor(str.upper)('yes')
    'YES'
    """
    part = POSTPROCESSORS.read(entry, where=where)
    part = read_meaning(part, entry.get('type') if isinstance(entry, Mapping) else entry, read_as, skip=1)
    function: Callable[..., Any] = part.value
    if not callable(function):
        raise ConfigError(Problem(where, f'{part.name} is not a function.', 'A postprocessor takes a reply.'))
    if problems := [*part.option_problems(skip=1), *_bad_patterns(part)]:
        raise ConfigError(problems)
    taken = signature(function).parameters if part.builtin else ()
    return Extractor(function, part.name, dict(part.options), tuple(name for name in ('row', 'forms') if name in taken))


def is_empty(extracted: Any) -> bool:
    """Whether a postprocessor found no answer."""
    return extracted is None or (isinstance(extracted, (str, list, tuple)) and not extracted)


def _bad_patterns(part: Part[Any]) -> list[Problem]:
    problems = []
    for name in _PATTERNS:
        try:
            re.compile(part.options.get(name, ''))
        except (re.error, TypeError) as error:
            problems.append(Problem(f'{part.where}.{name}'.lstrip('.'), f'not a regular expression: {error}.'))
    return problems


_TITLE = re.compile(
    r'(\b(?:Dr|Mr|Mrs|Ms|Prof|St|Mt|Gen|Col|Sgt|Capt|Sen|Rev)|(?<=[a-z]\s)[A-Z])\.(?=\s[A-Z])'  # also `John F. Kennedy`
)
_INITIALS = re.compile(r'(?:\b[A-Z]\.\s?){2,9}(?=[A-Z][a-z])')


def general_postprocess(text: str) -> str:
    """The first phrase of the reply, without articles and punctuation; what stands in numbers stays.

    >>> [general_postprocess(text) for text in ('The Eiffel Tower, in Paris.', 'U.S.A.', '-3.14', 'Dr. J. K. Who.')]
    ['Eiffel Tower', 'USA', '-3.14', 'Dr JK Who']
    """
    named = _INITIALS.sub(lambda initials: re.sub(r'[.\s]', '', initials[0]) + ' ', _TITLE.sub(r'\1', text.strip()))
    phrase = re.split(r'[\n。！？，]|[.,!?](?=\s|$)', named, maxsplit=1)[0]
    bare = re.sub(r'(?<=\d),(?=\d)|(?<!\d)\.|\.(?!\d)|(?!(?<!\w)-\d|(?<=\d)[-/:]\d)[^\w\s.]', '', phrase)
    return ' '.join(re.sub(r'\b(?:a|an|the)\b(?=\s+\w)', ' ', bare, flags=re.IGNORECASE).split())


def general_cn_postprocess(text: str) -> str:
    """The words of a Chinese reply, separated by spaces (`jieba` finds them).

    >>> general_cn_postprocess('我爱北京')
    '我 爱 北京'
    """
    return ' '.join(chinese_words(text))


def bbh_freeform_postprocess(text: str) -> str:
    """The text that the reply states, a leading yes or no alone; else its first line.

    >>> bbh_freeform_postprocess("Let's see. So the answer is **valid**. Because …"), bbh_freeform_postprocess('no')
    ('valid', 'No')
    """
    text = Page(text).own
    stated = read_text(text)
    phrase = (stated.value if stated and stated.certainty == 'stated' else None) or text.strip().partition('\n')[0]
    phrase = phrase.strip('"“”$').strip()
    lead = re.match(r'(yes|no)(?=$|\s*[,;:!–—.-]|\s+(?:because|since|as)\b)', phrase, re.IGNORECASE)
    return lead[0].capitalize() if lead else phrase


def first_capital_postprocess(text: str) -> str:
    """The first capital letter of the reply, wherever it stands.

    >>> first_capital_postprocess('b or C?')
    'C'
    """
    return next(filter(str.isupper, text), '')


def last_capital_postprocess(text: str) -> str:
    """The last capital letter of the reply, wherever it stands.

    >>> last_capital_postprocess('B, not c')
    'B'
    """
    return next(filter(str.isupper, reversed(text)), '')


def multiple_select_postprocess(text: str) -> str:
    """All capital letters of the reply, each once, in alphabetical order.

    >>> multiple_select_postprocess('D, B and D')
    'BD'
    """
    return ''.join(sorted(set(filter(str.isupper, text))))


def match_answer_pattern(text: str, answer_pattern: str) -> str:
    r"""What the first group of `answer_pattern` matches, or the whole match where it has no groups.

    >>> match_answer_pattern('Answer: C', answer_pattern=r'(?i)answer\s*:\s*([A-D])')
    'C'
    """
    return _first_group(search_groups(answer_pattern, text))


def think_pred_postprocess(text: str, re_pattern: str) -> str:
    """What `re_pattern` matches after the reasoning, stripped; the whole reply if it does not match.

    >>> think_pred_postprocess('<think>hm</think> 42 ', re_pattern='</think>(.*)')
    '42'
    """
    groups = search_groups(re_pattern, text)
    return _first_group(groups).strip() if groups else text


def xml_tag_postprocessor(text: str, tag: str) -> str:
    """What stands in the last `<tag>…</tag>`; the tag may be given with or without its brackets.

    >>> xml_tag_postprocessor('<answer>no</answer> <answer> yes </answer>', tag='<answer>')
    'yes'
    """
    name = re.escape(tag.strip('<>/ '))
    contents = re.findall(rf'<{name}>((?:(?!<{name}>).)*?)</{name}>', text, re.DOTALL)
    return contents[-1].strip() if contents else ''


def extract_non_reasoning_content(
    text: str, think_start_token: str = '<think>', think_end_token: str = '</think>'
) -> str:
    """The reply without its reasoning, also where the reasoning's beginning is in the prompt or its end is missing.

    >>> replies = ('so 6 * 7 … </think> 42', '<think>hm', '<think>a <think>b</think> c')
    >>> [extract_non_reasoning_content(reply) for reply in replies]
    ['42', '', '']
    """
    depth, outside = 0, ''
    for piece in re.split(f'({re.escape(think_start_token)}|{re.escape(think_end_token)})', text):
        if piece == think_start_token:
            depth += 1
        elif piece == think_end_token:
            outside = outside if depth else ''
            depth = max(depth - 1, 0)
        elif depth == 0:
            outside += piece
    return outside.strip()


def extract_role(text: str, *, begin: str = '', end: str = '') -> str:
    """Remove a role's `begin` marker, and everything from its `end` marker on (the next speaker).

    Blank markers are ignored.

    >>> extract_role('<BOT>: 42<eob>\\nHUMAN: next', begin='<BOT>: ', end='<eob>')
    '42'
    """
    if begin.strip():
        text = text.removeprefix(begin) if text.startswith(begin) else _after_stripped(text, begin.strip())
    return text.partition(end.strip())[0].rstrip() if end.strip() else text


def _after_stripped(text: str, begin: str) -> str:
    trimmed = text.lstrip()
    return trimmed.removeprefix(begin).lstrip() if trimmed.startswith(begin) else text


def _first_group(groups: tuple[str | None, ...] | None) -> str:
    return (groups[1] if len(groups) > 1 else groups[0]) or '' if groups else ''
