"""Assertions, and configs of promptfoo that are read as they are."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import rolecall
from rolecall.compat.promptfoo import load_promptfoo
from rolecall.errors import ConfigError
from rolecall.experiment.lint.linter import lint_config
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.metrics.assertions import assertions
from rolecall.scoring.metrics.metric import Answer
from servers import serve
from tables import in_one

SCHEMA = {'type': 'object', 'required': ['city'], 'properties': {'city': {'type': 'string'}}}
HOLDS = [
    ({'type': 'equals', 'value': 'Paris'}, ' Paris\n'),
    ({'type': 'equals', 'value': {'a': 1}}, '{"a": 1}'),
    ({'type': 'is-json', 'value': {'uniqueItems': True}}, '[1, true, [1], "1", {"a": [1]}, {"a": [true]}]'),
    ({'type': 'contains', 'value': 0}, 'There are 0.'),
    ({'type': 'icontains', 'value': 'PARIS'}, 'in paris'),
    ({'type': 'contains-all', 'value': ['a', 'b']}, 'b a'),
    ({'type': 'contains-any', 'value': 'x, y'}, 'only y'),
    ({'type': 'icontains-any', 'value': ['X']}, 'an x'),
    ({'type': 'contains-all', 'value': '"Rome, Italy","say ""ciao""",'}, 'Rome, Italy: say "ciao"'),
    ({'type': 'contains-all', 'value': r'"a\\b"'}, r'a\b'),
    ({'type': 'contains-any', 'value': '""'}, 'anything'),
    ({'type': 'starts-with', 'value': 'Yes'}, 'Yes, sir'),
    ({'type': 'regex', 'value': r'\d{3}'}, 'call 123'),
    ({'type': 'is-json'}, '[1, 2]'),
    ({'type': 'is-json', 'value': SCHEMA}, '{"city": "Rome"}'),
    ({'type': 'is-json', 'value': 'required: [city]'}, '{"city": 1}'),
    ({'type': 'contains-json', 'value': SCHEMA}, 'Here: {"x": 1} and {"city": "Rome"}.'),
    ({'type': 'is-xml', 'value': {'requiredElements': ['a.b']}}, '<a><b>1</b></a>'),
    ({'type': 'contains-xml', 'value': 'a'}, 'see <a>1</a>!'),
    ({'type': 'contains-html'}, 'a <div>box</div>'),
    ({'type': 'is-html'}, '<html><body>hi</body></html>'),
    ({'type': 'is-refusal'}, "I'm sorry, but I can't help with that."),
    ({'type': 'levenshtein', 'value': 'kitten', 'threshold': 3}, 'sitting'),
    ({'type': 'rouge-n', 'value': 'the cat sat'}, 'the cat sat'),
    ({'type': 'word-count', 'value': {'min': 2, 'max': 3}}, 'two words'),
    ({'type': 'python', 'value': 'len(output) == 3'}, 'abc'),
    ({'type': 'python', 'value': 'if "a" in output:\n  return {"pass": True, "score": 0.7}\nreturn False'}, 'abc'),
    ({'type': 'assert-set', 'threshold': 0.5, 'assert': ['contains: a', 'contains: z']}, 'a'),
    ('icontains: rome', 'Rome'),
    ('Rome', 'Rome'),
    ({'type': 'contains', 'value': 'z', 'weight': 0}, 'a'),
]
FAILS = [
    ({'type': 'equals', 'value': {'a': 1}}, '[' * 100_000),
    ({'type': 'is-json', 'value': {'uniqueItems': True}}, '[{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]'),
    ({'type': 'is-json', 'value': {'items': {'$ref': '#'}}}, '[' * 900 + ']' * 900),
    ({'type': 'equals', 'value': {'a': 1}}, 'a: 1'),
    ({'type': 'contains-all', 'value': ['a', 'b']}, 'a'),
    ({'type': 'is-json', 'value': SCHEMA}, '{"town": "Rome"}'),
    ({'type': 'contains-json'}, 'no { json'),
    ({'type': 'is-xml'}, '<a><b></a>'),
    ({'type': 'is-xml', 'value': 'c'}, '<a/>'),
    ({'type': 'is-xml'}, '<a>\ud800</a>'),
    ({'type': 'is-json'}, 'NaN'),
    ({'type': 'is-json', 'value': {'pattern': '^a$'}}, '"b"'),
    ({'type': 'assert-set', 'assert': ['contains: z']}, 'a'),
    ({'type': 'is-refusal'}, 'The answer is 4.'),
    ({'type': 'levenshtein', 'value': 'kitten', 'threshold': 2}, 'sitting'),
    ({'type': 'word-count', 'value': 3}, 'two words'),
    ({'type': 'python', 'value': '0.2', 'threshold': 0.5}, 'abc'),
    ({'type': 'latency', 'threshold': 100}, 'slow'),
    ({'type': 'cost', 'threshold': 0.001}, 'dear'),
]


def negate(entry: Any) -> Any:
    return f'not-{entry}' if isinstance(entry, str) else {**entry, 'type': f'not-{entry["type"]}'}


@in_one
@pytest.mark.parametrize(
    ('entry', 'reply', 'holds'), [(*case, True) for case in HOLDS] + [(*case, False) for case in FAILS]
)
def test_an_assertion_holds_or_not_and_the_other_way_round_negated(entry: Any, reply: str, holds: bool) -> None:
    answer = Answer(reply, values={'assert': [entry]}, used={'seconds': 2.0, 'cost': 0.01})
    mark = assertions().mark(answer)
    assert mark is not None
    assert mark.correct is holds, mark.note
    weightless = isinstance(entry, dict) and (entry.get('weight') == 0 or entry['type'] == 'assert-set')
    if not weightless and entry != 'Rome':
        turned = assertions(asserts=[negate(entry)]).mark(Answer(reply, used=answer.used))
        assert turned is not None
        assert turned.correct is not holds


def test_weights_thresholds_and_named_scores() -> None:
    entries = [
        {'type': 'equals', 'value': 'Hello world', 'weight': 2},
        {'type': 'contains', 'value': 'world', 'metric': 'w'},
    ]
    strict = assertions(asserts=entries).mark(Answer('Goodbye world'))
    lenient = assertions(asserts=entries, threshold=0.3).mark(Answer('Goodbye world'))
    assert strict is not None
    assert lenient is not None
    assert (strict.correct, strict.parts, strict.note) == (False, {'w': 1.0}, "equals 'Hello world' does not hold")
    assert lenient.correct


@in_one
@pytest.mark.parametrize(
    ('entry', 'message'),
    [
        ({'type': 'javascript', 'value': 'true'}, 'javascript is not supported: JavaScript is not run'),
        ({'type': 'trace-span-count'}, 'traces of agents are not kept'),
        ({'type': 'contians', 'value': 'x'}, "Did you mean 'contains'?"),
        ({'value': 'x'}, 'expected an assertion as'),
        ({'type': 'contains', 'weight': 'much'}, "contains: expected a number as weight, got 'much'."),
        ({'type': 'contains', 'value': 'x', 'weight': float('nan')}, 'expected a number as weight, got nan.'),
        ({'type': 'contains', 'value': 'x', 'weight': -1}, 'weight must be at least 0, got -1.'),
        ({'type': 'contains'}, 'contains: value is missing.'),
        ({'type': 'contains', 'value': 'x', 'transform': 'output'}, 'contains: replies are not transformed.'),
        ({'type': 'assert-set', 'assert': 5}, 'expected a list of assertions as assert, got 5.'),
        ({'type': 'latency'}, 'latency: threshold is missing.'),
        ({'type': 'regex', 'value': '('}, "regex: '(' is not a regular expression: missing )"),
    ],
)
def test_assertions_that_cannot_be_checked_are_refused(entry: Any, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        assertions(asserts=[entry])
    assert message in str(refusal.value)


@in_one
@pytest.mark.parametrize(
    ('entry', 'message'),
    [
        ({'type': 'cost', 'threshold': 1}, 'the cost of this row is not known'),
        ({'type': 'llm-rubric', 'value': 'polite'}, 'none is configured'),
        ({'type': 'python', 'value': '1 / 0'}, 'ZeroDivisionError'),
        ({'type': 'python', 'value': 'exit(3)'}, 'SystemExit'),
        ({'type': 'is-json', 'value': {'pattern': '^(a+)+$'}}, 'took more than 2 s'),
        ({'type': 'is-json', 'value': {'patternProperties': {'^(a+)+$': {}}}}, 'took more than 2 s'),
        (
            {'type': 'is-json', 'value': {'additionalProperties': False, 'patternProperties': {'^(a+)+$': {}}}},
            'took more than 2 s',
        ),
        (
            {'type': 'is-json', 'value': {'unevaluatedProperties': {'patternProperties': {'^(a+)+$': {}}}}},
            'cannot be limited in time',
        ),
        ({'type': 'is-json', 'value': {'$ref': 'http://127.0.0.1:9/schema.json'}}, 'Unresolvable'),
    ],
)
def test_what_goes_wrong_in_a_check_is_said(entry: Any, message: str) -> None:
    text = f'"{"a" * 40}!"'
    with pytest.raises(ScoringError) as failure:
        assertions(asserts=[entry]).mark(Answer(f'{{{text}: 1}}' if 'Properties' in str(entry) else text))
    assert message in str(failure.value)


@in_one
@pytest.mark.parametrize(
    ('schema', 'wrong'),
    [
        ({'patternProperties': {'^a': {'type': 'string'}}}, '1 is not of type'),
        ({'patternProperties': {'^b': {}}, 'additionalProperties': {'type': 'string'}}, '1 is not of type'),
        ({'properties': {'b': {}}, 'additionalProperties': False}, "('ab' was unexpected)"),
        ({'patternProperties': {'b$': {}}, 'additionalProperties': False}, ''),
    ],
)
def test_properties_are_checked_by_pattern(schema: Any, wrong: str) -> None:
    mark = assertions(asserts=[{'type': 'is-json', 'value': schema}]).mark(Answer('{"ab": 1}'))
    assert mark is not None
    assert (bool(mark.correct), wrong in mark.note) == (not wrong, True), mark.note


@in_one
@pytest.mark.parametrize(
    ('entry', 'reply', 'holds'),
    [
        ({'type': 'is-xml'}, '<a>' * 20_000 + '</a>' * 20_000, True),
        ({'type': 'contains-xml', 'value': 'z'}, '<a>' * 3_000 + '</a>' * 3_000, False),
        ({'type': 'levenshtein', 'value': 'a' * 5_000, 'threshold': 4_999}, 'b' * 5_000, False),
        ({'type': 'levenshtein', 'value': 'a' * 5_000}, 'b', False),
        ({'type': 'rouge-n', 'value': ' '.join(map(str, range(9_000)))}, ' '.join(map(str, range(9_000))), True),
        ({'type': 'contains-json'}, '[' * 200_000, False),
    ],
)
def test_replies_that_are_made_to_take_long_are_checked(entry: Any, reply: str, holds: bool) -> None:
    mark = assertions(asserts=[entry]).mark(Answer(reply))
    assert mark is not None
    assert mark.correct is holds


CONFIG = """
prompts:
  - file://prompts.txt
  - {raw: '[{"role": "system", "content": "Be {{tone}}."}, {"role": "user", "content": "{{q}}"}]', label: chat}
  - 'Loop:{% for word in words %} {{ word }}{% endfor %}'
providers: [echo, {id: 'file://bot.py:ask', label: bot}]
defaultTest: {vars: {tone: short}, assert: [{type: not-contains, value: sorry}]}
tests:
  - {vars: {q: [one, two], words: ab}, assert: ['contains: {{q}}']}
  - file://more.csv
"""


def write_config(folder: Path) -> Path:
    (folder / 'prompts.txt').write_text('First {{q}}\n---\nSecond {{q}} {{tone}}')
    (folder / 'more.csv').write_text('q,words,__expected\nthree,xy,icontains: THREE\n')
    (folder / 'bot.py').write_text("def ask(prompt, options, context):\n    return {'output': 'sorry, ' + prompt}\n")
    path = folder / 'promptfooconfig.yaml'
    path.write_text(CONFIG)
    return path


def test_a_config_of_promptfoo_runs_as_it_is(tmp_path: Path) -> None:
    done = rolecall.run(str(write_config(tmp_path)), out=tmp_path / 'run', quiet=True)
    values = {(card.dataset, card.model): (card.value, card.total) for card in done.summary.scorecards}
    assert values['First {{q}}', 'echo'] == (100.0, 3)
    assert values['First {{q}}', 'bot'] == (0.0, 3)
    assert values['chat', 'echo'] == (100.0, 3)
    [loop] = [key for key in values if key[0].startswith('Loop') and key[1] == 'echo']
    assert values[loop] == (0.0, 3)
    prompts = {result.prediction for result in done.results(model='echo')}
    assert {'First one', 'Second three short', 'Loop: a b'} <= prompts


def test_variables_keep_their_origin(tmp_path: Path) -> None:
    previews = list(rolecall.preview(str(write_config(tmp_path)), model='echo'))
    spans = [(span.text, span.origin.kind, span.origin.name) for span in previews[0].spans]
    assert ('one', 'field', 'q') in spans


def test_everything_that_is_not_read_is_named_at_once(tmp_path: Path) -> None:
    path = tmp_path / 'promptfooconfig.yaml'
    path.write_text(
        'prompts: [file://make.js]\nproviders: [file://p.js]\nredteam: {}\n'
        'tests: [{assert: [{type: javascript, value: x}]}]\n'
    )
    with pytest.raises(ConfigError) as refusal:
        rolecall.run(str(path), out=tmp_path / 'run', quiet=True)
    text = str(refusal.value)
    assert 'make.js: JavaScript and other programs are not run' in text
    assert 'p.js: JavaScript and other programs are not run' in text


@in_one
@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({'tests': [{'vars': ['a']}]}, "tests.vars\n  expected names with values, got ['a']."),
        ({'tests': [{'vars': {'x': [*range(400)], 'y': [*range(400)]}}]}, 'make 160,000 tests, more than 100,000.'),
        ({'tests': [{'options': {'transform': 'output'}}]}, 'tests.options.transform\n  replies are not transformed.'),
        ({'tests': [{'assert': [{'type': 'llm-rubric', 'value': 'file://none.txt'}]}]}, 'No such file'),
        (
            {'tests': [{'assert': ['llm-rubric: is polite', 'not-llm-rubric: is long']}]},
            'a judge rules on all criteria of a test at once',
        ),
        ({'scenarios': ['file://none.yaml']}, 'cannot be read: No such file or directory.'),
        ({'scenarios': [{'config': [5]}]}, 'expected a test with vars, got 5.'),
        ({'defaultTest': [1]}, 'defaultTest\n  expected a test with vars, got [1].'),
        ({'providers': [{'openai:gpt-4.1': {'config': 'x'}}]}, "expected options of openai:gpt-4.1, got 'x'."),
        ({'prompts': ['{{ x | nope }}']}, "No filter named 'nope'"),
    ],
)
def test_configs_that_cannot_be_read_say_where_and_why(change: dict[str, Any], message: str) -> None:
    config = {'prompts': ['Say {{x}}'], 'providers': ['echo'], 'tests': [{}], **change}
    with TemporaryDirectory() as folder:
        path = Path(folder, 'promptfooconfig.json')
        path.write_text(json.dumps(config))
        with pytest.raises(ConfigError) as refusal:
            load_promptfoo(path)
    assert message in str(refusal.value)


def test_a_chat_with_filters_keeps_its_messages(tmp_path: Path) -> None:
    chat = [{'role': 'system', 'content': 'Reply {json}'}, {'role': 'user', 'content': 'Hi {{x | upper}}'}]
    tests = [{'vars': {'x': 'bo'}, 'assert': ['contains: hello']}]
    path = tmp_path / 'promptfooconfig.json'
    config = {'prompts': [json.dumps(chat)], 'providers': ['echo'], 'tests': tests}
    path.write_text(json.dumps(config, indent=2))
    with serve('hello') as server:
        rolecall.run(str(path), model=f'{server.url}/v1', out=tmp_path / 'run', quiet=True)
    [messages] = [call.body['messages'] for call in server.calls if call.body]
    assert [(message['role'], message['content']) for message in messages] == [
        ('system', 'Reply {json}'),
        ('user', 'Hi BO'),
    ]


def test_a_variable_that_only_other_tests_have_is_empty(tmp_path: Path) -> None:
    path = tmp_path / 'promptfooconfig.yaml'
    path.write_text('prompts: ["{{x}}{{y}}"]\nproviders: [echo]\ntests: [{vars: {x: a}}, {vars: {x: b, y: c}}]\n')
    [dataset] = load_promptfoo(path)['datasets']
    assert dataset['test'] == [{'x': 'a', 'y': ''}, {'x': 'b', 'y': 'c'}]


def test_what_a_template_misses_is_empty_and_references_are_read(tmp_path: Path) -> None:
    path = tmp_path / 'promptfooconfig.yaml'
    path.write_text(
        "prompts: ['{{ a }}{% if b %}, {{ b.c }}{% endif %}']\nassertionTemplates: {short: {type: word-count, value: 1}}\n"
        "tests:\n- vars: {a: x}\n  assert: [{$ref: '#/assertionTemplates/short', weight: 2}]\n- vars: {a: x, b: {}}\n"
    )
    [dataset] = load_promptfoo(path)['datasets']
    assert [row['prompt'] for row in dataset['test']] == ['x', 'x']
    assert dataset['test'][0]['assert'] == [{'type': 'word-count', 'value': 1, 'weight': 2}]
    path.write_text(path.read_text().replace('Templates/short', 'Templates/shrt'))
    with pytest.raises(ConfigError, match="there is no 'shrt'"):
        load_promptfoo(path)


def test_without_any_assertion_replies_are_stored_and_not_scored(tmp_path: Path) -> None:
    path = tmp_path / 'promptfooconfig.yaml'
    path.write_text("prompts: ['{{a}}']\ntests: [{vars: {a: x}}]\n")
    assert 'eval_cfg' not in load_promptfoo(path)['datasets'][0]


@in_one
@pytest.mark.parametrize(
    ('entries', 'message'),
    [
        ([{'type': 'contain', 'value': 'x'}], "there is no assertion 'contain'"),
        ('[Paris]', 'not valid JSON'),
        ('{"type": "latency"}', 'threshold is missing'),
        (None, "no row has an assertion in the column 'assert'"),
        ('{"type": "contains", "value": "x"}', ''),
        ('{"a": 1}', ''),
    ],
)
def test_assertions_of_rows_are_read_before_anything_is_sent(entries: Any, message: str) -> None:
    dataset = {
        'abbr': 'd',
        'type': 'Rows',
        'test': [{'q': 'x', 'assert': entries}, {'q': 'y', 'assert': entries}],
        'reader_cfg': {'input_columns': ['q'], 'output_column': None},
        'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': '{q}'}},
        'eval_cfg': {'evaluator': {'type': 'AssertEvaluator'}},
    }
    findings = [each for each in lint_config({'models': [], 'datasets': [dataset]}) if each.rule == 'cannot-score']
    assert [message in finding.message for finding in findings] == [True] * bool(message), findings


def test_values_in_files_of_tests_keep_their_line_breaks(tmp_path: Path) -> None:
    (tmp_path / 'tests.csv').write_text('\ufeffx,__expected\n"a\nb\u2028c",contains: a\n', encoding='utf-8')
    (tmp_path / 'tests.jsonl').write_text('{"vars": {"x": "a\u2028b"}}\n', encoding='utf-8')
    path = tmp_path / 'promptfooconfig.yaml'
    path.write_text('prompts: ["{{x}}"]\nproviders: [echo]\ntests: [tests.csv, tests.jsonl]\n')
    [dataset] = load_promptfoo(path)['datasets']
    assert [row['x'] for row in dataset['test']] == ['a\nb\u2028c', 'a\u2028b']


def test_a_provider_that_is_not_known_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    path = tmp_path / 'promptfooconfig.yaml'
    path.write_text('prompts: [hi]\nproviders: [bedrock:nova]\ntests: [{assert: ["contains: h"]}]\n')
    with pytest.raises(ConfigError, match="the provider 'bedrock:nova' of promptfoo is not known here"):
        rolecall.run(str(path), out=tmp_path / 'run', quiet=True)
    assert rolecall.run(str(path), model=lambda prompt: prompt, out=tmp_path / 'run', quiet=True)


def test_a_judge_decides_what_a_rubric_says(tmp_path: Path) -> None:
    def judge(body: Any) -> str:
        return 'A' if 'polite' in json.dumps(body) and 'please' in json.dumps(body) else 'B'

    path = tmp_path / 'promptfooconfig.yaml'
    with serve(judge) as server:
        path.write_text(
            f"""
prompts: ['{{{{q}}}}']
providers: [echo]
defaultTest:
  options: {{provider: {{id: '{server.url}/v1', label: toy}}}}
tests:
  - {{vars: {{q: 'please'}}, assert: [{{type: llm-rubric, value: is polite}}, 'contains: please']}}
  - {{vars: {{q: 'now!'}}, assert: [{{type: llm-rubric, value: is polite}}]}}
  - {{vars: {{q: 'no judge'}}, assert: ['contains: judge']}}
"""
        )
        done = rolecall.run(str(path), out=tmp_path / 'run', quiet=True)
    assert [result.correct for result in done.results()] == [True, False, True]
    assert len([call for call in server.calls if call.body]) == 2


def test_names_with_a_star_stand_for_files_and_problems_are_told_once_with_their_file(tmp_path: Path) -> None:
    for name, text in [('p1.txt', 'Say {{x}}'), ('p2.txt', 'Name {{x}}'), ('t1.yaml', '[{vars: {x: a}}]')]:
        (tmp_path / name).write_text(text)
    (tmp_path / 't2.csv').write_text('x\nb\n')
    path = tmp_path / 'promptfooconfig.yaml'
    path.write_text('prompts: [file://p*.txt]\nproviders: [echo]\ntests: file://t*\n')
    datasets = load_promptfoo(path)['datasets']
    assert [(dataset['abbr'], [row['x'] for row in dataset['test']]) for dataset in datasets] == [
        ('Say {{x}}', ['a', 'b']),
        ('Name {{x}}', ['a', 'b']),
    ]
    path.write_text("prompts: [a, b]\nproviders: [echo]\ntests: [{assert: [{type: javascript, value: 'true'}]}]\n")
    with pytest.raises(ConfigError) as refused:
        load_promptfoo(path)
    assert [problem.where for problem in refused.value.problems] == [f'{path}: tests[0].assert']
    for tests, what in [('huggingface://datasets/a/b', 'nothing is downloaded.'), ('file://n*', 'no file matches.')]:
        path.write_text(f'prompts: [a]\nproviders: [echo]\ntests: {tests}\n')
        with pytest.raises(ConfigError, match=what):
            load_promptfoo(path)
