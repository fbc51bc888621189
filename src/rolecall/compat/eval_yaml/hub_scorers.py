"""The scorers that an `eval.yaml` names, with the verdicts that Inspect gives."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rolecall.core.prompts.pieces import text_of
from rolecall.errors import ConfigError, Problem
from rolecall.patterns import search_groups
from rolecall.scoring.metrics.metric import Answer, Mark, Metric
from rolecall.scoring.texts import alternatives

_ANSWERS = {'letter': r'([a-z])(?:\W|$)', 'word': r'(\w+)(?:\n|$)', 'line': r'([^\n]+)'}
_EDGES = '!?:;()[]{}\'"`~<=>@#^&|'


def inspect_scorers(scorers: Sequence[Mapping[str, Any]]) -> Metric:
    """The score of the first scorer of an `eval.yaml`; the others stand beside it under their names."""
    checks = [(str(scorer['name']), _make_check(scorer)) for scorer in scorers]

    def mark(answer: Answer) -> Mark:
        golds = [text_of(gold) for gold in alternatives(answer.gold)]
        scores = [(name, float(check(text_of(answer.prediction), golds))) for name, check in checks]
        first = scores[0][1]
        return Mark(first, correct=None if checks[0][0] == 'f1' else first == 1, parts=dict(scores[1:]))

    return Metric('accuracy' if checks[0][0] != 'f1' else 'f1', mark)


def _make_check(scorer: Mapping[str, Any]) -> Callable[[str, list[str]], float]:
    name, options = scorer['name'], {key: value for key, value in scorer.items() if key != 'name'}
    if name == 'answer':
        kind = options.pop('pattern', None)
        if kind not in _ANSWERS:
            raise ConfigError(Problem('scorers', f'answer: pattern must be {", ".join(_ANSWERS)}, got {kind!r}.'))
        name, options = 'pattern', {'pattern': rf'answer\s*:\s*{_ANSWERS[kind]}', **options}
    check: Any = {'includes': _includes, 'match': _matches, 'pattern': _finds, 'exact': _exact, 'f1': _f1,
                  'choice': _chooses}[name]  # fmt: skip
    known = check.__kwdefaults__ or {}
    if unknown := [key for key in options if key not in known]:
        raise ConfigError(
            Problem('scorers', f'{name}: {unknown[0]!r} is not read; {", ".join(known) or "none"} may be.')
        )
    try:
        re.compile(options.get('pattern', ''))
    except (re.error, TypeError) as error:
        raise ConfigError(
            Problem('scorers', f'{name}: {options["pattern"]!r:.60} is not a regular expression: {error}.')
        ) from error
    return lambda reply, golds: check(reply, golds, **options)


def _includes(reply: str, golds: list[str], *, ignore_case: bool = True) -> bool:
    return any(gold.lower() in reply.lower() if ignore_case else gold in reply for gold in golds)


def _matches(
    reply: str, golds: list[str], *, location: str = 'end', ignore_case: bool = True, numeric: bool = False
) -> bool:
    return any(_match(reply.strip(), gold.strip(), location, ignore_case, numeric) for gold in golds)


def _match(ours: str, gold: str, location: str, ignore_case: bool, numeric: bool) -> bool:
    if ignore_case:
        ours, gold = ours.casefold(), gold.casefold()
    gold = _plain_number(gold) if numeric else gold
    right = _read_number(gold) if numeric else None
    if right is not None:
        words = _plain_number(ours).split() if location != 'exact' else [_plain_number(ours)]
        numbers = [number for number in map(_read_number, words) if number is not None]
        chosen = {'begin': numbers[:1], 'end': numbers[-1:]}.get(location, numbers)
        return right in chosen
    signs = string.whitespace + string.punctuation
    ours, gold = ours.strip(signs), gold.strip(signs)
    match location:
        case 'begin':
            return ours.startswith(gold)
        case 'end':
            return ours.endswith(gold)
        case 'exact':
            return ours == gold
    return gold in ours


def _plain_number(text: str) -> str:
    """Without signs of money and emphasis, commas, and the full stop of a sentence."""
    return re.sub(r'\.(?=\s|$|\D)', '', re.sub(r'[$,£€*_]', '', text))


def _read_number(word: str) -> str | None:
    try:
        return format(float(word.strip(_EDGES)), '.5g')
    except ValueError:
        return None


def _finds(
    reply: str, golds: list[str], *, pattern: str = '', ignore_case: bool = True, match_all: bool = False
) -> bool:
    _, *texts = search_groups(pattern, reply, re.IGNORECASE if ignore_case else 0) or ('',)
    wanted = {gold.lower() if ignore_case else gold for gold in golds}
    groups = [group.lower() if ignore_case else group for group in texts if group]
    return bool(groups) and (all if match_all else any)(group in wanted for group in groups)


def _exact(reply: str, golds: list[str]) -> bool:
    return any(_words(gold) == _words(reply) for gold in golds if gold.strip())


def _f1(reply: str, golds: list[str], *, stop_words: Sequence[str] = ()) -> float:
    skipped = {' '.join(sorted(_words(word))) for word in stop_words}
    ours = _words(reply) - skipped
    best = 0.0
    for gold in filter(str.strip, golds):
        right = _words(gold) - skipped
        both = len(ours & right)
        precision, recall = both / len(ours) if ours else 1.0, both / len(right) if right else 1.0
        best = max(best, 2 * precision * recall / (precision + recall) if precision + recall else 0.0)
    return round(best, 2)


def _words(text: str) -> set[str]:
    """The distinct words, without case, articles and punctuation; numbers in one form."""
    words = []
    for word in re.split('[ -]', text.casefold()):
        plain = word if _is_number(word) else word.translate(str.maketrans('', '', string.punctuation))
        words += (str(float(plain)) if _is_number(plain) else re.sub(r'\b(?:an?|the)\b', ' ', plain)).split()
    return set(words)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _chooses(reply: str, golds: list[str], *, several: bool = False) -> bool:
    """Whether the letters after `ANSWER:` are the gold ones; a single one unless several may be right."""
    stated = re.search(r'^answer\s*:\s*([a-z\d ,]+?)\s*(?:$|\.)', reply, re.IGNORECASE | re.MULTILINE)
    stated = stated or re.search(r'answer\s*:\s*([a-z\d ,]+)(?:\W|$)', reply, re.IGNORECASE)
    letters = re.findall('[A-Z]', re.sub(r' AND |\s', '', stated[1].upper())) if stated else []
    right = set(''.join(golds).upper())
    if not several and stated and len(stated[1].strip()) != 1:
        return False
    return bool(letters) and set(letters) == right
