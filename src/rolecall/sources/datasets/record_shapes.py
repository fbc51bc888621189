"""Records of public benchmarks as the rows that their templates expect, where `columns` cannot say it.

`benchmarks.tsv` names these functions. One that takes a number turns a record into several rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rolecall.sources.datasets.columns import LETTERS, drop_columns, label_lines, label_options
from rolecall.sources.datasets.rows import Row

_ROTATIONS = ('ABCD', 'BCDA', 'CDAB', 'DABC')


def labelled(row: Row) -> bool:
    return bool(row['label'] != '-')


def four_choices(row: Row) -> bool:
    return len(row['question']['choices']) == 4


def text_only(row: Row, entry: Mapping[str, Any]) -> bool:
    return not row.get('image') and entry.get('category') in (None, row.get('category'))


def named_task(row: Row, entry: Mapping[str, Any]) -> bool:
    return bool(row['task'] == entry.get('name'))


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


def agieval_v2(row: Row) -> Row:
    label = row['label'] or row['answer']
    if isinstance(label, list):
        label = ''.join(map(str, label))
    return {
        'question': (row['passage'] or '') + row['question'],
        'options': '\n'.join(row['options'] or ()),
        'label': label if label is None else str(label),
    }


def gpqa(row: Row, index: int) -> Row:
    """The four answers, turned by one place from row to row so that the right one is not always the first."""
    right = row['Correct Answer']
    answers = [right, *(row[f'Incorrect Answer {number}'] for number in (1, 2, 3))]
    turn = (index + 1) % 4
    options = answers[turn:] + answers[:turn]
    return {'question': row['Question'], **label_options(options), 'answer': LETTERS[options.index(right)]}


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


def piqa_v3(row: Row) -> Row:
    """Capitals as a reader expects them: an ending that continues the goal starts small."""
    goal = _capital(row['goal'])
    fit = _capital if goal.endswith(('?', '.')) else _small
    return {
        **drop_columns(row, 'id'),
        'label': int(row['label']),
        'goal': goal,
        'sol1': fit(row['sol1']),
        'sol2': fit(row['sol2']),
    }


def wsc(row: Row) -> Row:
    return _with_noun(row, row['text'].split(' '), ' ')


def cluewsc(row: Row) -> Row:
    return _with_noun(row, list(row['text']), '')


def _with_noun(row: Row, words: list[str], joint: str) -> Row:
    """The text with the noun in place of the pronoun."""
    target = row['target']
    words[target['span2_index']] = target['span1_text']
    spans = {'span1': target['span1_text'], 'span2': target['span2_text']}
    answer = int(str(row['label']).lower() == 'true')
    return {**drop_columns(row, 'target'), 'new_text': joint.join(words), 'answer': answer, **spans}


def wsc_v3(row: Row) -> Row:
    """Both spans marked in the text: `* the noun *` and `# the pronoun #`."""
    target, words = row['target'], row['text'].split(' ')
    for span, mark in (('span1', '*'), ('span2', '#')):
        text, at = target[f'{span}_text'], target[f'{span}_index']
        size = len(text.split(' '))
        words[at : at + size] = [f'{mark} {text} {mark}', *[''] * (size - 1)]
    label = {'true': 'A', 'false': 'B'}[str(row['label']).lower()]
    spans = {'span1': target['span1_text'], 'span2': target['span2_text']}
    return {**spans, 'text': ' '.join(word for word in words if word), 'label': label}


def qasper(row: Row, number: int) -> Iterator[Row]:
    return ({**shaped, 'evidence': article} for shaped, article, _ in _qasper(row))


def qasper_cut(row: Row, number: int) -> Iterator[Row]:
    """The article from the first place on that the annotators marked."""
    for shaped, article, clues in _qasper(row):
        places = [article.find(clue) for clue in clues]
        yield {**shaped, 'evidence': article[max(0, min(places, default=0)) :]}


def _qasper(row: Row) -> Iterator[tuple[Row, str, list[str]]]:
    article = '\n'.join(
        (section['section_name'] or '') + '\n' + '\n'.join(section['paragraphs']) + '\n' for section in row['full_text']
    )
    for question in row['qas']:
        answers = [answer['answer'] for answer in question['answers']]
        spans = [span for answer in answers for span in answer['extractive_spans']]
        if spans:
            clues = [clue for answer in answers for clue in answer.get('evidence', ())]
            yield {'answer': spans, 'question': question['question']}, article, clues


def choice_question(row: Row) -> Row:
    """The question with its options below it, `A. …` on a line each."""
    return {**row, 'question': _with_options(row['question'], row['options'])}


def rotations(row: Row, number: int) -> Iterator[Row]:
    """The question in four orders of its options; the answer says which question, letter and order it is."""
    for order in _ROTATIONS:
        options = [row['options'][LETTERS.index(letter)] for letter in order]
        answer = f'{number}--{LETTERS[order.index(row["answer"])]}--{order}'
        yield {**row, 'options': options, 'answer': answer, 'question': _with_options(row['question'], options)}


def _with_options(question: str, options: list[str]) -> str:
    lines = ''.join(f'{letter}. {option}\n' for letter, option in zip(LETTERS, options, strict=False))
    return f'{question.strip()}\n{lines}'


def mrcr(row: Row) -> Row:
    match = re.search(r'Prepend\s+(\S+)\s+to', row['question'])
    gold = json.dumps({'answer': row['answers'][0], 'prefix': match[1] if match else ''})
    return {'context': row['context'], 'question': row['question'], 'gold': gold}


def chid(row: Row) -> Row:
    filled = [row['content'].replace('#idiom#', candidate) for candidate in row['candidates']]
    return {**row, **{f'content{number}': text for number, text in enumerate(filled)}}


def infinite_find(row: Row) -> Row:
    number = re.findall(r'The .+ of', row['input'])[0].lower().removesuffix(' of')
    prefix = f'What is {number} in the following list?'
    return {'prefix': prefix, 'context': row['context'], 'answer': row['answer']}


def squad(row: Row) -> Row:
    """A question of SQuAD 2.0; an impossible one has its plausible answers and says so."""
    question = row['qas']
    impossible = question['is_impossible']
    texts = [answer['text'] for answer in question['plausible_answers' if impossible else 'answers']]
    answers = [*dict.fromkeys(texts), *(['impossible to answer'] if impossible else [])]
    return {'context': row['paragraphs']['context'], 'question': question['question'], 'answers': answers}


def first_column(row: Row) -> Row:
    return {'question': next(iter(row.values()))}


def obqa_question(row: Row) -> Row:
    stem = row['question']['stem']
    options = [choice['text'] for choice in row['question']['choices']]
    fact = {'fact1': row['fact1']} if 'fact1' in row else {}
    stem += '' if stem.endswith('?') else ' what?'
    return {**label_options(options), 'question_stem': stem, 'answerKey': row['answerKey'], **fact}


def without_image(row: Row, entry: Mapping[str, Any]) -> bool:
    return row.get('image') is None


def science(row: Row) -> Row:
    right = f'{LETTERS[row["answer"]]}. {row["choices"][row["answer"]]}'
    return {**row, 'label': right, 'choices': label_lines(row['choices'])}


def pubmed(row: Row) -> Row:
    question = f'CONTEXTS: {row["context"]}\nQUESTION: {row["question"]}'
    labels = {'yes': 'A. yes', 'no': 'B. no'}
    label = labels.get(row['final_decision'], 'C. maybe')
    return {**row, 'question': question, 'choices': 'A. yes\nB. no\nC. maybe', 'label': label}


def physics(row: Row) -> Row:
    answers = ''.join(f'Answer {number}: {answer}\n' for number, answer in enumerate(row['final_answers'], start=1))
    return {**drop_columns(row, 'questions'), 'input': row['questions'], 'target': answers}


def protein_choice(row: Row) -> Row:
    options = [option.rpartition(': ')[2] for option in row['options']]
    question = f'\nQuestion: {row["question"]}\nAnswer Choices: \n{label_lines(options)}'
    label = LETTERS[int(row['answer'].split(' ')[-1]) - 1]
    return {
        **row,
        'start': 'A',
        'end': LETTERS[len(options) - 1],
        'question': question,
        'options': options,
        'label': label,
    }


def finance_iq(row: Row) -> Row:
    values = list(row.values())
    return dict(zip(('question', 'A', 'B', 'C', 'D', 'answer'), values[1:7], strict=True))


def xiezhi(row: Row, number: int) -> Iterator[Row]:
    options = row['options'].removesuffix('"\n').split('\n')
    if len(options) == 4:
        labels = sorted(row.get('labels') or row['label'], key=len, reverse=True)
        yield {
            'question': row['question'],
            **dict(zip('ABCD', options, strict=True)),
            'labels': labels,
            'answer': LETTERS[options.index(row['answer'])],
        }


def contest(row: Row) -> Row:
    """How a program is called: by its function, or through standard input."""
    called = bool(row.get('starter_code')) or bool(_tests(row).get('fn_name'))
    how = '\\nUse Call-Based format' if called else '\\nUse Standard Input format'
    return {**row, 'starter': f'{row.get("starter_code") or ""}{how}'}


def _tests(row: Row) -> Mapping[str, Any]:
    try:
        parsed = json.loads(row.get('input_output') or '{}')
    except ValueError:
        return {}
    return parsed if isinstance(parsed, Mapping) else {}


def _choice(row: Row, question: str, options: list[str], label: str) -> Row:
    """A question with its options below it, and the letters they go from and to."""
    lines = '\n'.join(f'{letter}. {option}' for letter, option in zip(LETTERS, options, strict=False))
    added = {'options': options, 'question': f'{question}\n{lines}', 'label': label, 'prompt_mode': 'zero-shot'}
    return {**row, **added, 'start': 'A', 'end': LETTERS[len(options) - 1]}


def medmcqa(row: Row) -> Row:
    options = [row[name] for name in ('opa', 'opb', 'opc', 'opd')]
    subject = str(row['subject_name']).replace('_', ' ')
    return {**_choice(row, row['question'], options, LETTERS[row['cop']]), 'subject_name': subject}


def medbullets(row: Row) -> Row:
    options = [row[name] for name in ('opa', 'opb', 'opc', 'opd')] + [option for option in [row.get('ope')] if option]
    return _choice(row, row['question'], options, row['answer_idx'])


def nejm(row: Row) -> Row:
    lines = [line.strip() for line in row['Choices'].splitlines() if line.strip()]
    return _choice(row, row['Question'], [re.sub(r'^[A-Z]\.\s*', '', line) for line in lines], row['Answer'])


def gue(row: Row) -> Row:
    label = (row.get('meta_data') or {}).get('label', '')
    return {**row, 'output': f'{row["output"]} The prediction result is {label}.'}


def chem_exam(row: Row) -> Row:
    """A question with its parts below it, numbered `Q1`, `Q1.1`, and their answers, numbered alike."""
    questions, answers, kinds = [row['question']], [], []
    for number, part in _number_parts(row.get('sub_question') or ()):
        questions.append(f'Q{number}: {part["question"]}')
        if 'sub_question' not in part:
            answers.append(f'\nA{number}: {part["answer"]}')
            kinds.append(str(part['qa_type']))
    if not answers:
        answers, kinds = [row['answer']], [str(row['qa_type'])]
    columns = {'id': row['id'], 'has_img': row['has_img']}
    return {**columns, 'prompt': '\n'.join(questions), 'output': ''.join(answers), 'qa_type': kinds}


def _number_parts(parts: Iterable[Row], outer: str = '') -> Iterator[tuple[str, Row]]:
    for place, part in enumerate(parts, start=1):
        yield f'{outer}{place}', part
        yield from _number_parts(part.get('sub_question') or (), f'{outer}{place}.')


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _small(text: str) -> str:
    return text[:1].lower() + text[1:]
