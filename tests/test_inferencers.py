"""How models are asked, and what is concluded from what they say."""

from __future__ import annotations

import asyncio
import json
import math
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import bot, config, human, template
from rolecall import ConfigError
from rolecall.experiment.inferencers.build import build_inferencer
from rolecall.experiment.inferencers.losses import boundary_by_labels, boundary_by_place, losses
from rolecall.models.protocol import Reply, Scored
from rolecall.runs.prepare import prepare
from rolecall.strings import common_length
from toys import ToyAsk, infer_all, loss_of, model, weigh, words_of

TRAIN = [{'question': f't{i} one two', 'answer': f'a{i}'} for i in range(4)]
LABELS = {'yes': '{question} so: yes', 'no': '{question} so: certainly not'}


def asked(
    test: list[dict[str, Any]], prompt: Any, *, ask: Any = None, ice: Any = None, entry: Any = None, **options: Any
) -> Any:
    """The one prediction for a config of one row."""
    inferencer = {'type': 'GenInferencer', **options}
    written = config(
        test,
        prompt if isinstance(prompt, dict) and 'type' in prompt else template(prompt),
        ice=None if ice is None else template(ice),
        train=TRAIN if ice is not None else None,
        model=model(**(entry or {})),
        inferencer=inferencer,
    )
    return infer_all(written, ask)[0]


# -- generation --------------------------------------------------------------------------------------------------------


def test_generation_gives_the_reply_and_hides_the_answer() -> None:
    ask = ToyAsk(lambda request: f'<{request}>')
    found = asked([{'question': 'q?', 'answer': 'a'}], '{question} {answer}', ask=ask)
    assert (found.value, found.replies, found.outcome) == ('<q? >', ('<q? >',), 'ok')


def test_several_samples_are_told_apart_and_all_kept() -> None:
    numbers = count()
    ask = ToyAsk(lambda request: f'answer {next(numbers)}')
    found = asked([{'question': 'q'}], '{question}', ask=ask, num_return_sequences=3)
    assert found.value == ['answer 0', 'answer 1', 'answer 2']
    assert ask.sampled == [0, 1, 2]


def test_a_reply_that_is_no_answer_is_an_outcome() -> None:
    for outcome in ('filtered', 'thinking_exhausted', 'too_long'):
        found = asked([{'question': 'q'}], '{question}', ask=ToyAsk(lambda _, o=outcome: Reply('', o, 'why')))
        assert (found.outcome, found.reason) == (outcome, 'why')


def test_reasoning_is_kept_apart() -> None:
    found = asked([{'question': 'q'}], '{question}', ask=ToyAsk(lambda _: Reply('4', reasoning='2 and 2')))
    assert (found.value, found.reasoning) == ('4', ('2 and 2',))


def test_self_consistency_takes_what_most_replies_come_to() -> None:
    said = iter(['It is 5', ' so 7', 'clearly 7', '9'])
    written = config(
        [{'question': 'q'}], template('{question}'), model=model(), inferencer={'type': 'SCInferencer', 'sc_size': 4}
    )
    prepared = prepare(written).pairs[0]
    inferencer = build_inferencer('SCInferencer', {'sc_size': 4}, entry={}, extract=lambda text: text.split()[-1])
    ((_, row, picked),) = prepared.compiled.rows()
    found = asyncio.run(inferencer.infer(prepared.compiled, row, picked, ToyAsk(lambda _: next(said))))
    assert found.value == ' so 7'
    assert found.details['votes'] == {'7': 2, '5': 1, '9': 1}
    assert len(found.replies) == 4


def test_filtered_samples_do_not_vote() -> None:
    said = iter([Reply('', 'filtered'), Reply('a'), Reply('', 'filtered')])
    found = asked([{'question': 'q'}], '{question}', ask=ToyAsk(lambda _: next(said)), type='SCInferencer', sc_size=3)
    assert (found.value, found.outcome) == ('a', 'ok')


# -- the context limit -------------------------------------------------------------------------------------------------


def test_whole_examples_are_dropped_from_the_end_until_the_prompt_and_the_reply_fit() -> None:
    ask = ToyAsk()
    options = {'ask': ask, 'ice': '{question} {answer}', 'entry': {'max_seq_len': 14}}
    prompt = template('</E>{question}', ice_token='</E>')
    found = asked([{'question': 'last question'}], prompt, max_out_len=4, **options)
    assert found.shots_dropped == 2
    assert ask.generated == ['t0 one two a0\nt1 one two a1\nlast question']


def test_a_row_that_does_not_fit_without_examples_is_too_long() -> None:
    prompt = template('</E>{question}', ice_token='</E>')
    found = asked(
        [{'question': 'w ' * 30}], prompt, ice='{question} {answer}', entry={'max_seq_len': 12}, max_out_len=2
    )
    assert (found.value, found.outcome, found.shots_dropped) == (None, 'too_long', 4)
    assert 'max_seq_len 12 − max_out_len 2 = 10 tokens' in found.reason


def test_the_datasets_own_limit_wins_over_the_models() -> None:
    found = asked([{'question': 'w ' * 30}], '{question}', entry={'max_seq_len': 1000}, max_seq_len=12)
    assert found.outcome == 'too_long'


@pytest.mark.parametrize(
    ('side', 'sent'),
    [('left', ' w27 w28 w29'), ('right', 'w0 w1 w2'), ('middle', 'w0 w1 w29')],
)
def test_a_prompt_is_cut_where_the_user_says(side: str, sent: str) -> None:
    ask = ToyAsk()
    words = ' '.join(f'w{i}' for i in range(30))
    found = asked([{'question': words}], '{question}', ask=ask, max_seq_len=3, truncate=side)
    assert found.outcome == 'ok'
    assert words_of(ask.generated[0])[-1].strip() == words_of(sent)[-1].strip()
    assert len(words_of(ask.generated[0])) <= 3
    assert found.details['truncated']['side'] == side


def test_of_messages_the_longest_is_cut(tmp_path: Path) -> None:
    ask = ToyAsk()
    template = "{% for message in messages %}{{ message.content + ' ' }}{% endfor %}"
    (tmp_path / 'tokenizer_config.json').write_text(json.dumps({'chat_template': template}))
    meta = {'round': [{'role': 'HUMAN', 'api_role': 'HUMAN'}, {'role': 'BOT', 'api_role': 'BOT', 'generate': True}]}
    prompt = {'round': [human('short'), bot('ok'), human('{question}'), bot('{answer}')]}
    asked(
        [{'question': 'w ' * 30}],
        prompt,
        ask=ask,
        entry={'meta_template': meta, 'tokenizer_path': str(tmp_path)},
        max_seq_len=10,
        truncate='left',
    )
    first, _, last = ask.generated[0]
    assert first['content'] == 'short'
    assert 0 < len(words_of(last['content'])) <= 8


def test_every_label_keeps_the_same_number_of_examples() -> None:
    ask = ToyAsk()
    labels = {'s': '</E>{question} s', 'l': '</E>{question} a much longer label text here'}
    found = asked(
        [{'question': 'q', 'answer': 's'}],
        template(labels, ice_token='</E>'),
        ask=ask,
        ice='{question} {answer}',
        type='PPLInferencer',
        max_seq_len=12,
    )
    assert found.shots_dropped == 3
    assert [text.count('one two') for text in ask.scored] == [1, 1]


def test_labels_are_cut_in_what_they_share() -> None:
    ask = ToyAsk()
    found = asked([{'question': 'w ' * 30}], LABELS, ask=ask, type='PPLInferencer', max_seq_len=8, truncate='left')
    assert [text.split('so:')[1] for text in ask.scored] == [' yes', ' certainly not']
    assert len({text.split('so:')[0] for text in ask.scored}) == 1
    assert found.outcome == 'ok'


# -- perplexity --------------------------------------------------------------------------------------------------------


def test_the_label_with_the_lowest_mean_loss_over_the_whole_prompt_wins() -> None:
    ask = ToyAsk()
    found = asked([{'question': 'is it'}], LABELS, ask=ask, type='PPLInferencer')
    means = {
        label: sum(map(loss_of, words_of(text)[1:])) / (len(words_of(text)) - 1)
        for label, text in zip(LABELS, ask.scored, strict=True)
    }
    assert found.value == min(means, key=lambda label: means[label])
    assert [one['whole'] for one in found.details['labels']] == pytest.approx(list(means.values()))


def test_every_loss_of_the_answer_is_stored_from_the_same_pass() -> None:
    ask = ToyAsk()
    found = asked([{'question': 'is it'}], LABELS, ask=ask, type='PPLInferencer')
    assert len(ask.scored) == 2
    no = found.details['labels'][1]
    total = loss_of('certainly') + loss_of('not')
    assert no['sum'] == pytest.approx(total)
    assert no['per_token'] == pytest.approx(total / 2)
    assert no['per_character'] == pytest.approx(total / len(' certainly not'))
    assert no['boundary'] == {'token': 3, 'id': weigh(ask.scored[1]).ids[3], 'by': 'labels', 'text': ' certainly'}


@pytest.mark.parametrize('decide_by', ['whole', 'sum', 'per_token', 'per_character', 'per_byte'])
def test_the_loss_that_decides_is_named(decide_by: str) -> None:
    found = asked([{'question': 'is it'}], LABELS, type='PPLInferencer', decide_by=decide_by)
    by_label = {one['label']: one[decide_by] for one in found.details['labels']}
    assert found.value == min(by_label, key=lambda label: by_label[label])
    assert found.details['decide_by'] == decide_by


def test_bytes_are_not_characters() -> None:
    found = asked([{'question': '问'}], {'对': '{question} 对的', '错': '{question} 错了'}, type='PPLInferencer')
    one = found.details['labels'][0]
    assert one['per_byte'] == pytest.approx(one['sum'] / len(' 对的'.encode()))
    assert one['per_character'] == pytest.approx(one['sum'] / 3)


def test_the_sep_token_says_where_the_answer_begins() -> None:
    labels = {'yes': '{question} so:<sep> yes it is', 'no': '{question} so:<sep> yes not'}
    found = asked([{'question': 'is it'}], template(labels, sep_token='<sep>'), type='PPLInferencer')
    yes, no = found.details['labels']
    assert yes['boundary']['by'] == 'sep'
    assert yes['boundary']['text'] == ' yes'
    assert (yes['answer_tokens'], no['answer_tokens']) == (3, 2)


def test_a_boundary_token_that_carries_context_says_so() -> None:
    labels = {'a': '{question}:<sep>A', 'b': '{question}:<sep>B'}
    found = asked([{'question': 'is it'}], template(labels, sep_token='<sep>'), type='PPLInferencer')
    assert found.details['labels'][0]['boundary']['carries_context'] == len(' it:')
    assert found.details['labels'][0]['per_character'] == pytest.approx(loss_of('it:A') / 1)


def test_normalised_loss_takes_away_what_the_answer_costs_alone() -> None:
    ask = ToyAsk()
    labels = {'yes': '{question} so:<sep> yes', 'no': '{question} so:<sep> no'}
    prompt = template(labels, sep_token='<sep>')
    found = asked([{'question': 'is it'}], prompt, ask=ask, type='PPLInferencer', normalizing_str='Answer:')
    assert ask.scored[2:] == ['Answer: yes', 'Answer: no']
    assert found.details['decide_by'] == 'normalised'
    assert [one['normalised'] for one in found.details['labels']] == pytest.approx([0.0, 0.0])


def test_a_label_that_begins_like_another_still_has_an_answer() -> None:
    found = asked([{'question': 'q'}], {1: '{question} yes', 2: '{question} yes indeed'}, type='PPLInferencer')
    assert [one['answer_tokens'] for one in found.details['labels']] == [1, 2]
    assert found.value in (1, 2)


def test_without_token_places_the_answer_is_still_found() -> None:
    for ask in (ToyAsk(places=False), ToyAsk(ids=False)):
        found = asked([{'question': 'is it'}], LABELS, ask=ask, type='PPLInferencer', decide_by='sum')
        assert found.details['labels'][1]['sum'] == pytest.approx(loss_of('certainly') + loss_of('not'))


def test_messages_are_weighed_too() -> None:
    meta = {'round': [{'role': 'HUMAN', 'api_role': 'HUMAN'}, {'role': 'BOT', 'api_role': 'BOT', 'generate': True}]}
    labels = {word: {'round': [human('{question} '), bot(word)]} for word in ('yes', 'no')}
    found = asked([{'question': 'q'}], labels, entry={'meta_template': meta}, type='PPLInferencer')
    assert found.outcome == 'ok'
    assert 'per_character' not in found.details['labels'][0]
    failed = asked(
        [{'question': 'q'}], labels, entry={'meta_template': meta}, type='PPLInferencer', decide_by='per_character'
    )
    assert failed.outcome == 'failed'


def test_the_loss_of_a_whole_text_is_a_number() -> None:
    found = asked([{'question': 'a b c'}], '{question}', type='PPLOnlyInferencer')
    assert found.value == pytest.approx((loss_of('b') + loss_of('c')) / 2)
    assert found.details['tokens'] == 2


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_the_boundary_leaves_every_label_an_answer_and_only_shared_tokens_before_it(
    one: list[int], other: list[int]
) -> None:
    scored = [Scored(tuple(ids), (None, *([-1.0] * (len(ids) - 1)))) for ids in (one, other)]
    at = {boundary.token for boundary in boundary_by_labels(scored, [None, None])}
    (token,) = at
    assert one[:token] == other[:token]
    assert token < min(len(one), len(other))


@given(st.lists(st.text('ab', max_size=5), min_size=1, max_size=4))
def test_common_length_is_that_of_the_longest_common_prefix(texts: list[str]) -> None:
    length = common_length(texts)
    assert len({text[:length] for text in texts}) == 1
    assert length == min(map(len, texts)) or len({text[: length + 1] for text in texts}) > 1


def test_a_place_beyond_the_last_token_has_no_boundary() -> None:
    assert boundary_by_place(Scored((1,), (None,), ((0, 2),)), 2, 'sep') is None


def test_losses_of_one_token_are_zero() -> None:
    assert losses(Scored((1,), (None,))).whole == 0.0


# -- likelihood --------------------------------------------------------------------------------------------------------


def test_the_label_after_which_the_continuation_is_likeliest_wins() -> None:
    row = {'question': 'q', 'one': 'he ran', 'two': 'he sat', 'cont': ' away quickly'}
    labels = {1: '{one}{cont}', 2: '{two}{cont}'}
    ask = ToyAsk()
    found = asked([row], labels, ask=ask, type='LLInferencer')
    first = found.details['labels'][0]
    assert first['log_likelihood'] == pytest.approx(-(loss_of('away') + loss_of('quickly')))
    assert first['boundary']['by'] == 'cont'
    without_places = asked([row], labels, ask=ToyAsk(places=False), type='LLInferencer')
    assert without_places.details['labels'][0]['log_likelihood'] == pytest.approx(first['log_likelihood'])


def test_choices_get_probabilities_that_add_up_to_one() -> None:
    row = {'question': 'q', 'choices': ['A', 'B', 'C']}
    ask = ToyAsk()
    found = asked([row], 'Pick {question}: ', ask=ask, type='CLPInferencer')
    assert math.fsum(found.value) == pytest.approx(1)
    odds = [math.exp(-loss_of(letter)) for letter in 'ABC']
    assert found.value == pytest.approx([odd / sum(odds) for odd in odds])


# -- dialogues ---------------------------------------------------------------------------------------------------------

TURNS = [{'question': ['1+1=?', '2+2=?', '3+3=?'], 'answer': ['2', '4', '6']}]
ROUND = {'round': [human('{question}'), bot('{answer}')]}


@pytest.mark.parametrize(
    ('infer_mode', 'value', 'said_before'),
    [
        ('every', ['r0', 'r1', 'r2'], ['r0', 'r1']),
        ('every_with_gt', ['r0', 'r1', 'r2'], ['2', '4']),
        ('last', 'r0', ['2', '4']),
    ],
)
def test_turns_carry_what_was_said_before(infer_mode: str, value: Any, said_before: list[str]) -> None:
    numbers = count()
    ask = ToyAsk(lambda _: f'r{next(numbers)}')
    meta = {'round': [{'role': 'HUMAN', 'api_role': 'HUMAN'}, {'role': 'BOT', 'api_role': 'BOT', 'generate': True}]}
    prompt = {'type': 'MultiTurnPromptTemplate', 'template': ROUND}
    options = {'type': 'MultiTurnGenInferencer', 'infer_mode': infer_mode}
    found = asked(TURNS, prompt, ask=ask, entry={'meta_template': meta}, **options)
    assert found.value == value
    assert [message['content'] for message in ask.generated[-1] if message['role'] == 'assistant'] == said_before


def test_a_dialogue_ends_at_a_turn_without_an_answer() -> None:
    replies = iter([Reply('fine'), Reply('', 'filtered', 'no'), Reply('never asked')])
    prompt = {'type': 'MultiTurnPromptTemplate', 'template': ROUND}
    found = asked(TURNS, prompt, ask=ToyAsk(lambda _: next(replies)), type='MultiTurnGenInferencer')
    assert (found.outcome, found.value) == ('filtered', ['fine', ''])


# -- options -----------------------------------------------------------------------------------------------------------


def test_everything_wrong_with_the_options_is_reported_at_once() -> None:
    options = {'truncate': 'lft', 'decide_by': 'per_tokn', 'max_out_len': -1, 'temperature': 'hot', 'max_seq_len': 0}
    with pytest.raises(ConfigError) as refused:
        build_inferencer('PPLInferencer', options, entry={})
    assert {problem.where for problem in refused.value.problems} == {*options}
    assert "Did you mean 'left'?" in str(refused.value)


def test_an_inferencer_that_cannot_be_run_says_so() -> None:
    with pytest.raises(ConfigError, match='ToTInferencer can be previewed, but not run'):
        build_inferencer('ToTInferencer', {}, entry={})


def test_the_datasets_sampling_wins_over_the_models() -> None:
    entry = {'max_out_len': 512, 'temperature': 1.0, 'generation_kwargs': {'top_p': 0.9, 'min_p': 0.1}, 'stop': ['###']}
    options = {'max_out_len': 16, 'temperature': 0.2, 'stopping_criteria': ['\n'], 'generation_kwargs': {'logprobs': 2}}
    drawn = build_inferencer('GenInferencer', options, entry=entry).sampling  # type: ignore[attr-defined]
    assert (drawn.max_out_len, drawn.temperature, drawn.top_p, drawn.stop) == (16, 0.2, 0.9, ('\n', '###'))
    assert drawn.extra == {'logprobs': 2}
