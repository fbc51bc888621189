"""Every rule, once where it speaks and once where it has nothing to say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rolecall.experiment.lint import RULES, Finding
from rolecall.experiment.lint.linter import lint_config
from rolecall.sources.datasets import ListRows

BASE = {'abbr': 'base', 'type': 'HuggingFaceBaseModel', 'path': 'none', 'max_out_len': 64}
CHATML = {
    'round': [
        {'role': 'HUMAN', 'begin': '<|im_start|>user\n', 'end': '<|im_end|>\n'},
        {'role': 'BOT', 'begin': '<|im_start|>assistant\n', 'end': '<|im_end|>\n', 'generate': True},
    ]
}
QWEN = {**BASE, 'abbr': 'qwen', 'type': 'HuggingFaceCausalLM', 'meta_template': CHATML}
API = {'abbr': 'api', 'type': 'OpenAI', 'path': 'x', 'max_out_len': 64}
ROW = {'q': 'How many legs has a spider that lost two of them?', 'a': '6'}
TRAIN = [{'q': 'How many wheels has a car?', 'a': '4'}, {'q': 'Which is the largest planet?', 'a': 'Jupiter'}]
SHOTS = {'retriever': {'type': 'FixKRetriever', 'fix_id_list': [0]}, 'ice': 'Q: {q} A: {a}', 'train': TRAIN}
DIALOGUE = {'round': [{'role': 'HUMAN', 'prompt': '{q}'}, {'role': 'BOT', 'prompt': '{a}'}]}
LABELS = {'type': 'PPLInferencer'}
DATED = "{{ strftime_now('%Y') }}{% for m in messages %}{{ m.content }}{% endfor %}"
STRICT_CHAT = "{% for m in messages %}{% if 'spider' in m.content %}{{ raise_exception('no') }}{% endif %}{{ m.content }}{% endfor %}"


def config(
    template: Any = 'Q: {q}',
    *rows: dict[str, Any],
    model: dict[str, Any] | None = None,
    ice: Any = None,
    ice_token: str | None = None,
    retriever: Any = None,
    inferencer: Any = None,
    reader: Any = None,
    **entry: Any,
) -> dict[str, Any]:
    token = ice_token or ('</E>' if ice else None)
    infer: dict[str, Any] = {'prompt_template': {'type': 'PromptTemplate', 'template': template}}
    if token:
        infer['prompt_template']['ice_token'] = token
    if ice:
        infer['ice_template'] = {'type': 'PromptTemplate', 'template': ice}
    infer |= {'retriever': retriever} if retriever else {}
    infer |= {'inferencer': inferencer} if inferencer else {}
    dataset = {
        'abbr': 'demo',
        'type': 'Rows',
        'test': list(rows) or [ROW],
        'reader_cfg': reader or {'input_columns': ['q'], 'output_column': 'a'},
        'infer_cfg': infer,
        **entry,
    }
    return {'datasets': [dataset], 'models': [model] if model else []}


def judged_with(words: str, **options: Any) -> dict[str, Any]:
    asked = {'type': 'PromptTemplate', 'template': words}
    return {'evaluator': {'type': 'GenericLLMEvaluator', 'prompt_template': asked, **options}}


def found(rule: str, given: dict[str, Any], **options: Any) -> list[Finding]:
    return [finding for finding in lint_config(given, **options) if finding.rule == rule]


def rows(count: int, **columns: str) -> list[dict[str, str]]:
    """Rows whose columns are worded with their number."""
    return [{name: text.format(i=i) for name, text in columns.items()} for i in range(count)]


def scored(name: str, template: str, *given: dict[str, Any], **options: Any) -> dict[str, Any]:
    return config(template, *given, eval_cfg={'pred_postprocessor': {'type': name, **options}})


ANYTHING = {'input_columns': [], 'output_column': 'a'}
ASIDE = {'begin': ['Solve.'], **DIALOGUE}
SYSTEM = {'begin': [{'role': 'SYSTEM', 'fallback_role': 'HUMAN', 'prompt': 'Be brief.'}], **DIALOGUE}
GOLD = 'the silver coffee pot'

FIRES: list[tuple[str, dict[str, Any]]] = [
    ('rows-not-at-hand', {**config(), 'datasets': [{**config()['datasets'][0], 'type': 'NoSuchDataset'}]}),
    ('no-rows', config(test=[])),
    ('no-rows', config(reader={'input_columns': ['q'], 'output_column': 'a', 'test_range': '[5:]'})),
    ('retriever-fails', config('</E>{q}', **{**SHOTS, 'retriever': {'type': 'FixKRetriever', 'fix_id_list': [2]}})),
    ('retriever-fails', config('</E>{q}', **{**SHOTS, 'retriever': {'type': 'RandomRetriever', 'ice_num': 9}})),
    ('row-fails', config(DIALOGUE, model={**API, 'type': 'HuggingFacewithChatTemplate', 'chat_template': STRICT_CHAT})),
    ('unfilled-field', config('{q}\n{a')),
    ('options-hidden', config('{q}', {'q': 'Which?', 'options': {'A': 'red', 'B': 'blue'}, 'a': 'B'})),
    ('row-fails', config('{q}', {'q': {'bytes': b'PNG'}, 'a': 'x'})),
    ('row-fails', config('</E>{q}', **{**SHOTS, 'train': [{'q': [b'PNG'], 'a': 'x'}]})),
    ('lines-left-out', config(test=ListRows([ROW], skipped=1))),
    ('lines-left-out', config('</E>{q}', **{**SHOTS, 'train': ListRows(TRAIN, skipped=2)})),
    ('unknown-key', config(model={**API, 'max_concurrency': 64})),
    ('unknown-key', config(colour='red')),
    ('foreign-key', config(model={**API, 'attr': 'service', 'run_cfg': {'num_gpus': 0}})),
    ('input-column-missing', config(reader={'input_columns': ['q', 'hint'], 'output_column': 'a'})),
    ('same-prompt', config('About {topic}:', {'topic': 'x', 'a': '1'}, {'topic': 'x', 'a': '2'})),
    ('output-column-missing', config(reader={'input_columns': ['q'], 'output_column': 'gold'})),
    ('output-column-missing', config('{q} {a}', reader={'input_columns': ['q'], 'output_column': 'A'})),
    ('answer-visible', config('{q} {hint}', {'q': 'Where is it?', 'hint': f'In {GOLD}.', 'a': GOLD})),
    ('answer-visible', config('{q} {key}', *rows(5, q='Question {i}?', key='{i}', a='{i}'))),
    ('answer-visible', config('{q} {work}', *rows(5, q='Question {i}?', work='2+2\n#### {i}', a='{i}'))),
    ('example-equals-row', config('</E>{q}', TRAIN[0], reader=ANYTHING, **SHOTS)),
    ('example-equals-row', config(f'Q: {ROW["q"].upper()}  A: 6\nQ: {{q}}')),
    ('example-near-row', config('</E>{q}', {'q': 'how many WHEELS has  a car?', 'a': '4'}, reader=ANYTHING, **SHOTS)),
    (
        'example-near-row',
        config(
            '</E>{q}',
            {'q': 'On a warm day in May Anna bought seven red apples and nine yellow pears in town', 'a': '16'},
            **{
                **SHOTS,
                'train': [{'q': 'On a warm day in May Anna bought eight red apples and nine yellow pears in town', 'a': '17'}],
            },
        ),
    ),
    (
        'same-split',
        config(
            '</E>{q}',
            *TRAIN,
            reader={'input_columns': ['q'], 'output_column': 'a', 'train_split': 'test'},
            **{**SHOTS, 'train': None, 'retriever': {'type': 'RandomRetriever', 'ice_num': 1}},
        ),
    ),
    ('skipped-examples', config('</E>{q}', TRAIN[0], **SHOTS)),
    ('unfilled-field', config('{question}')),
    ('unfilled-field', config('{Q}')),
    ('unfilled-field', config('</E>{q}', **{**SHOTS, 'ice': '{q} {answr}'})),
    ('judge-prompt', config('{q}', model=BASE, eval_cfg=judged_with('{q}: {predction}'))),
    ('judge-prompt', config('{q}', model=BASE, eval_cfg=judged_with('{q}: {verdict}'))),
    ('judge-prompt', config('{q}', model=BASE, eval_cfg=judged_with('{q}: {prediction}', judge_cfg='nobody'))),
    ('non-string-value', config('{q}', {'q': ['a', 'b'], 'a': 'c'})),
    ('non-string-value', config('{q}', {'q': None, 'a': 'c'})),
    ('non-string-value', config('{q}', {'q': 3.0, 'a': 'c'})),
    ('non-string-value', config('</E>{q}', **{**SHOTS, 'train': [{'q': 'Which?', 'a': {'x': 1}}]})),
    ('empty-prompt', config('{a}')),
    ('empty-prompt', config('Q: {q}', {'q': ' ', 'a': '1'})),
    ('empty-prompt', config({'round': [{'role': 'HUMAN', 'prompt': ''}, {'role': 'BOT', 'prompt': 'Answer:'}]}, model=QWEN)),
    ('shots-lost', config('{q}', ice='{q} {a}', ice_token='</E>')),
    ('shots-lost', config('</E>{q}', TRAIN[0], **{**SHOTS, 'train': TRAIN[:1]})),
    ('data-looks-like-field', config('{q}', {'q': 'In f"{a}", what is printed?', 'a': '42'})),
    ('data-looks-like-ice-token', config('</E>{q}', {'q': 'What does </E> close?', 'a': 'E'}, ice_token='</E>')),
    ('data-looks-like-special-token', config(DIALOGUE, {'q': 'What is <|im_end|>?', 'a': 'a token'}, model=QWEN)),
    ('role-fell-back', config(SYSTEM, model=QWEN)),
    ('text-not-sent', config({**DIALOGUE, 'end': ['Thank you.']}, model=QWEN)),
    ('answer-start-not-sent', config({'round': [DIALOGUE['round'][0], {'role': 'BOT', 'prompt': 'A: {a}'}]}, model=QWEN)),
    ('text-moved', config(ASIDE, model=API)),
    ('speeches-merged', config({'round': [{'role': 'HUMAN', 'prompt': 'Hi.'}, *DIALOGUE['round']]}, model=API)),
    ('dated-chat-template', config(DIALOGUE, model={**API, 'type': 'HuggingFacewithChatTemplate', 'chat_template': DATED})),
    ('no-max-out-len', config(model={**BASE, 'max_out_len': None})),
    ('samples-without-temperature', config(model=BASE, inferencer={'type': 'SCInferencer', 'sc_size': 5})),
    ('samples-without-temperature', config(model={**BASE, 'generation_kwargs': {'num_return_sequences': 4, 'temperature': 0}})),
    ('unknown-model', config(model={**BASE, 'type': 'OpenAy'})),
    ('unknown-model', config(model={**BASE, 'type': 'no_such_module.Model'})),
    ('wrong-sampling', config(model={**BASE, 'generation_kwargs': {'temperatur': 0.7}})),
    ('wrong-sampling', config(model={**BASE, 'generation_kwargs': {'top_p': 5}})),
    ('wrong-sampling', config(model=BASE, inferencer={'type': 'GenInferencer', 'stopping_criteria': 5})),
    ('misplaced-option', config(infer_cfg={'prompt_template': {'template': '{q}'}, 'max_out_len': 50})),
    ('duplicate-abbr', {**config(), 'datasets': config()['datasets'] * 2}),
    ('duplicate-abbr', {**config(), 'models': [BASE, {**QWEN, 'abbr': 'base'}]}),
    ('tokens-not-checked', config(model=BASE)),
    ('trailing-space', config('{q}\nAnswer: ', model=BASE)),
    ('label-boundary', config({'yes': '{q} Yes', 'no': '{q} Yes'}, model=BASE, inferencer=LABELS)),
    ('label-boundary', config({'yes': '{q}', 'no': '{q} no'}, model=BASE, inferencer=LABELS)),
    ('label-boundary', config({'yes': 'Surely {q} {a}', 'no': 'Hardly {q} {a}'}, model=BASE, inferencer=LABELS)),
    ('label-boundary', config('{q} {a}', model=BASE, inferencer={**LABELS, 'labels': ['', 'x']})),
    ('cannot-score', config(eval_cfg={'evaluator': 'AccEvalutor'})),
    ('cannot-score', config(eval_cfg={'evaluator': {'type': 'AccEvaluator', 'speed': 1}})),
    ('cannot-score', config(eval_cfg='AccEvaluator')),
    ('postprocessor-mismatch', scored('first_option_postprocess', '{q}', options='ABCD')),
    ('postprocessor-mismatch', scored('match_answer_pattern', 'Answer: {q}', answer_pattern=r'(?i)final result\s*:\s*(\w+)')),
    ('postprocessor-mismatch', scored('math_postprocess_v2', 'Compute {q}')),
    ('postprocessor-mismatch', scored('bbh_freeform_postprocess', '{q}')),
]  # fmt: skip

QUIET: list[tuple[str, dict[str, Any]]] = [
    ('rows-not-at-hand', config()),
    ('cannot-score', config(eval_cfg={'evaluator': 'AccEvaluator'})),
    ('no-rows', config()),
    ('no-rows', config('</E>{q}', **{**SHOTS, 'retriever': {'type': 'FixKRetriever', 'fix_id_list': [2]}})),
    ('no-rows', {**config(), 'datasets': [{**config()['datasets'][0], 'type': 'NoSuchDataset'}]}),
    ('retriever-fails', config('</E>{q}', **SHOTS)),
    ('lines-left-out', config(test=ListRows([ROW]))),
    ('lines-left-out', config(train=ListRows(TRAIN, skipped=2))),
    ('unknown-key', config(model={**API, 'concurrency': 64, 'temperature': 0, 'price': {'input': 1}}, n=2)),
    ('unknown-key', config(model={**API, 'type': 'acme.Own', 'anything': 1})),
    ('foreign-key', config(model=API)),
    ('input-column-missing', config('{q}', ROW, {'q': 'x', 'hint': 'y'}, reader={'input_columns': ['q', 'hint']})),
    ('same-prompt', config('About {topic}:', {'topic': 'x', 'a': '1'}, {'topic': 'y', 'a': '1'})),
    ('same-prompt', config('{q}', ROW, ROW)),
    ('output-column-missing', config()),
    ('output-column-missing', config(reader={'input_columns': ['q']})),
    ('output-column-missing', config('{q}', {'q': 'How many?'}, ROW)),
    ('output-column-missing', config(test=[], reader={'input_columns': ['q'], 'output_column': 'gold'})),
    ('row-fails', config(DIALOGUE, TRAIN[0], model={**API, 'type': 'HuggingFacewithChatTemplate', 'chat_template': STRICT_CHAT})),
    ('unfilled-field', config('Reply as {a: TEXT}. {q}')),
    ('options-hidden', config('{q}', {'q': 'Which?', 'options': ['red', 'blue'], 'a': 7})),
    ('options-hidden', config('{q}', {'q': 'Which?', 'options': ['red', 'blue'], 'a': ['B']})),
    ('options-hidden', config('{q} red?', {'q': 'Which?', 'options': ['red', 'blue'], 'a': 'B'})),
    ('options-hidden', config('{q}', {'q': 'Which?', 'options': {'verbose': 1, 'mode': 'x'}, 'a': 'B'})),
    ('answer-visible', config('{q} {a}', *rows(5, q='Which one is {i}?', a='the number called {i}'))),
    ('answer-visible', config('{q}', *rows(4, q='Is it {i}', a='{i}'))),
    ('answer-visible', config('{q} A: {A} B: {B}', {'q': 'Where?', 'A': GOLD, 'B': 'the bread box', 'a': GOLD})),
    ('answer-visible', config('{q}', {'q': f'Where is it?\n(A) {GOLD}\n(B) the bread box', 'a': GOLD})),
    ('answer-visible', config('{q} {options}', {'q': 'Where?', 'options': [GOLD, 'the bread box'], 'a': GOLD})),
    ('answer-visible', config('</E>{q}', {'q': 'Where is it now?', 'a': GOLD}, **{**SHOTS, 'train': [{'q': 'And then?', 'a': GOLD}]})),
    ('example-equals-row', config('</E>{q}', TRAIN[1], reader=ANYTHING, **SHOTS)),
    ('example-near-row', config('</E>{q}', TRAIN[1], reader=ANYTHING, **SHOTS)),
    ('example-near-row', config('</E>{q}', {'q': 'not True and ( False ) is', 'a': ''}, **{**SHOTS, 'train': [{'q': 'not False and ( True ) is', 'a': ''}]})),
    ('same-split', config('</E>{q}', **SHOTS)),
    ('same-split', config('{q}', reader={'input_columns': ['q'], 'output_column': 'a', 'train_split': 'test'})),
    ('skipped-examples', config('</E>{q}', **SHOTS)),
    ('unfilled-field', config('{q}\nReply with {"answer": …} or {0} or \\frac{x}{y} or \\boxed{ANSWER} or a_{n} or \\mathbf{{A}} or {{x}}.')),
    ('unfilled-field', config('{q}\nReply as JSON: {"a": "..."} or {{"a": ...}} or { (a) }.')),
    ('unfilled-field', config('Say {q} as {a}')),
    ('judge-prompt', config('{q}', model=BASE, eval_cfg=judged_with('{history}{q} {prediction} {obj_gold} {"x": 1}'))),
    ('judge-prompt', config('{q}', model=BASE, eval_cfg={'evaluator': 'GenericLLMEvaluator'})),
    ('judge-prompt', config('{q}', eval_cfg=judged_with('{q}: {prediction}'))),
    ('non-string-value', config('{q} {n}', {**ROW, 'n': 3, 'unused': ['x']})),
    ('non-string-value', config('{q}', {'q': 'x', 'a': ['y']})),
    ('non-string-value', config('{q}', {'q': [b'no text form'], 'a': 'y'})),
    ('empty-prompt', config('Hello.')),
    ('shots-lost', config('</E>{q}', **SHOTS)),
    ('data-looks-like-field', config('{q}', {'q': 'What is {"a": 1} or {b}?', 'a': 'JSON'})),
    ('data-looks-like-ice-token', config('</E>{q}', {'q': 'What does <E> open?', 'a': 'E'}, ice_token='</E>')),
    ('data-looks-like-special-token', config(DIALOGUE, {'q': 'What is <|im_end|>?', 'a': 'a token'}, model=API)),
    ('data-looks-like-special-token', config(DIALOGUE, {'q': 'What is <b>bold</b>?', 'a': 'markup'}, model=QWEN)),
    ('role-fell-back', config(SYSTEM, model=API)),
    ('text-not-sent', config(ASIDE, model=QWEN)),
    ('answer-start-not-sent', config(DIALOGUE, model=QWEN)),
    ('answer-start-not-sent', config({'round': [DIALOGUE['round'][0], {'role': 'BOT', 'prompt': 'A: {a}'}]}, model=QWEN, inferencer={'type': 'GenInferencer', 'prefill': True})),
    ('text-moved', config(ASIDE, model=QWEN)),
    ('speeches-merged', config(DIALOGUE, model=API)),
    ('dated-chat-template', config(DIALOGUE, model={**API, 'type': 'HuggingFacewithChatTemplate', 'chat_template': STRICT_CHAT})),
    ('unknown-model', config(model={**BASE, 'type': 'OpenAI'})),
    ('unknown-model', config(model={**BASE, 'type': 'TurboMindModel'})),
    ('wrong-sampling', config(model={**BASE, 'generation_kwargs': {'temperature': 0.7, 'vendor_option': 1}})),
    ('misplaced-option', config(inferencer={'type': 'GenInferencer', 'max_out_len': 50})),
    ('no-max-out-len', config(model=BASE)),
    ('samples-without-temperature', config(model={**BASE, 'temperature': 0.7}, inferencer={'type': 'SCInferencer', 'sc_size': 5})),
    ('samples-without-temperature', config(model=BASE, inferencer={'type': 'SCInferencer', 'sc_size': 1})),
    ('no-max-out-len', config(model={**BASE, 'max_out_len': None}, inferencer={'type': 'GenInferencer', 'max_out_len': 9})),
    ('no-max-out-len', config(model={**API, 'max_out_len': None, 'generation_kwargs': {'max_tokens': 9}})),
    ('no-max-out-len', config('{q} {a}', model={**BASE, 'max_out_len': None}, inferencer={**LABELS, 'labels': ['x', 'y']})),
    ('duplicate-abbr', {**config(), 'models': [BASE, QWEN]}),
    ('tokens-not-checked', config()),
    ('trailing-space', config('{q}\nAnswer:', model=BASE)),
    ('trailing-space', config('{q}\nAnswer: ', model=API)),
    ('trailing-space', config(DIALOGUE, model=QWEN)),
    ('label-boundary', config({'yes': '{q} Yes', 'no': '{q} No'}, model=BASE, inferencer=LABELS)),
    ('label-boundary', config({'A': '{q} A', 'AB': '{q} AB'}, model=BASE, inferencer=LABELS)),
    ('label-boundary', config('{q} {a}', model=QWEN, inferencer={**LABELS, 'labels': ['x', 'y']})),
    ('postprocessor-mismatch', scored('first_option_postprocess', '{q}\nA. {b}\nB. {c}', {**ROW, 'b': 'x', 'c': 'y'}, options='AB')),
    ('postprocessor-mismatch', scored('match_answer_pattern', '{q}\nEnd with "ANSWER: $LETTER".', answer_pattern=r'(?i)ANSWER\s*:\s*([A-D])')),
    ('postprocessor-mismatch', scored('match_answer_pattern', '{q}\n答案是什么?', answer_pattern=r'(?:答案是|The answer is)\s*(\w)')),
    ('postprocessor-mismatch', scored('math_postprocess_v2', 'Compute {q}. Put the result in \\boxed{}.')),
    ('postprocessor-mismatch', scored('somebody_elses', '{q}')),
]  # fmt: skip

NEED_A_TOKENIZER = {'bos', 'context-overflow', 'own-template-unused', 'server-limits'}  # or an earlier run


def _named(cases: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    return [pytest.param(rule, given, id=f'{rule}-{number}') for number, (rule, given) in enumerate(cases)]


@pytest.mark.parametrize(('rule', 'given'), _named(FIRES))
def test_the_rule_speaks(rule: str, given: dict[str, Any]) -> None:
    findings = found(rule, given)
    assert findings
    assert all(finding.message and finding.remedy and finding.where for finding in findings)


@pytest.mark.parametrize(('rule', 'given'), _named(QUIET))
def test_the_rule_has_nothing_to_say(rule: str, given: dict[str, Any]) -> None:
    assert found(rule, given) == []


@pytest.mark.parametrize('cases', [FIRES, QUIET])
def test_every_rule_is_shown_both_ways(cases: list[tuple[str, dict[str, Any]]]) -> None:
    assert {rule for rule, _ in cases} | NEED_A_TOKENIZER == set(RULES)


def test_a_misspelt_field_is_an_error_with_a_suggestion_and_an_unknown_one_a_warning() -> None:
    misspelt, unknown = found('unfilled-field', config('Today {name} asks: {Q}'))
    assert (misspelt.severity, unknown.severity) == ('error', 'warning')
    assert misspelt.remedy.startswith('Did you mean {q}?')
    assert 'Did you mean' not in unknown.remedy


def test_a_field_missing_from_some_rows_is_counted() -> None:
    (finding,) = found('unfilled-field', config('{q} {hint}', ROW, {**ROW, 'hint': 'x'}, ROW))
    assert (finding.row, finding.count, finding.seen) == (0, 2, 3)
    assert '{hint}' in finding.example


@pytest.mark.parametrize(
    ('output_column', 'suggestion'),
    [('anser', "Did you mean 'answer'?"), ('Answer', "Did you mean 'answer'?"), ('gold', '')],
)
def test_an_output_column_that_no_row_has_is_told_with_those_there_are(output_column: str, suggestion: str) -> None:
    given = config('{q} {answer}', {'q': 'How many?', 'answer': '6'}, reader={'output_column': output_column})
    (finding,) = found('output-column-missing', given)
    assert (finding.severity, finding.where) == ('error', 'demo')
    assert repr(output_column) in finding.message
    assert finding.message.endswith('The rows have: q, answer.')
    assert finding.remedy.startswith(suggestion or 'Set reader_cfg.output_column')


def test_rows_that_a_range_leaves_out_are_told_with_the_range() -> None:
    (finding,) = lint_config(config(reader={'input_columns': ['q'], 'output_column': 'a', 'test_range': '[5:]'}))
    assert finding.message == "there are no rows to ask about: test_range '[5:]' leaves none."


def test_malformed_lines_are_counted_for_the_rows_asked_about_and_for_the_examples() -> None:
    given = config('</E>{q}', **{**SHOTS, 'train': ListRows(TRAIN, skipped=1200), 'test': ListRows([ROW], skipped=1)})
    assert [finding.message for finding in found('lines-left-out', given)] == [
        '1 malformed line was left out of the test rows.',
        '1,200 malformed lines were left out of the training rows.',
    ]


def test_an_answer_that_shows_is_named_by_its_column() -> None:
    given = config('{q} {hint}', {'q': 'Where is it?', 'hint': f'In {GOLD}.', 'a': GOLD})
    (finding,) = found('answer-visible', given)
    assert finding.severity == 'error'
    assert "'hint'" in finding.message
    assert GOLD in finding.example


def test_an_answer_of_an_earlier_turn_may_show() -> None:
    row = {'q': ['Where was it then?', 'And where is it now?'], 'a': [GOLD, 'the bread box over there']}
    given = config(inferencer={'type': 'MultiTurnGenInferencer', 'infer_mode': 'every_with_gt'})
    given['datasets'][0]['infer_cfg']['prompt_template'] = {'type': 'MultiTurnPromptTemplate', 'template': DIALOGUE}
    given['datasets'][0]['test'] = [row]
    assert found('answer-visible', given) == []
    assert found('non-string-value', given) == []


def test_a_dropped_role_is_told_with_its_name() -> None:
    (finding,) = found('role-fell-back', config(SYSTEM, model=QWEN))
    assert finding.where == 'demo × qwen'
    assert 'SYSTEM' in finding.message


# With a real tokenizer: bytes with a few merges, and a BOS token that it puts first.


@pytest.fixture(scope='module')
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizers = pytest.importorskip('tokenizers')
    from tokenizers import models, pre_tokenizers, processors, trainers

    folder = tmp_path_factory.mktemp('model')
    built = tokenizers.Tokenizer(models.BPE())
    built.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=['<s>', '</s>', '<|eot|>'],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    built.train_from_iterator(['The answer is A. The answer is The A of a spider.'] * 50, trainer)
    built.post_processor = processors.TemplateProcessing(single='<s> $A', special_tokens=[('<s>', 0)])
    built.save(str(folder / 'tokenizer.json'))
    settings = {'bos_token': '<s>', 'eos_token': '</s>'}
    (folder / 'tokenizer_config.json').write_text(json.dumps(settings), encoding='utf-8')
    return folder


CHAT = '{{ bos_token }}{% for m in messages %}{{ m.content }}<|eot|>{% endfor %}'


def chat(template: str) -> dict[str, Any]:
    return {'type': 'HuggingFacewithChatTemplate', 'chat_template': template, 'bos_token': '<s>'}


@pytest.mark.parametrize(
    ('template', 'model', 'said'),
    [
        ('<s>{q}', {}, ['begins with 2 BOS tokens, one of them added by the tokenizer']),
        ('{q}', {}, []),
        (DIALOGUE, chat(CHAT), []),
        (DIALOGUE, chat('{{ bos_token }}' + CHAT), ['begins with 2 BOS tokens.']),
        (DIALOGUE, chat(CHAT.replace('{{ bos_token }}', '')), ['begins without']),
    ],
)
def test_a_prompt_has_one_bos(tokenizer: Path, template: Any, model: dict[str, Any], said: list[str]) -> None:
    findings = found('bos', config(template, model={**BASE, 'path': str(tokenizer), **model}))
    assert len(findings) == len(said)
    assert all(part in finding.message for part, finding in zip(said, findings, strict=True))


@pytest.mark.parametrize(('template', 'merges'), [('{q}\nAnswer: ', True), ('{q}\nAnswer:', False), ('{q}\n', False)])
def test_white_space_at_the_end_counts_if_the_tokenizer_joins_it(tokenizer: Path, template: str, merges: bool) -> None:
    assert bool(found('trailing-space', config(template, model={**BASE, 'path': str(tokenizer)}))) is merges


@pytest.mark.parametrize(
    ('template', 'labels', 'said'),
    [
        ('{q} Th{a}', ['e', 'x'], 'takes in the end of the context'),
        ('{q} The answer is{a}', [' A', ' The'], ''),
        ('{q} The answer is {a}', ['A', 'The'], ''),
    ],
)
def test_a_label_begins_where_a_token_begins(tokenizer: Path, template: str, labels: list[str], said: str) -> None:
    given = config(template, model={**BASE, 'path': str(tokenizer)}, inferencer={**LABELS, 'labels': labels})
    assert [finding for finding in found('label-boundary', given) if said in finding.message] == found(
        'label-boundary', given
    )
    assert bool(found('label-boundary', given)) is bool(said)


@pytest.mark.parametrize(
    ('room', 'severity', 'said'),
    [
        (4000, None, ''),
        (120, 'warning', '2 of 3 examples dropped'),
        (20, 'error', 'tokens without examples'),
    ],
)
def test_a_prompt_that_does_not_fit_says_how_many_examples_must_go(
    tokenizer: Path, room: int, severity: str | None, said: str
) -> None:
    train = [{'q': f'{n} ' * 30, 'a': str(n)} for n in 'xyz']
    model = {**BASE, 'path': str(tokenizer), 'max_seq_len': room, 'max_out_len': 10}
    fixed = {'type': 'FixKRetriever', 'fix_id_list': [0, 1, 2]}
    findings = found('context-overflow', config('</E>{q}', model=model, ice='{q} {a}', train=train, retriever=fixed))
    assert [finding.severity for finding in findings] == ([severity] if severity else [])
    assert all(said in finding.message and f'max_seq_len {room}' in finding.message for finding in findings)


def test_special_tokens_of_the_tokenizer_are_recognised_in_data(tokenizer: Path) -> None:
    row = {'q': 'What is <|eot|>?', 'a': 'a token'}
    served = {'type': 'VLLM', 'path': str(tokenizer)}
    assert found('data-looks-like-special-token', config('{q}', row, model={**BASE, **served}))
    assert not found('data-looks-like-special-token', config('{q}', row, model={**BASE, 'path': str(tokenizer)}))
    assert not found('data-looks-like-special-token', config('{q}', row, model=BASE))


def test_with_a_tokenizer_nothing_is_skipped(tokenizer: Path) -> None:
    assert found('tokens-not-checked', config(model={**BASE, 'path': str(tokenizer)})) == []


def test_an_instruct_model_that_is_sent_bare_text_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / 'tokenizer_config.json').write_text(json.dumps({'chat_template': '{{ messages[0].content }}'}))
    bare = {**BASE, 'path': str(tmp_path)}
    (finding,) = found('own-template-unused', config(model=bare))
    assert (finding.severity, finding.where) == ('warning', 'base')
    for used in (
        {**bare, 'type': 'HuggingFaceCausalLM'},
        {**bare, 'chat_template': False},
        {**bare, 'type': 'HuggingFaceCausalLM', 'meta_template': CHATML},
    ):
        assert found('own-template-unused', config(model=used)) == []


def test_an_unknown_key_comes_with_what_was_probably_meant() -> None:
    (finding,) = found('unknown-key', config(model={**API, 'max_concurrency': 64}))
    assert finding.message == "the key 'max_concurrency' has no effect."
    assert finding.remedy == "Did you mean 'concurrency'? Correct it, or take it out."


def test_a_missing_input_column_comes_with_what_was_probably_meant() -> None:
    (finding,) = found('input-column-missing', config('{q}', reader={'input_columns': ['Q'], 'output_column': 'a'}))
    assert (finding.severity, finding.message) == ('warning', "no row has the input column 'Q'.")
    assert finding.remedy == 'The rows have: q, a. Correct input_columns.'
