"""An inferencer of the user's own: a class or an object with `infer`, whatever it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from rolecall import ConfigError, preview, run_config
from rolecall.experiment.inferencers.inferencer import Prediction, only_step
from rolecall.models import Sampling


class GenInferencer:
    """Called like one of ours; repeats what it is told."""

    needs: ClassVar[tuple[str, ...]] = ('generate',)

    def __init__(self, sampling: Sampling, times: int = 1) -> None:
        self.sampling, self.times = sampling, times

    async def infer(self, pair: Any, row: Any, picked: Any, ask: Any) -> Prediction:
        reply = await ask.generate(only_step(pair, row, picked).requests[0][1], self.sampling)
        return Prediction(reply.text * self.times, replies=(reply.text,))


class Weighing:
    needs: ClassVar[tuple[str, ...]] = ('generate',)
    kind = 'label'

    async def infer(self, pair: Any, row: Any, picked: Any, ask: Any) -> Prediction:
        return Prediction([label for label, _ in only_step(pair, row, picked).requests])


def config(inferencer: Any, template: Any = '{q}') -> dict[str, Any]:
    return dict(
        models=[dict(abbr='m', type=lambda request: request.upper())],
        datasets=[
            dict(
                abbr='d',
                type='Rows',
                test=[dict(q='hi', a='HIHI')],
                reader_cfg=dict(input_columns=['q'], output_column='a'),
                infer_cfg=dict(prompt_template=dict(template=template), inferencer=inferencer),
                eval_cfg=dict(evaluator='AccEvaluator'),
            )
        ],
    )


@pytest.mark.parametrize(
    'inferencer',
    [
        dict(type=GenInferencer, times=2),
        dict(type=f'{__name__}.GenInferencer', times=2),
        GenInferencer(Sampling(), times=2),
    ],
    ids=['class', 'path', 'object'],
)
def test_an_own_inferencer_asks_and_concludes(inferencer: Any, tmp_path: Path) -> None:
    summary = run_config(config(inferencer), out=tmp_path / 'run')
    assert [card.value for card in summary.scorecards] == [100.0]


def test_its_kind_says_how_rows_are_worded() -> None:
    labelled = config(Weighing, {'yes': '{q} yes', 'no': '{q} no'})
    assert [one.request for one in preview(labelled)] == ['hi yes', 'hi no']


@pytest.mark.parametrize(
    ('inferencer', 'expected'),
    [
        (dict, r'dict is not an inferencer: it has no infer\(\)'),
        ('GenInferencr', "unknown inferencer 'GenInferencr'.\n  Did you mean 'GenInferencer'?"),
        (type('Odd', (Weighing,), {'kind': 'labels'}), "unknown way of asking 'labels'.\n  Did you mean 'label'?"),
        ('nowhere.GenInferencer', "Write 'GenInferencer' for the built-in of that name"),
    ],
    ids=str,
)
def test_what_cannot_be_an_inferencer_is_refused(inferencer: Any, expected: str) -> None:
    with pytest.raises(ConfigError) as refused:
        list(preview(config(inferencer)))
    assert expected.replace('\\', '') in str(refused.value)
    assert refused.value.problems[0].where == 'datasets[0].infer_cfg.inferencer.type'
