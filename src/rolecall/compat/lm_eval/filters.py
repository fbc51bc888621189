"""Filters of task files, which extract answers from replies. A task may have several named pipelines."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rolecall.compat.lm_eval.functions import load_function
from rolecall.compat.lm_eval.task import LmTask, Row
from rolecall.compat.lm_eval.task_file import Function
from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.patterns import find_all, substitute

Replies = list[Any]
Step = Callable[[Replies, Row], Any]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One filter pipeline."""

    name: str
    steps: tuple[Step, ...]

    def apply(self, replies: Replies, doc: Row) -> Any:
        """The filtered replies to one request."""
        result: Any = list(replies)
        for step in self.steps:
            result = step(result, doc)
        return result


def read_pipelines(task: LmTask) -> list[Pipeline]:
    """A task's pipelines; by default, one that takes the first reply."""
    declared = task.get('filter_list')
    if declared is None:
        return [Pipeline('none', (_take_first,))]
    where = f'{task.place("filter_list")}: filter_list'
    try:
        return [
            Pipeline(str(entry['name']), tuple(_read_step(step, where) for step in entry['filter']))
            for entry in declared
        ]
    except (KeyError, TypeError) as error:
        what = f'expected a list of pipelines with name and filter, got {declared!r:.80}.'
        raise ConfigError(Problem(where, what)) from error


def _read_step(entry: Mapping[str, Any], where: str) -> Step:
    options = {key: value for key, value in entry.items() if key != 'function'}
    function = entry['function']
    if isinstance(function, Function):
        return partial(_apply_class, load_function(function), options)
    if function == 'custom':
        return partial(_apply_custom, load_function(options['filter_fn']))
    if function not in _STEPS:
        raise ConfigError(Problem(where, f'unknown filter {function!r:.60}.', did_you_mean(function, _STEPS)))
    try:
        if isinstance(options.get('regex_pattern'), str):
            re.compile(options['regex_pattern'])
    except re.error as error:
        raise ConfigError(Problem(where, f'not a regular expression: {error}.')) from error
    return partial(_STEPS[function], **options)


def _apply_class(make: Callable[..., Any], options: Mapping[str, Any], replies: Replies, doc: Row) -> Any:
    """A filter class beside the task."""
    return next(iter(make(**options).apply([replies], [doc])))


def _apply_custom(function: Callable[..., Any], replies: Replies, doc: Row) -> Any:
    return next(iter(function([replies], [doc])))


def _take_first(replies: Replies, doc: Row) -> Any:
    return replies[0]


def _take_first_k(replies: Replies, doc: Row, k: int) -> Replies:
    return replies[:k]


def _majority_vote(replies: Replies, doc: Row) -> Replies:
    return [Counter(replies).most_common(1)[0][0]]


def _change(change: Callable[[str], Any], replies: Replies, doc: Row) -> Replies:
    return [change(reply) for reply in replies]


def _map(
    replies: Replies, doc: Row, mapping_dict: Mapping[Any, Any] | None = None, default_value: Any = None
) -> Replies:
    return [(mapping_dict or {}).get(reply, default_value) for reply in replies]


_NUMBER = r'#### (\-?[0-9\.\,]+)'


def _select(pattern: str, reply: Any, which: int) -> str | None:
    """The chosen match (with groups, the first non-empty one); None if there is none."""
    matches = find_all(pattern, reply if isinstance(reply, str) else '')
    if not matches:
        return None
    match = matches[which]
    if isinstance(match, tuple):
        match = next((group for group in match if group), None)
    return match.strip() if match is not None else None


def _regex(replies: Replies, doc: Row, **options: Any) -> Replies:
    pattern = options.get('regex_pattern', _NUMBER)
    fallback, which = options.get('fallback', '[invalid]'), options.get('group_select', 0)
    return [fallback if (selected := _select(pattern, reply, which)) is None else selected for reply in replies]


def _part_of_speech_tags(replies: Replies, doc: Row, **options: Any) -> Replies:
    """The tags of a list of pairs in each reply: `[('dog', 'NOUN')]`."""
    fallback = options.get('fallback') or ['invalid']
    pairs = (re.findall(r"\('([^']*)', '([^']*)'\)", reply) if isinstance(reply, str) else reply for reply in replies)
    return [[tag for _, tag in tagged] or fallback for tagged in pairs]


_ENTITY_LABELS = {
    **dict.fromkeys(('person', 'people', 'persons', 'per'), 'PER'),
    **dict.fromkeys(('location', 'counties', 'places', 'country', 'continent', 'loc'), 'LOC'),
    **dict.fromkeys(('organization', 'company', 'org'), 'ORG'),
    **dict.fromkeys(('time', 'date'), 'DATE'),
}


def _format_entities(reply: str) -> str:
    """Named entities in a uniform spelling.

    >>> _format_entities('Person: Ada, none $$ Country: Kenya')
    'per: ada $ loc: kenya'
    """
    text = reply.lower()
    for word, label in _ENTITY_LABELS.items():
        text = re.sub(rf'\b{word}\s*:', f'{label}:', text)
    text = '$'.join(text.split('$$')).rstrip('$').replace('\n', '$').strip()
    matches = re.findall(r'\b(PER|LOC|ORG|DATE):\s*([^$]+)', text)
    entities = ((label.lower(), entity.strip()) for label, names in matches for entity in names.split(','))
    return ' $ '.join(f'{label}: {entity}' for label, entity in entities if entity.lower() != 'none')


def _multi_choice_regex(
    replies: Replies,
    doc: Row,
    regex_pattern: str = _NUMBER,
    group_select: int = 0,
    fallback: str = '[invalid]',
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    regexes_to_ignore: Sequence[str] | None = None,
) -> Replies:
    def reduce(text: str) -> str:
        for expression in regexes_to_ignore or ():
            text = substitute(expression, '', text)
        text = text.lower() if ignore_case else text
        if ignore_punctuation:
            text = ''.join(char for char in text if not unicodedata.category(char).startswith('P'))
        return text

    choices = [reduce(choice.strip()) for choice in doc['choices']]
    letters = {choice: f'({chr(ord("A") + i)})' for i, choice in enumerate(choices)}
    names = [chr(ord('A') + i) for i in range(len(choices))]
    by_text = '|'.join(sorted(map(re.escape, choices), key=len, reverse=True))
    by_letter = rf':[\s]*({"|".join(names)})'

    def find(reply: Any) -> str:
        text = reply if isinstance(reply, str) else ''
        if match := _select(regex_pattern, text, group_select):
            return match
        if match := _select(by_text, reduce(text), group_select):
            return letters.get(match, match)
        if match := _select(by_letter, text, group_select):
            return f'({match})'
        return fallback

    return [find(reply) for reply in replies]


_STEPS: Mapping[str, Callable[..., Any]] = {
    'take_first': _take_first,
    'take_first_k': _take_first_k,
    'majority_vote': _majority_vote,
    'regex': _regex,
    'remove_whitespace': partial(_change, str.strip),
    'lowercase': partial(_change, str.lower),
    'uppercase': partial(_change, str.upper),
    'map': _map,
    'regex_pos': _part_of_speech_tags,
    'format_span': partial(_change, _format_entities),
    'multi_choice_regex': _multi_choice_regex,
}
