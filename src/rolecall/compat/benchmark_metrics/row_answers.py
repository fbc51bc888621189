"""Answers that the columns of a row decide: its options, units, difficulty, and the tools that were used."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rolecall.compat.benchmark_metrics.exams import (
    gaokao_five_of_seven,
    gaokao_multi_choice,
    gaokao_questions,
    gaokao_single_choice,
)
from rolecall.core.prompts.pieces import text_of
from rolecall.scoring.metrics.metric import Answer, Mark, Mean, Metric, comparison, row_comparison
from rolecall.scoring.metrics.symbolic import equal_expressions, value_of
from rolecall.scoring.postprocessors import general_postprocess
from rolecall.scoring.readers.native import expression_in, option_in
from rolecall.scoring.texts import alternatives, last_boxed, parse_gold, strip_text
from rolecall.strings import edit_distance

_LETTERS = 'ABCDEFGHIJ'
_LEAST_SIMILAR = 0.5
_TARGET = 24
_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@row_comparison('accuracy')
def own_options(answer: Answer) -> Mark:
    """The share of rows that choose the gold letter among the options of the row; also by its kinds."""
    options = answer.values.get('options') or answer.values.get('choices') or _LETTERS
    count = len(options['label'] if isinstance(options, Mapping) and 'label' in options else options)
    right = option_in(text_of(answer.prediction), _LETTERS[:count]) == strip_text(answer.gold)
    kinds = ('question_type', 'subject_name', 'choice_type', 'medical_task', 'body_system')
    named = {f'{kind}/{answer.values[kind]}': float(right) for kind in kinds if answer.values.get(kind)}
    return Mark(float(right), correct=right, parts=named)


@comparison('accuracy')
def option_or_text(prediction: str, gold: Any) -> bool:
    """The share of rows whose first line is the gold letter or its text; the gold answer is `B. text`."""
    letter, _, text = strip_text(gold).partition('. ')
    line = prediction.partition('\n')[0].strip()
    return line == text.strip() or (option_in(line, _LETTERS) or line) == letter


@row_comparison('accuracy')
def answer_by_difficulty(answer: Answer) -> Mark:
    """The share of rows whose letter is the gold one; also of the easy and the hard ones."""
    right = strip_text(answer.prediction) == strip_text(answer.gold)
    level = 'hard_acc' if answer.values.get('difficult') else 'easy_acc'
    return Mark(float(right), correct=right, parts={level: float(right)})


@comparison('accuracy')
def all_keywords(prediction: str, gold: Any) -> bool:
    """The share of rows whose reply has all keywords of the gold answer, which `、` separates."""
    return all(word in prediction for word in strip_text(gold).split('、'))


@comparison('accuracy')
def close_number(prediction: str, gold: Any) -> bool:
    """The share of rows whose number is within a thousandth of the gold one."""
    return _are_close(prediction, strip_text(gold))


def _are_close(text: str, other: str, apart: float = 1e-3) -> bool:
    values = value_of(text), value_of(other)
    return values[0] is not None and values[1] is not None and abs(values[0] - values[1]) < apart


@comparison('accuracy')
def valid_choice(prediction: str, gold: Any) -> Mark:
    """The share of rows with the gold letter; `valid_frac` is the share of replies that choose A or B."""
    right = prediction == strip_text(gold)
    return Mark(float(right), correct=right, parts={'valid_frac': float(prediction != 'invalid')})


@comparison('accuracy')
def preferred_model(prediction: str, gold: Any) -> bool:
    """The share of rows whose `"Choice": "Model A"` is the winner of the gold answer."""
    choice = re.findall(r'"Choice":\s*"Model\s+([A-Z])', prediction)
    return bool(choice) and choice[-1] == str(parse_gold(gold).get('winner', ''))


@comparison('acc score')
def makes_24(prediction: str, gold: Any) -> bool:
    """The share of rows whose expression uses each number of the gold answer once and makes 24."""
    if sorted(re.findall(r'\d+', prediction)) != sorted(re.findall(r'\d+', strip_text(gold))):
        return False
    try:
        return abs(_calculate(ast.parse(prediction.strip(), mode='eval').body) - _TARGET) < 1e-6
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return False


def _calculate(node: ast.expr) -> float:
    match node:
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_calculate(left), _calculate(right))
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_calculate(inner)
        case ast.Constant(value=int() | float() as number):
            return float(number)
    raise ValueError('not a calculation')


@comparison('accuracy')
def table_answer(prediction: str, gold: Any) -> bool:
    """TabMWP: the share of rows whose number (without unit) or option is that of the gold answer."""
    facts = parse_gold(gold)
    options, unit = facts.get('choices') or [], str(facts.get('unit') or '')
    letter = option_in(prediction, _LETTERS[: len(options)]) if options else ''
    ours = str(options[_LETTERS.index(letter)]) if letter else expression_in(prediction) or prediction
    own, right = (text.replace(unit, '').strip() if unit else text.strip() for text in (ours, str(facts['answer'])))
    return own.lower() == right.lower() or _are_close(own, right)


@comparison('score')
def phrase_after_answer(prediction: str, gold: Any) -> bool:
    """The share of rows whose first line, after `答案是：`, is a gold answer."""
    line = prediction.partition('\n')[0].lower().rpartition('答案是：')[2]
    return any(
        general_postprocess(line) == general_postprocess(strip_text(text)).lower() for text in alternatives(gold)
    )


@comparison('accuracy')
def loyal_judgement(prediction: str, gold: Any) -> bool:
    """The share of rows that judge the statement (before `[fact:`) as the gold answer does: true or false."""
    own = prediction.lower().partition('[fact:')[0]
    ours, right = (re.findall(r'true|false', text)[:1] for text in (own, strip_text(gold).lower()))
    return bool(right) and ours == right


@comparison('ANLS Acc')
def normalised_edits(prediction: str, gold: Any) -> Mark:
    """ANLS: how near the reply is to the nearest gold answer in edits; below one half it is worth nothing."""
    ours = ' '.join(prediction.replace('<|im_end|>', '').lower().split())
    nearest = 0.0
    golds = ast.literal_eval(gold) if isinstance(gold, str) and gold.startswith('[') else gold
    for text in alternatives(golds):
        right = ' '.join(str(text).lower().split())
        length = max(len(right), len(ours))
        nearest = max(nearest, 1 - edit_distance(right, ours) / length if length else 1.0)
    share = nearest if nearest >= _LEAST_SIMILAR else 0.0
    return Mark(share, correct=share > 0)


def tool_numbers(action: str = 'PythonInterpreter') -> Metric:
    """The share of right numbers (`follow_acc`); also how often the tool was used, ran, and found the number."""
    return _agent_metric(action, _same_integer, lambda means: {})


def tool_formulas(action: str = 'PythonInterpreter', version: str = 'v1') -> Metric:
    """The share of right formulas (`follow_acc`); also how often the tool was used, ran, and found the answer."""
    return _agent_metric(action, equal_expressions, _share_of_actions)


def _agent_metric(
    action: str, same: Callable[[Any, Any], bool], derive: Callable[[Mapping[str, float]], Mapping[str, float]]
) -> Metric:
    def mark(answer: Answer) -> Mark:
        right = same(answer.prediction, answer.gold)
        steps = [
            call for call in answer.calls if (call.get('function') or call).get('name', call.get('type')) == action
        ]
        last = steps[-1] if steps else None
        result = (last.get('result') or {}).get('text') if last else None
        ran = last is not None and (right or not last.get('errmsg'))
        reasoned = right or (ran and result is not None and same(result, answer.gold))
        parts = {'follow_acc': right, 'reasoning_acc': reasoned, 'code_acc': ran, 'action_pct': last is not None}
        return Mark(float(right), correct=right, parts={name: float(share) for name, share in parts.items()})

    return Metric('accuracy', mark, Mean(derive=derive))


def _same_integer(prediction: Any, gold: Any) -> bool:
    return _are_close(text_of(prediction), strip_text(gold), 1e-6)


def _share_of_actions(means: Mapping[str, float]) -> Mapping[str, float]:
    return {'code_acc': means['code_acc'] / means['action_pct'] if means.get('action_pct') else 0.0}


def read_last_capitals(text: str) -> str:
    """All capitals of the reply, sorted, with commas between them.

    >>> read_last_capitals('B and A')
    'A, B'
    """
    return ', '.join(sorted({letter for letter in text if letter.isupper()}))


def read_a_or_b(text: str) -> str:
    """A or B, as the reply chooses; `invalid` if it names both, neither or none.

    >>> read_a_or_b('A. The first'), read_a_or_b('Neither of them')
    ('A', 'invalid')
    """
    return 'invalid' if re.search('Neither|Both', text) else option_in(text, 'AB') or 'invalid'


def read_calculation(text: str) -> str:
    """The expression on the last line, before `=`.

    >>> read_calculation('Let me see.\\nAnswer: (1 + 2) * 8 = 24')
    '(1 + 2) * 8 '
    """
    return text.strip().rpartition('\n')[2].lower().replace('answer: ', '').partition('=')[0]


def read_number_in_box(text: str) -> str:
    r"""What is boxed, or else the last number after `answer is`.

    >>> read_number_in_box(r'So the answer is \boxed{1.5}.'), read_number_in_box('The answer is 1,250 K')
    ('1.5', '1250')
    """
    stated = f'{text}answer is'.split('answer is')[1].strip() or text
    numbers: Sequence[str] = re.findall(r'-?\d*\.?\d+', re.sub(r'(\d),(\d)', r'\1\2', stated))
    return last_boxed(stated) or (numbers[-1] if numbers else stated)


def read_last_clause(text: str) -> str:
    """What follows the last `is`, `be`, `are` or colon on the last line, without the full stop.

    >>> read_last_clause('Well.\\nThe answer is 3.5.')
    '3.5'
    """
    words: list[str] = []
    for word in reversed(text.strip().rpartition('\n')[2].split(' ')):
        if word in ('is', 'be', 'are') or word.endswith(':'):
            break
        words.insert(0, word)
    return ' '.join(words).strip().strip('.')


def gaokao_style(question_type: str) -> Metric:
    """GAOKAO-Bench's comparison for a kind of question; any other answer stands between `【答案】` and a space."""
    return _BY_QUESTION.get(question_type, marked_text)()


@comparison('accuracy')
def marked_text(prediction: str, gold: Any) -> bool:
    """The share of rows whose text between `【答案】` and a space is the gold one."""
    return re.findall(r'【答案】(.*?) ', prediction)[:1] == [strip_text(text) for text in alternatives(gold)]


_BY_QUESTION = {
    'single_choice': gaokao_single_choice,
    'multi_choice': gaokao_multi_choice,
    'multi_question_choice': gaokao_questions,
    'five_out_of_seven': gaokao_five_of_seven,
}
