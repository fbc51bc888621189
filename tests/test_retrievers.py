"""Retrievers that need no search, and the rules all of them keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecall.errors import ConfigError, DataError
from rolecall.sources.retrievers import (
    RETRIEVERS,
    BM25Retriever,
    DPPRetriever,
    FixKRetriever,
    MDLRetriever,
    Picked,
    RandomRetriever,
    Retriever,
    SlidingWindowRetriever,
    TopkRetriever,
    VotekRetriever,
    ZeroRetriever,
    build_retriever,
)
from rolecall.sources.retrievers.pool import hash_question
from tables import in_one


@dataclass(frozen=True)
class Columns:
    input_columns: tuple[str, ...] = ('question',)
    output_column: str | None = 'answer'
    input_template: Any = None


def questions(*texts: str) -> list[dict[str, str]]:
    return [{'question': text, 'answer': str(number)} for number, text in enumerate(texts)]


def numbered(count: int, name: str = 'train') -> list[dict[str, str]]:
    return questions(*(f'{name} question {index}' for index in range(count)))


def ids(retriever: Retriever, train: Sequence[Any], test: Any, **options: Any) -> list[tuple[int, ...]]:
    return [picked.ids for picked in retriever.retrieve(train, test, reader=Columns(), **options)]


def letters(texts: Sequence[str]) -> list[list[float]]:
    """A small deterministic encoder: how often each letter and digit occurs."""
    return [[text.lower().count(sign) + 0.01 for sign in 'abcdefghijklmnopqrstuvwxyz0123456789'] for text in texts]


def surest_of_the_first(row: Any, shots: Sequence[Any], labels: Any) -> list[float]:
    return [1.0, 1.0 / (1 + int(shots[0]['answer']))]


EVERY_KIND: list[Retriever] = [
    FixKRetriever([0, 1]),
    RandomRetriever(2),
    BM25Retriever(2),
    TopkRetriever(2, encoder=letters),
    VotekRetriever(2, encoder=letters),
    DPPRetriever(2, encoder=letters, candidate_num=4),
    MDLRetriever(2, encoder=letters, candidate_num=4, score=surest_of_the_first),
    SlidingWindowRetriever(2),
]
every_kind = pytest.mark.parametrize('retriever', EVERY_KIND, ids=lambda retriever: type(retriever).__name__)


def test_the_defaults_are_those_of_the_documents() -> None:
    assert (ZeroRetriever().ice_num, ZeroRetriever().ice_separator, ZeroRetriever().ice_eos_token) == (0, '\n', '')
    for retriever in EVERY_KIND:
        assert (retriever.ice_separator, retriever.ice_eos_token) == ('\n', '\n')
        assert isinstance(retriever, Retriever)
    assert RandomRetriever() == RandomRetriever(ice_num=1, seed=43)
    assert MDLRetriever().select_time == 5
    assert [kind for kind, retriever in RETRIEVERS.items() if retriever.fixed] == [
        'ZeroRetriever',
        'FixKRetriever',
        'VotekRetriever',
    ]


def test_zero_gives_no_examples_and_reads_no_columns() -> None:
    assert list(ZeroRetriever().retrieve([], [{}, {}], reader=Columns())) == [Picked(()), Picked(())]


def test_fix_k_gives_the_listed_rows_in_the_listed_order() -> None:
    assert ids(FixKRetriever([3, 0, 2]), numbered(5), numbered(2, 'test')) == [(3, 0, 2)] * 2


def test_random_draws_what_numpy_draws_from_the_same_seed() -> None:
    numpy = pytest.importorskip('numpy')
    stream = numpy.random.RandomState(43)
    expected = [tuple(stream.choice(50, 4, replace=False)) for _ in range(20)]
    assert ids(RandomRetriever(4), numbered(50), numbered(20, 'test')) == expected
    assert ids(RandomRetriever(4, seed=1), numbered(50), numbered(20, 'test')) != expected


def test_sliding_window_takes_the_rows_before_and_pads_from_the_tail() -> None:
    assert ids(SlidingWindowRetriever(k=2), numbered(6), numbered(4, 'test')) == [(4, 5), (5, 0), (0, 1), (1, 2)]


def test_sliding_window_goes_round_when_there_are_more_test_rows_than_training_rows() -> None:
    assert ids(SlidingWindowRetriever(k=2), numbered(3), numbered(6, 'test')) == [
        (1, 2),
        (2, 0),
        (0, 1),
        (1, 2),
        (2, 0),
        (0, 1),
    ]


@every_kind
def test_a_row_is_never_its_own_example(retriever: Retriever) -> None:
    rows = numbered(7)
    picks = list(retriever.retrieve(rows, rows, reader=Columns(), same_split=True))
    assert len(picks) == 7
    for position, picked in enumerate(picks):
        assert position not in picked.ids
        assert len(picked.ids) == len(set(picked.ids)) == 2
    assert any(picked.skipped for picked in picks) or isinstance(retriever, SlidingWindowRetriever)


@every_kind
@pytest.mark.parametrize(
    'same', ['Train Question 1', ' train\tquestion  1\n', 'ｔｒａｉｎ question １', 'train question 1']
)
def test_an_example_that_asks_the_same_as_the_test_row_is_replaced(retriever: Retriever, same: str) -> None:
    picks = list(retriever.retrieve(numbered(7), questions(same) * 5, reader=Columns()))
    for picked in picks:
        assert 1 not in picked.ids
        assert len(picked.ids) == 2
        assert picked.skipped in ((), (1,))
    by_likeness = isinstance(retriever, (BM25Retriever, TopkRetriever, DPPRetriever, MDLRetriever))
    assert picks[0].skipped == (1,) or not (by_likeness and same.isascii())


@every_kind
def test_without_an_equal_row_nothing_is_skipped(retriever: Retriever) -> None:
    picks = retriever.retrieve(numbered(7), numbered(9, 'test'), reader=Columns())
    assert all(picked.skipped == () and len(picked.ids) == 2 for picked in picks)


@every_kind
def test_when_every_other_row_is_the_same_fewer_examples_are_given_and_the_rest_is_reported(
    retriever: Retriever,
) -> None:
    train = questions('same', 'Same', 'SAME ', 'other')
    (picked,) = retriever.retrieve(train, questions('same'), reader=Columns())
    assert picked.ids == (3,)
    assert set(picked.skipped) == {0, 1, 2}


@every_kind
def test_test_rows_may_be_a_stream_and_are_read_as_they_are_needed(retriever: Retriever) -> None:
    read = 0

    def endless() -> Iterator[dict[str, str]]:
        nonlocal read
        while True:
            read += 1
            yield {'question': f'test question {read}', 'answer': ''}

    picks = retriever.retrieve(numbered(9), endless(), reader=Columns())
    for _ in range(3):
        assert len(next(picks).ids) == 2
    assert read <= 512


@every_kind
def test_asking_for_more_than_the_training_set_has_is_an_error_before_the_first_row(retriever: Retriever) -> None:
    with pytest.raises(ConfigError, match='the training set has 1 row'):
        retriever.retrieve(numbered(1), numbered(1, 'test'), reader=Columns())


@in_one
@pytest.mark.parametrize(('listed', 'named'), [([-1, 0], '-1'), ([0, 3, 9], '3, 9')])
def test_fix_k_refuses_ids_outside_the_training_set(listed: list[int], named: str) -> None:
    with pytest.raises(ConfigError, match=f'no training row {named}: the training set has 3 rows'):
        FixKRetriever(listed).retrieve(numbered(3), [], reader=Columns())


def test_fix_k_replaces_with_the_rows_after_the_highest_listed_and_then_from_the_start() -> None:
    retriever = FixKRetriever([2, 1])
    assert ids(retriever, numbered(4), questions('train question 2', 'train question 1')) == [(1, 3), (2, 3)]
    assert ids(retriever, numbered(3), questions('train question 2')) == [(1, 0)]


@in_one
@pytest.mark.parametrize('padding', ['', ' ' * 100, '\n \t' * 40])
@pytest.mark.parametrize('text', ['Short', 'A rather long question, longer than what is looked at first?', ''])
def test_fix_k_recognises_a_question_however_it_is_spaced(text: str, padding: str) -> None:
    train = questions(text, 'B', 'C')
    test = questions(padding + (padding or ' ').join(text.upper().split()) + padding)
    picks = list(FixKRetriever([0]).retrieve(train, test, reader=Columns()))
    assert picks == [Picked((1,), (0,))]


def test_listed_twice_is_shown_twice() -> None:
    assert ids(FixKRetriever([1, 1]), numbered(3), numbered(1, 'test')) == [(1, 1)]


@every_kind
def test_progress_counts_up_to_the_total(retriever: Retriever) -> None:
    seen: list[tuple[int, int | None]] = []
    note = lambda done, total: seen.append((done, total))  # noqa: E731
    list(retriever.retrieve(numbered(6), numbered(4, 'test'), reader=Columns(), progress=note))
    done = [count for count, _ in seen]
    assert done == sorted(set(done))
    assert {total for _, total in seen} == {done[-1]}
    seen.clear()
    list(retriever.retrieve(numbered(6), iter(numbered(4, 'test')), reader=Columns(), progress=note))
    assert {total for _, total in seen} == {None}


@every_kind
def test_a_row_without_an_input_column_is_named(retriever: Retriever) -> None:
    with pytest.raises(DataError, match=r"test row 1 has no column 'question'.*'query'"):
        list(retriever.retrieve(numbered(5), [*numbered(1, 'test'), {'query': 'x'}], reader=Columns()))


@every_kind
def test_without_input_columns_only_the_row_itself_is_skipped(retriever: Retriever) -> None:
    reader = Columns(input_columns=())
    rows = numbered(5)
    for position, picked in enumerate(retriever.retrieve(rows, rows, reader=reader, same_split=True)):
        assert position not in picked.ids
        assert len(picked.ids) == 2


def test_asking_for_none_gives_none() -> None:
    for kind in (RandomRetriever, BM25Retriever, TopkRetriever, VotekRetriever, DPPRetriever, MDLRetriever):
        assert ids(kind(ice_num=0), [], numbered(2, 'test')) == [(), ()]


@given(st.lists(st.text(max_size=8), min_size=3, max_size=12), st.lists(st.text(max_size=8), max_size=6))
def test_no_retriever_ever_shows_an_equal_question(train: list[str], test: list[str]) -> None:
    for retriever in EVERY_KIND:
        for text, picked in zip(
            test, retriever.retrieve(questions(*train), questions(*test), reader=Columns()), strict=True
        ):
            assert hash_question(text) not in {hash_question(train[index]) for index in picked.ids}
            assert {hash_question(train[index]) for index in picked.skipped} <= {hash_question(text)}
            others = sum(hash_question(other) != hash_question(text) for other in train)
            assert len(picked.ids) == min(2, others)


@in_one
@pytest.mark.parametrize('kind', RETRIEVERS.values(), ids=RETRIEVERS)
def test_every_retriever_is_built_by_class_by_name_and_by_dotted_path(kind: type[Any]) -> None:
    required = {'FixKRetriever': {'fix_id_list': [0]}, 'SlidingWindowRetriever': {'k': 1}}.get(kind.__name__, {})
    for spelling in (kind, kind.__name__, f'opencompass.openicl.icl_retriever.{kind.__name__}'):
        assert build_retriever({'type': spelling, **required}) == kind(**required)


def test_all_problems_of_a_config_come_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        build_retriever({'type': 'MDLRetriever', 'ice_nums': 3, 'seed': 'one', 'ice_num': 4, 'labels': ['A']})
    assert {problem.where for problem in caught.value.problems} == {'ice_nums', 'seed', 'candidate_num'}
    assert "Did you mean 'ice_num'?" in str(caught.value)


@in_one
@pytest.mark.parametrize(
    ('cfg', 'message'),
    [
        ({'type': 'BM25Retreiver'}, "Did you mean 'BM25Retriever'"),
        ({}, 'no retriever is named'),
        ({'type': int}, 'is not a retriever'),
        ({'type': 'FixKRetriever'}, "FixKRetriever needs the option 'fix_id_list'"),
        ({'type': 'FixKRetriever', 'fix_id_list': '0 1'}, 'is not a list of row numbers'),
        ({'type': 'FixKRetriever', 'fix_id_list': [0, 1], 'ice_num': 1}, 'fix_id_list gives 2'),
        ({'type': 'SlidingWindowRetriever', 'k': 3, 'ice_num': 2}, 'k gives 3'),
        ({'type': 'RandomRetriever', 'ice_num': -1}, 'whole number'),
        ({'type': 'RandomRetriever', 'ice_num': True}, 'whole number'),
        ({'type': 'RandomRetriever', 'ice_separator': None}, 'is not a string'),
        ({'type': 'DPPRetriever', 'ice_num': 3}, '3 examples cannot be chosen from 1 candidates'),
        ({'type': 'DPPRetriever', 'scale_factor': 0}, 'must be greater than 0'),
        ({'type': 'DPPRetriever', 'scale_factor': 'x'}, 'not a number'),
        ({'type': 'MDLRetriever', 'select_time': 0}, 'must be at least 1'),
        ({'type': 'TopkRetriever', 'encoder': 'minilm'}, 'is not callable'),
        ({'type': 'BM25Retriever', 'tokenizer': 'nltk'}, 'is not callable'),
    ],
)
def test_a_setting_that_cannot_work_is_an_error_that_says_so(cfg: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_retriever(cfg)


def test_unknown_and_missing_settings_come_together() -> None:
    with pytest.raises(ConfigError) as caught:
        build_retriever({'type': 'FixKRetriever', 'fix_id_lists': [0]})
    assert [problem.where for problem in caught.value.problems] == ['fix_id_lists', 'fix_id_list']


def test_a_retriever_of_ones_own_is_built_too() -> None:
    class Last(ZeroRetriever):
        pass

    assert isinstance(build_retriever({'type': Last, 'ice_eos_token': '\n'}), Last)
