"""Convert records of public benchmarks to the rows their templates expect: one small function each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rolecall.sources.datasets.rows import Row

__all__: list[str] = []

LETTERS = 'ABCDEFGHIJKLMNOP'
PASSAGES = ('context', 'passage', 'document', 'article', 'story', 'paragraph', 'text', '上下文', '材料', '文章')
"""Columns that hold the passage a question refers to."""
OPTION_LISTS = ('choices', 'options', '选项')
"""Columns that list the options of their row."""
_KEYS = (('label', 'key', 'id', 'letter'), ('text', 'content', 'value', 'option'))
"""What an option's label and its text are called."""
_LABEL = re.compile(r'(?:opt?|option|choice)?[ _]?(?:[A-Za-z]|\d{1,2})', re.IGNORECASE)


def drop_columns(row: Row, *columns: str) -> dict[str, Any]:
    """A copy of the row without these columns.

    >>> drop_columns({'a': 1, 'b': 2}, 'b', 'c')
    {'a': 1}
    """
    return {key: value for key, value in row.items() if key not in columns}


def label_options(options: list[Any]) -> dict[str, Any]:
    """Four options under their letters.

    >>> label_options(['w', 'x', 'y', 'z'])
    {'A': 'w', 'B': 'x', 'C': 'y', 'D': 'z'}
    """
    return dict(zip('ABCD', options, strict=True))


def read_options(value: Any) -> dict[str, Any] | None:
    """The options of a question by their labels, in any of the usual forms; None if there are none.

    >>> read_options(['x', 'y']), read_options({'text': ['x', 'y'], 'label': ['1', '2']})
    ({'A': 'x', 'B': 'y'}, {'1': 'x', '2': 'y'})
    >>> read_options([{'label': 'A', 'text': 'x'}, {'label': 'B', 'text': 'y'}]), read_options({'A': 'x', 'B': 'y'})
    ({'A': 'x', 'B': 'y'}, {'A': 'x', 'B': 'y'})
    """
    labels: Any = LETTERS
    if isinstance(value, Mapping) and isinstance(value.get('text'), list | tuple):
        labels, value = value.get('label') or LETTERS, value['text']
    elif isinstance(value, list | tuple) and value and all(isinstance(option, Mapping) for option in value):
        by_kind = [[next((option[key] for key in keys if key in option), None) for option in value] for keys in _KEYS]
        labels, value = by_kind[0] if None not in by_kind[0] else LETTERS, by_kind[1]
    elif isinstance(value, Mapping):
        labels, value = list(value), list(value.values())
        if not all(_LABEL.fullmatch(str(label)) for label in labels):
            return None
    if not isinstance(value, list | tuple) or len(value) < 2:
        return None
    if any(isinstance(option, Mapping | list | tuple) or option is None for option in value):
        return None
    return dict(zip(map(str, labels), value, strict=False))


def spread_choices(row: Row, column: str, answer: str | None) -> dict[str, Any]:
    """The options of a column under their letters, and an answer that is a label, an index or an option as its letter.

    >>> spread_choices({'q': 'Which?', 'choices': ['x', 'y'], 'answer': 1}, 'choices', 'answer')
    {'q': 'Which?', 'choices': ['x', 'y'], 'answer': 'B', 'A': 'x', 'B': 'y'}
    """
    options = read_options(row.get(column))
    if options is None:
        return dict(row)
    gold = row.get(answer) if answer is not None else None
    letter = _find_letter(gold, list(options), list(options.values()))
    return {
        **row,
        **({answer: letter} if answer is not None and answer in row else {}),
        **dict(zip(LETTERS, options.values(), strict=False)),
    }


def _find_letter(gold: Any, labels: list[str], texts: list[Any]) -> Any:
    """The letter of the option that an answer names by its label, index or text; the answer itself if it names none."""
    own_labels = labels != list(LETTERS[: len(labels)])
    if own_labels and str(gold).strip() in labels:
        return LETTERS[labels.index(str(gold).strip())]
    index = int(gold) if isinstance(gold, str) and gold.strip().isdecimal() and gold not in texts else gold
    if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(texts):
        return LETTERS[index]
    return LETTERS[texts.index(gold)] if gold in texts else gold


def flatten(row: Row) -> dict[str, Any]:
    """The row with the values inside nested objects as columns of their own.

    >>> flatten({'id': 1, 'input': {'question': 'Why?', 'from': {'page': 7}}})['input.from.page']
    7
    """
    flat = dict(row)
    nested = [(name, value) for name, value in row.items() if isinstance(value, Mapping)]
    for name, inside in nested:  # grows while it is walked
        for key, value in inside.items():
            flat.setdefault(f'{name}.{key}', value)
            if isinstance(value, Mapping):
                nested.append((f'{name}.{key}', value))
    return flat


def agieval_v2(row: Row) -> Row:
    label = row['label'] or row['answer']
    if isinstance(label, list):
        label = ''.join(map(str, label))
    return {
        'question': (row['passage'] or '') + row['question'],
        'options': '\n'.join(row['options'] or ()),
        'label': label if label is None else str(label),
    }


def agieval(row: Row, name: str) -> Row:
    """The question laid out as the benchmark's own zero-shot prompt for the exam `name`."""
    chinese = name.startswith(('gaokao', 'logiqa-zh', 'jec')) and name != 'gaokao-english'
    question = (row['passage'] or '') + ('问题：' if chinese else 'Q: ') + row['question']
    if name in ('math', 'gaokao-mathcloze'):
        prompt = f'{question}\n' + ('答案：' if chinese else 'A: The answer is')
    else:
        count = len(row['options'])
        last = LETTERS[(count if count > 1 else 4 if chinese else 5) - 1]
        choices = ('选项：' if chinese else 'Answer Choices: ') + ' '.join(row['options'])
        ending = f'答案：从A到{last}, 我们应选择' if chinese else f'A: Among A through {last}, the answer is'
        prompt = f'{question} {choices}\n{ending}'
    return {'problem_input': prompt, 'label': row['label'] or row['answer']}


def aime2024(row: Row) -> Row:
    return {**row, 'question': row['origin_prompt'], 'answer': row['gold_answer']}


def arc(row: Row) -> Row:
    choices = row['question']['choices']
    labels = [choice['label'] for choice in choices]
    return {
        'question': row['question']['stem'],
        'answerKey': LETTERS[labels.index(row['answerKey'])],
        **{f'text{letter}': choice['text'] for letter, choice in zip('ABCD', choices, strict=True)},
    }


def boolq(row: Row) -> Row:
    return {**row, 'answer': int(_is_true(row['label']))}


def boolq_v2(row: Row) -> Row:
    return {**row, 'label': 'A' if _is_true(row['label']) else 'B'}


def boolq_v3(row: Row) -> Row:
    _, _, passage = row['passage'].partition(' -- ')
    return {**row, 'passage': passage, 'question': _capital(row['question'])}


def ceval(row: Row) -> Row:
    return {'explanation': '', 'answer': '', **row}


def cmmlu(row: Row) -> Row:
    return {'question': row['Question'], **{letter: row[letter] for letter in 'ABCD'}, 'answer': row['Answer']}


def gpqa(row: Row, index: int) -> Row:
    """The four answers, turned by one place from row to row so that the right one is not always the first."""
    right = row['Correct Answer']
    answers = [right, *(row[f'Incorrect Answer {number}'] for number in (1, 2, 3))]
    turn = (index + 1) % 4
    options = answers[turn:] + answers[:turn]
    return {'question': row['Question'], **label_options(options), 'answer': LETTERS[options.index(right)]}


def hellaswag(row: Row) -> Row:
    return {'ctx': row['query'].split(': ', 2)[-1], **label_options(row['choices']), 'label': row['gold']}


def hellaswag_v2(row: Row) -> Row:
    return {'ctx': row['query'].split(': ', 1)[-1], **label_options(row['choices']), 'label': LETTERS[row['gold']]}


def hellaswag_v3(row: Row) -> Row:
    return {'query': row['query'], **label_options(row['choices']), 'gold': row['gold']}


def ifeval(row: Row) -> Row:
    return {'prompt': row['prompt'], 'reference': row}


def math(row: Row) -> Row:
    return {'problem': row['problem'], 'solution': last_boxed(row['solution'])}


def last_boxed(text: str) -> str | None:
    r"""The content of the last `\boxed{…}` in a solution, or None.

    >>> last_boxed(r'first \boxed{1}, so \boxed{\frac{1}{2}}.')
    '\\frac{1}{2}'
    """
    _, command, rest = text.rpartition('\\boxed')
    depth = 0
    for place, character in enumerate(rest if command and rest.startswith('{') else ''):
        depth += {'{': 1, '}': -1}.get(character, 0)
        if depth == 0:
            return rest[1:place]
    return None


def mbpp(row: Row) -> Row:
    tests = '\n'.join(row['test_list'])
    return {
        **row,
        'test_case': row['test_list'],
        'test_list': tests,
        'test_list_2': tests,
        'test_column': {'test_list_2': tests, 'task_id': row['task_id']},
    }


def sanitized_mbpp(row: Row) -> Row:
    return drop_columns({**mbpp(row), 'text': row['prompt']}, 'prompt', 'test_case')


def mmlu_pro(row: Row) -> Row:
    pairs = zip(LETTERS, row['options'], strict=False)
    options = {letter: f'{letter}. {option}\n' for letter, option in pairs if option != 'N/A'}
    return {
        **row,
        'options_str': ''.join(options.values()).strip(),
        'answer_string': options.get(row['answer'], ''),
        'cot_content': row['cot_content'].removeprefix("A: Let's think step by step.").strip(),
    }


def mt_bench_turns(row: Row) -> Row:
    """Both turns as lists, for multi-turn templates; without reference answers the answers are empty."""
    turns = row['turns'] if 'turns' in row else row['prompt']
    return {'id': row['question_id'], 'question': turns, 'answer': row.get('reference') or [''] * len(turns)}


def mt_bench_dialogue(row: Row) -> Row:
    dialogue, capability = row['dialogue'], row['capability']
    questions = ' '.join(turn['content'] for turn in dialogue if turn['role'] == 'user')
    others = {**row['others'], 'round': len(dialogue) // 2, 'question': questions}
    judge = {'capability': capability, 'others': others}
    return {'dialogue': dialogue, 'capability': capability, 'others': others, 'judge': judge}


def piqa(row: Row) -> Row:
    return {**drop_columns(row, 'id'), 'label': int(row['label'])}


def piqa_v2(row: Row) -> Row:
    label = int(row['label'])
    return {**drop_columns(row, 'id', 'label'), 'answer': 'NULL' if label < 0 else LETTERS[label]}


def piqa_v3(row: Row) -> Row:
    """Capitals as a reader expects them: an ending that continues the goal starts small."""
    goal = _capital(row['goal'])
    fit = _capital if goal.endswith(('?', '.')) else _small
    return {**piqa(row), 'goal': goal, 'sol1': fit(row['sol1']), 'sol2': fit(row['sol2'])}


def race(row: Row) -> Row:
    return {
        'article': row['article'],
        'question': row['question'],
        **label_options(row['options']),
        'answer': row['answer'],
    }


def siqa(row: Row) -> Row:
    return {**row, 'label': int(row['label'])}


def siqa_v2(row: Row) -> Row:
    label = int(row['label'])
    answers = {letter: row[f'answer{letter}'] for letter in 'ABC'}
    candidates = [[f'{letter}. {answer}', letter, answer] for letter, answer in answers.items()]
    return {
        **row,
        'all_labels': {'candidates': candidates, 'label': label - 1},
        'label': LETTERS[label - 1],
    }


def siqa_v3(row: Row) -> Row:
    options = {letter: row[f'answer{letter}'] for letter in 'ABC'}
    rest = drop_columns(row, 'answerA', 'answerB', 'answerC', 'label')
    return {**rest, **options, 'answer': LETTERS[int(row['label']) - 1]}


def winogrande(row: Row) -> Row:
    sentence = row['sentence']
    return {
        'prompt': sentence,
        'only_option1': row['option1'],
        'only_option2': row['option2'],
        'opt1': sentence.replace('_', row['option1']),
        'opt2': sentence.replace('_', row['option2']),
        'answer': row['answer'],
        'cont': sentence.split('_')[1],
    }


def winogrande_v2(row: Row) -> Row:
    answer = row['answer']
    return {**winogrande(row), 'answer': LETTERS[int(answer) - 1] if answer != '' else 'NULL'}


def _is_true(label: Any) -> bool:
    return str(label).lower() == 'true'


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _small(text: str) -> str:
    return text[:1].lower() + text[1:]
