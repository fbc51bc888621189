"""Benchmarks of English understanding and of mathematics: SuperGLUE, question answering, cloze tests, MathBench."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from rolecall.sources.datasets.conversions import LETTERS, drop_columns, label_options
from rolecall.sources.datasets.formats import FileOptions
from rolecall.sources.datasets.layouts import (
    Entry,
    HubLoader,
    Loader,
    Shape,
    SplitFile,
    expand_rows,
    hub_layout,
    layout,
)
from rolecall.sources.datasets.rows import WHOLE, JoinedRows, ListRows, Row, Splits

_FILE: Mapping[str, SplitFile] = {WHOLE: SplitFile()}
_ROTATIONS = ('ABCD', 'BCDA', 'CDAB', 'DABC')
_MMLU = FileOptions(format='csv', columns=('input', 'A', 'B', 'C', 'D', 'target'))


def _named_label(labels: Mapping[str, str]) -> Shape:
    return lambda row: {**row, 'label': labels[str(row['label']).lower()]}


def _numbered_label(letters: str) -> Shape:
    return lambda row: {**row, 'label': letters[int(row['label'])]}


def wic(row: Row) -> Row:
    return {**row, 'answer': int(str(row['label']).lower() == 'true')}


def wsc(row: Row) -> Row:
    target, words = row['target'], row['text'].split(' ')
    words[target['span2_index']] = target['span1_text']
    spans = {'span1': target['span1_text'], 'span2': target['span2_text']}
    answer = int(str(row['label']).lower() == 'true')
    return {**drop_columns(row, 'target'), 'new_text': ' '.join(words), 'answer': answer, **spans}


def wsc_v2(row: Row) -> Row:
    target = row['target']
    label = {'true': 'A', 'false': 'B'}[str(row['label']).lower()]
    return {'span1': target['span1_text'], 'span2': target['span2_text'], 'text': row['text'], 'label': label}


def wsc_v3(row: Row) -> Row:
    """Both spans marked in the text: `* the noun *` and `# the pronoun #`."""
    target, words = row['target'], row['text'].split(' ')
    for span, mark in (('span1', '*'), ('span2', '#')):
        text, at = target[f'{span}_text'], target[f'{span}_index']
        size = len(text.split(' '))
        words[at : at + size] = [f'{mark} {text} {mark}', *[''] * (size - 1)]
    return {**wsc_v2(row), 'text': ' '.join(word for word in words if word)}


def multirc(row: Row, number: int) -> Iterator[Row]:
    for question in row['passage']['questions']:
        for answer in question['answers']:
            yield {
                'text': row['passage']['text'],
                'question': question['question'],
                'answer': answer['text'],
                'label': answer['label'],
            }


def multirc_v2(row: Row, number: int) -> Iterator[Row]:
    return ({**shaped, 'label': 'BA'[shaped['label']]} for shaped in multirc(row, number))


def record(row: Row, number: int) -> Iterator[Row]:
    text = row['passage']['text'].replace('@highlight', '')
    for query in row['qas']:
        answers = [answer['text'] for answer in query['answers']]
        yield {'text': text, 'question': query['query'].replace('@placeholder', '____'), 'answers': answers}


def record_v2(row: Row, number: int) -> Iterator[Row]:
    return ({**shaped, 'text': shaped['text'].replace('\n\n', '\n')} for shaped in record(row, number))


def commonsense_qa(row: Row) -> Row:
    choices = dict(zip('ABCDE', (choice['text'] for choice in row['question']['choices']), strict=True))
    return {'question': row['question']['stem'], **choices, 'answerKey': row['answerKey']}


def commonsense_qa_cn(row: Row) -> Row:
    columns = drop_columns(row, 'question_concept', 'id', 'choices')
    return {**columns, **dict(zip('ABCDE', row['choices']['text'], strict=True))}


def open_book_qa(row: Row) -> Row:
    options = label_options([choice['text'] for choice in row['question']['choices']])
    fact = {'fact1': row['fact1']} if 'fact1' in row else {}
    return {**options, 'question_stem': row['question']['stem'], 'answerKey': row['answerKey'], **fact}


def story(row: Row) -> Row:
    return {**row, 'context': ' '.join(row[f'input_sentence_{number}'] for number in (1, 2, 3, 4))}


def story_v2(row: Row) -> Row:
    return {**story(row), 'answer_right_ending': ' AB'[int(row['answer_right_ending'])]}


def _story(shape: Shape, split: str) -> Loader:
    def load(path: Path, entry: Entry) -> Splits:
        """Files below path: {lang}_train.jsonl and {lang}_eval.jsonl, together."""
        splits = layout({'train': '{lang}_train.jsonl', 'eval': '{lang}_eval.jsonl'}, shape)(path, entry)
        return {split: JoinedRows(list(splits.values()))}

    return load


def drop(row: Row) -> Row:
    return {'prompt': row['context'], 'answers': row['ref_text']}


def qasper(row: Row, number: int) -> Iterator[Row]:
    article = '\n'.join(
        (section['section_name'] or '') + '\n' + '\n'.join(section['paragraphs']) + '\n' for section in row['full_text']
    )
    for question in row['qas']:
        answers = [span for answer in question['answers'] for span in answer['answer']['extractive_spans']]
        if answers:
            yield {'answer': answers, 'question': question['question'], 'evidence': article}


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


def cloze(row: Row) -> Row:
    return {'question': row['question'].strip(), 'answer': row['answer'].strip()}


def _mathbench(path: Path, entry: Entry) -> Splits:
    """Files below path: {name}.jsonl."""
    files = {WHOLE: '{name}.jsonl'}
    if 'cloze' in str(entry.get('name')):
        return layout(files, cloze)(path, entry)
    if entry.get('with_circular', True):
        return expand_rows(layout(files), rotations)(path, entry)
    splits = layout(files, choice_question)(path, entry)
    return {split: ListRows([{'question': row['question'], 'answer': row['answer'].strip()} for row in rows])
            for split, rows in splits.items()}  # fmt: skip


def _objective(path: Path, entry: Entry) -> Splits:
    """The file that path and `filename` name; `name` says whether its questions are cloze, rotated or plain choices."""
    file = str(entry.get('filename') or '').lstrip('/')
    files = {WHOLE: SplitFile(file)}
    name = str(entry.get('name') or '')
    if 'cloze' in name:
        return layout(files, cloze)(path, entry)
    if 'circular' in name:
        return expand_rows(layout(files), rotations)(path, entry)
    return layout(files, choice_question)(path, entry)


def crows_pairs(row: Row) -> Row:
    return {**row, 'label': 'A'}


def mrcr(row: Row) -> Row:
    match = re.search(r'Prepend\s+(\S+)\s+to', row['question'])
    gold = json.dumps({'answer': row['answers'][0], 'prefix': match[1] if match else ''})
    return {'context': row['context'], 'question': row['question'], 'gold': gold}


def translation(row: Row) -> Row:
    return {**drop_columns(row, 'translation'), **row['translation']}


def truthful_qa(row: Row) -> Row:
    columns = ('best_answer', 'correct_answers', 'incorrect_answers')
    answers = {column: row[column] for column in columns}
    return {**drop_columns(row, *columns), 'reference': {'answers': answers, 'question': row.get('question')}}


def _first_thousand(path: Path, entry: Entry) -> Splits:
    """One file of rows, named by path: its first 1,000, without those that lack a text."""
    splits = layout(
        {WHOLE: SplitFile(range='[:1000]')}, lambda row: {'dialogue': row['dialogue'], 'summary': row['summary']}
    )(path, entry)
    return {
        name: ListRows([row for row in rows if all(isinstance(value, str) for value in row.values())])
        for name, rows in splits.items()
    }


def olympiad(row: Row) -> Row:
    names = ('language', 'subject', 'question_type', 'answer_type', 'is_multiple_answer', 'unit', 'error')
    columns = {column: row[column] for column in names}
    return {'problem': row['question'], 'solution': row['final_answer'][0], **columns, 'questions': row}


def cmo(row: Row) -> Row:
    return {**row, 'question': row['origin_prompt'], 'answer': row['gold_answer']}


def subjective(row: Row) -> Row:
    judge = {'capability': row['capability'], 'question': row['question']}
    return {**{name: row[name] for name in ('question', 'capability', 'others')}, 'judge': judge}


def arena_hard(row: Row) -> Row:
    question = row['turns'][0]['content']
    judge = {'capability': row['cluster'], 'question': question, 'question_id': row['question_id']}
    return {'question': question, 'capability': row['cluster'], 'judge': judge}


def fofo(row: Row) -> Row:
    columns = {name: row[name] for name in ('id', 'domain', 'sub_domain', 'format', 'format_type')}
    question = row['instruction']
    return {'question': question, 'judge': {'lan': 'en', **columns, 'question': question}}


def fofo_cn(row: Row) -> Row:
    english = fofo(row)
    return {**english, 'judge': {**english['judge'], 'lan': 'cn'}}


def _fofo(path: Path, entry: Entry) -> Splits:
    """Files below path: {name}.json."""
    return layout({WHOLE: '{name}.json'}, fofo_cn if 'cn' in str(entry.get('name')) else fofo)(path, entry)


_TRUE_FALSE = {'true': 'A', 'false': 'B'}

ENGLISH: dict[str, Loader] = {
    'AnliDataset': layout(_FILE, _named_label({'c': 'A', 'e': 'B', 'n': 'C'})),
    'ArenaHardDataset': layout({WHOLE: '{name}.jsonl'}, arena_hard),
    'AXDatasetV2': layout(_FILE, _named_label({'entailment': 'A', 'not_entailment': 'B'})),
    'CBDatasetV2': layout(_FILE, _named_label({'contradiction': 'A', 'entailment': 'B', 'neutral': 'C'})),
    'CMOFibDataset': layout(_FILE, cmo),
    'commonsenseqaDataset': layout(
        {'train': 'train_rand_split.jsonl', 'validation': 'dev_rand_split.jsonl'}, commonsense_qa
    ),
    'CommonsenseQADataset_CN': layout(_FILE, commonsense_qa_cn),
    'CompassBenchObjectiveV1_3': _objective,
    'COPADatasetV2': layout(_FILE, _numbered_label('AB')),
    'CrowspairsDatasetCN': layout({'test': SplitFile()}, crows_pairs),
    'DropOpenAIDataset': layout({'validation': SplitFile()}, drop),
    'FofoDataset': _fofo,
    'lambadaDataset': layout({'test': SplitFile()}),
    'MathBenchDataset': _mathbench,
    'MMLUArabicDataset': layout({split: f'{split}/{{name}}_{split}.csv' for split in ('dev', 'test')}, options=_MMLU),
    'MultiRCDataset': expand_rows(layout(_FILE), multirc),
    'MultiRCDatasetV2': expand_rows(layout(_FILE), multirc_v2),
    'OBQADataset': layout(_FILE, open_book_qa),
    'OlympiadBenchDataset': layout({'train': '{name}.json', 'test': '{name}.json'}, olympiad),
    'QASPERDataset': expand_rows(layout({'dev': 'qasper-dev-v0.3.json'}), qasper),
    'ReCoRDDataset': expand_rows(layout(_FILE), record),
    'ReCoRDDatasetV2': expand_rows(layout(_FILE), record_v2),
    'SimpleQADataset': layout({'train': SplitFile(), 'test': SplitFile()}),
    'StoryClozeDataset': _story(story, 'test'),
    'StoryClozeDatasetV2': _story(story_v2, WHOLE),
    'StrategyQADataset': layout(_FILE),
    'SubjectiveCmpDataset': layout({WHOLE: '{name}.json'}, subjective),
    'SummeditsDataset_V2': layout(_FILE, _numbered_label('BA')),
    'TheoremQADataset': layout({'test': SplitFile()}),
    'WiCDataset': layout(_FILE, wic),
    'WiCDatasetV2': layout(_FILE, _named_label(_TRUE_FALSE)),
    'WikiBenchDataset': _objective,
    'WSCDataset': layout(_FILE, wsc),
    'WSCDatasetV2': layout(_FILE, wsc_v2),
    'WSCDatasetV3': layout(_FILE, wsc_v3),
    'XsumDataset': _first_thousand,
}

ENGLISH_HUB: dict[str, HubLoader] = {
    'HLEDataset': hub_layout(
        lambda row: {**drop_columns(row, 'question'), 'problem': row['question']},
        splits={'train': 'test', 'test': 'test'},
        keep=lambda row, entry: not row.get('image') and entry.get('category') in (None, row.get('category')),
    ),
    'IWSLT2017Dataset': hub_layout(translation, config='name'),
    'MRCRDataset': hub_layout(mrcr, splits={'test': 'test'}, config='subset'),
    'OlymMATHDataset': hub_layout(config='subset'),
    'OmniMathDataset': hub_layout(splits={WHOLE: 'test'}, path='KbsdJames/Omni-MATH'),
    'TruthfulQADataset': hub_layout(truthful_qa, config='name'),
}
