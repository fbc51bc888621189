"""Mathematics: MathBench, LiveMathBench, TheoremQA, OlympiadBench, DAPO-Math and KOR-Bench."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rolecall.errors import ConfigError, Problem
from rolecall.scoring.metrics.metric import Answer, Metric, comparison, make_mark, row_comparison
from rolecall.scoring.metrics.symbolic import equal_expressions, equals_a_gold_expression, value_of
from rolecall.scoring.readers.native import expression_in, last_number
from rolecall.scoring.readers.numbers import number_of
from rolecall.scoring.texts import alternatives, contents_between, last_boxed, strip_text

_CLOSE = 0.04
"""TheoremQA accepts numbers within 4 %, and for integers what rounds to them."""
_ROUNDING = 1e-9
_EXPONENT = r'(?:[eE][-+]?\d+)'
_NO_FACTOR = r'(?!\\(?:pi|sqrt|frac|dfrac|tfrac|times|cdot|ln|log|exp)(?![a-zA-Z]))'
"""What follows a number is not part of it: `5 m`, but not `2\\pi`."""
_DOUBLE_OPEN, _DOUBLE_CLOSE = re.compile(r'\[\['), re.compile(r'\]\]')
_OPTION = re.compile(r'\(?\b([a-f])\)')
_BRACKETED = re.compile(r'\A\(([^(),]+|[\d,.]+)\)\Z')
"""An answer in brackets that is not a pair of anything: `(Paris)`, `(1,234.5)`."""


def live_expressions(
    model_name: str = '',
    url: Any = (),
    use_extract_model: bool = False,
    extract_url: Sequence[str] = (),
    extract_model_name: str = '',
) -> Metric:
    r"""The share of rows whose final expression (in the last `\boxed{…}`) equals the gold one."""
    if model_name or use_extract_model:
        what = 'a judge model inside the evaluator is not supported.'
        raise ConfigError(Problem('model_name', what, "Use 'GenericLLMEvaluator', or leave it empty."))

    def mark(answer: Answer) -> Any:
        ours = expression_in(strip_text(answer.prediction))
        return make_mark(equals_a_gold_expression(ours, answer.gold))

    return Metric('accuracy', mark)


@comparison('accuracy')
def final_answer(prediction: str, gold: Any) -> bool:
    """The share of rows whose expression equals the gold one."""
    return equals_a_gold_expression(prediction, gold)


@comparison('accuracy')
def olympiad_answers(prediction: str, gold: Any, version: str = 'v1') -> bool:
    """The share of rows whose final expression equals the gold one, or is within the tolerance the gold answer names.

    The gold answer is a text, or a dict with `final_answer` and perhaps `error`.
    """
    facts = gold if isinstance(gold, Mapping) else {'final_answer': gold}
    ours = expression_in(prediction) or prediction
    tolerance = number_of(strip_text(facts.get('error') or '')) or 0.0
    golds = alternatives(facts.get('final_answer'))
    return any(equal_expressions(ours, answer) or _within(ours, answer, tolerance) for answer in golds)


@row_comparison('accuracy')
def theorem_answers(answer: Answer) -> bool:
    """The share of rows with the gold answer: an option, a truth value, or numbers (within 4 %)."""
    reply, gold = strip_text(answer.prediction), strip_text(answer.gold)
    if option := _OPTION.fullmatch(gold.lower()):
        options = _OPTION.findall(reply.lower()) or re.findall(r'\b([a-f])\b', reply.lower())
        return bool(options) and options[-1] == option[1]
    reply, gold = (_BRACKETED.sub(r'\1', text) for text in (reply, gold))
    if reply.lower() == gold.lower():
        return bool(reply)
    left, right = _numbers_in(reply), _numbers_in(gold)
    if not left or len(left) != len(right):
        return False
    whole = '.' not in gold and '/' not in gold
    pairs = zip(sorted(left), sorted(right), strict=True)
    return all(round(ours) == right if whole else math.isclose(ours, right, rel_tol=_CLOSE) for ours, right in pairs)


@row_comparison('accuracy')
def rule_answers(answer: Answer) -> bool:
    """The share of rows whose answer in `[[…]]` is the gold one, as text or as an expression."""
    bracketed = contents_between(strip_text(answer.prediction), _DOUBLE_OPEN, _DOUBLE_CLOSE)
    gold = re.sub(r'\A\[\[\s*|\s*\]\]\Z', '', strip_text(answer.gold))
    if not bracketed or not gold:
        return False
    ours = bracketed[-1]
    if str(answer.values.get('category', '')) == 'logic':
        return _bare(ours) == _bare(gold)
    wanted = [gold, *re.split(r'\s+or\s+', gold)] if ' or ' in gold else [gold]
    return any(_bare(ours) == _bare(answer) or equal_expressions(ours, answer) for answer in wanted)


def read_theorem_answer(text: str) -> str:
    """The answer after the last `The answer is`: a truth value, an option, or an expression; else the last number.

    >>> [read_theorem_answer(one) for one in ('The answer is yes.', 'the answer is x = 3.5 m', 'about 7 or 8')]
    ['True', '3.5', '8']
    """
    return theorem_answer(text, r'\b')


def theorem_answer(text: str, edge: str) -> str:
    """`read_theorem_answer`, where `edge` is the pattern around the words for a truth value."""
    own = text.strip('\n').partition('\n\n')[0] if len(re.findall('he answer is', text)) > 1 else text
    parts = re.split(r'[Tt]he answer is:?', own)
    rest = parts[-1].strip().rstrip('./').strip()
    if re.search(rf'{edge}(?:yes|true){edge}', rest, re.IGNORECASE):
        return 'True'
    if re.search(rf'{edge}(?:no|false){edge}', rest, re.IGNORECASE):
        return 'False'
    if re.search(r'\([a-f]\)', rest, re.IGNORECASE):
        return rest
    if len(parts) == 1:
        return last_number(rest)
    value = rest.rpartition('=')[2].strip(' $')
    leading = re.match(rf'-?[\d.,]+{_EXPONENT}?(?!{_EXPONENT})(?=\s*{_NO_FACTOR}[^\d\s.,*/^+)!-]|\s+\S+$)', value)
    return last_number(leading[0].rstrip('.,')) if leading else value


def read_final_statement(text: str, is_chinese: bool = False, is_deepseek: bool = False) -> str:
    """What follows the last `So the final answer is` (or `所以最终答案是`); the whole reply without it.

    >>> read_final_statement('We add. So the final answer is $5$.')
    '$5$.'
    """
    chinese, english = (
        ('## 解题答案', 'The answer is: ') if is_deepseek else ('所以最终答案是', 'So the final answer is ')
    )
    statements = re.findall(f'{re.escape(chinese if is_chinese else english)}(.*)', text)
    return statements[-1].strip() if statements else text


def read_boxed_tail(text: str) -> str:
    r"""The content of a `\boxed{…}` within the last 100 characters.

    >>> read_boxed_tail(r'So \boxed{7}.')
    '7'
    """
    return last_boxed(text[-100:])


def _numbers_in(text: str) -> list[float]:
    """The numbers of an answer that is nothing but numbers: one, a fraction, or a list."""
    parts = [part.strip() for part in text.strip('()[] ').split(',')] if not number_of(text) else [text]
    values: list[float] = []
    for part in parts:
        above, slash, below = part.partition('/')
        top, bottom = number_of(above), number_of(below) if slash else 1.0
        if top is None or bottom is None:
            top, bottom = value_of(part), 1.0
        if top is None or not bottom:
            return []
        values.append(top / bottom)
    return values


def _within(ours: str, right: Any, tolerance: float) -> bool:
    left, wanted = number_of(ours), number_of(strip_text(right).strip('$'))
    return left is not None and wanted is not None and abs(left - wanted) <= tolerance + _ROUNDING


def _bare(text: str) -> str:
    """Without spaces, punctuation and case; numbers stay apart, and keep their decimal point."""
    apart = re.sub(r'(?<=\d)[\s,;]+(?=[\d.-])', '|', text)
    return re.sub(r'(?<!\d)\.|\.(?!\d)|[\s,;()$\\]+', '', apart).lower()
