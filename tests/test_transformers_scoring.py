"""Log-probabilities of prompts: transformers' own loss, whatever is shared and whoever is in the batch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolecall.models.local_engine import TokenPrompt
from rolecall.models.protocol import ModelError, Scored
from rolecall.models.transformers.logprobs import PromptScorer
from rolecall.models.transformers.model import TransformersModel, build
from rolecall.models.transformers.weights import LoadedModel, WeightsSource
from small_models import KINDS, make_model

pytestmark = [
    pytest.mark.heavy,
    # torch and transformers warn about their own future.
    pytest.mark.filterwarnings('ignore::DeprecationWarning', 'ignore::FutureWarning'),
]

CLOSE = 2e-4
SHOTS = ''.join(f'Question: what is the quarter of {n}?\nAnswer: {n / 4}\n\n' for n in range(6))
LABELS = ['yes', 'no', 'on and on and on', '']
QUESTIONS = [f'Question: is {q} the{" other" * q} one?\nAnswer: ' for q in range(3)]
PROMPTS = [SHOTS + question + label for question in QUESTIONS for label in LABELS]


@pytest.fixture(scope='module', params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope='module')
def loaded(folder: Path) -> LoadedModel:
    return WeightsSource(str(folder), device='cpu').load()


@pytest.fixture(scope='module')
def model(folder: Path) -> Iterator[TransformersModel]:
    model = build({'type': 'HuggingFaceBaseModel', 'path': str(folder), 'device': 'cpu'}, name='small')
    yield model
    asyncio.run(model.close())


def mean_loss(scored: Scored) -> float:
    known = [value for value in scored.logprobs if value is not None]
    return -sum(known) / len(known)


def losses_by_transformers(folder: Path, texts: Sequence[str]) -> list[float]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    theirs = AutoModelForCausalLM.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = []
    for text in texts:
        ids = tokenizer(text, return_tensors='pt').input_ids
        with torch.no_grad():
            found.append(theirs(ids, labels=ids).loss.item())
    return found


def scorer(loaded: LoadedModel, **options: Any) -> PromptScorer:
    return PromptScorer(loaded, **{'room': 100_000, **options})


def prompts(*rows: Sequence[int]) -> list[TokenPrompt]:
    return [TokenPrompt(tuple(row)) for row in rows]


def values(found: Sequence[Scored]) -> list[float]:
    return [value for one in found for value in one.logprobs if value is not None]


@pytest.mark.parametrize('shares', [True, False], ids=['shared', 'full'])
def test_perplexity_is_transformers_own_loss(folder: Path, shares: bool) -> None:
    entry = {'type': 'HuggingFaceBaseModel', 'path': str(folder), 'device': 'cpu'}
    model = TransformersModel(build(entry, name='small')._settings, name='small', shares=shares)
    found = asyncio.run(model.score(PROMPTS))
    assert [mean_loss(one) for one in found] == pytest.approx(losses_by_transformers(folder, PROMPTS), abs=CLOSE)
    asyncio.run(model.close())


def test_a_prompt_scores_the_same_alone_and_in_any_batch(model: TransformersModel) -> None:
    """Defect 61: a model that pads on the left gives another score to a text that has company."""
    short, long = 'Question: 1+1=? Answer: yes', 'Question: 1+1=? Answer: no, on the other hand'
    [alone] = asyncio.run(model.score([short]))
    for company in ([long], [long, 'x'], ['Something else altogether', long, long]):
        together = asyncio.run(model.score([*company, short]))
        assert values([together[-1]]) == pytest.approx(values([alone]), abs=CLOSE)


def test_the_first_token_has_no_score_and_every_other_has_one(model: TransformersModel) -> None:
    for one in asyncio.run(model.score([*PROMPTS, 'a'])):
        assert len(one.ids) == len(one.logprobs) == len(one.offsets)
        assert one.logprobs[0] is None
        assert None not in one.logprobs[1:]


def test_offsets_cover_the_text(model: TransformersModel) -> None:
    [one] = asyncio.run(model.score(['the <|im_end|> é']))
    assert ''.join('the <|im_end|> é'[start:stop] for start, stop in one.offsets) == 'the <|im_end|> é'
    assert 3 in one.ids  # the special token, not its letters


def test_what_prompts_share_is_computed_once(loaded: LoadedModel, model: TransformersModel) -> None:
    found = asyncio.run(model.score(PROMPTS))
    rows = [TokenPrompt(one.ids) for one in found]
    shared, full = scorer(loaded), scorer(loaded, shares=False)
    shared_scores, full_scores = shared.score(rows), full.score(rows)
    assert values(shared_scores) == pytest.approx(values(full_scores), abs=CLOSE)
    assert full.computed == sum(len(row.ids) - 1 for row in rows)
    assert shared.computed < full.computed / 6
    new = [(one.usage.input_tokens or 0) - (one.usage.cached_tokens or 0) for one in shared_scores]
    assert shared.computed <= sum(new) <= shared.computed + len(rows)


def test_the_next_call_goes_on_from_the_last_prompt(loaded: LoadedModel, model: TransformersModel) -> None:
    rows = [TokenPrompt(one.ids) for one in asyncio.run(model.score(PROMPTS))]
    one_by_one, full = scorer(loaded), scorer(loaded, shares=False)
    found = [one_by_one.score([row])[0] for row in rows]
    assert values(found) == pytest.approx(values(full.score(rows)), abs=CLOSE)
    assert one_by_one.computed < full.computed / 5
    again = one_by_one.score([rows[-1]])[0]
    assert again.usage.cached_tokens == len(rows[-1].ids)
    assert values([again]) == pytest.approx(values([found[-1]]))


def test_after_forgetting_nothing_is_reused(loaded: LoadedModel) -> None:
    one = scorer(loaded)
    row = prompts(range(10, 40))
    one.score(row)
    one.forget()
    assert one.score(row)[0].usage.cached_tokens == 0


tails = st.lists(st.integers(4, 9), max_size=7)


@given(
    calls=st.lists(
        st.lists(st.tuples(st.sampled_from([0, 3, 17]), tails), min_size=1, max_size=7), min_size=1, max_size=3
    ),
    room=st.sampled_from([1, 60, 100_000]),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sharing_changes_no_score(loaded: LoadedModel, calls: list[list[tuple[int, list[int]]]], room: int) -> None:
    """Any tree of prompts, in any sequence of calls, in batches of any size."""
    shared, full = scorer(loaded, room=room), scorer(loaded, shares=False)
    for call in calls:
        rows = prompts(*([*range(10, 10 + trunk), *tail] for trunk, tail in call))
        assert values(shared.score(rows)) == pytest.approx(values(full.score(rows)), abs=CLOSE)


def test_a_long_prompt_is_computed_in_parts(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('rolecall.models.transformers.logprobs._ON_CPU', 16)
    rows = prompts(range(4, 104), [*range(4, 80), 4], [5, 6])
    parts, full = scorer(loaded), scorer(loaded, shares=False)
    assert values(parts.score(rows)) == pytest.approx(values(full.score(rows)), abs=CLOSE)


def test_a_batch_that_memory_has_no_room_for_is_halved(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake fault: there is no GPU here to run out of memory."""
    import torch

    forward = PromptScorer._forward

    def full_at_two(self: PromptScorer, batch: Sequence[Any]) -> Any:
        if len(batch) > 2:
            raise torch.cuda.OutOfMemoryError('full')
        return forward(self, batch)

    rows = prompts(*([*range(10, 30), first, 5, 6, last] for first in range(5) for last in range(3)))
    expected = values(scorer(loaded).score(rows))
    monkeypatch.setattr(PromptScorer, '_forward', full_at_two)
    assert values(scorer(loaded).score(rows)) == pytest.approx(expected, abs=CLOSE)


def test_empty_and_equal_prompts_have_their_place(loaded: LoadedModel) -> None:
    found = scorer(loaded).score(prompts([], [7, 8], [7], [7, 8]))
    assert [len(one.logprobs) for one in found] == [0, 2, 1, 2]
    assert found[1].logprobs == found[3].logprobs
    assert [one.usage.cached_tokens for one in found] == [0, 1, 0, 2]


def test_half_precision_weights_give_single_precision_scores(folder: Path) -> None:
    loaded = WeightsSource(str(folder), device='cpu', dtype='bfloat16').load()
    rows = prompts(range(10, 60), [*range(10, 50), 4, 5])
    shared, full = scorer(loaded), scorer(loaded, shares=False)
    found = values(shared.score(rows))
    assert found == pytest.approx(values(full.score(rows)), abs=0.5)
    assert any(value != float(f'{value:.2f}') for value in found)


def test_a_model_with_a_state_instead_of_keys_is_computed_in_full(tmp_path: Path) -> None:
    loaded = WeightsSource(str(make_model(tmp_path, 'mamba')), device='cpu').load()
    assert not loaded.shares
    rows = prompts(range(10, 40), [*range(10, 30), 4])
    together = scorer(loaded).score(rows)
    apart = [scorer(loaded).score([row])[0] for row in rows]
    assert values(together) == pytest.approx(values(apart), abs=CLOSE)
    assert [one.usage.cached_tokens for one in together] == [0, 0]


def test_a_prompt_beyond_the_limit_is_refused(folder: Path) -> None:
    model = build({'path': str(folder), 'max_seq_len': 20, 'device': 'cpu'}, name='small')
    with pytest.raises(ModelError, match='takes 20'):
        asyncio.run(model.score(['word ' * 30]))
    assert len(asyncio.run(model.score(['word']))) == 1
    asyncio.run(model.close())
