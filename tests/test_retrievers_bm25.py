"""BM25: the formula, the terms, and what does not change the picks."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.test_retrievers import Columns, ids, numbered, questions

from rolecall.sources.retrievers import BM25Retriever, words
from rolecall.sources.retrievers.bm25 import Okapi
from rolecall.sources.retrievers.pool import top_indexes

numpy = pytest.importorskip('numpy')
pytest.importorskip('scipy')


def okapi_by_hand(documents: list[list[str]], query: list[str]) -> list[float]:
    """The formula, term by term, as it is written in textbooks; a negative idf becomes a quarter of the mean idf."""
    containing = {term: sum(term in document for document in documents) for document in documents for term in document}
    idf = {term: math.log((len(documents) - n + 0.5) / (n + 0.5)) for term, n in containing.items()}
    floor = 0.25 * sum(idf.values()) / max(1, len(idf))
    idf = {term: value if value >= -1e-12 else floor for term, value in idf.items()}
    mean = sum(map(len, documents)) / len(documents)
    return [
        sum(
            idf[term] * document.count(term) * 2.5 / (document.count(term) + 1.5 * (0.25 + 0.75 * len(document) / mean))
            for term in query
            if term in document
        )
        for document in documents
    ]


terms = st.lists(st.sampled_from('abcdefg'), max_size=8)


@given(st.lists(terms, min_size=1, max_size=8), terms)
def test_scores_are_okapis(documents: list[list[str]], query: list[str]) -> None:
    assert Okapi(documents).scores(query) == pytest.approx(okapi_by_hand(documents, query), abs=1e-9)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=700), st.integers(0, 10))
def test_the_best_are_the_highest_and_of_equals_the_later(scores: list[int], count: int) -> None:
    expected = sorted(range(len(scores)), key=lambda index: (-scores[index], -index))[:count]
    assert top_indexes(numpy.array(scores, dtype=float), count).tolist() == expected


def test_the_best_match_comes_first() -> None:
    train = questions('apples and pears', 'how many apples does Ann have', 'the speed of a train', 'many apples')
    assert ids(BM25Retriever(2), train, questions('how many apples are left', 'speed')) == [(1, 3), (2, 3)]


def test_any_tokenizer_can_be_given() -> None:
    train = questions('A-B', 'c-d', 'e-f')
    assert ids(BM25Retriever(1, tokenizer=lambda text: text.lower().split('-')), train, questions('b-x')) == [(0,)]


def test_an_input_template_decides_what_is_searched() -> None:
    train = [{'question': f'q{index}', 'topic': topic} for index, topic in enumerate(['sea', 'sky', 'road'])]
    test = [{'question': 'x', 'topic': 'sky'}]
    for template in ('about {topic}', {'template': 'about {topic}'}, lambda row: f'about {row["topic"]}'):
        (picked,) = BM25Retriever(1).retrieve(train, test, reader=Columns(input_template=template))
        assert picked.ids == (1,)


def test_rows_without_any_term_in_common_are_still_given() -> None:
    assert ids(BM25Retriever(2), questions('', ' ', 'a'), questions('zzz', '?')) == [(2, 1), (2, 1)]


def test_the_order_of_hashes_changes_nothing() -> None:
    program = (
        'from test_retrievers import *\n'
        "train = questions(*(f'{a} {b} and {a}' for a in 'xyzw' for b in 'pqrs'))\n"
        "for kind in EVERY_KIND: print(ids(kind, train, questions('x r', 'w q s', 'and')))"
    )
    printed = {
        subprocess.run(
            [sys.executable, '-c', program], env={**os.environ, 'PYTHONHASHSEED': seed}, cwd=Path(__file__).parent,
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ('1', '2', '3')
    }  # fmt: skip
    assert len(printed) == 1


def test_picks_do_not_depend_on_the_other_test_rows() -> None:
    train, test = numbered(40), questions('question 3 and 4', '17', 'train', 'nothing')
    together = ids(BM25Retriever(3), train, test)
    assert together == [ids(BM25Retriever(3), train, [row])[0] for row in test]


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('', []),
        ('What is 1+1?', ['What', 'is', '1+1', '?']),
        ("They'll say it isn't Ann's.", ['They', "'ll", 'say', 'it', 'is', "n't", 'Ann', "'s", '.']),
        ("the boys' 'cat'", ['the', 'boys', "'", "'", 'cat', "'"]),
        ('It cost $3,000.50 (50%).', ['It', 'cost', '$', '3,000.50', '(', '50', '%', ')', '.']),
        ('At 3:30 p.m. Dr. Who left... a/b', ['At', '3:30', 'p.m.', 'Dr.', 'Who', 'left', '...', 'a/b']),
        ('one, two: three--four well-known', ['one', ',', 'two', ':', 'three', '--', 'four', 'well-known']),
        ('I cannot', ['I', 'can', 'not']),
        ('“Yes”, he said.', ['“', 'Yes', '”', ',', 'he', 'said', '.']),
        ('她说：“你好，世界！”', ['她说', '：', '“', '你好', '，', '世界', '！', '”']),
        ('GPT4模型很好', ['GPT4', '模型', '型很', '很好']),
        ('東京タワー', ['東京', '京タ', 'タワ', 'ワー']),
        ('नमस्ते दुनिया।', ['नमस्ते', 'दुनिया।']),
        ('Привет, мир', ['Привет', ',', 'мир']),
        ('人', ['人']),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(st.text())
def test_words_lose_no_character_of_a_text_but_white_space(text: str) -> None:
    found = ''.join(words(text))
    assert set(found) == {sign for sign in text if not sign.isspace()}


def test_without_scipy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from rolecall.errors import MissingExtraError

    monkeypatch.setitem(sys.modules, 'scipy.sparse', None)
    with pytest.raises(
        MissingExtraError, match=r"scipy is needed to search with BM25: pip install 'rolecall\[retrieve\]'"
    ):
        BM25Retriever().retrieve(numbered(2), [], reader=Columns())


def test_importing_the_room_loads_nothing_heavy() -> None:
    program = 'import sys, rolecall.sources.retrievers; print({"numpy", "scipy", "torch"} & set(sys.modules))'
    done: Any = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'set()'
