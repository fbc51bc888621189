"""`rolecall export requests`: a batch file with every request, by names that are unique and stay the same."""

import gzip
import json

import pytest

from rolecall.experiment.experiment import preview
from rolecall.ui.cli.main import main
from servers import serve

MODELS = """
models = [
    dict(abbr='text', type='HuggingFaceCausalLM', path='some/model', max_out_len=9,
         generation_kwargs=dict(temperature=0.5, do_sample=True, top_p=0.9)),
    dict(abbr='gpt', type='OpenAI', path='gpt-x', temperature=0, max_out_len=7),
]
"""
GEN = """
datasets = [dict(abbr='demo', type='Rows', test=[dict(q=f'{n}+1=?', a=n) for n in range(5)],
    reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{q}'),
        inferencer=dict(type='GenInferencer', max_out_len=16, stopping_criteria=['#'])))]
"""
LABELS = """
datasets = [dict(abbr='demo', type='Rows', test=[dict(q='Is it?', a='yes')],
    reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template={1: '{q} one', '1': '{q} yes', 'a|b': '{q} no'}),
        inferencer=dict(type='PPLInferencer')))]
"""
TURNS = """
datasets = [dict(abbr='demo', type='Rows', test=[dict(q=['a', 'b'], a=['A', 'B'])],
    reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='MultiTurnPromptTemplate', template=dict(
            round=[dict(role='HUMAN', prompt='{q}'), dict(role='BOT', prompt='{a}')])),
        inferencer=dict(type='MultiTurnGenInferencer', infer_mode=MODE)))]
"""


@pytest.fixture
def export(tmp_path, capsys):
    def run(text, *options):
        path = tmp_path / 'config.py'
        path.write_text(MODELS + text)
        assert main(['export', 'requests', str(path), *options]) == 0
        shown = capsys.readouterr()
        return [json.loads(line) for line in shown.out.splitlines()], shown.err

    return run


def test_each_request_is_one_line_with_what_is_sent_with_it(export):
    entries, said = export(GEN, '--limit', '1')
    assert entries == [
        {
            'custom_id': 'demo|text|0',
            'method': 'POST',
            'url': '/v1/completions',
            'body': {
                'model': 'some/model',
                'max_tokens': 16,
                'temperature': 0.5,
                'top_p': 0.9,
                'stop': ['#'],
                'prompt': '0+1=?',
            },
        },
        {
            'custom_id': 'demo|gpt|0',
            'method': 'POST',
            'url': '/v1/chat/completions',
            'body': {
                'model': 'gpt-x',
                'max_completion_tokens': 16,
                'temperature': 0,
                'stop': ['#'],
                'messages': [{'role': 'user', 'content': '0+1=?'}],
            },
        },
    ]
    assert said == '2 requests\n'


def test_what_is_exported_is_what_a_run_sends(tmp_path, capsys):
    with serve(models=('gpt-5-mini', 'qwen', 'base')) as server:
        address = f"base_url='{server.url}', key='x'"
        (tmp_path / 'config.py').write_text(f"""
models = [
    dict(abbr='o', type='OpenAI', path='gpt-5-mini', {address}, stop_words=['END'], extra_body=dict(store=False),
         generation_kwargs=dict(max_tokens=77)),
    dict(abbr='v', type='VLLMCustomAPIChat', model='qwen', {address}, max_out_len=64,
         generation_kwargs=dict(temperature=0.5, top_k=3, max_completion_tokens=3)),
    dict(abbr='t', type='OpenAICompletions', path='base', {address}),
]
{GEN.replace("stopping_criteria=['#']", "temperature=0.2, stopping_criteria='###'")}
datasets += [dict(datasets[0], abbr='bare', infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{{q}}')))]
""")
        assert main(['run', str(tmp_path / 'config.py'), '--out', str(tmp_path / 'run')]) == 0
        capsys.readouterr()
        assert main(['export', 'requests', str(tmp_path / 'config.py')]) == 0
        exported = [json.loads(line)['body'] for line in capsys.readouterr().out.splitlines()]
        sent = list(server.bodies)
    assert len(sent) == 30
    assert sorted(map(json.dumps, map(sorted_, exported))) == sorted(map(json.dumps, map(sorted_, sent)))


def sorted_(body):
    return dict(sorted(body.items()))


def test_lines_that_are_left_out_are_told(tmp_path, capsys):
    (tmp_path / 'rows.jsonl').write_text('{"q": "x", "a": 1}\n{bad\n')
    config = tmp_path / 'config.py'
    config.write_text(MODELS + GEN + "datasets[0] |= dict(type='File', path='rows.jsonl', on_error='skip')\n")
    for command in (
        ['view', '--plain', '-n', '9'],
        ['export', 'requests'],
        ['run', '--dry-run', '--out', str(tmp_path)],
    ):
        assert main([*command[:2], str(config), '--model', 'gpt', *command[2:]]) == 0
        assert '1 malformed line' in ''.join(capsys.readouterr())


def test_what_is_exported_is_what_is_shown(export, tmp_path):
    entries, _ = export(GEN)
    shown = [one.request for one in preview(tmp_path / 'config.py')]
    assert [entry['body'].get('prompt') or entry['body']['messages'] for entry in entries] == shown


def test_labels_have_names_of_their_own_and_are_weighed(export):
    entries, said = export(LABELS, '--model', 'text')
    assert [entry['custom_id'] for entry in entries] == ['demo|text|0|1', "demo|text|0|'1'", 'demo|text|0|a%7Cb']
    assert {'echo': True, 'logprobs': 1, 'max_tokens': 1, 'temperature': 0}.items() <= entries[0]['body'].items()
    assert said == '3 requests\n'


def test_weighing_through_a_chat_api_comes_with_a_remark(export):
    entries, said = export(LABELS, '--model', 'gpt')
    assert entries[0]['url'] == '/v1/chat/completions'
    assert 'a server that echoes them' in said


@pytest.mark.parametrize(
    ('mode', 'turns'), [('every', ['turn0']), ('every_with_gt', ['turn0', 'turn1']), ('last', ['turn1'])]
)
def test_of_dialogues_the_turns_that_need_no_reply_are_written(export, mode, turns):
    entries, said = export(TURNS.replace('MODE', repr(mode)), '--model', 'gpt')
    assert [entry['custom_id'].split('|')[-1] for entry in entries] == turns
    assert ('first turns only' in said) == (mode == 'every')


def test_a_file_may_be_compressed_and_appears_when_it_is_complete(export, tmp_path):
    target = tmp_path / 'out' / 'requests.jsonl.gz'
    target.parent.mkdir()
    _, said = export(GEN, '-o', str(target))
    assert said == f'10 requests in {target}\n'
    with gzip.open(target, 'rt', encoding='utf-8') as lines:
        names = [json.loads(line)['custom_id'] for line in lines]
    assert len(set(names)) == 10
    assert list(target.parent.iterdir()) == [target]


def test_nothing_is_left_behind_when_a_row_fails(tmp_path, capsys):
    path = tmp_path / 'config.py'
    path.write_text(MODELS + GEN + "datasets[0]['test'][3] = dict(a=1)\n")
    target = tmp_path / 'out' / 'requests.jsonl'
    target.parent.mkdir()
    assert main(['export', 'requests', str(path), '-o', str(target)]) == 2
    assert "row 3: no column 'q'" in capsys.readouterr().err
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize(
    ('text', 'options', 'reason'),
    [
        (GEN + 'datasets = datasets * 2', [], 'used more than once: demo'),
        (GEN + 'models = []', [], 'the config has no models'),
        (GEN, ['-o', '/no/such/folder/x.jsonl'], '/no/such/folder/x.jsonl: cannot be written'),
        (GEN.replace("'Rows'", "'Foreign'"), [], "unknown dataset 'Foreign'"),
        (GEN + "models[0]['meta_template'] = dict(round=[dict(role='HUMAN', begin=[1]), dict(role='BOT', generate=True)])\n"
         "datasets[0]['infer_cfg']['prompt_template']['template'] = dict(round=[dict(role='HUMAN', prompt='{q}')])", [],
         'mixes token ids with text'),
    ],
)  # fmt: skip
def test_what_cannot_be_exported_is_an_error(tmp_path, capsys, text, options, reason):
    path = tmp_path / 'config.py'
    path.write_text(MODELS + text)
    assert main(['export', 'requests', str(path), *options]) == 2
    assert reason in capsys.readouterr().err


def test_a_file_of_rows_streams_through(tmp_path, capsys):
    rows = tmp_path / 'rows.jsonl'
    rows.write_text(''.join(json.dumps({'q': f'问题 {n}'}, ensure_ascii=False) + '\n' for n in range(1000)))
    target = tmp_path / 'out.jsonl'
    assert main(['export', 'requests', str(rows), '--template', '{q}', '--api', '-o', str(target)]) == 0
    lines = target.read_text(encoding='utf-8').splitlines()
    assert len(lines) == 1000
    assert json.loads(lines[999])['body']['messages'] == [{'role': 'user', 'content': '问题 999'}]
