"""Benchmarks with comparisons of their own: for each a table of replies, gold answers and what they are worth."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rolecall.scoring.evaluate import Scorable, ScoredRun, build_scorer
from rolecall.scoring.families import FAMILY_METRICS, FAMILY_POSTPROCESSORS
from rolecall.scoring.postprocessors import read_postprocessor


def scored(evaluator: Any, *rows: tuple[Any, Any], columns: dict[str, Any] | None = None) -> ScoredRun:
    return build_scorer({'evaluator': evaluator}).score(
        [Scorable(number, 'ok', said, gold, columns or {}) for number, (said, gold) in enumerate(rows)]
    )


def with_language(evaluator: str, language: str = 'zh') -> dict[str, str]:
    return {'type': evaluator, 'language': language}


NEEDLES = [
    ('NeedleBenchOriginEvaluator', 'It lies in the Blue Box.', 'The needle is here.*Blue Box', 1.0),
    ('NeedleBenchOriginEvaluator', 'It lies in a box.', 'The needle is here.*Blue Box', 0.0),
    ('NeedleBenchParallelEvaluator', 'Rome and Oslo', 'Rome*Paris*Oslo*Bern#10*30*60*90', 0.5),
    ('NeedleBenchParallelEvaluator', '', 'Rome*Paris#10*30', 0.0),
    ('NeedleBenchMultiEvaluator', 'it was a GRAND piano', 'He plays it.*grand piano hall', 2 / 3),
    ('NeedleBenchMultiEvaluator', 'nothing', 'He plays it.*', 0.0),
    ('NeedleBenchATCEvaluator', ' Jasmine Lane', 'Jasmine Lane ', 1.0),
    ('NeedleBenchATCEvaluator', 'Jasmine', 'Jasmine Lane', 0.0),
]
RULER = [
    ('RulerNiahEvaluator', 'The numbers are 12 and 34.', ['12', '34', '56', '78'], 0.5),
    ('RulerVtEvaluator', 'VAR abc, XYZ', ['ABC', 'xyz'], 1.0),
    ('RulerCweEvaluator', '', ['a'], 0.0),
    ('RulerFweEvaluator', 'one two', ['one', 'two', 'three'], 2 / 3),
    ('RulerQaEvaluator', 'In paris.', ['Paris', 'Rome'], 1.0),
    ('RulerQaEvaluator', 'In Bern.', ['Paris', 'Rome'], 0.0),
]
TOPICS = {'answers': ['体育'], 'all_classes': ['体育', '财经', '体育新闻']}
PLACES = {'answers': ['Other location'], 'all_classes': ['Other location', 'City', 'location']}
LONGBENCH = [
    ('LongBenchF1Evaluator', 'the black cat', ['cat', 'dog'], 2 / 3),
    ('LongBenchF1Evaluator', '', ['cat'], 0.0),
    (with_language('LongBenchF1Evaluator'), '我爱北京。', ['北京'], 0.5),
    ('LongBenchRougeEvaluator', 'the cat sat down', ['the cat ran', 'a dog'], 4 / 7),
    ('LongBenchRougeEvaluator', 'a b c. d e', ['d e. a b'], 8 / 9),
    ('LongBenchRougeEvaluator', 'the the the', ['the'], 1.0),
    (with_language('LongBenchRougeEvaluator'), '我爱北京', ['我爱上海'], 2 / 3),
    ('LongBenchCodeSimEvaluator', '```python\n# sum\nreturn a + b\n```', ['return a + b'], 1.0),
    ('LongBenchCodeSimEvaluator', 'return a', ['return b'], 14 / 16),
    ('LongBenchCodeSimEvaluator', '# nothing', ['return b'], 0.0),
    ('LongBenchClassificationEvaluator', '体育', TOPICS, 1.0),
    ('LongBenchClassificationEvaluator', '体育 or 财经', TOPICS, 0.5),
    ('LongBenchClassificationEvaluator', '财经', TOPICS, 0.0),
    ('LongBenchClassificationEvaluator', 'Other location', PLACES, 1.0),
    ('LongBenchCountEvaluator', 'There are 7, not 8.', ['7'], 0.5),
    ('LongBenchCountEvaluator', 'Seven', ['7'], 0.0),
    ('LongBenchRetrievalEvaluator', 'Paragraph 12', ['Paragraph 12'], 1.0),
    ('LongBenchRetrievalEvaluator', 'Paragraph 1', ['Paragraph 12'], 0.0),
    (with_language('LongBenchRetrievalEvaluator'), '段落3或段落4', ['段落3'], 0.5),
    ('LongBenchv2Evaluator', 'B', 'B', 1.0),
    ('LongBenchv2Evaluator', '', 'B', 0.0),
]
LVEVAL = [
    ('LVEvalF1Evaluator', 'the tall tower', ['tall tower', 'tower'], 1.0),
    ('LVEvalF1Evaluator', 'tower', ['tall house', 'tower'], 0.0),
    ('LVEvalOPTF1Evaluator', 'tall tower', ['tall tower', 'eiffel'], 0.0),
    ('LVEvalOPTF1Evaluator', 'tall eiffel tower', ['eiffel tower', 'eiffel'], 0.8),
    ('LVEvalOPTF1Evaluator', 'it is tall', ['it is', 'it is of her house'], 0.0),
    ('LVEvalOPTF1Evaluator', 'tall tower', ['tall tower', ''], 1.0),
    (with_language('LVEvalOPTF1Evaluator'), '北京的天气', ['上海', ''], 0.0),
    (with_language('LVEvalOPTF1Evaluator'), '北京', ['北京', '北京'], 1.0),
    ('LVEvalOPTRougeEvaluator', 'he was in Rome', ['she is in Rome', 'x'], 1.0),
    ('LVEvalOPTRougeEvaluator', '', ['Rome', 'x'], 0.0),
]
LONG_CONTEXT = [
    ('InfiniteBenchendiaEvaluator', 'I think: "john".', ['JOHN', 'x'], 1.0),
    ('InfiniteBenchendiaEvaluator', 'Johnson', ['JOHN'], 0.0),
    ('InfiniteBenchretrievekvEvaluator', 'The value is "ab-1".', 'ab-1', 1.0),
    ('InfiniteBenchretrievekvEvaluator', 'ab-12', 'ab-1', 0.0),
    ('InfiniteBenchmathcalcEvaluator', '[1, 2, 4, 4]', [1, 2, 3, 4], 0.5),
    ('InfiniteBenchmathcalcEvaluator', '1 2', [1, 2, 3, 4], 0.5),
    ('InfiniteBenchmathcalcEvaluator', 'none', [1], 0.0),
    ('BabiLongEvaluator', 'Mary is in the Kitchen. Or the garden.', ['kitchen'], 1.0),
    ('BabiLongEvaluator', 'Unknown. The kitchen', ['kitchen'], 0.0),
    ('BabiLongEvaluator', 'hm <example> kitchen', ['kitchen'], 0.0),
    ('MRCREvaluator', 'kEya poem', json.dumps({'answer': 'kEya poem', 'prefix': 'kEy'}), 1.0),
    ('MRCREvaluator', 'kEyab', {'answer': 'kEyac', 'prefix': 'kEy'}, 0.5),
    ('MRCREvaluator', 'a poem', {'answer': 'kEya poem', 'prefix': 'kEy'}, 0.0),
]
EXAMS = [
    ('GaokaoBenchEvaluator_single_choice', 'A? No. 【答案】B', ['B'], 1.0),
    ('GaokaoBenchEvaluator_single_choice', 'B, not A', ['B'], 0.0),
    ('GaokaoBenchEvaluator_single_choice', '不知道', ['B'], 0.0),
    ('GaokaoBenchEvaluator_multi_choice', '【解析】A对。【答案】AC', ['AC'], 1.0),
    ('GaokaoBenchEvaluator_multi_choice', '答：A', ['AC'], 0.5),
    ('GaokaoBenchEvaluator_multi_choice', '【解析】略。【答案】AB', ['AC'], 0.0),
    ('GaokaoBenchEvaluator_multi_choice', '无', ['AC'], 0.0),
    ('GaokaoBenchEvaluator_multi_question_choice', '【答案】A ... 【答案】：C', ['A', 'B'], 0.5),
    ('GaokaoBenchEvaluator_multi_question_choice', 'A B C', ['A', 'B'], 1.0),
    ('GaokaoBenchEvaluator_multi_question_choice', 'A', ['A', 'B'], 0.0),
    ('GaokaoBenchEvaluator_five_out_of_seven', 'ABCDE FG', ['A', 'B', 'C', 'D', 'G'], 0.8),
    ('GaokaoBenchEvaluator_five_out_of_seven', 'ABCD', ['A', 'B', 'C', 'D', 'G'], 0.0),
    ('AGIEvalEvaluator', '答案是 $\\frac{1}{2}$', '0.5', 1.0),
    ('AGIEvalEvaluator', 'So $x=3$, thus \\boxed{4}', '3', 0.0),
    ('AGIEvalEvaluator_mcq', 'CA', ['A', 'C'], 1.0),
    ('AGIEvalEvaluator_mcq', 'A', 'AC', 0.0),
]
MULTILINGUAL = [
    ('PMMEvalMHellaswagEvaluator', 'B', '1', 1.0),
    ('PMMEvalMLogiQAEvaluator', 'B', 2, 0.0),
    ('PMMEvalMMMLUEvaluator', 'c', 'C', 1.0),
    ('PMMEvalXNLIEvaluator', '', 'A', 0.0),
    ('PMMEvalMGSMEvaluator', 'Réponse: 1,200 pommes', '1200', 1.0),
    ('MGSM_Evaluator', '18', '18', 1.0),
    ('MGSM_Evaluator', '', '18', 0.0),
]
CASES = [*NEEDLES, *RULER, *LONGBENCH, *LVEVAL, *LONG_CONTEXT, *EXAMS, *MULTILINGUAL]


@pytest.mark.parametrize(('evaluator', 'reply', 'gold', 'score'), CASES)
def test_a_reply_is_worth_what_its_benchmark_says(evaluator: Any, reply: str, gold: Any, score: float) -> None:
    run = scored(evaluator, (reply, gold))
    assert run.verdicts[0].score == pytest.approx(score)
    assert run.value == pytest.approx(100 * score)


def test_the_table_has_cases_of_every_evaluator() -> None:
    named = {case[0] if isinstance(case[0], str) else case[0]['type'] for case in CASES}
    ungraded = {f'GaokaoBenchEvaluator_{kind}' for kind in ('cloze', 'subjective', 'correction')}
    assert named == set(FAMILY_METRICS) - ungraded


def test_needles_are_also_counted_by_depth() -> None:
    run = scored('NeedleBenchParallelEvaluator', ('Rome', 'Rome*Paris#10*30'), ('Oslo Rome', 'Oslo*Bern#10*30'))
    assert (run.value, run.details['further']) == (50.0, {'Depth10': 100.0, 'Depth30': 0.0})


def test_long_questions_are_also_counted_by_difficulty_and_length() -> None:
    run = scored('LongBenchv2Evaluator', ('A', 'A'), columns={'difficulty': 'easy', 'length': 'short'})
    assert run.details['further'] == {'accuracy_easy': 100.0, 'accuracy_short': 100.0}


def test_questions_of_a_text_count_one_by_one() -> None:
    rows = [('A B C', ['A', 'B', 'C']), ('A', ['B'])]
    assert scored('GaokaoBenchEvaluator_multi_question_choice', *rows).value == pytest.approx(75.0)


@pytest.mark.parametrize('kind', ['cloze', 'subjective', 'correction'])
def test_questions_that_a_person_has_to_grade_have_no_score(kind: str) -> None:
    run = scored(f'GaokaoBenchEvaluator_{kind}', ('略', ['略']))
    assert (run.value, run.total, run.details['excluded']) == (None, 1, {'unmarked': 1})


READ = [
    ('needlebench_postprocess', ' a ', ' a '),
    ('needlebench_dataset_postprocess', 'x*y', 'x*y'),
    ('needlebench_atc_postprocess_v2', r'It is \boxed{"Dan  Newton"}.', 'Dan Newton'),
    ('needlebench_atc_postprocess_v2', 'Dan Newton', ''),
    ('trec_postprocess', '\nLocation\nQ: next', 'Location'),
    ('lsht_postprocess', '体育', '体育'),
    ('samsum_postprocess', 'They met.\nTom: hi', 'They met.'),
    ('InfiniteBench_first_number_postprocess', 'It is 12.5 or 3', '12.5'),
    ('InfiniteBench_first_number_postprocess', 'none', ''),
    ({'type': 'pmmeval_mhellaswag_postprocess', 'lang_code': 'en'}, '{"answer": "B"} or {"answer": "C"}', 'C'),
    ({'type': 'pmmeval_mlogiqa_postprocess', 'lang_code': 'zh'}, '答案是：d', 'D'),
    ({'type': 'pmmeval_mmmlu_postprocess', 'lang_code': 'FR-FR'}, 'La réponse est B.', 'B'),
    ({'type': 'pmmeval_xnli_postprocess', 'lang_code': 'th'}, 'คำตอบคือ A', 'A'),
    ({'type': 'pmmeval_flores_postprocess', 'lang_fullname': 'French'}, ' Bonjour \n\n', 'Bonjour'),
    ({'type': 'mgsm_postprocess', 'lang': 'de'}, 'Es sind 3.\nAntwort: 1,200', '1200'),
    ({'type': 'mgsm_postprocess', 'lang': 'de'}, 'Es sind 3.', '3'),
]


@pytest.mark.parametrize(('postprocessor', 'reply', 'found'), READ)
def test_a_reply_is_read_by_its_benchmark_s_postprocessor(postprocessor: Any, reply: str, found: str) -> None:
    assert read_postprocessor(postprocessor)(reply) == found


def test_the_table_has_cases_of_every_postprocessor() -> None:
    assert {case[0] if isinstance(case[0], str) else case[0]['type'] for case in READ} == set(FAMILY_POSTPROCESSORS)
