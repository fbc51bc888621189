"""Long prompts around short facts: NeedleBench, whose rows are made from texts, needles and a seed.

The texts are shuffled, cut to a number of tokens, and the needles set in at depths, as the published loaders do it, so
that the same files give the same rows.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from rolecall.models.tokenizers.tokenizer import Tokenizer, load_tokenizer
from rolecall.plain_files import read_plain
from rolecall.sources.datasets.layouts import Entry, open_layout, read_json
from rolecall.sources.datasets.rows import WHOLE, ListRows, Row, Splits
from rolecall.sources.datasets.worded import find_wording

_Places = Callable[[int, Sequence[int]], list[int]]
"""Where needles of these lengths go in a text of that many tokens, each place counted with the needles before it."""


def find_origin(path: Path, entry: Entry) -> Splits:
    """Files below path: those of `file_list`, and `needle_file_name`; a fact is to be found in a text."""
    needles = [record for record in _read_records(path, entry) if record['language'] == entry['language']]

    def make_rows(turn: int, build: Callable[..., str]) -> Row:
        needle = random.Random(turn).choice(needles)
        fact, question = f'\n{needle["needle"]}\n', needle['retrieval_question']
        if 'guide' in entry:
            question = _guide(question, entry) if entry['guide'] else _shorten_format(_guide(question, entry), entry)
        return {'prompt': build([fact], question), 'answer': f'{fact}*{needle["arg2"]}'}

    return _make_rows('origin', path, entry, _at_depths([entry['depth']]), make_rows)


def find_parallel(path: Path, entry: Entry) -> Splits:
    """Files below path: those of `file_list`, and `needle_file_name`; facts at several depths are to be found."""
    needles = _pick_different(_read_records(path, entry), entry['language'], len(entry['depths']))
    mark, stop = ('？', '。') if entry['language'] == 'Chinese' else ('?', '.')
    begin, end = ("请按照'", "'的格式回答。") if mark == '？' else ("Please answer in the format of '", "'")

    def make_rows(turn: int, build: Callable[..., str]) -> Row:
        chosen = list(needles)
        random.Random(turn).shuffle(chosen)
        asked = [needle['retrieval_question'] for needle in chosen]
        questions = '、'.join(question.split(mark)[0] + mark for question in asked)
        form = '、'.join(question.split("'")[1].split(stop)[0] for question in asked)
        question = f'{questions}{begin}{form}{end}'
        question = _guide(question, entry) if entry.get('guide') else question
        keywords = '*'.join(needle['arg2'] for needle in chosen)
        prompt = build([f'\n{needle["needle"]}\n' for needle in chosen], question)
        return {'prompt': prompt, 'answer': f'{keywords}#{"*".join(map(str, entry["depths"]))}'}

    return _make_rows('parallel', path, entry, _at_depths(entry['depths']), make_rows)


def reason_over_needles(path: Path, entry: Entry) -> Splits:
    """Files below path: those of `file_list`, and `needle_file_name`; facts are to be combined."""
    find = _derivations if 'guide' in entry else _family

    def make_rows(turn: int, build: Callable[..., str]) -> Row:
        needles, question, answer, more = find(path, entry, random.Random(turn))
        prompt = build([f'\n{needle}\n' for needle in needles], question, **more)
        return {'prompt': prompt, 'answer': f'{answer}*{answer}' if 'guide' in entry else answer}

    return _make_rows('multi', path, entry, _in_a_row(entry['depth'], entry['diff']), make_rows)


def _derivations(path: Path, entry: Entry, rng: random.Random) -> tuple[list[str], str, str, dict[str, str]]:
    records = read_json(path / entry['needle_file_name'])
    record = rng.choice([record for record in records if record.get('derivation_count') == entry['num_needles']])
    question = record['question']
    if entry['guide']:
        question += find_wording('needlebench1', 'guide', entry['language'])
    return record['derivations'], question, record['answer'], {}


def _family(path: Path, entry: Entry, rng: random.Random) -> tuple[list[str], str, str, dict[str, str]]:
    """A chain of relatives, a sentence for each step, in any order; asked is the eldest."""
    language = entry['language']
    sentences, terms = (find_wording('kinship', language, kind).split('|') for kind in ('sentences', 'terms'))
    names = rng.sample(read_json(path / entry['needle_file_name'])[language].split(','), entry['num_needles'] + 1)
    story = []
    for elder, younger in pairwise(names):
        sentence = rng.choice(sentences)
        story.append(sentence.format(A=elder, B=younger, relationship=rng.choice(terms)))
    rng.shuffle(story)
    last = {'last_person': names[-1]}
    return story, find_wording('kinship', language, 'question').format_map(last), names[0], last


def _make_rows(
    kind: str, path: Path, entry: Entry, places: _Places, make_row: Callable[[int, Callable[..., str]], Row]
) -> Splits:
    """`num_repeats_per_file` rows for each file of `file_list`."""
    tokenizer = open_tokenizer(entry['tokenizer_model'])
    position = entry.get('position', entry.get('quesiton_position', 'End'))
    wording = find_wording(f'needlebench{1 if "guide" in entry else 2}', kind, entry['language'], position)
    rows = []
    for file in sorted(entry['file_list']):
        texts = [record['text'] for record in open_layout(path, entry, {WHOLE: file})[WHOLE]]
        for turn in range(entry['num_repeats_per_file']):
            random.Random(turn).shuffle(texts)

            def build(needles: list[str], question: str, **more: str) -> str:
                context = _hide(needles, texts, entry, tokenizer, places)  # noqa: B023  (called before the next turn)
                return wording.format(context=context, retrieval_question=question, **more)

            rows.append(make_row(turn, build))
    return {WHOLE: ListRows(rows)}


def _hide(needles: list[str], texts: list[str], entry: Entry, tokenizer: Tokenizer, places: _Places) -> str:
    """The texts, cut to the length that is left beside the needles, with these in their places."""
    facts = [tokenizer.encode(needle, special=False) for needle in needles]
    room = max(entry['length'] - entry['length_buffer'] - sum(map(len, facts)), 0)
    tokens: list[int] = []
    for text in texts:
        tokens += tokenizer.encode(text, special=False)
        if len(tokens) >= room:
            break
    del tokens[room:]
    for place, fact in zip(places(len(tokens), list(map(len, facts))), facts, strict=True):
        tokens[place:place] = fact
    return tokenizer.decode(tokens)


def _at_depths(depths: Sequence[float]) -> _Places:
    def places(total: int, sizes: Sequence[int]) -> list[int]:
        before = accumulate(sizes, initial=0)
        return [
            min(int(total * (depth / 100)) + size, total + size) for depth, size in zip(depths, before, strict=False)
        ]

    return places


def _in_a_row(depth: float, step: float) -> _Places:
    """The first at a depth, the others each a share of the text after the one before."""

    def places(total: int, sizes: Sequence[int]) -> list[int]:
        points = [int(total * (depth / 100))]
        for number, size in enumerate(sizes[:-1], start=1):
            points.append(min(int(points[-1] + size + total * (step / 100)), total + sum(sizes[:number])))
        return [point + sum(sizes[:number]) for number, point in enumerate(points)]

    return places


def _guide(question: str, entry: Entry) -> str:
    """The question with a request to think of what matters in the text, before the form of the answer."""
    mark = '请按照' if entry['language'] == 'Chinese' else 'Please answer in the format'
    before, _, after = question.partition(mark)
    joint = '' if mark == '请按照' else ' '
    return f'{before}{find_wording("needlebench1", "guide", entry["language"])}{joint}{mark}{after.partition(mark)[0]}'


def _shorten_format(question: str, entry: Entry) -> str:
    """For base models: the answer begun, where others are told its form."""
    if entry['language'] == 'Chinese':
        return question.replace("请按照'", '')[:-16]
    return question.replace("Please answer in the format '", '')[:-10]


def _read_records(path: Path, entry: Entry) -> Iterator[Any]:
    return map(json.loads, read_plain(path / entry['needle_file_name']).splitlines())


def _pick_different(records: Iterator[Any], language: str, count: int) -> list[Any]:
    """Needles that share neither subject nor answer, in a seeded order (the package's own is a new one each time)."""
    shuffled = list(records)
    random.Random(0).shuffle(shuffled)
    picked: list[Any] = []
    for record in shuffled:
        others = [(other['arg1'], other['arg2']) for other in picked]
        if record['language'] == language and all(record['arg1'] != a and record['arg2'] != b for a, b in others):
            picked.append(record)
        if len(picked) == count:
            break
    return picked


def open_tokenizer(name: str) -> Tokenizer:
    """The tokenizer that lengths are counted with: a model of OpenAI by its name, or what `load_tokenizer` takes."""
    return load_tokenizer(f'tiktoken:{name}' if name.startswith(('gpt-', 'o1', 'o3')) else name)
