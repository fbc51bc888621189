"""What a server receives is what `preview`, `view --json` and `export requests` show, also when it has to fit."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rolecall import plan_run, preview, run_config
from rolecall.apps.sft.examples import UntrainableError
from rolecall.apps.sft.pair_examples import pair_examples
from rolecall.errors import ConfigError, RunError
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.inferencers.inferencer import Prediction, only_step
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.protocol import Sampling
from rolecall.runs.store.run_reader import RunReader
from rolecall.ui.cli.main import main
from servers import Server, serve

tokenizers = pytest.importorskip('tokenizers')

REPLIES = ['r1', 'r2', 'r3']
TRAIN = [{'q': f'train {n} ' + 'word ' * n, 'a': f'a{n}', 'choices': ['x', 'y']} for n in range(6)]
ROWS = [
    {'q': 'short?', 'a': 'one', 'choices': ['alpha', 'be ta']},
    {'q': 'a longer question, with several words?', 'a': 'two', 'choices': ['alpha', 'gamma', 'delta']},
    {'q': 'the longest question of all ' * 3, 'a': 'three', 'choices': ['one', 'two']},
]
TURNS = [{column: [f'{row[column]} {n}' for n in range(3)] for column in ('q', 'a')} for row in ROWS]
ROUND = [{'role': 'HUMAN', 'prompt': 'Q: {q}'}, {'role': 'BOT', 'prompt': 'A: {a}'}]
LM = {
    'round': [
        {'role': 'HUMAN', 'begin': '<H> ', 'end': ' </H>\n'},
        {'role': 'BOT', 'begin': '<B> ', 'end': ' </B>\n', 'generate': True},
    ]
}
CHAT = (
    '{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}[bot] {% endif %}'
)
SIDES: dict[str, dict[str, Any]] = {
    'text': {'type': 'OpenAICompletions'},
    'meta': {'type': 'OpenAICompletions', 'meta_template': LM},
    'chat_template': {'type': 'OpenAICompletions', 'chat_template': CHAT},
    'messages': {'type': 'OpenAI'},
}
TEXT, DIALOGUE = '</E>Q: {q}\nA: {a}', {'begin': ['</E>'], 'round': ROUND}
LABELS = {label: f'</E>Q: {{q}}\nA: {label}' for label in ('yes', 'certainly not')}
MODES: dict[str, tuple[Any, dict[str, Any]]] = {
    'gen': (TEXT, {'type': 'GenInferencer'}),
    'gen, dialogue': (DIALOGUE, {'type': 'GenInferencer'}),
    'samples': (DIALOGUE, {'type': 'GenInferencer', 'num_return_sequences': 2}),
    'labels': (LABELS, {'type': 'PPLInferencer'}),
    'labels of a dialogue': (DIALOGUE, {'type': 'PPLInferencer', 'labels': ['yes', 'no']}),
    'whole': (TEXT, {'type': 'PPLOnlyInferencer'}),
    'choices': (TEXT, {'type': 'CLPInferencer'}),
    'choices of a dialogue': (DIALOGUE, {'type': 'CLPInferencer'}),
    'every turn': (DIALOGUE, {'type': 'MultiTurnGenInferencer', 'infer_mode': 'every'}),
    'gold turns': (DIALOGUE, {'type': 'MultiTurnGenInferencer', 'infer_mode': 'every_with_gt'}),
    'last turn': (DIALOGUE, {'type': 'MultiTurnGenInferencer', 'infer_mode': 'last'}),
}
WEIGHED = ('labels', 'labels of a dialogue', 'whole', 'choices', 'choices of a dialogue')


@pytest.fixture(scope='module')
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer for which bytes are tokens, and a chat template for messages."""
    folder = tmp_path_factory.mktemp('tokenizer')
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    made = tokenizers.Tokenizer(tokenizers.models.BPE({token: n for n, token in enumerate(alphabet)}, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.save(str(folder / 'tokenizer.json'))
    (folder / 'tokenizer_config.json').write_text(json.dumps({'chat_template': CHAT}))
    return folder


def answer(body: Mapping[str, Any]) -> str:
    """The next of the canned replies: as many as there are in the request already are not it."""
    said = json.dumps(body.get('messages', body.get('prompt')))
    return REPLIES[sum(f'{reply}' in said for reply in REPLIES) % len(REPLIES)]


@pytest.fixture(scope='module')
def server() -> Iterator[Server]:
    with serve(answer) as server:
        yield server


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    mode = draw(st.sampled_from(sorted(MODES)))
    side = draw(st.sampled_from(sorted(SIDES)))
    if mode in ('choices', 'choices of a dialogue', 'labels') and side == 'messages':
        side = 'meta'
    prompt, inferencer = MODES[mode]
    shots = draw(st.integers(0, 4))
    fixed = {'type': 'FixKRetriever', 'fix_id_list': list(range(shots))}
    retriever = draw(st.sampled_from([fixed, {'type': 'RandomRetriever', 'ice_num': shots}]))
    options = {'max_out_len': 4, 'truncate': draw(st.sampled_from([None, 'left', 'middle', 'right']))}
    if draw(st.booleans()):
        options['max_seq_len'] = draw(st.integers(20, 400))
    return {
        'models': [{'abbr': 'm', 'path': 'toy', **SIDES[side], 'max_seq_len': draw(st.integers(30, 500))}],
        'datasets': [
            {
                'abbr': 'demo',
                'type': 'Rows',
                'train': TRAIN,
                'test': TURNS if 'turn' in mode else ROWS,
                'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
                'infer_cfg': {
                    'ice_template': {'type': 'PromptTemplate', 'template': 'Q: {q}\nA: {a}'}
                    if isinstance(prompt, str) or mode == 'labels'
                    else {'type': 'PromptTemplate', 'template': {'round': ROUND}},
                    'prompt_template': {'type': 'PromptTemplate', 'template': prompt, 'ice_token': '</E>'},
                    'retriever': retriever if shots else {'type': 'ZeroRetriever'},
                    'inferencer': {**inferencer, **options},
                },
            }
        ],
    }


def command(*words: str) -> list[dict[str, Any]]:
    """The JSON lines that a command prints."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        assert main([*words]) == 0
    return [json.loads(line) for line in out.getvalue().splitlines()]


def canonical(requests: Any) -> set[str]:
    return {json.dumps(request, sort_keys=True) for request in requests}


@settings(
    max_examples=24, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(at_hand=st.sampled_from([True, True, True, False]), config=configs())
def test_what_a_server_receives_is_what_is_shown(
    server: Server,
    tokenizer: Path,
    tmp_path_factory: pytest.TempPathFactory,
    at_hand: bool,
    config: dict[str, Any],
) -> None:
    folder = tmp_path_factory.mktemp('run')
    entry = config['models'][0] | {'base_url': server.url, 'key': 'k', 'score': 'prompt_logprobs'}
    entry |= {'tokenizer_path': str(tokenizer)} if at_hand else {}
    config = {**config, 'models': [entry]}
    file = folder / 'config.py'
    file.write_text('\n'.join(f'{name} = {value!r}' for name, value in config.items()))
    (folder / 'replies.json').write_text(json.dumps(REPLIES))

    shown = list(preview(config, replies=REPLIES))
    viewed = command('view', str(file), '--all', '-n', '3', '--json', '--replies', str(folder / 'replies.json'))
    exported = [entry['body'] for entry in command('export', 'requests', str(file))]
    server.calls.clear()
    summary = run_config(str(file), out=folder / 'run')
    received = [body.get('messages', body.get('prompt')) for body in server.bodies]
    sent = canonical(server.bodies)

    expected = canonical(one.request for one in shown if one.sent)
    assert canonical(received) == expected
    assert canonical(one['request'] for one in viewed if one['sent']) == expected
    waits = config['datasets'][0]['infer_cfg']['inferencer'].get('infer_mode') == 'every'
    first = canonical(one.request for one in shown if one.sent and not (waits and one.turn))
    assert canonical(body.get('messages', body.get('prompt')) for body in exported) == first
    assert canonical(exported) == sent if not waits else canonical(exported) <= sent
    with RunReader(folder / 'run') as run:
        rows = list(run.results())
    notes = [{note.kind for one in shown if one.row == row.row for note in one.notes} for row in rows]
    assert [row.outcome == 'too_long' for row in rows] == ['too_long' in kinds for kinds in notes]
    dropped = [max(one.shots_dropped for one in shown if one.row == row.row) for row in rows]
    assert [row.shots_dropped for row in rows] == dropped
    assert summary.plan.pairs[0].too_long == sum('too_long' in kinds for kinds in notes) or not summary.plan.exact
    assert summary.plan.pairs[0].unchecked == any('not_counted' in kinds for kinds in notes) or not summary.plan.exact
    if not at_hand:
        assert not any(dropped)


def four_shots(url: str, tokenizer: Path, **options: Any) -> dict[str, Any]:
    """A row with four shots, of which two fit."""
    entry = {
        'abbr': 'm',
        'path': 'toy',
        'type': 'OpenAICompletions',
        'base_url': url,
        'key': 'k',
        'tokenizer_path': str(tokenizer),
        'max_seq_len': 70,
        'max_out_len': 10,
    }
    dataset = {
        'abbr': 'demo',
        'type': 'Rows',
        'train': TRAIN,
        'test': ROWS[:1],
        'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
        'infer_cfg': {
            'ice_template': {'type': 'PromptTemplate', 'template': 'Q: {q}\nA: {a}'},
            'prompt_template': {'type': 'PromptTemplate', 'template': TEXT, 'ice_token': '</E>'},
            'retriever': {'type': 'FixKRetriever', 'fix_id_list': [0, 1, 2, 3]},
            'inferencer': {'type': 'GenInferencer'},
        },
    }
    return {'models': [entry | options], 'datasets': [dataset]}


def test_shots_that_do_not_fit_are_shown_as_dropped(server: Server, tokenizer: Path, tmp_path: Path) -> None:
    config = four_shots(server.url, tokenizer)
    (shown,) = preview(config)
    assert (shown.shots, shown.shots_dropped) == ((0, 1), 2)
    assert [note.kind for note in shown.notes] == ['shots_dropped']
    server.calls.clear()
    summary = run_config(config, out=tmp_path / 'run')
    assert [body['prompt'] for body in server.bodies] == [shown.request]
    assert summary.plan.pairs[0].shots_dropped == 2


def test_what_a_chat_template_adds_to_short_messages_is_counted(
    server: Server, tokenizer: Path, tmp_path: Path
) -> None:
    system = 'Be good. ' * 40
    config = four_shots(server.url, tokenizer, type='OpenAI', chat_template=system + CHAT, max_seq_len=300)
    (shown,) = preview(config)
    assert (shown.sent, shown.shots_dropped, [note.kind for note in shown.notes]) == (False, 4, ['too_long'])
    server.calls.clear()
    assert run_config(config, out=tmp_path).outcomes == {'too_long': 1}
    assert server.bodies == []


def test_a_request_that_is_too_long_for_the_judge_is_not_sent(
    server: Server, tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = four_shots(server.url, tokenizer, max_seq_len=200)
    judge = config['models'][0] | {'abbr': 'judge', 'path': 'judge', 'max_seq_len': 40}
    config['datasets'][0]['eval_cfg'] = {'evaluator': {'type': 'GenericLLMEvaluator', 'judge_cfg': judge}}
    file = tmp_path / 'config.py'
    file.write_text('\n'.join(f'{name} = {value!r}' for name, value in config.items()))
    (shown,) = command('view', str(file), '--judge', '--json')
    assert (shown['sent'], [note['kind'] for note in shown['notes']]) == (False, ['too_long'])
    assert main(['lint', str(file)]) == 1
    assert "the judge's prompt is too long" in capsys.readouterr().out
    server.calls.clear()
    summary = run_config(str(file), out=tmp_path / 'run')
    assert [body['model'] for body in server.bodies] == ['toy']
    assert (summary.unjudged, summary.exit_code) == (1, 1)
    assert 'too long' in str(summary.scorecards[0].details['not_judged'])


def test_the_judges_of_a_config_are_shown_and_datasets_without_one_left_out(tokenizer: Path, tmp_path: Path) -> None:
    config = four_shots('http://localhost', tokenizer)
    unjudged = config['datasets'][0]
    judged = {**unjudged, 'abbr': 'judged', 'eval_cfg': {'evaluator': {'type': 'GenericLLMEvaluator'}}}
    file = tmp_path / 'config.py'
    for datasets, code in (([unjudged, judged], 0), ([unjudged], 2)):
        file.write_text(f'models = {config["models"]!r}\ndatasets = {datasets!r}')
        out = io.StringIO()
        with redirect_stdout(out), redirect_stderr(io.StringIO()):
            assert main(['view', str(file), '--all', '--judge', '--json']) == code
        assert [json.loads(line)['dataset'] for line in out.getvalue().splitlines()] == ['judged'][: code == 0]


@pytest.mark.parametrize(('options', 'said'), [({'truncate': 'left'}, 'no text to truncate'), ({}, 'without examples')])
def test_token_ids_are_not_truncated_and_the_reason_says_so(
    tokenizer: Path, options: dict[str, Any], said: str
) -> None:
    meta = {'begin': [1], 'round': [{'role': 'HUMAN', 'begin': [2]}, {'role': 'BOT', 'begin': [3], 'generate': True}]}
    config = four_shots('http://localhost', tokenizer, meta_template=meta, max_seq_len=16)
    infer_cfg = config['datasets'][0]['infer_cfg']
    infer_cfg['inferencer'] |= options
    infer_cfg['ice_template']['template'] = {'round': ROUND}
    infer_cfg['prompt_template']['template'] = DIALOGUE
    (shown,) = preview(config)
    assert said in shown.notes[-1].message


def test_an_export_says_what_was_done_to_fit(
    tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for limit, said, count in ((70, '1 request with fewer examples', 1), (20, '1 request left out', 0)):
        config = four_shots('http://localhost', tokenizer, max_seq_len=limit)
        file = tmp_path / f'fits_{limit}.py'
        file.write_text('\n'.join(f'{name} = {value!r}' for name, value in config.items()))
        assert main(['export', 'requests', str(file)]) == 0
        shown = capsys.readouterr()
        assert f'demo × m: {said}' in shown.err
        assert len(shown.out.splitlines()) == count


def test_training_examples_have_the_shots_that_are_sent(tokenizer: Path) -> None:
    experiment = Experiment.open(four_shots('http://localhost', tokenizer))
    pair = experiment.pair(experiment.tasks[0], experiment.models[0])
    (shown,) = preview(four_shots('http://localhost', tokenizer))
    ((_, teach),) = pair_examples(pair, form='text')
    assert teach().asked == shown.request
    experiment = Experiment.open(four_shots('http://localhost', tokenizer, max_seq_len=20))
    ((_, refuse),) = pair_examples(experiment.pair(experiment.tasks[0], experiment.models[0]), form='text')
    with pytest.raises(UntrainableError, match=r'does not fit the context: .* tokens\.$'):
        refuse()


def test_a_run_stops_when_it_would_send_what_is_not_shown(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run compares what is handed to the model with the preview, so an error in either shows at once."""
    config = {
        'models': [{'abbr': 'm', 'path': 'toy', 'type': 'OpenAICompletions', 'base_url': server.url, 'key': 'k'}],
        'datasets': [
            {
                'abbr': 'demo',
                'type': 'Rows',
                'test': ROWS,
                'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
                'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': 'Q: {q}'}},
            }
        ],
    }
    right = Pair.step

    def wrong(self: Pair, row: Any, picked: Any, replies: Any = ()) -> Any:
        step = right(self, row, picked, replies)
        if step is not None:
            object.__setattr__(step, 'requests', [(label, f'{request} ') for label, request in step.requests])
        return step

    monkeypatch.setattr(Pair, 'step', wrong)
    server.calls.clear()
    with pytest.raises(RunError, match='differs from its preview'):
        run_config(config, out=tmp_path / 'run', lint=False)
    assert server.bodies == []


def test_a_run_executes_its_config_and_every_loader_once(tmp_path: Path) -> None:
    file = tmp_path / 'config.py'
    counted = tmp_path / 'counted.txt'
    file.write_text(
        f"""
def count(what):
    with open({str(counted)!r}, 'a') as stream:
        stream.write(what + '\\n')

def load(**options):
    count('loader')
    return {{'test': [dict(q='1+1', a='2')], 'train': []}}

def answer(request):
    return '2'

count('config')
models = [dict(abbr='m', type=answer)]
datasets = [dict(abbr='d', type=load, reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{{q}}')))]
"""
    )
    assert run_config(file, out=tmp_path / 'run').outcomes == {'ok': 1}
    assert sorted(counted.read_text().split()) == ['config', 'loader']


def test_choices_are_refused_for_a_model_that_takes_messages() -> None:
    config = four_shots('http://localhost', Path('none'), type='OpenAI')
    config['datasets'][0]['infer_cfg']['inferencer'] = {'type': 'CLPInferencer'}
    with pytest.raises(ConfigError, match='CLPInferencer appends choices to a text'):
        plan_run(config)


def test_an_inferencer_of_ones_own_may_send_what_it_likes_and_is_not_run_by_the_plan(
    server: Server, tokenizer: Path, tmp_path: Path
) -> None:
    asked: list[Any] = []

    class Louder:
        needs = ('generate',)

        async def infer(self, pair: Pair, row: Any, picked: Any, ask: Any) -> Prediction:
            asked.append(row)
            reply = await ask.generate(f'{only_step(pair, row, picked).requests[0][1]}!', Sampling())
            return Prediction(reply.text, replies=(reply.text,))

    config = four_shots(server.url, tokenizer)
    config['datasets'][0]['infer_cfg']['inferencer'] = {'type': Louder}
    assert (plan_run(config).requests, asked) == (1, [])
    server.calls.clear()
    assert run_config(config, out=tmp_path).outcomes == {'ok': 1}
    assert [body['prompt'][-1] for body in server.bodies] == ['!']
