"""Task files of lm-evaluation-harness: read as they are, with the same contexts, shots and continuations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rolecall import load_config, preview, run_config
from rolecall.core.render.spans import join_spans, texts_of
from rolecall.errors import ConfigError, RolecallError
from rolecall.experiment.pairs.pair import Preview
from rolecall.ui.cli.main import main

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}'
)
QA = """
task: qa
output_type: generate_until
training_split: train
test_split: test
doc_to_text: "Q: {{question}}\\nA:"
doc_to_target: answer
"""
CHOICE = """
task: pick
output_type: multiple_choice
training_split: train
validation_split: val
doc_to_text: "{{question}}?"
doc_to_choice: options
doc_to_target: "{{right}}"
"""
ROWS = [{'question': f'q{i}', 'answer': f'a{i}', 'options': [f'x{i}', f'y{i}'], 'right': i % 2} for i in range(6)]
DATA = {'train': ROWS[1:], 'test': ROWS[:2], 'val': ROWS[:2]}


def write(folder: Path, text: str, name: str = 'task.yaml') -> Path:
    (folder / name).write_text(text)
    return folder / name


def shown(path: Path, data: Mapping[str, Any] = DATA, models: Any = None, **options: Any) -> list[Preview]:
    config: dict[str, Any] = dict(load_config(path, **options))
    if models:
        config['models'] = models
    return list(preview(config, data=data))  # type: ignore[arg-type]  # rows in place of files


def requests(path: Path, data: Mapping[str, Any] = DATA, **options: Any) -> list[Any]:
    found = shown(path, data, **options)
    for one in found:
        if isinstance(one.request, str):
            assert ''.join(span.text for span in one.spans) == one.request
    return [one.request for one in found]


CASES: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    'a generation task': (QA, {}, ['Q: q0\nA:', 'Q: q1\nA:']),
    'a column is itself': (QA.replace('"Q: {{question}}\\nA:"', 'question'), {}, ['q0', 'q1']),
    'a trailing newline is kept': (QA.replace('\\nA:', '\\n'), {}, ['Q: q0\n', 'Q: q1\n']),
    'a description': (QA + 'description: "Topic {{question}}.\\n"', {}, ['Topic q0.\nQ: q0\nA:', 'Topic q1.\nQ: q1\nA:']),
    'system and description': (
        QA + 'description: Desc.',
        {'system_instruction': 'Sys.'},
        ['Sys.\n\nDesc.Q: q0\nA:', 'Sys.\n\nDesc.Q: q1\nA:'],
    ),
    'the answer begins': (QA + 'gen_prefix: "So:"', {}, ['Q: q0\nA: So:', 'Q: q1\nA: So:']),
    'a regex': (QA.replace('{{question}}', "{{question|regex_replace('q', 'z')}}"), {}, ['Q: z0\nA:', 'Q: z1\nA:']),
    'choices are continuations': (CHOICE, {}, ['q0? x0', 'q0? y0', 'q1? x1', 'q1? y1']),
    'choices as a template': (
        CHOICE.replace('options', '"{{[question, right|string]}}"'),
        {},
        ['q0? q0', 'q0? 0', 'q1? q1', 'q1? 1'],
    ),
    'choices as a list': (CHOICE.replace('options', '[no, "{{yes}}"]').replace('[no', '["no"'), {}, ['q0? no', 'q0? {{yes}}', 'q1? no', 'q1? {{yes}}']),
    'choices as a dict': (CHOICE.replace('options', '{a: one, b: two}'), {}, ['q0? one', 'q0? two', 'q1? one', 'q1? two']),
    'choices that are not texts': (CHOICE.replace('options', '"{{[1, [right]]}}"'), {}, ['q0? 1', 'q0? [0]', 'q1? 1', 'q1? [1]']),
    'no delimiter': (CHOICE + 'target_delimiter: ""', {}, ['q0?x0', 'q0?y0', 'q1?x1', 'q1?y1']),
    'a likelihood has no delimiter': (
        QA.replace('generate_until', 'loglikelihood'), {}, ['Q: q0\nA:a0', 'Q: q1\nA:a1']
    ),
    'rolling is the target alone': (QA.replace('generate_until', 'loglikelihood_rolling'), {}, ['a0', 'a1']),
    'many contexts': (
        CHOICE.replace('"{{question}}?"', 'right').replace('"{{right}}"', 'answer'),
        {},
        ['x0 a0', 'y0 a0', 'x1 a1', 'y1 a1'],
    ),
    'mutual information': (
        CHOICE + 'metric_list: [{metric: acc_mutual_info}]',
        {},
        ['q0? x0', 'q0? y0', ' x0', ' y0', 'q1? x1', 'q1? y1', ' x1', ' y1'],
    ),
    'the first examples': (
        QA + 'fewshot_config: {sampler: first_n}',
        {'num_fewshot': 1},
        ['Q: q1\nA: a1\n\nQ: q0\nA:', 'Q: q2\nA: a2\n\nQ: q1\nA:'],
    ),
    'examples written in the file': (
        QA + 'fewshot_config: {sampler: first_n, samples: [{question: X, answer: Y}]}',
        {'num_fewshot': 1},
        ['Q: X\nA: Y\n\nQ: q0\nA:', 'Q: X\nA: Y\n\nQ: q1\nA:'],
    ),
    'examples worded in their own way': (
        QA + 'fewshot_config: {sampler: first_n, doc_to_text: "{{question}} =", target_delimiter: "_", fewshot_delimiter: "|"}',
        {'num_fewshot': 1},
        ['q1 =_a1|Q: q0\nA:', 'q2 =_a2|Q: q1\nA:'],
    ),
    'examples of choices': (
        CHOICE + 'fewshot_config: {sampler: first_n}',
        {'num_fewshot': 1},
        ['q1? y1\n\nq0? x0', 'q1? y1\n\nq0? y0', 'q2? x2\n\nq1? x1', 'q2? x2\n\nq1? y1'],
    ),
    'a file that says 0 keeps to it': (QA + 'num_fewshot: 0', {'num_fewshot': 3}, ['Q: q0\nA:', 'Q: q1\nA:']),
    '0 given by the user counts': (QA + 'num_fewshot: 3', {'num_fewshot': 0}, ['Q: q0\nA:', 'Q: q1\nA:']),
    'keys laid over': (QA, {'overrides': {'doc_to_text': 'question'}}, ['q0', 'q1']),
}  # fmt: skip


@pytest.mark.parametrize('name', CASES)
def test_requests_of_a_text_model(name: str, tmp_path: Path) -> None:
    text, options, expected = CASES[name]
    assert requests(write(tmp_path, text), **options) == expected


def test_a_value_that_looks_like_a_template_is_left_alone(tmp_path: Path) -> None:
    row = {'question': '{{answer}} {% if %}', 'answer': 'secret'}
    assert requests(write(tmp_path, QA), {'test': [row]}) == ['Q: {{answer}} {% if %}\nA:']


def test_a_likelihood_preview_says_where_the_continuation_begins(tmp_path: Path) -> None:
    found = shown(write(tmp_path, CHOICE))
    places = []
    for one in found:
        kinds = [span.origin.kind for span in one.spans]
        places.append(sum(len(span.text) for span in one.spans[: kinds.index('sep')]))
    assert places == [3, 3, 3, 3]
    assert [one.label for one in found] == [0, 1, 0, 1]


def test_every_character_has_an_origin_with_file_and_line(tmp_path: Path) -> None:
    path = write(tmp_path, QA + 'fewshot_config: {sampler: first_n}')
    [first, _] = shown(path, num_fewshot=1)
    found = [
        (span.text, span.origin.kind, span.origin.name, span.origin.shot, span.origin.source.rpartition(':')[2])
        for span in first.spans
    ]
    assert found == [
        ('Q: ', 'text', '', 0, '6'),
        ('q1', 'field', 'question', 0, '6'),
        ('\nA:', 'text', '', 0, '6'),
        (' ', 'joint', 'target_delimiter', 0, 'task.yaml'),
        ('a1', 'field', 'answer', 0, '7'),
        ('\n\n', 'joint', 'fewshot_delimiter', 0, 'task.yaml'),
        ('Q: ', 'text', '', None, '6'),
        ('q0', 'field', 'question', None, '6'),
        ('\nA:', 'text', '', None, '6'),
    ]


# -- chat --------------------------------------------------------------------------------------------------------------

CHAT = [{'abbr': 'm', 'type': 'HuggingFacewithChatTemplate', 'path': 'none', 'chat_template': CHATML}]
API = [{'abbr': 'm', 'type': 'OpenAI', 'path': 'none'}]
FIRST = 'fewshot_config: {sampler: first_n}'


@pytest.mark.parametrize(
    ('text', 'options', 'expected'),
    [
        (QA, {}, '<|im_start|>user\nQ: q0\nA:<|im_end|>\n<|im_start|>assistant\n'),
        (
            QA + 'description: Desc.\n' + FIRST,
            {'num_fewshot': 1},
            '<|im_start|>system\nDesc.<|im_end|>\n<|im_start|>user\nQ: q1\nA: a1\n\nQ: q0\nA:<|im_end|>\n<|im_start|>assistant\n',
        ),
        (
            QA + FIRST,
            {'num_fewshot': 1, 'fewshot_as_multiturn': True, 'system_instruction': 'Sys.'},
            '<|im_start|>system\nSys.<|im_end|>\n<|im_start|>user\nQ: q1\nA:<|im_end|>\n<|im_start|>assistant\na1<|im_end|>\n'
            '<|im_start|>user\nQ: q0\nA:<|im_end|>\n<|im_start|>assistant\n',
        ),
        (QA + 'gen_prefix: "So:"', {}, '<|im_start|>user\nQ: q0\nA:<|im_end|>\n<|im_start|>assistant\nSo:'),
        (CHOICE, {}, '<|im_start|>user\nq0?<|im_end|>\n<|im_start|>assistant\nx0'),
    ],
)  # fmt: skip
def test_a_chat_template_gets_lm_evals_messages(
    text: str, options: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    assert requests(write(tmp_path, text), models=CHAT, **options)[0] == expected


def test_an_api_gets_messages(tmp_path: Path) -> None:
    path = write(tmp_path, QA + 'description: Desc.\n' + FIRST)
    assert requests(path, models=API, num_fewshot=1, fewshot_as_multiturn=True)[0] == [
        {'role': 'system', 'content': 'Desc.'},
        {'role': 'user', 'content': 'Q: q1\nA:'},
        {'role': 'assistant', 'content': 'a1'},
        {'role': 'user', 'content': 'Q: q0\nA:'},
    ]


def test_a_meta_template_gets_the_same_messages(tmp_path: Path) -> None:
    models = [{'abbr': 'm', 'type': 'HuggingFaceCausalLM', 'path': 'none', 'meta_template': 'chatml'}]
    assert requests(write(tmp_path, QA), models=models)[0] == (
        '<|im_start|>user\nQ: q0\nA:<|im_end|>\n<|im_start|>assistant\n'
    )


# -- shots -------------------------------------------------------------------------------------------------------------


def picks(path: Path, data: Mapping[str, Any], **options: Any) -> list[tuple[int, ...]]:
    return [one.shots for one in shown(path, data, **options)]


def test_with_emulate_shots_are_drawn_by_one_generator_for_all_rows(tmp_path: Path) -> None:
    data = {'train': ROWS, 'test': [{'question': 'n', 'answer': 'n'}] * 3}
    drawn = Random(7)
    expected = [tuple(drawn.sample(range(6), 2)) for _ in range(3)]
    assert (
        picks(write(tmp_path, QA + 'fewshot_split: train'), data, num_fewshot=2, fewshot_seed=7, emulate='lm-eval')
        == expected
    )


def test_with_emulate_one_more_is_drawn_where_the_splits_have_one_name(tmp_path: Path) -> None:
    path = write(tmp_path, QA.replace('training_split: train\n', 'fewshot_split: test\n'))
    drawn = Random(1234)
    expected = []
    for row in range(6):
        expected.append(tuple([i for i in drawn.sample(range(6), 3) if i != row][:2]))
    assert picks(path, {'test': ROWS}, num_fewshot=2, emulate='lm-eval') == expected


def test_by_default_shots_do_not_depend_on_the_rows_before_and_are_never_the_row(tmp_path: Path) -> None:
    path = write(tmp_path, QA.replace('training_split: train\n', 'fewshot_split: test\n'))
    first = picks(path, {'test': ROWS}, num_fewshot=3)
    assert all(row not in shots for row, shots in enumerate(first))
    assert [one.skipped for one in shown(path, {'test': ROWS}, num_fewshot=3)] == [(i,) for i in range(6)]
    data = {'train': ROWS, 'test': [{'question': 'n', 'answer': 'n'}, {'question': 'm', 'answer': 'm'}]}
    plain = write(tmp_path, QA, 'plain.yaml')
    forwards = picks(plain, data, num_fewshot=3)
    assert forwards == picks(plain, {**data, 'test': data['test'][::-1]}, num_fewshot=3)[::-1]
    assert forwards != picks(plain, data, num_fewshot=3, fewshot_seed=1)


# -- files -------------------------------------------------------------------------------------------------------------


def test_includes_are_merged_and_functions_belong_to_the_file_that_names_them(tmp_path: Path) -> None:
    inner = tmp_path / 'inner'
    inner.mkdir()
    write(inner, QA + 'process_docs: !function utils.double\ndescription: Inner.\n', '_base.yaml')
    (inner / 'utils.py').write_text(
        'import datasets\nfrom helper import twice\n'
        'def double(docs: datasets.Dataset) -> datasets.Dataset:\n'
        "    return docs.map(lambda doc: {'question': twice(doc['question'])}).filter(lambda doc: doc['answer'] != 'a1')\n"
    )
    (inner / 'helper.py').write_text('def twice(text): return text + text\n')
    path = write(tmp_path, 'include: inner/_base.yaml\ntask: outer\ndescription: "Outer. "\n')
    assert requests(path) == ['Outer. Q: q0q0\nA:']


def test_text_target_and_choices_by_function(tmp_path: Path) -> None:
    (tmp_path / 'fn.py').write_text(
        "def text(doc): return 'T ' + doc['question']\n"
        "def choices(doc): return [o.upper() for o in doc['options']]\n"
        "def target(doc): return doc['right']\n"
    )
    text = CHOICE.replace('"{{question}}?"', '!function fn.text').replace('options', '!function fn.choices')
    text = text.replace('"{{right}}"', '!function fn.target') + FIRST
    assert requests(write(tmp_path, text), num_fewshot=1)[:2] == ['T q1 Y1\n\nT q0 X0', 'T q1 Y1\n\nT q0 Y0']


def test_groups_tags_and_folders(tmp_path: Path) -> None:
    tasks = tmp_path / 'tasks'
    tasks.mkdir()
    for name in ('one', 'two'):
        write(tasks, QA.replace('task: qa', f'task: {name}\ntag: pair'), f'{name}.yaml')
    group = write(tasks, 'group: all\ntask:\n  - one\n  - task: two\n    description: "Other. "\n', '_group.yaml')
    assert [entry['abbr'] for entry in load_config(group)['datasets']] == ['one', 'two']
    assert requests(group)[2] == 'Other. Q: q0\nA:'
    tagged = write(tasks, 'group: by_tag\ntask: [pair]\n', '_tagged.yaml')
    assert [entry['abbr'] for entry in load_config(tagged)['datasets']] == ['one', 'two']
    assert [entry['abbr'] for entry in load_config(tasks)['datasets']] == ['one', 'two']


def test_rows_come_from_files_and_local_folders(tmp_path: Path) -> None:
    file = tmp_path / 'rows.jsonl'
    file.write_text('\n'.join(map(json.dumps, ROWS)))
    path = write(tmp_path, QA)
    assert [one.request for one in preview(load_config(path), data={'test': str(file)})][:1] == ['Q: q0\nA:']
    local = write(
        tmp_path, QA + f'dataset_path: json\ndataset_kwargs: {{data_files: {{test: {file.name}}}}}\n', 'local.yaml'
    )
    assert next(preview(load_config(local))).request == 'Q: q0\nA:'


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('task: [', r'task.yaml:1: is not YAML|is not YAML'),
        ('- a\n- b', 'expected names and values, found list'),
        ('include: nowhere.yaml', 'nowhere.yaml\n  cannot be read'),
        ('include: task.yaml', 'circular include'),
        (QA + 'descripton: x', "unknown key 'descripton'.\n  Did you mean 'description'?"),
        (QA.replace('generate_until', 'generate'), "unknown output_type 'generate'.\n  Did you mean 'generate_until'?"),
        (QA + 'fewshot_config: {sampler: balanced}', "unknown sampler 'balanced'"),
        (QA + 'process_docs: !function nowhere.f', 'there is no nowhere.py beside the file'),
        (QA + 'process_docs: !function raises.f', r'!function raises.f raised ZeroDivisionError'),
        (QA + 'process_docs: !function raises.g', "'raises' has no 'g'"),
        (QA + 'process_docs: !function needs.f', 'imports no_such_package, which is not installed.\n  pip install no_such_package'),
        (QA.replace('{{question}}', '{{questoin}}'), "raised UndefinedError: 'questoin' is undefined"),
        (QA.replace('{{question}}', '{{question'), 'task.yaml:6: the template raised TemplateSyntaxError'),
        (QA.replace('{{question}}', '{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}'), 'the template was stopped'),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(text: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / 'raises.py').write_text('def f(docs): return 1 / 0\n')
    (tmp_path / 'needs.py').write_text('import no_such_package\ndef f(docs): return docs\n')
    path = write(tmp_path, text)
    with pytest.raises(RolecallError) as refused:
        requests(path)
    assert any(part in str(refused.value) for part in expected.split('|'))


def test_rows_that_are_not_here_are_named_by_their_split(tmp_path: Path) -> None:
    path = write(tmp_path, QA + 'dataset_path: acme/qa\n')
    with pytest.raises(
        RolecallError, match=r"no rows of the split 'test'.*nothing is downloaded unasked.*--data test=FILE"
    ):
        list(preview(load_config(path)))
    with pytest.raises(RolecallError, match=r"no rows of the split 'train': given are 'test'"):
        list(preview(load_config(path, num_fewshot=2), data={'test': 'x.jsonl'}))


def test_options_of_tasks_are_refused_for_other_configs(tmp_path: Path) -> None:
    path = write(tmp_path, 'datasets = []', 'config.py')
    with pytest.raises(ConfigError, match='num_fewshot: only for task files'):
        load_config(path, num_fewshot=1)
    with pytest.raises(ConfigError, match='num_fewshot\n  expected a whole number from 0'):
        load_config(write(tmp_path, QA), num_fewshot=-1)


# -- the command line --------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    rows = tmp_path / 'rows.jsonl'
    rows.write_text('\n'.join(map(json.dumps, ROWS)))
    return str(write(tmp_path, QA + 'dataset_path: acme/qa\n')), str(rows)


def test_view_shows_a_task_with_its_options(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    path, rows = files
    options = ['--shots', '1', '--system', 'Sys. ', '--as', 'lm-eval', '--fewshot-seed', '3', '-n', '1', '--json']
    assert main(['view', path, '--data', f'test={rows}', f'train={rows}', *options]) == 0
    shown = json.loads(capsys.readouterr().out)
    drawn = Random(3).sample(range(6), 1)[0]
    assert shown['request'] == f'Sys. Q: q{drawn}\nA: a{drawn}\n\nQ: q0\nA:'
    assert shown['spans'][1]['source'].endswith('task.yaml:6')


def test_a_task_without_examples_is_not_warned_about_examples_that_are_not_shown(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    path, rows = files
    assert main(['lint', path, '--data', f'test={rows}', '--shots', '0']) == 0
    assert 'shots-lost' not in capsys.readouterr().out


def test_view_lint_and_export_take_models_of_a_family_an_api_or_a_config(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, rows = files
    models = write(tmp_path, "models = [dict(abbr='gpt', type='OpenAI', path='gpt-4o')]\n", 'models.py')
    data = ['--data', f'test={rows}']
    assert main(['view', path, '--meta-template', 'chatml', '--json', '-n', '1', *data]) == 0
    assert json.loads(capsys.readouterr().out)['request'].startswith('<|im_start|>user\nQ: q0')
    assert main(['lint', path, '--models', str(models), *data]) == 0
    capsys.readouterr()
    assert main(['export', 'requests', path, '--models', str(models), '--limit', '1', *data]) == 0
    body = json.loads(capsys.readouterr().out)['body']
    assert body['messages'] == [{'role': 'user', 'content': 'Q: q0\nA:'}]
    assert (body['max_completion_tokens'], body['stop'], body['temperature']) == (256, ['\n\n'], 0.0)


def test_a_generation_task_runs(files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, rows = files
    models = write(
        tmp_path, "def answer(request):\n    return ' a0'\nmodels = [dict(abbr='m', type=answer)]\n", 'models.py'
    )
    assert (
        main(['run', path, '--models', str(models), '--data', f'test={rows}', '--out', str(tmp_path / 'run'), '-q'])
        == 0
    )


def test_options_for_tasks_are_refused_for_other_configs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, 'datasets = []', 'config.py')
    assert main(['view', str(path), '--fewshot-seed', '2']) == 2
    assert '--fewshot-seed applies to task files' in capsys.readouterr().err


def test_a_group_that_is_a_member_of_itself_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, 'group: one\ntask: [two]\n', 'one.yaml')
    group = write(tmp_path, 'group: two\ntask: [one]\n', 'two.yaml')
    with pytest.raises(ConfigError, match='is a member of itself'):
        load_config(group)


def test_config_show_prints_a_task_with_its_includes_and_defaults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, 'test_split: test\ndoc_to_target: answer\n', 'base')
    path = write(tmp_path, 'include: base\ntask: t\ntask_alias: short\ndoc_to_text: !function utils.ask\n')
    assert main(['config', 'show', str(path), '--json']) == 0
    [task] = json.loads(capsys.readouterr().out)['tasks']
    assert (task['task_alias'], task['doc_to_text'], task['doc_to_target']) == (
        'short',
        '!function utils.ask',
        'answer',
    )
    assert task['generation_kwargs']['until'] == ['\n\n']


def test_a_default_that_differs_from_lm_eval_is_said(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    task, rows = files
    data = ['--data', f'test={rows}', f'train={rows}', '-n', '1']
    assert main(['view', task, *data, '--shots', '1']) == 0
    assert "'--as lm-eval' asks exactly as it does" in capsys.readouterr().err
    for same in (['--shots', '1', '--as', 'lm-eval'], []):
        assert main(['view', task, *data, *same]) == 0
        assert 'lm-eval' not in capsys.readouterr().err


@pytest.mark.parametrize(
    'line', ['num_fewshot: !function utils.f', 'generation_kwargs: 5', 'generation_kwargs: {temperature: hot}']
)
def test_a_number_that_is_none_is_an_error(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigError, match='expected a (number|mapping)'):
        shown(write(tmp_path, f'{QA}{line}\n'))


def test_a_function_named_by_its_path_in_lm_eval_is_found_without_the_package(tmp_path: Path) -> None:
    folder = tmp_path / 'tasks' / 'family'
    (folder / 'nob').mkdir(parents=True)
    (folder / 'utils.py').write_text('def ask(doc): return f\'Say {doc["question"]}\'\n')
    text = QA.replace('"Q: {{question}}\\nA:"', '!function lm_eval.tasks.family.utils.ask')
    assert '!function' in text
    assert requests(write(folder / 'nob', text))[0] == 'Say q0'


def test_rows_by_a_function_of_the_task(tmp_path: Path) -> None:
    text = QA + 'custom_dataset: !function utils.make\nmetadata: {count: 2}\ndataset_kwargs: {word: w}\n'
    (tmp_path / 'utils.py').write_text(
        'def make(count, word):\n'
        '    import datasets\n'
        "    rows = [{'question': f'{word}{i}', 'answer': 'a'} for i in range(count)]\n"
        "    return {'test': datasets.Dataset.from_list(rows)}\n"
    )
    path = write(tmp_path, text)
    assert [one.request for one in preview(load_config(path))] == ['Q: w0\nA:', 'Q: w1\nA:']
    assert requests(path)[0] == 'Q: q0\nA:', 'rows that are given come first'


@pytest.mark.parametrize('drawn_from', ['random', 'rng'])
def test_functions_that_shuffle_give_the_same_prompts_every_time(drawn_from: str, tmp_path: Path) -> None:
    (tmp_path / 'utils.py').write_text(
        'import random\nrng = random.Random(42)\n\n'
        'def process(rows):\n'
        "    return rows.map(lambda row: {'answer': str(DRAW.random()), 'question': row['question']})\n".replace(
            'DRAW', drawn_from
        )
    )
    one_split = QA.replace('training_split: train', 'training_split: test') + 'process_docs: !function utils.process\n'
    path = write(tmp_path, one_split.replace('A:"', 'A: {{answer}}"'))
    for emulate in (None, 'lm-eval'):
        first = requests(path, {'test': ROWS}, emulate=emulate)
        assert requests(path, {'test': ROWS}, emulate=emulate) == first
        with_shots = requests(path, {'test': ROWS}, num_fewshot=1, emulate=emulate)
        assert [one.rpartition('\n\n')[2] for one in with_shots] == first, 'examples do not change the rows'
        assert all(one.partition('\n\n')[0].rpartition(' ')[0] in first for one in with_shots), 'made once'


IMAGES = QA.replace('"Q:', '"See <image>\\nQ:') + 'doc_to_image: [picture]\n'
API = [{'abbr': 'api', 'type': 'OpenAISDK', 'path': 'm', 'openai_api_base': 'http://localhost:9/v1', 'key': 'k'}]


def test_images_stand_where_the_text_names_them(tmp_path: Path) -> None:
    rows = [{**ROWS[0], 'picture': 'cat.png'}, {**ROWS[1], 'picture': {'bytes': b'\xff\xd8x', 'path': None}}]
    path = write(tmp_path, IMAGES)
    assert requests(path, {'test': rows})[0] == 'See <image>\nQ: q0\nA:', 'a text is that of lm-eval'
    first, second = shown(path, {'test': rows}, models=API)
    [message] = first.request  # type: ignore[misc]
    assert message['content'] == [  # type: ignore[call-overload]
        {'type': 'text', 'text': 'See '},
        {'type': 'image_url', 'image_url': {'url': 'file://cat.png'}},
        {'type': 'text', 'text': '\nQ: q0\nA:'},
    ]
    assert join_spans(first.spans) == texts_of(first.request)
    assert 'data:image/jpeg;base64,/9h4' in str(second.request)


def test_a_task_about_images_is_not_run_by_a_model_that_takes_text(tmp_path: Path) -> None:
    rows = tmp_path / 'rows.jsonl'
    rows.write_text(json.dumps({**ROWS[0], 'picture': 'cat.png'}))
    entry = {'abbr': 'mine', 'type': lambda prompts: ['x'] * len(prompts)}
    config = {**load_config(write(tmp_path, IMAGES)), 'models': [entry]}
    with pytest.raises(ConfigError, match='qa asks about images; model mine takes text alone'):
        run_config(config, out=tmp_path / 'run', data={'test': str(rows)})


def test_a_task_file_in_braces_is_a_task_file(tmp_path: Path) -> None:
    write(tmp_path, QA, 'base.yaml')
    path = write(tmp_path, json.dumps({'include': 'base.yaml', 'task': 'other'}))
    assert requests(path, emulate='lm-eval') == requests(tmp_path / 'base.yaml')


def test_a_package_that_needs_more_of_datasets_gets_the_installed_one(tmp_path: Path) -> None:
    pytest.importorskip('datasets')
    (tmp_path / 'utils.py').write_text(
        'from datasets import DownloadConfig\n\ndef word(row):\n    return f\'{DownloadConfig.__name__} {row["question"]}\'\n'
    )
    path = write(tmp_path, QA.replace('"Q: {{question}}\\nA:"', '!function utils.word'))
    assert requests(path) == ['DownloadConfig q0', 'DownloadConfig q1']


@pytest.mark.parametrize(
    ('line', 'expected'),
    [
        ('fewshot_config: first_n', 'fewshot_config\n  expected a mapping'),
        ('repeats: two', 'repeats\n  expected a whole number from 1'),
        ('generation_kwargs: {until: 5}', 'generation_kwargs.until\n  expected a text or a list of texts'),
        ('dataset_kwargs: 5', 'dataset_kwargs\n  expected a mapping'),
        ('target_delimiter: 3', 'target_delimiter\n  expected a text'),
    ],
)
def test_a_value_of_another_kind_is_said_with_its_line(line: str, expected: str, tmp_path: Path) -> None:
    path = write(tmp_path, QA + line)
    with pytest.raises(ConfigError) as raised:
        load_config(path)
    assert f'task.yaml:8: {expected}' in str(raised.value)
