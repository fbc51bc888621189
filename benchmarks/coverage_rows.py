"""Made-up rows for any dataset entry: every column that its templates, reader and evaluator mention."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rolecall.registry import part_name

__all__ = ['JUDGE', 'REPLY', 'made_rows']

FIELD = re.compile(r'\{([^{}]+)\}')
MEDIA = (
    '<AIS_TEXT_START>made-up question {n}<AIS_CONTENT_TAG><AIS_IMAGE_START>https://example.org/{n}.jpg<AIS_CONTENT_TAG>'
)
REPLY = 'The answer is (A). So \\boxed{A}. ANSWER: A\n```python\ndef f(x):\n    return x\n```\n1'
JUDGE = 'A\nCORRECT\nRating: [[7]]\n[[A]]\n{"score": 7, "综合得分": 7}\nDecision: YES\nScore: 7'


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
    """Training rows, enough for the ids that the retriever names, and two test rows."""
    infer = entry['infer_cfg']
    ids = (
        (infer.get('retriever') or {}).get('fix_id_list') or [0] if isinstance(infer.get('retriever'), Mapping) else [0]
    )
    return _rows(entry, max([*ids, 8]) + 1, 100), _rows(entry, 2, 0)


def _rows(entry: Mapping[str, Any], count: int, start: int) -> list[dict[str, Any]]:
    reader, infer = entry.get('reader_cfg') or {}, entry['infer_cfg']
    columns = reader.get('input_columns') or []
    columns = columns.split() if isinstance(columns, str) else list(columns)
    wanted = [infer, entry.get('eval_cfg') or {}]
    fields = {name for text in texts(wanted) for name in FIELD.findall(text) if re.fullmatch(r'[\w一-鿿 ]+', name)}
    output = reader.get('output_column')
    labels = _labels(infer)
    scoring = entry.get('eval_cfg')
    evaluator = (scoring.get('evaluator') if isinstance(scoring, Mapping) else None) or {}
    evaluator = evaluator.get('type') if isinstance(evaluator, Mapping) else evaluator
    rows = []
    for number in range(start, start + count):
        row: dict[str, Any] = {name: f'made-up {name} {number}' for name in sorted({*columns, *fields})}
        row.update(COLUMNS.get(part_name(evaluator), {}))
        if output and output not in COLUMNS.get(part_name(evaluator), {}):
            row[output] = labels[number % len(labels)] if labels else GOLDS.get(part_name(evaluator), 'A')
        for column in _expanded(infer):
            row[column] = [{'role': 'user', 'content': f'earlier {number}'}, {'role': 'assistant', 'content': 'yes'}]
        if _kind(infer) == 'MMPromptTemplate':
            row['content'] = MEDIA.format(n=number)
            for column in ('image', 'video', 'audio'):
                row.pop(column, None)
        if (
            _kind(infer) == 'MultiTurnPromptTemplate'
            or 'MultiTurn' in _inferencer(infer)
            or 'Chat' in _inferencer(infer)
        ):
            row.update({name: [f'made-up {name}', 'and again'] for name in columns})
            if output:
                row[output] = ['A', 'A']
        rows.append(row)
    return rows


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
COLUMNS: dict[str, dict[str, Any]] = {
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
    'MultiplEEvaluator': {'name': 'f', 'language': 'py', 'prompt': 'def f(x):\n', 'tests': 'assert f(1) == 1', 'stop_tokens': []},
    'DS1000Evaluator': {'code_context': 'def test_execution(solution): assert solution'},
}  # fmt: skip
"""The columns that an evaluator reads besides the gold answer, or the gold answer where it has a form of its own."""
_TRUTH = {'answers': {'best_answer': 'A', 'correct_answers': ['A'], 'incorrect_answers': ['B']}, 'question': 'q'}
GOLDS: dict[str, Any] = {
    'Gsm8kEvaluator': 'So it is 1.\n#### 1',
    'LongBenchRetrievalEvaluator': ['Paragraph 1'],
    'LongBenchClassificationEvaluator': {'answers': ['A'], 'all_classes': ['A', 'B']},
    'DropOpenAIEvaluator': 'A|B',
    'AGIEvalEvaluator': 'A',
    'MRCREvaluator': '{"answer": "x The answer", "prefix": "x"}',
    'RMSEEvaluator': '1.5',
    'AUCROCEvaluator': 1,
    'InfiniteBenchmathcalcEvaluator': [1, 2],
    'ARCPrizeEvaluator': [[1, 2], [3, 4]],
    'TruthfulQAEvaluator': _TRUTH,
    'IFEvaluator': {'prompt': 'p', 'key': 1, 'instruction_id_list': ['punctuation:no_comma'], 'kwargs': [{}]},
    'MMStarEvaluator': {'answer': 'A', 'choices': '{"A": "x"}', 'category': 'c', 'l2_category': 'd'},
    'MMMUProEvaluator': '{"answer": "A", "choices": {"A": "x"}, "category": "c"}',
    'MMMUProCotEvaluator': '{"answer": "A", "choices": {"A": "x"}, "category": "c"}',
    'TEXTEvaluator': {'answer': ['A'] * 10},
    'TEXTEvaluatorForGlm4v': {'answer': ['A'] * 10},
    'DocVQAEvaluator': "['A']",
    'InfoVQAEvaluator': "['A']",
    'CMPhysBenchEvaluator': '1',
}
