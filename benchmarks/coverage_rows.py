"""Made-up rows for any dataset entry: every column that its templates, reader and evaluator mention."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rolecall.registry import part_name

__all__ = ['COLUMNS', 'GOLDS', 'JUDGE', 'JUDGEMENTS', 'REPLIES', 'REPLY', 'made_rows', 'part_names', 'pick', 'texts']

FIELD = re.compile(r'\{([^{}]+)\}')
MEDIA = '<AIS_TEXT_START>made-up question '
MEDIUM = '<AIS_CONTENT_TAG><AIS_{kind}_START>https://example.org/{n}<AIS_CONTENT_TAG>'
REPLY = 'The answer is (A). So \\boxed{A}. ANSWER: A\n```python\ndef f(x):\n    return x\n```\n1'
JUDGE = (
    'A\nCORRECT\nRating: [[7]]\n[[A]]\n[[7分]]\n{"score": 7, "综合得分": 7, "format_correctness": 1}\n'
    'Decision: YES\nScore: 7'
)


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts(item)


def made_rows(entry: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Training rows, enough for the ids that the retriever names, and two test rows (three for FakeAlignment)."""
    infer = entry['infer_cfg']
    ids = (
        (infer.get('retriever') or {}).get('fix_id_list') or [0] if isinstance(infer.get('retriever'), Mapping) else [0]
    )
    count = 3 if 'FakeAlignmentJudgeEvaluator' in part_names(entry.get('eval_cfg')) else 2
    return _rows(entry, max([*ids, 8]) + 1, 100), _rows(entry, count, 0)


def _rows(entry: Mapping[str, Any], count: int, start: int) -> list[dict[str, Any]]:
    reader, infer = entry.get('reader_cfg') or {}, entry['infer_cfg']
    columns = reader.get('input_columns') or []
    columns = columns.split() if isinstance(columns, str) else list(columns)
    wanted = [infer, entry.get('eval_cfg') or {}]
    fields = {name for text in texts(wanted) for name in FIELD.findall(text) if re.fullmatch(r'[\w一-鿿 ]+', name)}
    output = reader.get('output_column')
    labels = _labels(infer)
    scoring = entry.get('eval_cfg')
    given = (scoring.get('evaluator') if isinstance(scoring, Mapping) else None) or {}
    evaluator = part_name(given.get('type') if isinstance(given, Mapping) else given)
    gold = next((GOLDS[name] for name in (evaluator, *sorted(part_names(scoring))) if name in GOLDS), 'A')
    gold = gold(given) if callable(gold) else gold
    read = COLUMNS.get(evaluator, {})
    read = read(given) if callable(read) else read
    own = {**COLUMNS.get(_kind(infer), {}), **read}
    rows = []
    for number in range(start, start + count):
        row: dict[str, Any] = {name: pick(value, number) for name, value in own.items()}
        row |= {name: f'made-up {name} {number}' for name in sorted({*columns, *fields} - {*own})}
        if output and output not in read:
            row[output] = labels[number % len(labels)] if labels and evaluator not in GOLDS else pick(gold, number)
        for column in _expanded(infer):
            row[column] = [{'role': 'user', 'content': f'earlier {number}'}, {'role': 'assistant', 'content': 'yes'}]
        if _kind(infer) == 'MMPromptTemplate':
            kinds = [kind for kind in ('image', 'video', 'audio') if mentions(infer['prompt_template'], kind)] or [
                'image'
            ]
            row['content'] = f'{MEDIA}{number}' + ''.join(MEDIUM.format(kind=kind.upper(), n=number) for kind in kinds)
            for column in kinds:
                row.pop(column, None)
        if (
            _kind(infer) == 'MultiTurnPromptTemplate'
            or 'MultiTurn' in _inferencer(infer)
            or 'Chat' in _inferencer(infer)
        ):
            row.update({name: [f'made-up {name}', 'and again'] for name in columns if name not in own})
            if output and output not in own:
                row[output] = [pick(gold, number)] * 2
        if 'dialogue' in columns and 'Chat' in _inferencer(infer):
            row['dialogue'] = [{'role': role, 'content': role} for role in ('user', 'assistant')] * 2
            row[output] = pick(gold, number)
        for column in _templates(scoring):
            row[column] = _word_judge(entry)
        rows.append(row)
    return rows


def _templates(scoring: Any) -> set[str]:
    """The columns that are all a judge is told, so that they hold its prompt."""
    evaluator = scoring.get('evaluator') if isinstance(scoring, Mapping) else None
    told = evaluator.get('prompt_template') if isinstance(evaluator, Mapping) else None
    said = [text.strip() for text in texts(told)]
    named = {name for text in said for name in FIELD.findall(text)}
    if any(name.startswith('prediction') for name in named):
        return set()
    return {text[1:-1] for text in said if FIELD.fullmatch(text) and text != '{system_prompt}'}


def _word_judge(entry: Mapping[str, Any]) -> str:
    """What a column says that holds a judge's prompt."""
    if entry.get('base_models'):
        return 'Which is better? {prediction} or {prediction2}'
    written = entry['infer_cfg'].get('inferencer') or {}
    each = isinstance(written, Mapping) and written.get('infer_mode') == 'every'
    packed = mentions(entry.get('eval_cfg'), 'pack_all_predictions')
    return 'How good is {prediction_r1}?' if each and not packed else 'How good is {prediction}?'


def mentions(value: Any, name: str) -> bool:
    """Whether an entry has this key anywhere."""
    if isinstance(value, Mapping):
        return name in value or any(mentions(one, name) for one in value.values())
    return isinstance(value, list | tuple) and any(mentions(one, name) for one in value)


def pick(value: Any, number: int) -> Any:
    """The value of a row: the same for all, or one after the other."""
    return value[number % len(value)] if isinstance(value, InTurn) else value


def part_names(value: Any) -> set[str]:
    """The names of all parts of an entry."""
    if isinstance(value, Mapping):
        return {
            *([part_name(value['type'])] if value.get('type') else []),
            *(n for one in value.values() for n in part_names(one)),
        }
    return {name for one in value for name in part_names(one)} if isinstance(value, list | tuple) else set()


class InTurn(list[Any]):
    """Values that rows have one after the other."""


def _inferencer(infer: Mapping[str, Any]) -> str:
    written = infer.get('inferencer') or {}
    return part_name(written.get('type') if isinstance(written, Mapping) else written)


def _kind(infer: Mapping[str, Any]) -> str:
    written = infer.get('prompt_template') or infer.get('ice_template') or {}
    return part_name(written.get('type')) if isinstance(written, Mapping) and written.get('type') else 'PromptTemplate'


def _expanded(infer: Mapping[str, Any]) -> set[str]:
    templates = [infer.get(key) or {} for key in ('prompt_template', 'ice_template')]
    messages = [message for one in templates if isinstance(one, Mapping) for message in one.get('messages', [])]
    return {one['expand_column'] for one in messages if isinstance(one, Mapping) and 'expand_column' in one}


def _labels(infer: Mapping[str, Any]) -> list[Any]:
    written = infer.get('prompt_template') or infer.get('ice_template') or {}
    template = written.get('template') if isinstance(written, Mapping) else None
    if isinstance(template, Mapping) and not set(template) <= {'begin', 'round', 'end'}:
        return list(template)
    return []


WORKED = 'So it is 1.\n#### 1'
_PROBLEM = {
    'task_id': 'demo/0',
    'prompt': 'def f(x):\n',
    'entry_point': 'f',
    'test': 'def check(f):\n    assert f(1) == 1',
    'canonical_solution': '    return x',
}
_TESTS = {'test_list_2': 'assert f(1) == 1', 'task_id': 1}
_IO = json.dumps({'inputs': ['1\n'], 'outputs': ['1\n'], 'fn_name': None})
_BIG = {
    **_PROBLEM,
    'complete_prompt': 'def f(x):\n',
    'test': 'import unittest\nclass TestCases(unittest.TestCase):\n    def test_it(self): self.assertEqual(f(1), 1)',
}
_MEDICAL = {
    **dict.fromkeys(('subject_name', 'topic_name', 'choice_type', 'Subject', 'question_type'), 'x'),
    'prompt_mode': 'zero-shot',
    'options': ['x', 'y'],
    'label': 'A',
}
_OLYMPIAD = {'language': 'English', 'subject': 'Math', 'question_type': 'Open-ended', 'answer_type': 'Numerical'}


def _image_columns(options: Mapping[str, Any]) -> dict[str, Any]:
    """VLMEvalKit: the numbers of the rows in its own table."""
    name = options['dataset_name']
    ids = InTurn([f'{name}:1', f'{name}:2'])
    return {'dataset_name': name, 'vlmeval_index': InTurn(['1', '2']), 'sample_id': ids}


COLUMNS: dict[str, Any] = {
    'AverageInferencePPLEvaluator': {'label': [[0, 7, 1]]},
    'OlympiadBenchTemplate': _OLYMPIAD,
    'OlympiadBenchRawTemplate': _OLYMPIAD,
    'HumanEvalEvaluator': _PROBLEM,
    'HumanEvalPlusEvaluator': _PROBLEM,
    'HumanevalXEvaluator': {**_PROBLEM, 'test': 'assert f(1) == 1'},
    'HumanevalProEvaluator': {'id': 1, 'test_code': 'assert f(1) == 1'},
    'MBPPProEvaluator': {'id': 1, 'test_code': 'assert f(1) == 1'},
    'MBPPEvaluator': {'test_list_2': _TESTS['test_list_2'], 'test_list': [_TESTS['test_list_2']], 'test_column': _TESTS},
    'MBPPEvaluator2': {'test_list_2': _TESTS['test_list_2'], 'test_column': _TESTS},
    'MBPPPassKEvaluator': {'test_column': _TESTS},
    'LCPassKEvaluator': {'test_column': _TESTS},
    'LCEvaluator': {'test_column': _TESTS},
    'LCBCodeGenerationEvaluator': {'question_id': 'q', 'evaluation_sample': _IO},
    'LCBCodeExecutionEvaluator': {
        'evaluation_sample': json.dumps({'code': 'def f(x): return x', 'input': 'f(1)', 'output': '1'})
    },
    'LCBTestOutputEvaluator': {'evaluation_sample': json.dumps({'input': 'f', 'output': '1'})},
    'BigCodeBenchEvaluator': _BIG,
    'TACOEvaluator': {'problem_id': 'q', 'input_output': _IO},
    'APPSEvaluator': {'problem_id': 'q', 'input_output': _IO},
    'MultiplEEvaluator': {'name': InTurn(['f', 'g']), 'language': 'py', 'prompt': InTurn(['def f(x):\n', 'def g(x):\n']), 'tests': 'assert f(1) == 1', 'stop_tokens': []},
    'LiveMathBenchEvaluator': {'question': 'q', 'question_type': 'q', 'language': 'en', 'subdivision': 'x_en'},
    'SuperGPQAEvaluator': {'difficulty': 'hard', 'prompt_mode': 'zero-shot', 'options': ['x', 'y'], 'answer': 'x', 'answer_letter': 'A'},
    'AUCROCEvaluator': {'choices': ['no', 'yes']},
    'AccContaminationEvaluator': {'is_clean': InTurn(['clean', 'input contamination'])},
    'CircularEvaluator': {'circular_pattern': InTurn([['A', 'B', 'C', 'D'], ['B', 'C', 'D', 'A']]), 'qid': 'q'},
    'QuALITYEvaluator': {'difficult': InTurn([0, 1])},
    **dict.fromkeys(('MedbulletsEvaluator', 'MedmcqaEvaluator', 'MedXpertQAEvaluator', 'NejmaibenchEvaluator'), _MEDICAL),
    'SciKnowEvalEvaluator': {'prompt_mode': 'zero-shot', 'choices': {'label': ['A', 'B'], 'text': ['x', 'y']}, 'answerKey': 'A'},
    'PMMEvalMIFEvalEvaluator': {'instruction_id_list': ['punctuation:no_comma'], 'kwargs': [{}]},
    'MedCalcOfficial_Evaluator': {'row_number': 1, 'calculator_id': '2', 'note_id': '1', 'upper_limit': '2', 'lower_limit': '0'},
    'BFCLRelevanceEvaluator': {'id': 'irrelevance_0'},
    'BFCLSingleTurnEvaluator': {'id': 'simple_0', 'function': '[{"name": "f", "description": "", "parameters": {"type": "dict", "properties": {}, "required": []}}]'},
    'BFCLMultiTurnEvaluator': {'id': 'multi_turn_base_0', 'initial_config': '{}', 'involved_classes': '[]', 'function': '[]'},
    'HumanevalMultiEvaluator': {'name': 'f', 'language': 'py', 'tests': 't', 'stop_tokens': ['x']},
    'OmniMathEvaluator': {'problem': 'q'},
    'HealthBenchEvaluator': {'prompt_id': 'p', 'prompt': [{'role': 'user', 'content': 'q'}], 'example_tags': ['t'], 'rubrics': [{'criterion': 'c', 'points': 1, 'tags': ['u']}]},
    'InternSandboxEvaluator': {'data_source': 'Game24'},
    'VLMEvalKitEvaluator': _image_columns,
    'FakeAlignmentJudgeEvaluator': {'original_idx': 0, 'question': 'q', 'call_type': InTurn(['open_generation', 'choice_forward', 'choice_reverse'])},
    'DS1000Evaluator': {'code_context': 'def test_execution(solution): assert solution'},
}  # fmt: skip
"""The columns that an evaluator reads besides the gold answer, or the gold answer where it has a form of its own."""
_TRUTH = {'answers': {'best_answer': 'A', 'correct_answers': ['A'], 'incorrect_answers': ['B']}, 'question': 'q'}
_TURNS = {
    f'turn_{turn}_{name}': value
    for turn in (1, 2, 3)
    for name, value in {'kwargs': [{}], 'instruction_id_list': ['punctuation:no_comma'], 'prompt': 'p'}.items()
}
REPLIES = {
    'PMMEvalMLogiQAEvaluator': '{"answer": "A"}',
    'LLM4Mat_postprocessor': '1.5',
    'CodeCompassEvaluator': '```cpp\n#include <iostream>\nint main() { std::cout << 1; }\n```',
    'LLM4Chem_Evaluator': '<SMILES> CCO </SMILES> <NUMBER> 1.5 </NUMBER> <BOOLEAN> Yes </BOOLEAN>',
}
"""Replies for evaluators that cannot read the usual one."""
JUDGEMENTS = {
    'elbench_safety_postprocess': '[[1]]',
    'compassarena_subjectiveeval_pointwise_postprocess': '[[4分]]',
    'followbench_postprocess': 'It is met.\nYES',
    'clbench_llmjudge_postprocess': '{"Overall Score": 1}',
    'hellobench_postprocess': json.dumps([{'checklist_id': n, 'evaluation_score': 0.5} for n in range(7)]),
}
"""The judge's replies for those who cannot read the usual one."""


def _causal_gold(options: Mapping[str, Any]) -> dict[str, Any]:
    """CaLM: a number for a probability or an option, a word for a judgement."""
    task = str(options.get('task'))
    word = 'Yes' if 'causal_judgement' in task else 'yes'
    answer: Any = 0.5 if '-P_' in task else 1 if '-C_' in task or task.startswith(('AS', 'FAS')) else word
    columns = (
        'hypothesis1',
        'hypothesis2',
        'ask-for',
        *(f'Answer{n}' for n in range(1, 5)),
        *(f'option{n}' for n in range(1, 4)),
    )
    return {**dict.fromkeys(columns, 'x'), 'gt_answer': answer}


def _chemical_gold(options: Mapping[str, Any]) -> str | InTurn:
    task = str(options.get('task'))
    if task.endswith(('esol', 'lipo')):
        return '1.5'
    return InTurn(['Yes', 'No']) if task.startswith('property') else 'CCO'


def _biological_gold(options: Mapping[str, Any]) -> str:
    return 'The final answer is (A).' if options.get('task') == 'multi_choice_question' else 'A'


GOLDS: dict[str, Any] = {
    'Gsm8kEvaluator': WORKED,
    'gsm8k_dataset_postprocess': WORKED,
    'numerical_llmjudge_postprocess': '1.0',
    'elbench_safety_postprocess': {'task': 't'},
    'alpacaeval_postprocess': {'capability': 'c'},
    'arenahard_postprocess': {'capability': 'c'},
    'compassarena_postprocess': {'capability': 'c', 'question': 'q'},
    'wildbench_postprocess': {'primary_tag': 'c'},
    'writingbench_postprocess': {
        'domain1': 'd',
        'judge_prompt_list': ['Is {prediction} long?', 'Is {prediction} good?'],
    },
    'mtbench101_postprocess': {'task': 'CM', 'multi_id': '1', 'turn_id': '1'},
    'hellobench_postprocess': {'num_checklist': 7, 'subcategory': 'travel', 'category': 'travel'},
    'followbench_postprocess': {'level': 1, 'constraint': 'content', 'type': 'content', 'group': 0},
    'compassarena_subjectiveeval_pointwise_postprocess': {'category': 'c', 'difficulty': 'd'},
    'SciReasoner15TMScoreEvaluator': InTurn([{'value': 0.5}, {'value': 0.7}]),
    'SciReasoner15DudeEvaluator': InTurn([{'value': 0}, {'value': 1}]),
    'MP20Evaluator': {
        'lattice': [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        'sites': [{'element': 'H', 'fractional_coordinates': [0, 0, 0]}],
    },
    'MultiIFEvaluator': _TURNS,
    'LongBenchRetrievalEvaluator': ['Paragraph 1 段落1'],
    'NeedleBenchOriginEvaluator': 'the answer is A*A',
    'NeedleBenchMultiEvaluator': 'the answer is A*answer A',
    'NeedleBenchParallelEvaluator': 'answer*A#0*50',
    'CircularEvaluator': InTurn(['0--A--ABCD', '0--B--BCDA']),
    'EMEvaluator': ['A', 'B'],
    'TydiQAEvaluator': ['A', 'B'],
    'LVEvalOPTF1Evaluator': ['the answer is A', 'answer'],
    'LVEvalOPTRougeEvaluator': ['the answer is A', 'answer'],
    **dict.fromkeys(('PMMEvalMHellaswagEvaluator', 'PMMEvalMLogiQAEvaluator', 'MAEEvaluator'), '0'),
    **dict.fromkeys(('CMP_TSP_D_Evaluator', 'Hard_TSP_Evaluator'), "3####\n\"{'a': [0, 1, 5], 'b': [1, 0, 5]}\""),
    **dict.fromkeys(
        ('P_BSP_Evaluator', 'P_EDP_Evaluator', 'P_SPP_Evaluator', 'CMP_KSP_Evaluator', 'Hard_MSP_Evaluator'),
        '3####\n{"array": [1, 2], "target": 1, "string_a": "a", "string_b": "b", "items": [], "knapsack_capacity": 1, "nodes": [], "edges": [], "meetings": 1}',
    ),
    **dict.fromkeys(('HardGCPEvaluator', 'CMP_GCP_D_Evaluator'), '3####\np edge 2 1\ne 1 2'),
    'TabMWPEvaluator': {'unit': '', 'answer': 'A', 'choices': ['A', 'B']},
    'JudgeEvaluator': {'winner': 'A'},
    **dict.fromkeys(
        ('MatbenchEvaluator_classification', 'MatbenchEvaluator_classification_glass'), InTurn([True, False])
    ),
    'OpenSWIMSEEvaluator': [1.0, 2.0],
    'BiodataMCCEvaluator': InTurn(['positive', 'negative']),
    'BiodataPCCEvaluator': InTurn([{'a': 1.0}, {'a': 2.0}]),
    'BiodataR2Evaluator': InTurn([1.0, 2.0]),
    'BiodataSpearmanEvaluator': InTurn([1.0, 2.0]),
    'SciReasoner15MaterialEvaluator': '1.0',
    'BBoxIoUEvaluator': {'bbox': [0, 0, 10, 10], 'image_width': 10, 'image_height': 10},
    'CodeCompassEvaluator': {'question_id': 'q', 'time_limit_s': 5},
    'EDAccEvaluator': {'candidates': ['A', 'B'], 'label': 0},
    'VideoBenchEvaluator': {'answer': 'A'},
    'VocalSoundEvaluator': 'laughter',
    'BFCLSingleTurnEvaluator': '[{"f": {}}]',
    'BFCLMultiTurnEvaluator': '[]',
    'LongBenchClassificationEvaluator': {'answers': ['A'], 'all_classes': ['A', 'B']},
    'DropOpenAIEvaluator': 'A|B',
    'AGIEvalEvaluator': 'A',
    'MRCREvaluator': '{"answer": "x The answer", "prefix": "x"}',
    'RMSEEvaluator': '<NUMBER> 1.5 </NUMBER>',
    'AUCROCEvaluator': InTurn([0, 1]),
    'InfiniteBenchmathcalcEvaluator': [1, 2],
    'ARCPrizeEvaluator': [[1, 2], [3, 4]],
    'TruthfulQAEvaluator': _TRUTH,
    'IFEvaluator': {'prompt': 'p', 'key': 1, 'instruction_id_list': ['punctuation:no_comma'], 'kwargs': [{}]},
    'MMStarEvaluator': {'answer': 'A', 'choices': '{"A": "x"}', 'category': 'c', 'l2_category': 'd'},
    **dict.fromkeys(('MMMUProEvaluator', 'MMMUProCotEvaluator'), '[{"A": "x", "B": "y"}, "A", "c"]'),
    **{name: [{'answer': 'A'}] * 10 for name in ('TEXTEvaluator', 'TEXTEvaluatorForGlm4v')},
    'DocVQAEvaluator': "['A']",
    'InfoVQAEvaluator': "['A']",
    'CMPhysBenchEvaluator': ['1', 'Numeric'],
    **dict.fromkeys(
        ('PerspectiveGapRoleAssignmentEvaluator', 'PerspectiveGapPromptWritingEvaluator'),
        json.dumps(
            {'reference_need_sets': {'r': ['f']}, 'distractor_id': 'd', 'fragments': [{'id': 'f', 'text': 't'}]}
        ),
    ),
    'ZebraLogicGridEvaluator': {'header': ['House', 'Name'], 'rows': [['1', 'A']]},
    'LLM4Mat_Evaluator': InTurn([1.0, 2.0]),
    'CaLMEvaluator': _causal_gold,
    'Mol_Instructions_Evaluator_Mol': 'CCO',
    'LLM4Chem_Evaluator': _chemical_gold,
    'Mol_Instructions_Evaluator_BioText': _biological_gold,
    'JudgerBenchEvaluator': {'dataset_name': 'judgerbench_A', 'winner': 'model_a', 'category': 'c'},
    'SRbenchDatasetEvaluator': 'x0',
    'SuperGPQAEvaluator': 'A',
    'TEvalEvaluator': json.dumps(
        {
            'template': {},
            'ground_truth': {
                'thought': 't',
                'name': 'n',
                'args': {'x': '1'},
                'action': 'a',
                'answer': 'A',
                'planning': [],
            },
            'meta_data': {'response_format': 'json'},
            'meta': {'prompt_type': 'str', 'response_format': 'json', 'API_list': ['n']},
        }
    ),
    'IFBenchEvaluator': {'prompt': 'p', 'key': 1, 'instruction_id_list': ['words:start_verb'], 'kwargs': [{}]},
}
