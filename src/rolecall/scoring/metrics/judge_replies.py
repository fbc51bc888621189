"""How a judge's reply is read, by the names configs use (`dict_postprocessor`): verdicts, grade letters and ratings.

Each function takes the reply and the answer it is about. A part named `category/…` is the mean of the rows of that
category.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rolecall.core.prompts.pieces import text_of
from rolecall.errors import ConfigError
from rolecall.plain_files import read_table
from rolecall.registry import Registry
from rolecall.scoring.blame import NoVerdictError, describe_error
from rolecall.scoring.metrics.metric import Answer, Mark, make_mark
from rolecall.scoring.metrics.verdicts import read_grade, verdict_in
from rolecall.scoring.postprocessors import extract_non_reasoning_content
from rolecall.scoring.readers.cues import CUES
from rolecall.scoring.readers.native import first_number
from rolecall.scoring.readers.numbers import number_of
from rolecall.scoring.readers.numerals import spell_out
from rolecall.scoring.readers.preferences import Preference, preference_in
from rolecall.scoring.readers.quotations import leave_out_quotations
from rolecall.scoring.readers.reading import Page

Reads = Callable[[str, Answer], Mark]

_POINTS = r'(?<![A-Za-z0-9.,/])(-?(?:\d+(?:[.,]\d+)?|\.\d+))'
_SCALE = r'(?:\s*(?:[分点점]|points?|punkten?|puntos|stars?|sterne|étoiles|%))?'
_RATINGS = (
    re.compile(rf'\[\[\s*{_POINTS}\s*分?\s*\]\]|\\boxed\{{\s*{_POINTS}\s*\}}'),
    re.compile(
        rf'(?<![a-zà-ÿ]){CUES.any_of("rating")}(?:\s?[(（][^()（）\n]{{0,20}}[)）])?'
        rf'(?:\s+(?:is|of|as|would\s+be|to|de|von|est|es|ist|auf|à|a)\b(?:\s+an?(?:\s[a-z]+)?\b)?|[为是은는は])?[^\w.-]{{0,8}}{_POINTS}(?![A-Za-z\d–-]|\s*,\s*\d)'
        rf'|\b(?:rat|giv|scor|deserv|earn|merit|award|assign|settl|vergeb|verdien|gebe|bekomm|mérit|donn|attribu|merec|otorg|doy)[a-zé]*\s+'
        rf'(?:[a-zà-ÿ]+\s+){{0,5}}{_POINTS}(?={_SCALE}'
        rf'(?:\s*/|\W*(?:[.!;\n]|\Z)|\s+(?:because|for|since|as|out of|von|sur|sobre|su)\b))'
        rf'|[打给得][^\d\n。]{{0,8}}{_POINTS}\s*分|\bscale\s+(?:of|from)\s+\d+\s*(?:to|-|–)\s*\d+\W{{1,3}}{_POINTS}(?![\w-])',
        re.IGNORECASE,
    ),
    re.compile(
        rf'(?<![\w./-]){_POINTS}{_SCALE}\s*(?:/|out\s+of|sobre|sur|von|su)\s*(?:5|10|100)\b|\A[\W_]*{_POINTS}{_SCALE}(?:[\W_]*\Z|\s[-–—:]\s)'
        rf'|(?<!or )\b[Aa]n?\s(?:[a-z]+\s)?{_POINTS}{_SCALE}[\W_]*\Z|(?:\b[Ss]o|[Tt]herefore|[Tt]hus'
        rf'|得)\s?[:,]?\s*{_POINTS}{_SCALE}[\W_]*\Z'
    ),
)
"""Ways to state a rating, the clearest first."""
_IN_WORDS = re.compile(
    r'([a-zà-ÿ]{2,12})\s(?:points?\s|stars?\s)?(?:out of|von|sur|sobre|su)\s'
    r'(?:ten|five|zehn|fünf|dix|cinq|diez|cinco|10|5)\b'
)
_RATING_OF_ALL = re.compile(
    r'(?:\b(?:rating|score|overall|total|final|global|gesamt\w*|note)e?|[评得打总]分|分数|综合|最终)[^\d\n]{0,20}\Z',
    re.IGNORECASE,
)
_LONGEST_CLAUSE = 120
_CLAUSE = re.compile(r'[^(),;.!?\n]{0,80}')
_TAGGED_NUMBER = re.compile(
    r'(?:<NUMBER>|\\boxed\{)\s*(?P<points>-?\d*\.?\d+)\s*(?P<percent>\\?%)?\s*(?:</NUMBER>|\})', re.IGNORECASE
)
_DIMENSION = re.compile(r'[\'"“](?P<name>[^\'"“”\n]{1,20})[\'"”]\s*[:：]\s*[\'"]?(?P<score>\d+(?:\.\d+)?)')
_OVERALL = ('综合得分', 'Overall Score')
_ALIGNBENCH = {
    '中文推理': ('数学计算', '逻辑推理'),
    '中文语言': ('基本任务', '中文理解', '综合问答', '文本写作', '角色扮演', '专业能力'),
}


@dataclass(frozen=True, slots=True)
class JudgeReading:
    """A function from a judge's reply to a mark, and how the metric it gives is called and shown."""

    read: Callable[..., Any]
    metric: str = ''
    unit: str | None = None
    lower_is_better: bool = False
    derive: Callable[[Mapping[str, float]], Mapping[str, float]] | None = None
    breakdown: Callable[[Sequence[tuple[Answer, Mark]]], Mapping[str, float]] | None = None
    compares: bool = False
    """Whether a reply says which of two answers is better."""


def read_verdict(reply: str, answer: Answer, true_tag: str = 'A', false_tag: str = 'B') -> bool | None:
    """Whether a judge's reply means right: `A`, or CORRECT; any other tag is wrong.

    >>> replies = ('A', 'B: INCORRECT', 'The reply is CORRECT.', "It isn't right.", 'Hm.')
    >>> [read_verdict(reply, Answer('')) for reply in replies]
    [True, False, True, False, None]
    """
    return verdict_in(reply, true_tag, false_tag)


def read_named_verdict(reply: str, answer: Answer, metric_name: str = 'accuracy') -> bool | None:
    """Whether a judge's reply means right, reported as `metric_name`."""
    return verdict_in(reply, 'A', 'B')


def read_rating(reply: str, answer: Answer) -> float | None:
    """The last of the most clearly stated ratings in a judge's reply; of several different ones that of the whole.

    >>> [read_rating(reply, Answer('')) for reply in ('Fair, 8/10. Rating: [[7.5]]', 'Score: 3', '8/10', 'good')]
    [7.5, 3.0, 8.0, None]
    >>> [read_rating(reply, Answer('')) for reply in ('Style: [[8]]. Facts: [[2]]', 'Style: [[8]]. Overall: [[3]]')]
    [None, 3.0]
    """
    answer_text = extract_non_reasoning_content(reply)
    page = Page(answer_text)
    for pattern in _RATINGS:
        ratings = [rating for rating in pattern.finditer(answer_text) if _is_given(page, rating.start())]
        revised = len(ratings) > 1 and CUES.corrects.find(page, ratings[-2].end(), ratings[-1].end())
        if len({_points_of(rating) for rating in ratings}) > 1 and not revised:
            ratings = [
                rating
                for rating in ratings
                if _RATING_OF_ALL.search(rating[0][:20])
                or _RATING_OF_ALL.search(answer_text, max(0, rating.start() - 40), rating.start())
            ]
            return _points_of(ratings[-1]) if ratings else None
        if ratings:
            return _points_of(ratings[-1])
    in_words = _IN_WORDS.search(page.low)
    points = next(spell_out(in_words[1]), None) if in_words else None
    return float(str(points.value)) if points else None


def _is_given(page: Page, place: int) -> bool:
    """Whether a rating is one that the judge gives: not `A score of 5 would require …` or `I was going to give 4`."""
    begin = max(place - _LONGEST_CLAUSE, page.sentence_start(place, 0))
    supposed = CUES.hypothesis.search(page.low, place, _CLAUSE.match(page.text, place).end())  # type: ignore[union-attr]  # matches nothing, too
    return not supposed and not CUES.others.find(page, page.clause_start(place, begin), place)


def _points_of(rating: re.Match[str]) -> float:
    return float(next(filter(None, rating.groups())).replace(',', '.'))


def read_attempt(reply: str, answer: Answer) -> Mark | None:
    """Correct (A), incorrect (B) or not attempted (C); also accuracy over attempted answers, and F1.

    >>> read_attempt('C', Answer('')).parts
    {'correct': 0.0, 'attempted': 0.0}
    """
    grade = read_grade(reply)
    if grade is None or not grade.counts:
        return None
    right, attempted = grade.value == 'A', grade.value != 'C'
    return Mark(float(right), correct=right, parts={'correct': float(right), 'attempted': float(attempted)})


def read_tagged_number(reply: str, answer: Answer) -> float:
    r"""The last number in `<NUMBER>…</NUMBER>` or `\boxed{…}`, a share of the full score; 0 without one.

    >>> read_tagged_number('<NUMBER>0.5</NUMBER>', Answer('')), read_tagged_number('none', Answer(''))
    (0.5, 0.0)
    """
    numbers = list(_TAGGED_NUMBER.finditer(reply))
    return float(numbers[-1]['points']) / (100 if numbers[-1]['percent'] else 1) if numbers else 0.0


def read_error_of_number(reply: str, answer: Answer) -> float | None:
    """The distance between the first number in the reply and the gold number; the mean is the MAE.

    >>> read_error_of_number('about 3.5 eV', Answer('', gold=3))
    0.5
    """
    number, gold = first_number(reply), number_of(text_of(answer.gold))
    return None if number is None or gold is None else abs(number - gold)


def read_format_check(reply: str, answer: Answer) -> Mark | None:
    """Whether `format_correctness` is 1 in the judge's JSON, also by domain and by general format."""
    field = re.search(r'["\']format_correctness["\']\s*:\s*["\']?([01]|true|false)\b', reply, re.IGNORECASE)
    if field is None:
        return None
    facts = _facts_of(answer)
    names = [facts.get('domain'), facts.get('format') if facts.get('format_type') == 'general' else None]
    return _mark_by_category(field[1].lower() in ('1', 'true'), names)


def read_dimensions(reply: str, answer: Answer, judge_type: str = 'general') -> Mark | None:
    """The overall score of AlignBench's last `{'…': n, '综合得分': n}`; also by dimension and by capability.

    >>> mark = read_dimensions("{'清晰度': 9, '综合得分': 7}", Answer('', values={'capability': '数学计算'}))
    >>> mark.score, mark.parts
    (7.0, {'清晰度': 9.0, 'category/数学计算': 7.0})
    """
    braces = re.findall(r'\{([^{}]*)\}', reply)
    fields = _DIMENSION.finditer(braces[-1] if braces else '')
    scores = {field['name']: float(field['score']) for field in fields}
    overall = next((scores[name] for name in _OVERALL if name in scores), None)
    if overall is None or not all(0 <= score <= 10 for score in scores.values()):
        return None
    dimensions = {name: score for name, score in scores.items() if name not in _OVERALL}
    capability = _facts_of(answer).get('capability')
    named = {} if capability is None else {f'category/{capability}': overall}
    return Mark(overall, parts={**dimensions, **named})


def read_verdict_by(*columns: str) -> Callable[[str, Answer], Mark | None]:
    """A reading like `read_verdict` with the accuracy of each category that these columns name."""

    def read(reply: str, answer: Answer) -> Mark | None:
        right = verdict_in(reply, 'A', 'B')
        facts = _facts_of(answer)
        return None if right is None else _mark_by_category(right, [facts.get(column) for column in columns])

    read.__doc__ = f"Whether a judge's reply means right; also by {', '.join(f'`{column}`' for column in columns)}."
    return read


def read_preference(
    reply: str,
    answer: Answer,
    count_ties: bool = True,
    summary_type: str = 'half_add',
    check_pos_bias: bool = True,
) -> Mark | None:
    """Whether the judge prefers this answer (`[[A]]`, `[[B>>A]]`, `选择：C`); also by rival and by category.

    >>> from rolecall.scoring.metrics.metric import Rival
    >>> answer = Answer('', rival=Rival('other', stands_first=True))
    >>> marks = [read_preference(reply, answer) for reply in ('[[A]]', '[[B]]', '[[A=B]]')]
    >>> [(mark.score, mark.correct) for mark in marks]
    [(0.0, False), (1.0, True), (0.5, None)]

    Without `count_ties`, a tie is no verdict. `summary_type` and `check_pos_bias` are OpenCompass' and change nothing:
    a tie is half a win, and the effect of the order is always reported.
    """
    preference = preference_in(reply)
    ignored = preference is not None and preference.side == 'tie' and not count_ties
    return _mark_preference(None if ignored else preference, answer)


def _mark_preference(preference: Preference | None, answer: Answer) -> Mark | None:
    rival = answer.rival
    if preference is None or rival is None:
        return None
    won = 1 - preference.share if rival.stands_first else preference.share
    facts = _facts_of(answer)
    named = [facts[column] for column in ('capability', 'category', 'primary_tag') if facts.get(column)]
    parts = {f'vs {rival.name}': won, **{f'category/{name}': won for name in named}}
    if preference.margin is not None:
        parts['margin'] = -preference.margin if rival.stands_first else preference.margin
    return Mark(won, correct=None if won == 0.5 else won == 1.0, parts=parts, rival=rival)


def read_dialogue_rating(reply: str, answer: Answer) -> float | None:
    """MT-Bench-101's rating (`[[5]]` or `[5]`) of one turn.

    >>> read_dialogue_rating('Good. Score: [[8]]', Answer('')), read_dialogue_rating('I give [8].', Answer(''))
    (8.0, 8.0)
    """
    text = extract_non_reasoning_content(reply)
    ratings = re.findall(r'\[\s*(\d+(?:\.\d+)?)\s*\]', text)
    return float(ratings[-1]) if ratings else read_rating(text, answer)


def read_rating_by_domain(reply: str, answer: Answer) -> Mark | None:
    """The last of the most clearly stated ratings in a judge's reply; also by `domain1`."""
    rating, domain = read_rating(reply, answer), _facts_of(answer).get('domain1')
    return None if rating is None else Mark(rating, parts={f'category/{domain}': rating} if domain else {})


def read_rating_by_category(reply: str, answer: Answer) -> Mark | None:
    """The rating, from 0 to 5, as a share of the best one; also by category and difficulty."""
    rating = read_rating(reply, answer)
    if rating is None or not 0 <= rating <= 5:
        return None
    facts = _facts_of(answer)
    named = '_'.join(str(facts[column]) for column in ('category', 'difficulty') if facts.get(column))
    return Mark(rating / 5, parts={f'category/{named}': rating / 5} if named else {})


def read_followed_constraints(reply: str, answer: Answer) -> Mark | None:
    """Whether all constraints of an instruction are met (a list of YES and NO on the last line); also by level."""
    level = int(_facts_of(answer).get('level') or 1)
    last = reply.strip('` \n').rpartition('\n')[2]
    words = re.findall(r'\b(YES|True|NO|False|PARTIAL|MAYBE|UNKNOWN|N/A)\b', last)[: None if level > 1 else 1]
    if len(words) != level:
        return None
    met = sum(word in ('YES', 'True') for word in words)
    parts = {f'HSR_L{level}': float(met == level), f'SSR_L{level}': met / level}
    return Mark(float(met == level), correct=met == level, parts=parts)


def read_points_between(least: int, most: int) -> Callable[[str, Answer], Mark | None]:
    """A reading of the last `[[n]]` in this range, as a share of its end; also by `task`.

    >>> read_points_between(1, 10)('[[12]] [[7]] or [[0]]', Answer('')).score
    0.7
    """

    def read(reply: str, answer: Answer) -> Mark | None:
        stated = re.findall(r'\[\[\s*(\d+)\s*\]\]', reply) or re.findall(
            r'(?i)(?:score|[评得]分|分数)["\']?\s*[:：]\s*(\d+)', reply
        )
        points = [int(number) for number in stated if least <= int(number) <= most]
        task = _facts_of(answer).get('task')
        share = points[-1] / most if points else 0.0
        return Mark(share, parts={f'category/{task}': share} if task else {}) if points else None

    read.__doc__ = f'The last `[[n]]` from {least} to {most}, as a share of {most}; also by `task`.'
    return read


def read_point(name: str, *columns: str) -> Callable[[str, Answer], Mark | None]:
    """A reading of the first `name: 1` or `name: 0` in a judge's reply; also by these columns.

    >>> read_point('Overall Score')('{"Overall Score": 1}', Answer('')).correct
    True
    """

    def read(reply: str, answer: Answer) -> Mark | None:
        point = re.search(rf'(?i)["“【]?(?:{name})["”】]?\s*[:：]\s*["“]?([01])(?!\d)', reply)
        facts = _facts_of(answer)
        return _mark_by_category(point[1] == '1', [facts.get(column) for column in columns]) if point else None

    read.__doc__ = f'Whether `{name}` is 1; also by {", ".join(f"`{column}`" for column in columns)}.'
    return read


def read_points_of_ten(reply: str, answer: Answer) -> float | None:
    """The first number in a judge's reply, as a share of ten points.

    >>> read_points_of_ten('Score: 7', Answer(''))
    0.7
    """
    points = re.search(r'\d+(?:\.\d+)?', reply)
    return min(float(points[0]), 10.0) / 10 if points else None


def _find_weakest_turns(marked: Sequence[tuple[Answer, Mark]]) -> Mapping[str, float]:
    """MT-Bench-101's numbers: a dialogue is worth its weakest turn; the mean by task, and the mean of the tasks."""
    dialogues: dict[tuple[str, str], float] = {}
    for answer, mark in marked:
        facts = _facts_of(answer)
        key = str(facts.get('task') or ''), str(facts.get('multi_id') or id(answer))
        dialogues[key] = min(dialogues.get(key, mark.score), mark.score)
    tasks: dict[str, list[float]] = defaultdict(list)
    for (task, _), score in dialogues.items():
        tasks[task].append(score)
    means = {task: sum(scores) / len(scores) for task, scores in tasks.items()}
    named = {f'task/{task}': mean for task, mean in means.items() if task}
    return {'weakest_turn': sum(means.values()) / len(means), **named} if means else {}


def _derive_attempts(means: Mapping[str, float]) -> Mapping[str, float]:
    correct, attempted = means['correct'], means['attempted']
    precision = correct / attempted if attempted else 0.0
    f1 = 2 * precision * correct / (precision + correct) if correct else 0.0
    return {'accuracy_given_attempted': precision, 'f1': f1}


def _derive_alignbench(means: Mapping[str, float]) -> Mapping[str, float]:
    """AlignBench's totals: the mean of a category's capabilities, and the mean of both categories."""
    totals = {}
    for category, capabilities in _ALIGNBENCH.items():
        scores = [means[name] for name in (f'category/{capability}' for capability in capabilities) if name in means]
        if scores:
            totals[f'{category}总分'] = sum(scores) / len(scores)
    return {**totals, '总分': sum(totals.values()) / len(totals)} if totals else {}


def _declare(reader: str, arguments: str, metric: str, unit: str, more: str) -> JudgeReading:
    """A reading of the table: a function here, made by one with arguments, and what else its metric has."""
    read = globals()[reader]
    if arguments:
        read = read(*(int(word) if word.isdigit() else word for word in arguments.split(', ')))
    name, _, function = more.partition(' ')
    further: dict[str, Any] = {name: globals()[function] if function else True} if more else {}
    return JudgeReading(read, metric, '' if unit == 'none' else unit or None, **further)


READINGS: Registry[JudgeReading] = Registry(
    'dict_postprocessor',
    {name: reading for names, *line in read_table(__file__) for reading in [_declare(*line)] for name in names.split()},
    is_ours=lambda name: name in READINGS,
)
"""From `judge_replies.tsv`. Each is described by the first line of its docstring."""


def read_dict_postprocessor(entry: Any, *, compares: bool = False) -> JudgeReading:
    """Resolve a config's `dict_postprocessor`; its `read` takes a reply and an answer, and returns a mark.

    Where answers are compared, a function of the user's own returns which is better: `'A'` (the one shown first), `'B'`
    or `'tie'`.
    """
    part = READINGS.read(entry, where='dict_postprocessor')
    reading = part.value if isinstance(part.value, JudgeReading) else JudgeReading(part.value)
    if problems := part.option_problems(skip=2 if part.builtin else 1, function=reading.read):
        raise ConfigError(problems)
    options = dict(part.options)

    def make(reply: str, answer: Answer) -> Mark:
        try:
            about = (leave_out_quotations(reply, _answers_shown(answer)), answer) if part.builtin else (reply,)
            result = reading.read(*about, **options)
        except Exception as error:  # user code may raise anything; this answer has no mark, with the reason
            raise NoVerdictError(f"{part.name} raised {describe_error(error)} on the judge's reply.") from error
        if compares and not isinstance(result, Mark):
            result = _mark_preference(preference_in(text_of(result)) if result else None, answer)
        if result is None:
            raise NoVerdictError(f"no verdict in the judge's reply: {' '.join(reply.split())!r:.60}.")
        return result if isinstance(result, Mark) else make_mark(result)

    name = str(options.get('metric_name') or reading.metric)
    return replace(reading, read=make, metric=name)


def _answers_shown(answer: Answer) -> list[str]:
    """The answers in a judge's prompt, which its reply may quote."""
    rivals = [] if answer.rival is None else [answer.rival.prediction]
    turns = [turn.get('prediction') for turn in answer.turns]
    return [text for text in (answer.prediction, *rivals, *turns) if isinstance(text, str)]


def _facts_of(answer: Answer) -> Mapping[str, Any]:
    """The row's columns, with those that OpenCompass' subjective datasets keep in `judge`."""
    inner = answer.values.get('judge')
    return {**answer.values, **inner} if isinstance(inner, Mapping) else answer.values


def _mark_by_category(right: bool, names: list[Any]) -> Mark:
    return Mark(float(right), correct=right, parts={f'category/{name}': float(right) for name in names if name})
