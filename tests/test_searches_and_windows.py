"""Further ways of asking: in several wordings, and by losses of parts of a text."""

from __future__ import annotations

import math
import os
import signal
import warnings
from pathlib import Path
from typing import Any

import pytest

import rolecall
from rolecall.errors import ConfigError
from rolecall.experiment.experiment import preview
from rolecall.models.protocol import Scored
from rolecall.runs.planning import plan_run
from rolecall.runs.store.run_reader import RunReader
from rolecall.scoring.answers import Scorable
from rolecall.scoring.evaluate import build_scorer


def write_config(
    rows: list[dict[str, Any]], template: Any, inferencer: dict[str, Any], evaluator: Any = 'AccEvaluator', **model: Any
) -> dict[str, Any]:
    dataset = {
        'abbr': 'd',
        'type': 'Rows',
        'test': rows,
        'train': [{'q': 'shot', 'a': 'yes'}],
        'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
        'infer_cfg': {'prompt_template': {'template': template}, 'inferencer': inferencer},
        'eval_cfg': {'evaluator': evaluator},
    }
    return {'datasets': [dataset], 'models': [{'abbr': 'm', 'type': lambda prompt: prompt, **model}]}


def run(config: dict[str, Any], folder: Path) -> tuple[Any, list[Any]]:
    """The scorecard and the rows of a run."""
    card = rolecall.run_config(config, out=folder / 'run', lint=False).scorecards[0]
    with RunReader(folder / 'run') as stored:
        return card, list(stored.results('d', 'm'))


def test_a_search_is_refused_before_the_run(tmp_path: Path) -> None:
    config = write_config([{'q': '4 4 6 8', 'a': '24'}], '{q}', {'type': 'ToTInferencer'})
    with pytest.raises(ConfigError, match='ToTInferencer can be previewed, but not run'):
        rolecall.run_config(config, out=tmp_path / 'run', lint=False)


# -- several wordings --------------------------------------------------------------------------------------------------

WORDINGS = ['Is it so?', 'Tell {me}:']
ATTACK = {'type': 'AttackInferencer', 'original_prompt_list': WORDINGS, 'adv_key': 'ask'}


def test_each_row_is_asked_in_each_wording_and_previews_show_them_all(tmp_path: Path) -> None:
    asked: list[str] = []
    rows = [{'q': 'one', 'a': 'yes'}, {'q': 'two', 'a': 'yes'}]
    config = write_config(rows, '{ask} {q}', ATTACK)
    config['models'][0]['type'] = lambda prompt: asked.append(prompt) or ('yes' if 'so' in prompt else 'no')
    card, stored = run(config, tmp_path)
    assert [row.prediction for row in stored] == [['yes', 'no'], ['yes', 'no']]
    assert (card.value, card.scored) == (50.0, 2)
    shown = [one.request for one in preview(config)]
    assert shown == ['Is it so? one', 'Tell {me}: one', 'Is it so? two', 'Tell {me}: two']
    assert sorted(asked) == sorted(shown)
    assert plan_run(config).pairs[0].requests == 4


def test_examples_are_in_the_wording_of_their_prompt() -> None:
    config = write_config([{'q': 'one', 'a': 'yes'}], None, ATTACK)
    infer = config['datasets'][0]['infer_cfg']
    infer['ice_template'] = {'template': '</E>{ask} {q} {a}', 'ice_token': '</E>'}
    infer['retriever'] = {'type': 'FixKRetriever', 'fix_id_list': [0]}
    del infer['prompt_template']
    assert [one.request for one in preview(config)] == [f'{text} shot yes\n{text} one ' for text in WORDINGS]


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({'adv_key': 'aks'}, r"no field \{aks\} for the wordings(?s:.)*'ask'"),
        ({'adv_key': None}, 'expected the name of a field'),
        ({'original_prompt_list': []}, 'expected a list of wordings'),
        ({'original_prompt_list': 'Is it so?'}, 'expected a list of wordings'),
    ],
)
def test_wordings_that_cannot_be_used_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        list(preview(write_config([{'q': 'one', 'a': 'yes'}], '{ask} {q}', {**ATTACK, **changes})))


# -- losses of parts of a text -----------------------------------------------------------------------------------------


def score_letters(prompts: list[Any]) -> list[Scored]:
    """A token for each character; a token costs as many nats as tokens are before it."""
    scored = []
    for prompt in prompts:
        ids = tuple(ord(one) for one in prompt) if isinstance(prompt, str) else tuple(prompt)
        places = tuple((place, place + 1) for place in range(len(ids)))
        scored.append(Scored(ids, (None, *(-float(place) for place in range(1, len(ids)))), places))
    return scored


@pytest.mark.parametrize(
    ('text', 'windows', 'loss', 'tokens'),
    [
        ('abcde', {}, 1 + 2 + 3 + 4, 4),
        ('abcde', {'block_size': 4, 'stride': 2}, 1 + 2 + 3 + 4, 4),  # one window
        ('abcdefghij', {'block_size': 4, 'stride': 2}, 10 + (3 + 4) + (3 + 4) + 3, 9),
        ('abcdefg', {'block_size': 2, 'stride': 2}, (1 + 2) + (1 + 2) + (1 + 2), 6),
        ('a', {}, 0, 0),
    ],
)
def test_losses_in_windows(text: str, windows: dict[str, int], loss: float, tokens: int, tmp_path: Path) -> None:
    config = write_config(
        [{'q': text}], '{q}', {'type': 'SWCELossInferencer', **windows}, 'BPCEvaluator', score=score_letters
    )
    card, rows = run(config, tmp_path)
    assert rows[0].prediction == {'loss': loss, 'tokens': tokens, 'characters': len(text)}
    assert card.value == pytest.approx(loss / len(text) / math.log(2))


def test_bits_per_character_are_those_of_all_texts_together(tmp_path: Path) -> None:
    rows = [{'q': 'ab'}, {'q': 'abcdef'}]
    card, _ = run(
        write_config(rows, '{q}', {'type': 'SWCELossInferencer'}, 'BPCEvaluator', score=score_letters), tmp_path
    )
    assert card.value == pytest.approx((1 + 15) / 8 / math.log(2))


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'stride': 0}, 'stride'),
        ({'block_size': 'big'}, 'block_size'),
        ({'block_size': 4, 'stride': 5}, 'windows of 4 tokens that move by 5 leave tokens out'),
        ({'stride': 1901}, 'leave tokens out'),
    ],
)
def test_windows_that_cannot_be_used_are_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    config = write_config([{'q': 'a'}], '{q}', {'type': 'SWCELossInferencer', **options}, score=score_letters)
    with pytest.raises(ConfigError, match=message):
        rolecall.run_config(config, out=tmp_path / 'run', lint=False)


def test_long_texts_need_a_model_that_tells_token_ids(tmp_path: Path) -> None:
    config = write_config([{'q': 'abcdef'}], '{q}', {'type': 'SWCELossInferencer', 'block_size': 2, 'stride': 1})
    config['models'][0]['score'] = lambda prompts: [Scored((-1,) * 6, (None, *[-1.0] * 5)) for _ in prompts]
    _, rows = run(config, tmp_path)
    assert (rows[0].outcome, 'does not tell token ids' in rows[0].reason) == ('failed', True)


@pytest.mark.parametrize(
    ('spans', 'prediction', 'reason'),
    [
        ([[1, 3, 1]], {'loss': 1 + 2, 'tokens': 2}, ''),
        ([[0, 2], [4, 9]], {'loss': 1 + 4 + 5, 'tokens': 3}, ''),  # the first token has no loss
        ([], {'loss': 0, 'tokens': 0}, ''),
        ('A', None, "column 'label' must be a list of [start, end], got 'A'."),
        ([[1]], None, 'must be a list of [start, end]'),
        ([[-1, 2]], None, 'must be a list of [start, end]'),
        (None, None, 'got None'),
    ],
)
def test_losses_of_marked_characters(spans: Any, prediction: Any, reason: str, tmp_path: Path) -> None:
    rows = [{'q': 'abcdef', 'label': spans}, {'q': 'xyz', 'label': [[1, 3]]}]
    config = write_config(
        rows, '{q}', {'type': 'InferencePPLOnlyInferencer'}, 'AverageInferencePPLEvaluator', score=score_letters
    )
    card, stored = run(config, tmp_path)
    assert (stored[0].prediction, reason in stored[0].reason) == (prediction, True)
    found = prediction or {'loss': 0, 'tokens': 0}
    assert card.value == pytest.approx((found['loss'] + 3) / (found['tokens'] + 2))


def test_marked_characters_need_the_places_of_tokens(tmp_path: Path) -> None:
    config = write_config([{'q': 'ab', 'label': [[0, 1]]}], '{q}', {'type': 'InferencePPLOnlyInferencer'})
    config['models'][0]['score'] = lambda prompts: [Scored((1, 2), (None, -1.0)) for _ in prompts]
    _, rows = run(config, tmp_path)
    assert (rows[0].outcome, 'where its tokens stand' in rows[0].reason) == ('failed', True)


def test_evaluators_of_the_package_get_losses_by_their_names() -> None:
    class Characters:
        def score(self, loss: list[float], total_chr_num: list[int]) -> dict[str, float]:
            return {'bpc': sum(loss) / total_chr_num[0]}

    class Tokens:
        def score(self, ppl: list[float], token_len: list[int]) -> dict[str, float]:
            return {'mean': sum(ppl) / sum(token_len)}

    losses = [{'loss': 6.0, 'tokens': 2, 'characters': 3}, {'loss': 4.0, 'tokens': 3, 'characters': 5}]
    rows = [Scorable(number, 'ok', one) for number, one in enumerate(losses)]
    found = [build_scorer({'evaluator': {'type': kind}}).score(rows).value for kind in (Characters, Tokens)]
    assert found == [10 / 8, 2.0]


# -- processes of an evaluator -----------------------------------------------------------------------------------------


class ForkingEvaluator:
    """Says whether SIGTERM ends a process that it forks, as `multiprocessing.Pool` expects when it is closed."""

    def score(self, predictions: list[str], references: list[str]) -> dict[str, float]:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            child = os.fork()
        if not child:
            restored = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL and signal.set_wakeup_fd(-1) == -1
            os._exit(0 if restored else 1)
        return {'ended': float(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0)}


@pytest.mark.skipif(not hasattr(os, 'fork'), reason='this system has no fork')
def test_processes_that_an_evaluator_forks_do_not_inherit_the_signal_handlers_of_the_run(tmp_path: Path) -> None:
    card, _ = run(write_config([{'q': 'x', 'a': 'x'}], '{q}', {'type': 'GenInferencer'}, ForkingEvaluator), tmp_path)
    assert card.value == 1.0
