"""A file of rows and a model's name are enough: datasets, prompts and scores without a config, and overrides of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rolecall import ConfigError, RunReader
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.opening.overrides import apply_overrides, set_value
from rolecall.experiment.opening.rows_config import dataset_for_rows
from rolecall.experiment.opening.source_options import Overrides, RowsOptions, SourceOptions
from rolecall.scoring.evaluate import Scorable, build_scorer
from rolecall.scoring.postprocessors import read_postprocessor
from rolecall.ui.cli.main import main

ROWS = [
    {'question': 'What is the capital of France?', 'answer': 'Paris'},
    {'question': 'What is the capital of Italy?', 'answer': 'Rome'},
    {'question': 'What is two plus two?', 'answer': '4'},
]
CHOICES = [
    {'question': f'Which is {i}?', 'A': str(i), 'B': 'x', 'C': 'y', 'D': 'z', 'label': 'ABCD'[i % 4]} for i in range(8)
]
MODEL = """
def know(request):
    text = request if isinstance(request, str) else request[-1]['content']
    return next((answer for word, answer in (('France', 'Paris.'), ('Italy', 'Milan'), ('two', '4')) if word in text), '?')

def choose(request):
    return 'The answer is B.'
"""
CONFIG = """
models = [dict(abbr='one', type='OpenAI', path='m1'), dict(abbr='gpt-4.1', type='OpenAI', path='m2')]
datasets = [
    dict(
        abbr=abbr, type='Rows', test=[dict(q='1+1', a='2'), dict(q='2+2', a='4')], train=[dict(q='0+1', a='1')] * 3,
        reader_cfg=dict(input_columns=['q'], output_column='a'),
        infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='Q: {q}\\nA: {a}'),
                       inferencer=dict(type='GenInferencer')),
        eval_cfg=dict(evaluator=dict(type='AccEvaluator')),
    )
    for abbr in ('bbh-a', 'bbh-b', 'other')
]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = ['question,answer', *(f'{row["question"]},{row["answer"]}' for row in ROWS)]
    Path('rows.csv').write_text('\n'.join(lines) + '\n')
    Path('rows.jsonl').write_text('\n'.join(map(json.dumps, CHOICES)) + '\n')
    Path('mine.py').write_text(MODEL)
    Path('config.py').write_text(CONFIG)
    return tmp_path


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main(['view', *arguments, '--json', '--all']) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_csv_and_a_function_give_a_score(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ['run', 'rows.csv', '--template', r'{question}\n{answer}', '--answer', 'answer', '--metric', 'exact']
    assert main([*command, '--model', 'mine.py:know']) == 0
    with RunReader('runs/rows') as run:
        [card] = run.scorecards()
        manifest = run.manifest()
        assert [result.prediction for result in run.results()] == ['Paris.', 'Milan', '4']
    assert (card.dataset, card.model, card.metric, card.value) == (
        'rows',
        'know',
        'exact_match',
        pytest.approx(200 / 3),
    )
    assert manifest['overrides'] == {'template': r'{question}\n{answer}', 'answer': 'answer', 'metric': 'exact'}


def test_several_models_are_asked_in_one_run(folder: Path) -> None:
    command = ['run', 'rows.jsonl', '--choices', 'A,B,C,D', '--answer', 'label', '--out', 'out']
    assert main([*command, '--model', 'mine:choose', '--model', 'mine:know']) == 0
    with RunReader('out') as run:
        cards = {card.model: card for card in run.scorecards()}
    assert (cards['choose'].value, cards['choose'].scored) == (25.0, 8)
    assert cards['know'].value == 0.0


def test_choices_with_examples_become_turns_of_a_chat(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [preview] = shown(
        capsys,
        *('rows.jsonl', '--choices', 'A,B,C,D', '--answer', 'label', '--model', 'openai/gpt-4.1-mini'),
        *('--shots', '2', '--retriever', 'bm25', '--system', 'Be brief.'),
    )
    roles = [message['role'] for message in preview['request']]
    assert roles == ['system', 'user', 'assistant', 'user', 'assistant', 'user']
    assert preview['request'][0]['content'] == 'Be brief.'
    assert preview['request'][-1]['content'] == (
        'Which is 0?\nA. 0\nB. x\nC. y\nD. z\nAnswer with one of: A, B, C, D.\nAnswer:'
    )


def test_choices_are_weighed_where_every_model_gives_log_probabilities() -> None:
    rows = RowsOptions(choices=tuple('ABCD'), answer='label')
    asked = {
        names: Experiment.open(CHOICES, SourceOptions(models=names, rows=rows)).config['datasets'][0]['infer_cfg'][
            'inferencer'
        ]
        for names in (('openai/gpt-4o',), ('hf:org/base',), ('hf:org/base', 'openai/gpt-4o'))
    }
    assert [inferencer['type'] for inferencer in asked.values()] == ['GenInferencer', 'PPLInferencer', 'GenInferencer']
    assert asked['hf:org/base',]['labels'] == ['A', 'B', 'C', 'D']


def test_a_model_of_the_config_is_selected_and_another_is_added(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {one['model'] for one in shown(capsys, 'config.py', '--model', 'gpt-*')} == {'gpt-4.1'}
    url = ['--model', 'http://localhost:9/v1', '--model-name', 'org/qwen']
    assert {one['model'] for one in shown(capsys, 'config.py', *url)} == {'qwen'}
    assert {one['model'] for one in shown(capsys, 'config.py', *url, '--model', 'one')} == {'qwen', 'one'}
    assert {one['model'] for one in shown(capsys, 'config.py', '--model', 'openai/gpt-4.1')} == {'openai-gpt-4.1'}


def test_a_run_without_any_model_asks_the_embedded_one_and_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Experiment.open(ROWS, SourceOptions(rows=RowsOptions(answer='answer'), asks_models=True))
    assert [entry['abbr'] for entry in made.config['models']] == ['smollm2']
    assert made.notes == (
        'no model is given: asking the embedded smollm2. Choose another with --model.',
        'the answers are short texts: scored by --metric exact.',
    )
    unscored = Experiment.open(ROWS, SourceOptions(models=('openai/x',), asks_models=True))
    assert unscored.notes[0] == (
        'no answer column is given (--answer): replies are stored, and not scored. Is it --answer answer?'
    )
    options = SourceOptions(asks_models=True, collects_problems=True)
    assert Experiment.open({'models': [{}], 'datasets': []}, options).notes == ()


@pytest.mark.parametrize(
    ('options', 'place', 'value'),
    [
        (['--temperature', '0.5'], ('inferencer', 'temperature'), 0.5),
        (['--max-out-len', '7'], ('inferencer', 'max_out_len'), 7),
        (['--seed', '3'], ('inferencer', 'seed'), 3),
        (['--set', 'datasets.*.infer_cfg.inferencer.max_out_len=64'], ('inferencer', 'max_out_len'), 64),
        (['--set', "datasets.bbh-?.infer_cfg.inferencer.stop=['\\n']"], ('inferencer', 'stop'), ['\n']),
        (['--shots', '2'], ('retriever', 'fix_id_list'), [0, 1]),
        (['--shots', '2', '--retriever', 'bm25'], ('retriever', 'type'), 'BM25Retriever'),
        (['--shots', '0'], ('retriever', 'type'), 'ZeroRetriever'),
    ],
)
def test_overrides_reach_the_config_and_the_manifest(
    folder: Path, options: list[str], place: tuple[str, str], value: Any
) -> None:
    assert main(['run', 'config.py', '--model', 'mine:know', '--out', 'out', '-q', *options]) == 0
    with RunReader('out') as run:
        infer = run.config()['datasets'][0]['infer_cfg']
        overrides = run.manifest()['overrides']
    assert infer[place[0]][place[1]] == value
    assert overrides


def test_a_secret_that_is_set_is_not_in_the_manifest() -> None:
    changed = Overrides(settings=(('models.*.key', 'sk-very-secret'),))
    assert changed.as_dict() == {'models.*.key': '***'}
    assert apply_overrides({'models': [{'abbr': 'a'}]}, changed)['models'][0]['key'] == 'sk-very-secret'


@pytest.mark.parametrize(
    ('path', 'message'),
    [
        ('models.x.temperature', "nothing in models is called 'x'.\n  Known: 'one', 'gpt-4.1'."),
        ('models.onee.temperature', "nothing in models is called 'onee'.\n  Did you mean 'one'?"),
        ('models.*.temperatur', "unknown key 'temperatur'.\n  Did you mean 'temperature'?"),
        ('modles.*.temperature', "unknown key 'modles'.\n  Did you mean 'models'?"),
        ('datasets.*.infer_cfg.inferencr.seed', "unknown key 'inferencr'.\n  Did you mean 'inferencer'?"),
        ('datasets.*.infer_cfg.inferencer.max_outlen', "unknown key 'max_outlen'.\n  Did you mean 'max_out_len'?"),
        ('datasets.*.abbr.x', "abbr is 'a', not a dict."),
        ('datasets.*.reader_cfg.z?', "no key of reader_cfg matches 'z?'."),
        ('..', 'not a path.\n  Write it like models.*.temperature=0.2.'),
    ],
)
def test_a_path_that_leads_nowhere_says_what_was_probably_meant(path: str, message: str) -> None:
    config = {
        'models': [{'abbr': 'one'}, {'abbr': 'gpt-4.1'}],
        'datasets': [{'abbr': 'a', 'infer_cfg': {'inferencer': {'type': 'GenInferencer'}}, 'reader_cfg': {}}],
    }
    with pytest.raises(ConfigError) as error:
        set_value(config, path, 1)
    assert str(error.value) == f'--set {path}\n  {message}'


def test_a_value_is_set_where_the_path_says_and_nowhere_else() -> None:
    config = {
        'models': [{'abbr': 'one'}, {'abbr': 'gpt-4.1'}],
        'a_datasets': [{'abbr': 'x'}],
        'b_datasets': [{'abbr': 'y'}],
    }
    assert set_value(config, 'models.gpt-4.1.stop', 1)['models'] == [{'abbr': 'one'}, {'abbr': 'gpt-4.1', 'stop': 1}]
    assert set_value(config, 'models[0].stop', 1)['models'] == [{'abbr': 'one', 'stop': 1}, {'abbr': 'gpt-4.1'}]
    changed = set_value(config, 'datasets.*.reader_cfg.test_range', '[:5]')
    assert [changed[key][0]['reader_cfg'] for key in ('a_datasets', 'b_datasets')] == [{'test_range': '[:5]'}] * 2
    assert changed['models'] is config['models']
    assert set_value(config, 'work_dir', 'x')['work_dir'] == 'x'


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (RowsOptions(answer='anser'), "--answer\n  no row has the column 'anser'.\n  Did you mean 'answer'?"),
        (RowsOptions(choices=('A', 'B')), '--choices\n  the column of the answer is not given.'),
        (
            RowsOptions(answer='answer', choices=('Paris', 'Rome')),
            "--choices\n  the column 'answer' has answers that are not among the choices: '4' (1 row of the first 3).\n"
            '  Did you mean --choices 4,Paris,Rome?',
        ),
        (RowsOptions(answer='answer', metric='exakt'), "--metric\n  unknown metric 'exakt'.\n  Did you mean 'exact'?"),
        (RowsOptions(metric='exact'), '--metric\n  the column of the answer is not given.'),
        (RowsOptions(answer='answer', ask='perplexity'), '--ask\n  perplexity compares choices, and none are given.'),
    ],
)
def test_options_that_do_not_fit_the_rows_are_refused(options: RowsOptions, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        dataset_for_rows(ROWS, options, dialogue=True, perplexity=False)
    assert str(error.value).startswith(message)


def test_examples_need_an_answer_in_the_template(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ['view', 'rows.csv', '--template', 'Q: {question}', '--shots', '2', '--model', 'openai/gpt-4o']
    assert main(command) == 2
    assert 'the template shows no answer, so examples would have none.' in capsys.readouterr().err


def test_examples_may_come_from_another_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path('train.csv').write_text('question,answer\nWho?,Me\nWhen?,Now\n')
    options = ['--template', 'Q: {question}\\nA: {answer}', '--answer', 'answer', '--data', 'train=train.csv']
    [preview] = shown(capsys, 'rows.csv', *options, '--shots', '2')
    assert preview['prompt'] == 'Q: Who?\nA: Me\nQ: When?\nA: Now\nQ: What is the capital of France?\nA: '


def test_a_colon_at_the_end_gets_no_space_that_nobody_wrote(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [preview, *_] = shown(capsys, 'rows.csv', '--template', '{question}\\nAnswer:', '--answer', 'answer', '--row', '0')
    assert preview['prompt'].endswith('Answer:\n')


def test_the_command_to_resume_is_the_one_that_was_typed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path('mine.py').write_text('def fail(request): raise ValueError("no")\n')
    typed = [
        'run',
        'rows.csv',
        '--answer',
        'answer',
        '--model',
        'mine:fail',
        '--set',
        'models.*.key=sk-1',
        '--rerun',
        'failed',
    ]
    monkeypatch.setattr('sys.argv', ['rolecall', *typed])
    assert main(typed) == 1
    again = "rolecall run rows.csv --answer answer --model mine:fail --set 'models.*.key=***' --out runs/rows\n"
    assert again in capsys.readouterr().err


@pytest.mark.parametrize('answer', [1, '1', 'y', 'B'])
@pytest.mark.parametrize('options', [['x', 'y', 'z'], {'text': ['x', 'y', 'z'], 'label': ['A', 'B', 'C']}])
def test_letters_stand_for_the_options_that_a_row_lists(
    answer: Any, options: Any, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{'question': f'Which {i}?', 'choices': options, 'answer': answer} for i in range(3)]
    Path('mc.jsonl').write_text('\n'.join(map(json.dumps, rows)))
    command = ['mc.jsonl', '--choices', 'A,B,C', '--answer', 'answer', '--model', 'mine:choose']
    [preview] = shown(capsys, *command)
    assert preview['request'].startswith('Which 0?\nA. x\nB. y\nC. z\nAnswer with one of: A, B, C.')
    assert main(['run', *command, '--out', 'out', '-q']) == 0
    with RunReader('out') as run:
        assert [(card.value, card.scored) for card in run.scorecards()] == [(100.0, 3)]


@pytest.mark.parametrize(
    ('reply', 'choices', 'answer'),
    [
        ('Positive', ['positive', 'negative'], 'positive'),
        ('It is not positive.', ['positive', 'negative'], ''),
        ("It isn't positive but negative.", ['positive', 'negative'], 'negative'),
        ('Label: NEGATIVE', ['positive', 'negative'], 'negative'),
        ('unpositive', ['positive', 'negative'], ''),
        ('not_entailment', ['entailment', 'not_entailment'], 'not_entailment'),
        ('No, because yes-men say so.', ['yes', 'no'], 'no'),
        ('我认为答案是正面的', ['正面', '负面'], '正面'),
        ('About 1.5 stars', ['1', '2', '5'], ''),
        ('I give it 10.', ['1', '10'], '10'),
        ('', ['a b', 'c'], ''),
        ('A  B!', ['a b', 'c'], 'a b'),
    ],
)
def test_a_choice_is_read_as_a_reader_would(reply: str, choices: list[str], answer: str) -> None:
    assert (read_postprocessor({'type': 'choice', 'choices': choices})(reply) or '') == answer


def test_a_metric_may_lie_in_a_file_beside(folder: Path) -> None:
    Path('judging.py').write_text('def always(prediction, gold): return True\n')
    command = ['run', 'rows.csv', '--answer', 'answer', '--metric', 'judging:always', '--model', 'mine:know', '-q']
    assert main([*command, '--out', 'out']) == 0
    with RunReader('out') as run:
        assert [card.value for card in run.scorecards()] == [100.0]


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'shots': -1}, 'shots\n  expected a whole number of at least 0, got -1.'),
        ({'temperature': 'hot'}, "temperature\n  expected a number of at least 0, got 'hot'."),
        ({'n': 0, 'max_out_len': 0}, 'max_out_len\n  expected a whole number of at least 1, got 0.\nn\n'),
    ],
)
def test_overrides_from_python_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        Overrides(**options)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ('golds', 'reply', 'note'),
    [
        (['3', '1,200'], 'So she pays $1,200 in total.', 'numbers: scored by --metric number'),
        (['A', 'B'], 'The answer is (B).', 'letters: scored by --metric accuracy, read as one of A, B, C, D'),
        (['Yes', 'No'], 'Nope.', 'yes or no: scored by --metric accuracy, read as one of Yes, No'),
        (['2024-01-02', '2024-02-03'], 'The answer is 2024-02-03.', 'dates: scored by --metric exact'),
        ([['Rome', 'Roma'], ['Paris', 'Lutetia']], 'So the answer is Lutetia.', 'lists of accepted answers'),
        (['Rome', 'Paris'], '{"answer": "Paris"}', 'short texts: scored by --metric exact'),
        (['word ' * 20, 'other ' * 20], 'other ' * 20, 'long texts: scored by --metric f1'),
    ],
)
def test_the_metric_is_chosen_by_the_answers_before_anything_is_sent(golds: list[Any], reply: str, note: str) -> None:
    rows = [{'question': str(number), 'answer': gold} for number, gold in enumerate(golds)]
    notes: list[str] = []
    entry = dataset_for_rows(rows, RowsOptions(answer='answer'), dialogue=False, perplexity=False, notes=notes)
    assert notes[0].startswith(f'the answers are {note}')
    scorer = build_scorer(entry['eval_cfg'])
    assert scorer.score([Scorable(1, 'ok', reply, golds[1])]).verdicts[0].score == 1.0
