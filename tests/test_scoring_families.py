"""Benchmarks with comparisons of their own: for each a table of replies, gold answers and what they are worth."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from rolecall.compat.benchmark_metrics.ifeval import INSTRUCTIONS, follow_instructions
from rolecall.compat.benchmark_metrics.pictures import _resize
from rolecall.compat.opencompass.evaluator_names import METRICS, POSTPROCESSORS
from rolecall.errors import ConfigError
from rolecall.scoring.answers import Scorable
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.evaluate import build_scorer
from rolecall.scoring.evaluators import read_evaluator
from rolecall.scoring.metrics.metric import Answer
from rolecall.scoring.postprocessors import read_postprocessor
from rolecall.scoring.scorecard import Scorecard
from tables import in_one


def scored(evaluator: Any, *rows: tuple[Any, Any], columns: dict[str, Any] | None = None) -> Scorecard:
    return build_scorer({'evaluator': evaluator, 'read_as': 'own'}).score(
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
    ('InfiniteBenchretrievekvEvaluator', 'Here it is:\nab-1', 'ab-1', 1.0),
    ('InfiniteBenchmathcalcEvaluator', '[1, 2, 4, 4]', [1, 2, 3, 4], 0.5),
    ('InfiniteBenchmathcalcEvaluator', '1 2', [1, 2, 3, 4], 0.5),
    ('InfiniteBenchmathcalcEvaluator', 'none', [1], 0.0),
    ('BabiLongEvaluator', 'I do not know', 'no', 0.0),
    ('BabiLongEvaluator', 'none', 'one', 0.0),
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
    ('GaokaoBenchEvaluator_multi_choice', '【答案】AC【解析】这两个选项都是正确的，其余不对。', ['AC'], 1.0),
    ('GaokaoBenchEvaluator_multi_choice', 'CA', ['AC'], 1.0),
    ('GaokaoBenchEvaluator_multi_question_choice', '【答案】A ... 【答案】：C', ['A', 'B'], 0.5),
    ('GaokaoBenchEvaluator_multi_question_choice', 'A B C', ['A', 'B'], 1.0),
    ('GaokaoBenchEvaluator_multi_question_choice', 'A', ['A', 'B'], 0.0),
    (
        'MMStarEvaluator',
        'That looks scary.',
        {'answer': 'A', 'choices': {'A': 'car', 'B': 'bus'}, 'category': 'c'},
        0.0,
    ),
    ('MMStarEvaluator', 'That is a car.', {'answer': 'A', 'choices': {'A': 'car', 'B': 'bus'}, 'category': 'c'}, 1.0),
    ('MMStarEvaluator', '这是car。', {'answer': 'A', 'choices': {'A': 'car', 'B': 'bus'}, 'category': 'c'}, 1.0),
    ('AGIEvalEvaluator_mcq', 'I do not know', '18', 0.0),
    ('AGIEvalEvaluator_mcq', 'CA', 'AC', 1.0),
    ('TheoremQAEvaluatorV3', '(B)', 'B', 1.0),
    ('TheoremQAEvaluatorV3', '(1,234.5)', '1,234.5', 1.0),
    ('TheoremQAEvaluatorV3', 'not (a), but (b)', '(a)', 0.0),
    ('TheoremQAEvaluatorV3', 'not (a), but (b)', '(b)', 1.0),
    ('TheoremQAEvaluatorV3', 'b', '(b)', 1.0),
    ('TheoremQAEvaluatorV3', '(1, 2)', '2', 0.0),
    ('GaokaoBenchEvaluator_cloze', '【解析】略。【答案】$\\frac{1}{2}$', '$0.5$', 1.0),
    ('GaokaoBenchEvaluator_cloze', '所以最终答案是 $35$。', ['3.5'], 0.0),
    ('GaokaoBenchEvaluator_cloze', '【答案】3.5。', ['35'], 0.0),
    ('GaokaoBenchEvaluator_cloze', '所以答案是$4$。', ['$4$'], 1.0),
    (
        'GaokaoBenchEvaluator_cloze',
        '【答案】(1) 举酒属客，诵明月之诗 (2) 歌窈窕之章',
        '（1）举酒属客 诵明月之诗 （2）歌窈窕之章',
        1.0,
    ),
    ('GaokaoBenchEvaluator_cloze', '1. was 2. to go 3. better', ['1. was', '2. going', '3. better'], 2 / 3),
    ('GaokaoBenchEvaluator_cloze', 'was', ['1. was 2. going'], 0.0),
    ('GaokaoBenchEvaluator_cloze', '', '4', 0.0),
    ('GaokaoBenchEvaluator_five_out_of_seven', 'ABCDE FG', ['A', 'B', 'C', 'D', 'G'], 0.8),
    ('GaokaoBenchEvaluator_five_out_of_seven', 'ABCD', ['A', 'B', 'C', 'D', 'G'], 0.0),
    ('AGIEvalEvaluator', '答案是 $\\frac{1}{2}$', '0.5', 1.0),
    ('AGIEvalEvaluator', 'So $x=3$, thus \\boxed{4}', '3', 0.0),
    ('AGIEvalEvaluator_mcq', 'CA', ['A', 'C'], 1.0),
    ('AGIEvalEvaluator_mcq', 'A', 'AC', 0.0),
    ('AGIEvalEvaluator_mcq', 'none', '', 0.0),
]
MULTILINGUAL = [
    ('PMMEvalMHellaswagEvaluator', 'B', '1', 1.0),
    ('PMMEvalMLogiQAEvaluator', 'B', 2, 0.0),
    ('PMMEvalMMMLUEvaluator', 'c', 'C', 1.0),
    ('PMMEvalXNLIEvaluator', '', 'A', 0.0),
    ('PMMEvalMGSMEvaluator', 'Réponse: 1,200 pommes', '1200', 1.0),
    ('PMMEvalFloresEvaluator', 'Here it is:\nthe cat sat on the mat\nDone.', 'the cat sat on the mat', 1.0),
    ('PMMEvalFloresEvaluator', '猫坐在\n垫子上。', '猫坐在垫子上。', 1.0),
    ('PMMEvalFloresEvaluator', '', 'the cat', 0.0),
    ('MGSM_Evaluator', '18', '18', 1.0),
    ('MGSM_Evaluator', '', '18', 0.0),
]
ROW = {'instruction_id_list': ['punctuation:no_comma'], 'kwargs': [{}], 'prompt': 'Say hello.'}


def instructed(kind: str, **options: Any) -> dict[str, Any]:
    return {'instruction_id_list': [kind], 'kwargs': [options]}


FEW_WORDS = instructed('length_constraints:number_words', num_words=5, relation='at least')
TWO_SENTENCES = instructed('length_constraints:number_sentences', num_sentences=2, relation='at least')
SECOND_BEGINS = instructed(
    'length_constraints:nth_paragraph_first_word', num_paragraphs=2, nth_paragraph=2, first_word='但是'
)
INSTRUCTED = [
    ('IFEvaluator', 'hello', ROW, 1.0),
    ('IFEvaluator', 'hello, you', ROW, 0.0),
    ('IFEvaluator', '你好，世界', ROW, 1.0),
    ('PMMEvalMIFEvalEvaluator', 'hello', ROW, 1.0),
    ('PMMEvalMIFEvalEvaluator', 'hola, mundo', ROW, 0.0),
    ('PMMEvalMIFEvalEvaluator', '你好，世界', ROW, 0.0),
    ('PMMEvalMIFEvalEvaluator', 'こんにちは、世界', ROW, 0.0),
    ('PMMEvalMIFEvalEvaluator', 'مرحبا، عالم', ROW, 0.0),
    ('PMMEvalMIFEvalEvaluator', '你好世界', FEW_WORDS, 0.0),
    ('PMMEvalMIFEvalEvaluator', '你好大世界', FEW_WORDS, 1.0),
    ('PMMEvalMIFEvalEvaluator', 'hola mundo grande', FEW_WORDS, 0.0),
    ('PMMEvalMIFEvalEvaluator', '下雨了。我不出门！', TWO_SENTENCES, 1.0),
    ('PMMEvalMIFEvalEvaluator', '下雨了我不出门！', TWO_SENTENCES, 0.0),
    ('PMMEvalMIFEvalEvaluator', '下雨了。\n\n但是我出门。', SECOND_BEGINS, 1.0),
    ('PMMEvalMIFEvalEvaluator', '但是我出门。\n\n下雨了。', SECOND_BEGINS, 0.0),
    ('PMMEvalMIFEvalEvaluator', '但是我出门。', SECOND_BEGINS, 0.0),
    ('PMMEvalMIFEvalEvaluator', '“你好”', instructed('startend:quotation'), 1.0),
    ('PMMEvalMIFEvalEvaluator', '«hola»', instructed('startend:quotation'), 1.0),
    ('PMMEvalMIFEvalEvaluator', '“你好»', instructed('startend:quotation'), 0.0),
    ('PMMEvalMIFEvalEvaluator', '今天下雨了', instructed('keywords:forbidden_words', forbidden_words=['下雨']), 0.0),
    ('PMMEvalMIFEvalEvaluator', 'esta noche', instructed('keywords:forbidden_words', forbidden_words=['No']), 1.0),
]
SHORT_ANSWERS = [
    ('GPQAEvaluator', 'B', 'B', 1.0),
    ('GPQAEvaluator', 'b', 'B', 0.0),
    ('CharmReasonEvaluator', ' A', 'A', 1.0),
    ('CharmMemoryEvaluator', '是《霸王别姬》。', '霸王别姬', 1.0),
    ('CharmMemoryEvaluator', '是《霸王别姬》。', ['活着', '霸王别姬'], 1.0),
    ('CharmMemoryEvaluator', '是《活着》。', '霸王别姬', 0.0),
    ('CharmMemoryEvaluator', '我不确定，也许是霸王别姬', '霸王别姬', 0.0),
    ('CharmMemoryEvaluator', '是《活着》。', '[not]霸王别姬', 1.0),
    ('CharmMemoryEvaluator', '是《霸王别姬》。', '[not]霸王别姬', 0.0),
    ('CharmMemoryEvaluator', '不知道', '[not]霸王别姬', 0.0),
    ('DropOpenAIEvaluator', 'We count.\nAnswer: 12 yards', '12|twelve', 1.0),
    ('DropOpenAIEvaluator', 'Answer: the Bears', 'Chicago Bears', 1.0),
    ('DropOpenAIEvaluator', 'Answer: 13', '12|twelve', 0.0),
    ('DropOpenAIEvaluator', 'Answer: ...', '12', 0.0),
    ('LambadaEvaluator', 'signs, he said', 'signs', 1.0),
    ('LambadaEvaluator', 'two signs', 'signs', 0.0),
    ('LambadaEvaluator', '', 'signs', 0.0),
    ('LambadaEvaluator', '"signs" he said', 'signs', 1.0),
    ('LambadaEvaluator', "don't go", "don't", 1.0),
    ('LEvalEMEvaluator', 'It is the red house, I think.', 'red house', 1.0),
    ('LEvalEMEvaluator', 'It is blue.', 'red house', 0.0),
    ('LEvalEMEvaluator', 'The answer is A', 'A', 1.0),
    ('LEvalEMEvaluator', 'B', 'A', 0.0),
    ('LEvalEMEvaluator', 'Apple', 'A', 0.0),
    ('LEvalEMEvaluator', '', 'A', 0.0),
    ('MusrEvaluator', 'Because 3.\nANSWER: 2', 2, 1.0),
    ('MusrEvaluator', 'It is 2', 2, 0.0),
    ('MusrEvaluator', 'My answer: of 3, it is\nAnswer: 2', 2, 1.0),
    ('ELBenchChoiceEvaluator', 'The answer is CA.', 'AC', 1.0),
    ('ELBenchChoiceEvaluator', 'A, B', 'A', 0.0),
    ('ELBenchChoiceEvaluator', 'I think B', 'B', 1.0),
    ('ELBenchChoiceEvaluator', 'Answer: B. C is wrong.', 'B', 1.0),
    ('ELBenchChoiceEvaluator', 'B, C', 'BC', 1.0),
    ('ELBenchChoiceEvaluator', '(b)', 'B', 1.0),
    ('ELBenchChoiceEvaluator', 'The answer is B.\n\nQuestion: What is next?\nThe answer is C.', 'B', 1.0),
    ('SuperGPQAEvaluator', 'So the answer is (H).', 'H', 1.0),
    ('SuperGPQAEvaluator', 'unclear', 'H', 0.0),
    ('AccContaminationEvaluator', 'A', 'A', 1.0),
    ('AccContaminationEvaluator', 'B', 'A', 0.0),
    ('ARCPrizeEvaluator', 'Output: [[1, 2], [3, 4]]', [[1, 2], [3, 4]], 1.0),
    ('ARCPrizeEvaluator', '[[1, 2]]', '[[1, 2], [3, 4]]', 0.0),
    ('ARCPrizeEvaluator', 'none', [[1]], 0.0),
]
MATHEMATICS = [
    ({'type': 'LiveMathBenchEvaluator', 'model_name': '', 'url': []}, r'\boxed{\frac12}', '0.5', 1.0),
    ('LiveMathBenchEvaluator', r'\boxed{3}', '4', 0.0),
    ('DAPOMathEvaluator', '1/2', r'\frac{1}{2}', 1.0),
    ('DAPOMathEvaluatorV2', '3', '4', 0.0),
    ('TheoremQAEvaluatorV3', '3.2', '3.1', 1.0),
    ('TheoremQAEvaluatorV3', '3.5', '3.1', 0.0),
    ('TheoremQAEvaluatorV3', '3.4', '3', 1.0),
    ('TheoremQAEvaluatorV3', '3.6', '3', 0.0),
    ('TheoremQAEvaluatorV3', '(1, 2)', '[1, 2.05]', 1.0),
    ('TheoremQAEvaluatorV3', '(1, 2)', '[1, 2, 3]', 0.0),
    ('TheoremQAEvaluatorV3', 'true', 'True', 1.0),
    ('TheoremQAEvaluatorV3', 'It is (B)', '(b)', 1.0),
    ('TheoremQAEvaluatorV3', '1/3', '0.333', 1.0),
    ('TheoremQAEvaluatorV3', 'x', '1', 0.0),
    ('TheoremQAEvaluatorV3', r'\frac{1}{2}', '0.5', 1.0),
    ('TheoremQAEvaluatorV3', r'2\sqrt{2}', '2.828', 1.0),
    ('TheoremQAEvaluatorV3', r'2\pi', '3.14', 0.0),
    ('OlympiadBenchEvaluator', r'So \boxed{\frac12}', ['$0.5$'], 1.0),
    ('OlympiadBenchEvaluator', '$3.12$', {'final_answer': ['$3.1$'], 'error': '0.02'}, 1.0),
    ('OlympiadBenchEvaluator', '3.13', {'final_answer': ['3.1'], 'error': '0.02'}, 0.0),
    ({'type': 'OlympiadBenchEvaluator', 'version': 'v2'}, '3', {'final_answer': ['4']}, 0.0),
    ('korbenchEvaluator', 'So [[ A, B ]]', '[[a;b]]', 1.0),
    ('korbenchEvaluator', r'[[\frac{1}{2}]]', '[[0.5]]', 1.0),
    ('korbenchEvaluator', '[[6]]', '[[5 or 6]]', 1.0),
    ('korbenchEvaluator', '5', '[[5]]', 0.0),
    ('korbenchEvaluator', '[[3.5]]', '[[35]]', 0.0),
    ('korbenchEvaluator', '[[1, 2]]', '[[12]]', 0.0),
    ('korbenchEvaluator', '[[ 3.5. ]]', '[[3.5]]', 1.0),
]
MEASUREMENTS = [
    ('NCExactMatchEvaluator', '<SMILES> CCO </SMILES>', '<SMILES> CCO </SMILES>', 1.0),
    ('NCExactMatchEvaluator', 'CCO', '<SMILES> CCO </SMILES>', 1.0),
    ('NCExactMatchEvaluator', '<SMILES> CC </SMILES>', '<SMILES> CCO </SMILES>', 0.0),
    ('NCExactMatchEvaluator', '', '<SMILES> CCO </SMILES>', 0.0),
    ('NCElementMatchEvaluator', '<MOLFORMULA> C2OH6 </MOLFORMULA>', '<MOLFORMULA> C2H6O </MOLFORMULA>', 1.0),
    ('NCElementMatchEvaluator', 'CH4O2', 'CH4O', 0.0),
    ('NCElementMatchEvaluator', '?', '?', 0.0),
    ('NCElementMatchEvaluator', 'Ca(OH)2', 'CaO2H2', 1.0),
    ('NCElementMatchEvaluator', 'CH3(CH2)CH3', 'C3H8', 1.0),
    ('NCElementMatchEvaluator', 'Ca(OH)2', 'Ca(HCO3)2', 0.0),
    ('NCElementMatchEvaluator', '<MOLFORMULA> C2H6 </MOLFORMULA>', '<MOLFORMULA> C2H6O </MOLFORMULA>', 0.0),
    ('MeteorEvaluator', 'the cat sat on the mat', 'the cat sat on the mat', 1 - 0.5 / 6**3),
    ('MeteorEvaluator', 'cats sitting', 'cat sits', 1 - 0.5 / 8),
    ('MeteorEvaluator', 'a b', 'b a c', 0.5 * (2 / 3) / (0.9 + 0.1 * 2 / 3)),
    ('MeteorEvaluator', '', 'b', 0.0),
]
BOX = {'bbox': [10, 10, 50, 50], 'image_width': 100, 'image_height': 100}
CHOICES = {'choices': '{"A": "cat", "B": "dog"}', 'answer': 'B', 'category': 'animals'}
PICTURES = [
    ('BBoxIoUEvaluator', '[100, 100, 500, 500]', BOX, 1.0),
    ('BBoxIoUEvaluator', '[100, 100, 500, 290]', BOX, 0.0),
    ({'type': 'BBoxIoUEvaluator', 'iou_threshold': 0.4}, '[100, 100, 500, 290]', json.dumps(BOX), 1.0),
    ({'type': 'BBoxIoUEvaluator', 'coord_scale': 100.0}, '[10, 10, 50, 50]', BOX, 1.0),
    ('BBoxIoUEvaluator', 'no box', BOX, 0.0),
    ({'type': 'BBoxIoUEvaluator', 'smart_resize_cfg': {}}, '[78, 78, 390, 390]', BOX, 1.0),
    ('MMStarEvaluator', 'B<|im_end|>', CHOICES, 1.0),
    ('MMStarEvaluator', 'a dog', CHOICES, 1.0),
    ('MMStarEvaluator', 'It costs 15.5', {**CHOICES, 'choices': '{"A": "3", "B": "15"}'}, 0.0),
    ('MMStarEvaluator', 'a cat or a dog', CHOICES, 0.0),
    ('MMMUProEvaluator', '(B)', json.dumps([{'A': 'x', 'B': 'y'}, 'B', 'Art']), 1.0),
    ('MMMUProCotEvaluator', 'A? No.\nAnswer: B', json.dumps([{'A': 'x', 'B': 'y'}, 'B', 'Art']), 1.0),
    ('MMMUProCotEvaluator', 'Answer: A', json.dumps([{'A': 'x', 'B': 'y'}, 'B', 'Art']), 0.0),
    ('RealworldQAEvaluator', 'ANSWER: North ', {'answer': 'north'}, 1.0),
    ('RealworldQAEvaluator', 'north', 'north', 0.0),
    ('VideoBenchEvaluator', 'The answer is C', {'answer': 'C'}, 1.0),
    ('VideoBenchEvaluator', 'D', {'answer': 'C'}, 0.0),
    ('VocalSoundEvaluator', 'C.', 'cough', 1.0),
    ('VocalSoundEvaluator', '', 'cough', 0.0),
    ('TEXTEvaluator', 'the Red!', [{'answer': 'red'}] * 4 + [{'answer': 'blue'}] * 6, 1.0),
    ('TEXTEvaluator', '', [{'answer': 'A'}] * 10, 0.0),
    ('TEXTEvaluator', 'a', [{'answer': 'A'}] * 10, 1.0),
    ('TEXTEvaluator', '"A"', [{'answer': 'A'}] * 10, 1.0),
    ('TEXTEvaluator', '', [{'answer': '$'}] * 10, 0.0),
    ('TEXTEvaluator', '%', [{'answer': '$'}] * 10, 0.0),
    ('TEXTEvaluator', 'red', [{'answer': 'red'}] + [{'answer': 'blue'}] * 9, 0.3),
    ('EDAccEvaluator', 'a blak cat', {'candidates': ['a white dog', ['black cat', 'a black cat']], 'label': 1}, 1.0),
    ('EDAccEvaluator', 'a dog', {'candidates': ['a white dog', 'a black cat'], 'label': 1}, 0.0),
]
CALL = [{'book': {'city': ['Paris', 'paris, FR'], 'nights': [2], 'pets': ['', False]}}]
CALLS = [
    ('BFCLSingleTurnEvaluator', '[book(city="PARIS", nights=2)]', json.dumps(CALL), 1.0),
    (
        {'type': 'BFCLSingleTurnEvaluator', 'category': 'simple'},
        [{'book': '{"city": "Paris", "nights": 2}'}],
        CALL,
        1.0,
    ),
    ('BFCLSingleTurnEvaluator', '[{"name": "book", "arguments": {"city": "Paris", "nights": 2}}]', CALL, 1.0),
    ('BFCLSingleTurnEvaluator', 'book(city="Paris", nights=3)', CALL, 0.0),
    ('BFCLSingleTurnEvaluator', 'book(city="Rome", nights=2)', CALL, 0.0),
    ('BFCLSingleTurnEvaluator', 'book(city="Paris")', CALL, 0.0),
    ('BFCLSingleTurnEvaluator', 'book(city="Paris", nights=2, stars=5)', CALL, 0.0),
    ('BFCLSingleTurnEvaluator', 'book(city="Paris", nights=2, pets=0)', CALL, 0.0),
    ('BFCLSingleTurnEvaluator', '[book(city="Paris", nights=2), b(x=1)]', [{'b': {'x': [1]}}, *CALL], 1.0),
    ('BFCLSingleTurnEvaluator', '[b(x=1), b(x=1)]', [{'b': {'x': [1]}}, {'b': {'x': [2]}}], 0.0),
    ('BFCLSingleTurnEvaluator', 'b(x={"y": [1, 2]})', [{'b': {'x': [{'y': [[1, 2]]}]}}], 1.0),
    ('BFCLSingleTurnEvaluator', 'I would book.', CALL, 0.0),
    ({'type': 'BFCLRelevanceEvaluator', 'category': 'irrelevance'}, 'I cannot.', None, 1.0),
    ({'type': 'BFCLRelevanceEvaluator', 'category': 'irrelevance'}, '[f(a=1)]', None, 0.0),
    ({'type': 'BFCLRelevanceEvaluator', 'category': 'live_relevance'}, '[f(a=1)]', None, 1.0),
    ({'type': 'BFCLRelevanceEvaluator', 'category': 'live_relevance'}, '[]', None, 0.0),
]
TRUTH = {'answers': {'correct_answers': ['Nothing happens'], 'incorrect_answers': ['You die']}}
TRUTHFUL = [
    ({'type': 'TruthfulQAEvaluator', 'metrics': 'rouge'}, 'Nothing happens', TRUTH, 1.0),
    ({'type': 'TruthfulQAEvaluator', 'metrics': 'rouge'}, 'you die', TRUTH, -1.0),
    ({'type': 'TruthfulQAEvaluator', 'metrics': ['bleu']}, 'I have no comment.', TRUTH, 1.0),
]
CASES = [
    *(*NEEDLES, *RULER, *LONGBENCH, *LVEVAL, *LONG_CONTEXT, *EXAMS, *MULTILINGUAL),
    *(*INSTRUCTED, *SHORT_ANSWERS, *MATHEMATICS, *MEASUREMENTS, *PICTURES, *CALLS, *TRUTHFUL),
]


@in_one
@pytest.mark.parametrize(('evaluator', 'reply', 'gold', 'score'), CASES)
def test_a_reply_is_worth_what_its_benchmark_says(evaluator: Any, reply: str, gold: Any, score: float) -> None:
    run = scored(evaluator, (reply, gold))
    assert run.verdicts[0].score == pytest.approx(score)
    assert run.value == pytest.approx(100 * score)


def test_the_table_has_cases_of_every_evaluator() -> None:
    named = {case[0] if isinstance(case[0], str) else case[0]['type'] for case in CASES}
    ungraded = {f'GaokaoBenchEvaluator_{kind}' for kind in ('subjective', 'correction')}
    over_all_rows = {'AUCROCEvaluator', 'AccDropEvaluator', 'MAEEvaluator', 'RMSEEvaluator'}
    by_a_package = {'ReasoningGymEvaluator'}  # in tests/test_benchmark_names.py
    second_names = {'TEXTEvaluatorForGlm4v', 'MastermathDatasetv1Evaluator', 'AccScoreStr_Evaluator'}
    compared_as_text = {'GPQAEvaluator', 'CharmReasonEvaluator', 'NeedleBenchATCEvaluator'}
    others = ('.row_answers:', '.sciences:', '.reasoning:')  # in tests/test_row_answers.py and test_science_scores.py
    elsewhere = {name for name, path in METRICS.items() if any(part in path for part in others)}
    assert (
        named - compared_as_text
        == {name for name, path in METRICS.items() if 'benchmark_metrics' in path}
        - second_names
        - elsewhere
        - ungraded
        - over_all_rows
        - by_a_package
    )


OPTION_TEXTS = ['Paris', 'Rome', '', 'Rome and Paris']


@in_one
@pytest.mark.parametrize(
    ('reply', 'right'),
    [
        ('It must be\nRome', True),
        ('Rome\nno idea', True),
        ('Rome or Paris', False),
        ('nothing', False),
        ('So the answer is (B).', True),
        ('So the answer is (A).\n\nQuestion: next?\nThe answer is (B).', False),
    ],
)
def test_an_option_may_be_chosen_by_its_text(reply: str, right: bool) -> None:
    columns = {'options': OPTION_TEXTS, 'discipline': 'Geography', 'difficulty': 'easy'}
    run = scored('SuperGPQAEvaluator', (reply, 'B'), columns=columns)
    assert run.verdicts[0].correct is right
    assert run.details['further'] == {'category/Geography': 100.0 * right, 'category/easy': 100.0 * right}


def test_accuracy_is_told_apart_by_contamination() -> None:
    rows = [
        Scorable(n, 'ok', 'A', gold, {'is_clean': state})
        for n, (gold, state) in enumerate([('A', 'clean'), ('B', 'dirty')])
    ]
    run = build_scorer({'evaluator': 'AccContaminationEvaluator'}).score(rows)
    assert run.details['further'] == {'accuracy - clean': 100.0, 'accuracy - dirty': 0.0}


def test_grids_are_also_compared_cell_by_cell() -> None:
    run = scored('ARCPrizeEvaluator', ('[[1, 2], [3]]', [[1, 0], [3, 4]]))
    assert (run.value, run.details['further']) == (0.0, {'cells': 50.0})
    assert scored('ARCPrizeEvaluator', ('[[1]]', [[1], [2]])).details['further'] == {'cells': 50.0}


def test_a_drop_without_both_kinds_of_rows_is_none() -> None:
    for kind in ('original', 'word'):
        rows = [Scorable(0, 'ok', 'A', 'A', {'type': kind})]
        assert build_scorer({'evaluator': 'AccDropEvaluator'}).score(rows).value == 0.0


@in_one
@pytest.mark.parametrize(
    'evaluator', ['BBoxIoUEvaluator', 'MMStarEvaluator', 'MRCREvaluator', 'BFCLSingleTurnEvaluator']
)
def test_a_gold_answer_that_should_be_json_and_is_not_is_named(evaluator: str) -> None:
    with pytest.raises(ScoringError, match=r"expected JSON as the gold answer, got 'not \[json'\."):
        scored(evaluator, ('[1, 2, 3, 4]', 'not [json'))


def test_boxes_tell_how_much_they_overlap_and_stay_inside_the_picture() -> None:
    inside = {'bbox': [50, 50, 100, 100], 'image_width': 100, 'image_height': 200}
    run = scored('BBoxIoUEvaluator', ('[500, 250, 2000, 500]', inside))
    assert run.details['further'] == {'iou': 100.0}
    entry = {'type': 'BBoxIoUEvaluator', 'clip_to_image': False}
    assert scored(entry, ('[500, 250, 2000, 500]', inside)).details['further']['iou'] == pytest.approx(100 / 3)
    apart = {**inside, 'bbox': [0, 0, 10, 10]}
    assert scored('BBoxIoUEvaluator', ('[500, 500, 600, 600]', apart)).details['further'] == {'iou': 0.0}


@in_one
@pytest.mark.parametrize(
    ('size', 'options', 'seen'),
    [
        ((100, 100), {'factor': 32, 'min_pixels': 1, 'max_pixels': 10**9}, (96, 96)),
        ((100, 400), {'factor': 32, 'min_pixels': 1, 'max_pixels': 10_000}, (32, 192)),
        ((100, 100), {'factor': 32, 'min_pixels': 40_000, 'max_pixels': 10**9}, (224, 224)),
        ((10, 10), {'factor': 32, 'min_pixels': 1, 'max_pixels': 10**9}, (32, 32)),
        ((32, 32), {}, (128, 128)),
        ((7232, 9280), {}, (7200, 9248)),  # 4 of 32 × 32 pixels too many
        ((100, 100), {}, (128, 128)),
    ],
)
def test_a_picture_is_seen_at_multiples_of_a_size(
    size: tuple[int, int], options: dict[str, int], seen: tuple[int, int]
) -> None:
    assert _resize(*size, options) == seen


def test_categories_have_their_own_accuracy() -> None:
    run = scored('MMStarEvaluator', ('B', CHOICES), ('A', {**CHOICES, 'category': 'other'}))
    assert run.details['further'] == {'animals': 100.0, 'other': 0.0}
    cot = json.dumps([{'A': 'x', 'B': 'y'}, 'B', 'Art'])
    assert scored('MMMUProCotEvaluator', ('Answer: B\nAnswer: A', cot)).value == 0.0
    assert scored('MMMUProCotEvaluator', ('Answer: B', cot)).details['further'] == {'Art': 100.0}


def test_truth_is_told_by_more_than_one_number() -> None:
    entry = {'type': 'TruthfulQAEvaluator', 'metrics': ['rouge', 'bleu']}
    further = scored(entry, ('nothing', TRUTH)).details['further']
    assert further['rouge_max'] == pytest.approx(200 / 3)
    assert further['rouge_diff'] == pytest.approx(200 / 3)
    assert (further['rouge_acc'], further['bleu_acc']) == (100.0, 0.0)


def test_needles_are_also_counted_by_depth() -> None:
    run = scored('NeedleBenchParallelEvaluator', ('Rome', 'Rome*Paris#10*30'), ('Oslo Rome', 'Oslo*Bern#10*30'))
    assert (run.value, run.details['further']) == (50.0, {'Depth10': 100.0, 'Depth30': 0.0})


def test_long_questions_are_also_counted_by_difficulty_and_length() -> None:
    run = scored('LongBenchv2Evaluator', ('A', 'A'), columns={'difficulty': 'easy', 'length': 'short'})
    assert run.details['further'] == {'accuracy_easy': 100.0, 'accuracy_short': 100.0}


def test_questions_of_a_text_count_one_by_one() -> None:
    rows = [('A B C', ['A', 'B', 'C']), ('A', ['B'])]
    assert scored('GaokaoBenchEvaluator_multi_question_choice', *rows).value == pytest.approx(75.0)


@in_one
@pytest.mark.parametrize('kind', ['subjective', 'correction'])
def test_questions_that_a_person_has_to_grade_have_no_score(kind: str) -> None:
    run = scored(f'GaokaoBenchEvaluator_{kind}', ('略', ['略']))
    assert (run.value, run.total, run.details['excluded']) == (None, 1, {'unmarked': 1})


def test_the_error_of_numbers_is_their_root_mean_square_or_mean() -> None:
    rows = [('<NUMBER>3</NUMBER>', '<NUMBER> 0 </NUMBER>'), (r'\boxed{-4}', '0'), ('', 0)]
    squares, means = scored('RMSEEvaluator', *rows), scored('MAEEvaluator', *rows)
    assert (squares.metric, squares.value, means.metric, means.value) == (
        'rmse',
        pytest.approx((25 / 3) ** 0.5),
        'mae',
        pytest.approx(7 / 3),
    )
    assert [scored(f'{kind}Evaluator', ('-1', '2'), ('5', '5')).value for kind in ('RMSE', 'MAE')] == [4.5**0.5, 1.5]
    assert squares.details['lower_is_better']
    assert means.details['lower_is_better']


def test_the_area_under_the_curve_is_that_of_the_second_choice() -> None:
    run = scored('AUCROCEvaluator', ([0.9, 0.1], 0), ([0.6, 0.4], 1), ([0.5, 0.5], 0), ([0.2, 0.8], '1'))
    assert (run.value, run.details['further']['accuracy']) == (75.0, 75.0)
    assert scored('AUCROCEvaluator', ([0.5, 0.5], 0), ([0.5, 0.5], 1)).value == 50.0
    for label in (0, 1):
        with pytest.raises(ScoringError, match='rows of both labels'):
            scored('AUCROCEvaluator', ([0.5, 0.5], label))


def test_the_drop_of_accuracy_is_that_of_attacked_rows() -> None:
    rows = [
        Scorable(number, 'ok', said, 'A', {'type': kind})
        for number, (said, kind) in enumerate(
            [('A', 'original'), ('A', 'original'), ('A', 'word'), ('B', 'sentence'), ('B', 'word'), ('B', 'word')]
        )
    ]
    run = build_scorer({'evaluator': 'AccDropEvaluator'}).score(rows)
    assert (run.metric, run.value) == ('acc_drop', 75.0)
    assert run.details['further'] == {'acc_before': 100.0, 'acc_after': 25.0}


def test_a_row_without_what_its_benchmark_needs_says_so() -> None:
    needs = [
        ('IFEvaluator', None, 'instruction_id_list'),
        ('ARCPrizeEvaluator', 5, 'not a list of lists'),
        ('RMSEEvaluator', 'none', 'has no number'),
        ('TruthfulQAEvaluator', 'x', 'correct_answers'),
        ('AUCROCEvaluator', 1, 'probabilities'),
        ('EDAccEvaluator', [1], 'expected a dict'),
        ('TEXTEvaluator', [], 'no answers'),
    ]
    for evaluator, gold, message in needs:
        entry = {'type': evaluator, 'metrics': 'rouge'} if evaluator == 'TruthfulQAEvaluator' else evaluator
        with pytest.raises(ScoringError, match=message):
            scored(entry, ('x', gold))


@in_one
@pytest.mark.parametrize(
    ('entry', 'message'),
    [
        ({'type': 'LiveMathBenchEvaluator', 'model_name': 'gpt', 'url': ['http://x']}, 'judge model inside'),
        ('TruthfulQAEvaluator', 'needs a trained model'),
    ],
)
def test_what_would_ask_a_model_of_its_own_is_refused(entry: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_scorer({'evaluator': entry})


INSTRUCTIONS_SEEN = [  # kind, arguments, a reply that follows, one that does not
    ('keywords:existence', {'keywords': ['cat', 'dog']}, 'A Cat and a dog', 'A cat'),
    ('keywords:frequency', {'keyword': 'cat', 'frequency': 2, 'relation': 'at least'}, 'cat Cat', 'cat'),
    ('keywords:frequency', {'keyword': 'cat', 'frequency': 2, 'relation': 'less than'}, 'cat', 'cat cat'),
    ('keywords:forbidden_words', {'forbidden_words': ['cat']}, 'concatenate', 'the Cat'),
    ('keywords:letter_frequency', {'letter': 'q', 'let_frequency': 2, 'let_relation': 'at least'}, 'Qq', 'q'),
    ('language:response_language', {'language': 'de'}, 'Das ist ein schöner Tag heute', 'This is a nice day'),
    ('language:response_language', {'language': 'de'}, '123', ''),
    ('length_constraints:number_sentences', {'num_sentences': 2, 'relation': 'at least'}, 'One. Two!', 'Mr. Smith ran'),
    ('length_constraints:number_sentences', {'num_sentences': 2, 'relation': 'less than'}, 'It is 3.5 m.', 'One. Two.'),
    ('length_constraints:number_paragraphs', {'num_paragraphs': 2}, 'a\n***\nb', 'a\n***\n***\nb'),
    ('length_constraints:number_words', {'num_words': 3, 'relation': 'at least'}, 'a b c', 'a b'),
    (
        'length_constraints:nth_paragraph_first_word',
        {'num_paragraphs': 2, 'nth_paragraph': 2, 'first_word': 'Then'},
        'First\n\n"Then, we go',
        'Then\n\nwe go',
    ),
    ('detectable_content:number_placeholders', {'num_placeholders': 2}, '[name] at [place]', '[name]'),
    ('detectable_content:postscript', {'postscript_marker': 'P.S.'}, 'Bye\nP.S. hi', 'Bye'),
    ('detectable_content:postscript', {'postscript_marker': 'P.P.S'}, 'Bye\np. p. s. hi', 'P.S. hi'),
    ('detectable_format:number_bullet_lists', {'num_bullets': 2}, '* a\n- b', '* a\n** b'),
    ('detectable_format:constrained_response', {}, 'My answer is maybe.', 'maybe'),
    ('detectable_format:number_highlighted_sections', {'num_highlights': 1}, 'a *b* c', 'a ** c'),
    (
        'detectable_format:multiple_sections',
        {'section_spliter': 'SECTION', 'num_sections': 2},
        'SECTION 1 a SECTION 2',
        '1',
    ),
    ('detectable_format:json_format', {}, '```json\n{"a": 1}\n```', '{a: 1}'),
    ('detectable_format:title', {}, '<<On cats>>\nText', '<< >>'),
    ('combination:two_responses', {}, 'a\n******\nb', 'a\n******\na'),
    ('combination:repeat_prompt', {'prompt_to_repeat': 'Say hi'}, 'say hi\nhi', 'hi'),
    ('startend:end_checker', {'end_phrase': 'The end.'}, 'So it goes. "the END."', 'the end'),
    ('startend:quotation', {}, '"hi"', '"'),
    (
        'change_case:capital_word_frequency',
        {'capital_frequency': 2, 'capital_relation': 'at least'},
        'THE END',
        'THE end',
    ),
    ('change_case:english_capital', {}, 'THIS IS A NICE DAY', 'This is'),
    ('change_case:english_lowercase', {}, 'this is a nice day', 'This is'),
    ('punctuation:no_comma', {}, 'no', 'no, no'),
]


@in_one
@pytest.mark.parametrize(('kind', 'given', 'follows', 'does_not'), INSTRUCTIONS_SEEN)
def test_an_instruction_is_followed_or_not(kind: str, given: dict[str, Any], follows: str, does_not: str) -> None:
    assert follow_instructions(follows, [kind], [{**given, 'other': None}]) == [True]
    assert follow_instructions(does_not, [kind], [given]) == [False]


def test_the_table_has_cases_of_all_25_kinds_of_instructions() -> None:
    assert {case[0] for case in INSTRUCTIONS_SEEN} == set(INSTRUCTIONS)
    assert len(INSTRUCTIONS) == 25


def test_instructions_are_counted_by_prompt_and_one_by_one_strictly_and_loosely() -> None:
    gold = {
        'instruction_id_list': ['startend:quotation', 'punctuation:no_comma', 'combination:repeat_prompt'],
        'kwargs': [{}, {}, {}],
        'prompt': '"Say it',
    }
    run = scored('IFEvaluator', ('Sure, here:\n"Say it again"', gold))
    assert run.value == 0.0
    assert run.details['further'] == pytest.approx(
        {
            'Inst-level-strict-accuracy': 0.0,
            'Prompt-level-loose-accuracy': 100.0,
            'Inst-level-loose-accuracy': 100.0,
        }
    )


LOOSE = [  # a reply, and whether it is a quotation strictly and loosely
    ('"hi"', True, True),
    ('Sure:\n"hi"', False, True),
    ('"hi"\nBye', False, True),
    ('Sure:\n"hi"\nBye', False, True),
    ('*"hi"*', False, True),
    ('Sure:\n*"hi"*', False, True),
    ('Sure:\nhm\n"hi"', False, False),
    ('"hi"\nBye\nBye', False, False),
]


@in_one
@pytest.mark.parametrize(('reply', 'strict', 'loose'), LOOSE)
def test_loosely_a_first_line_a_last_line_and_asterisks_do_not_count(reply: str, strict: bool, loose: bool) -> None:
    run = scored('IFEvaluator', (reply, {'instruction_id_list': ['startend:quotation'], 'kwargs': [{}]}))
    assert run.verdicts[0].correct is strict
    assert run.details['further']['Prompt-level-loose-accuracy'] == 100.0 * loose


def test_a_prompt_without_instructions_is_followed() -> None:
    run = scored('IFEvaluator', ('hi', {'instruction_id_list': [], 'kwargs': []}))
    assert (run.value, run.verdicts[0].correct) == (100.0, True)


INSTRUCTION_EDGES = [  # kind, arguments, reply, followed
    ('length_constraints:number_sentences', {'num_sentences': 3}, 'One. Two? Three!', True),
    ('length_constraints:number_sentences', {'num_sentences': 4}, 'One. Two? Three!', False),
    ('length_constraints:number_sentences', {'num_sentences': 2}, 'Is it 3.5? Yes', True),
    ('length_constraints:number_sentences', {'num_sentences': 2}, 'Hi Dr. Who, e.g. you', False),
    ('length_constraints:number_paragraphs', {'num_paragraphs': 2}, '***\na ***\nb\n***', True),
    ('length_constraints:number_paragraphs', {'num_paragraphs': 3}, 'a***b', False),
    ('length_constraints:number_words', {'num_words': 3, 'relation': 'less than'}, 'a b c', False),
    ('length_constraints:number_words', {'num_words': 3, 'relation': 'less than'}, 'a b', True),
    (
        'length_constraints:nth_paragraph_first_word',
        {'num_paragraphs': 2, 'nth_paragraph': 1, 'first_word': 'a'},
        'A b\n\nc',
        True,
    ),
    (
        'length_constraints:nth_paragraph_first_word',
        {'num_paragraphs': 3, 'nth_paragraph': 1, 'first_word': 'a'},
        'a b\n\nc',
        False,
    ),
    (
        'length_constraints:nth_paragraph_first_word',
        {'num_paragraphs': 2, 'nth_paragraph': 3, 'first_word': 'c'},
        'a b\n\nc',
        False,
    ),
    (
        'length_constraints:nth_paragraph_first_word',
        {'num_paragraphs': 2, 'nth_paragraph': 2, 'first_word': 'c'},
        'a b\n\n \n\nc',
        False,
    ),
    ('detectable_format:number_bullet_lists', {'num_bullets': 1}, '* a\n- b', False),
    ('detectable_format:number_bullet_lists', {'num_bullets': 1}, '**bold**\n * a', True),
    ('detectable_format:number_highlighted_sections', {'num_highlights': 2}, '*a* and *b*', True),
    ('detectable_format:number_highlighted_sections', {'num_highlights': 3}, '*a* and *b*', False),
    ('detectable_content:number_placeholders', {'num_placeholders': 1}, '[a]', True),
    ('detectable_content:postscript', {'postscript_marker': 'PS:'}, 'Bye\nps: hi', True),
    ('combination:two_responses', {}, 'a******b******c', False),
    ('combination:two_responses', {}, 'a******', False),
    ('combination:two_responses', {}, '******a******b******', True),
    ('keywords:letter_frequency', {'letter': 'Q', 'let_frequency': 2, 'let_relation': 'less than'}, 'q', True),
    ('keywords:letter_frequency', {'letter': 'q', 'let_frequency': 1, 'let_relation': 'less than'}, 'q', False),
    ('change_case:capital_word_frequency', {'capital_frequency': 2, 'capital_relation': 'less than'}, 'A B', False),
    ('change_case:english_capital', {}, 'DAS IST EIN SEHR SCHÖNER TAG HEUTE', False),
    ('change_case:english_lowercase', {}, 'das ist ein sehr schöner tag heute', False),
    ('startend:quotation', {}, '"hi', False),
    ('startend:quotation', {}, ' "hi"\n', True),
    ('punctuation:no_comma', {}, ' ', False),
]


@in_one
@pytest.mark.parametrize(('kind', 'given', 'reply', 'followed'), INSTRUCTION_EDGES)
def test_an_instruction_at_its_edge(kind: str, given: dict[str, Any], reply: str, followed: bool) -> None:
    assert follow_instructions(reply, [kind], [given]) == [followed]


def test_an_unknown_instruction_is_named() -> None:
    with pytest.raises(ScoringError, match="unknown instruction 'keywords:rhyme'"):
        follow_instructions('x', ['keywords:rhyme'], [{}])


READ = [
    ('pmmeval_mifeval_postprocess', ' a ', 'a'),
    ('cmrc_postprocess', '答案是巴黎', '巴黎'),
    ('drcd_postprocess', '巴黎', '巴黎'),
    ('Xsum_postprocess', '\nA house.\nNext', 'A house.'),
    ('triviaqa_postprocess', '\nA house.\nNext', 'A house.'),
    ('flores_postprocess', 'Bonjour\nmonde', 'Bonjour'),
    ('lcsts_postprocess', '- “标题！”', '标题'),
    ('ReCoRD_postprocess', 'Answer: Paris\nx', 'Paris'),
    ('strategyqa_pred_postprocess', 'Yes? So the answer is no.', 'no'),
    ('strategyqa_dataset_postprocess', 'True', 'yes'),
    ('charm_reason_postprocess', 'A dog. The answer is (B), not (C)', 'B'),
    ('GPQA_Simple_Eval_postprocess', 'Answer: d', 'D'),
    ('GPQA_Simple_Eval_postprocess', '**Answer:** (C)', 'C'),
    ('GPQA_Simple_Eval_postprocess', r'Answer: \boxed{\text{D}}', 'D'),
    ({'type': 'mathbench_postprocess', 'name': 'x_cn'}, '答案是 3/4，不是 5', '0.75'),
    ({'type': 'mathbench_postprocess', 'name': 'x_en'}, 'From 5 to 7.', '7'),
    ({'type': 'mathbench_postprocess', 'name': 'x_en'}, 'That is 9-7 = 2.', '2'),
    ('gsm100_postprocess', 'The answer is 1,000 dollars', '1000'),
    ('TheoremQA_postprocess', 'the answer is 3.5, or', '3.5'),
    ('TheoremQA_postprocess_v3', 'The answer is no.', 'False'),
    ('TheoremQA_postprocess_v3', 'We add 2 and 3.\n\nThe answer is 5 apples', '5'),
    ('dapo_math_postprocess_v2', r'\boxed{7}' + '.' * 91, '7'),
    ('dapo_math_postprocess_v2', r'\boxed{7}' + '.' * 92, ''),
    ('TheoremQA_postprocess_v3', 'The answer is 1.5e3', '1.5e3'),
    ('TheoremQA_postprocess_v3', r'The answer is $2\pi$.', r'2\pi'),
    ('TheoremQA_postprocess_v3', 'The answer is 5 meters.', '5'),
    ('TheoremQA_postprocess_v3', 'The answer is (c)', '(c)'),
    ('TheoremQA_postprocess_v3', 'The answer is 5\n\nQ: next\nThe answer is 6', '5'),
    ('TheoremQA_postprocess_v4', 'the answer is: x = [1, 2]', '[1, 2]'),
    ('olympiadbench_postprocess_v2', 'So the final answer is 3.\nSo the final answer is 5', '5'),
    ({'type': 'olympiadbench_postprocess_v2', 'is_chinese': True}, '所以最终答案是$5$。', '$5$。'),
    ({'type': 'olympiadbench_postprocess_v2', 'is_deepseek': True}, 'The answer is: 5', '5'),
    ({'type': 'olympiadbench_postprocess_v2', 'is_deepseek': True, 'is_chinese': True}, '## 解题答案 5', '5'),
    ('olympiadbench_postprocess_v2', '5', '5'),
    ('dapo_math_postprocess', 'Answer: $7$', '7'),
    ('dapo_math_postprocess_v2', r'\boxed{7}', '7'),
    ('dapo_math_postprocess_v2', r'\boxed{7}' + ' ' * 100, ''),
    ('smolinstruct_acc_postprocess', 'No.', '<BOOLEAN> No </BOOLEAN>'),
    ('smolinstruct_acc_0shot_postprocess', 'perhaps', ''),
    ('refcoco_bbox_postprocess', 'x [1, 2, 3, 4.5]', [1.0, 2.0, 3.0, 4.5]),
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
    ({'type': 'mgsm_postprocess', 'lang': 'en'}, 'Answer: 10/2 = 5 apples', '5'),
    ({'type': 'pmmeval_mhellaswag_postprocess', 'lang_code': 'en'}, '{"answer": "d"}', 'D'),
    ('gsm100_dataset_postprocess', '1,234', '1234'),
    ('my_multiple_select_postprocess', 'So B and A.', 'A, B, S'),
    ('crowspairs_postprocess', 'A. it', 'A'),
    ('crowspairs_postprocess', 'Both of them', 'invalid'),
    ('game24_postprocess', 'Answer: (1+2)*8 = 24', '(1+2)*8 '),
    ('scibench_postprocess', 'the answer is \\boxed{1.2} m', '1.2'),
    ('scibench_postprocess', 'The answer is 1,250 K', '1250'),
    ('TheoremQA_postprocess_v2', 'x\nThe answer is: 7', '7'),
    ('GUE_postprocessor', '<think>No.</think> The prediction result is Positive, not weak.', 'positive'),
    ('GUE_postprocessor', 'Yes, a promoter was found.', 'positive'),
    ('GUE_postprocessor', 'The sequence lacks one, though it was found elsewhere.', 'negative'),
    ('GUE_postprocessor', '<think>positive', ''),
    ('clbench_pred_postprocess', ' a \n', ' a'),
    ('clbench_pred_postprocess', '\n', ''),
    ('flores', ' a b\nc', 'a b'),
    ('bbeh_freeform_postprocess', r'The final answer is \text{A B}', 'a b'),
    ('bbeh_mcq_postprocess', 'The answer is: (C)', 'c'),
    ('arxivrollbench_selection_postprocess', 'Of 4, selection2', 'Selection 2'),
    ('arxivrollbench_selection_postprocess', ' none ', 'none'),
    ('arxivrollbench_choice_postprocess', 'So: c.', 'C'),
    ('flores-chinese', '我爱北京\n它', '我 爱 北京'),
]


@in_one
@pytest.mark.parametrize(('postprocessor', 'reply', 'found'), READ)
def test_a_reply_is_read_by_its_benchmark_s_postprocessor(postprocessor: Any, reply: str, found: Any) -> None:
    assert read_postprocessor(postprocessor, read_as='own')(reply) == found


def test_the_table_has_cases_of_every_postprocessor() -> None:
    assert {case[0] if isinstance(case[0], str) else case[0]['type'] for case in READ} >= {
        name
        for name, path in POSTPROCESSORS.items()
        if ('benchmark_metrics' in path or 'pattern_readers' in path) and 'capital' not in name
    }


@in_one
@pytest.mark.parametrize(
    ('reply', 'gold', 'error'),
    [
        ('We look at 3 cases. Hence the correct answer is 0.', '0', 0.0),
        ('The answer is 7. Wait. The answer is 2.', '0', 2.0),
        ('<think>5?</think>答案是3', '0', 3.0),
        ('<NUMBER> 4 </NUMBER> is the answer: 9', '0', 4.0),
        ('no idea', '2', 2.0),
        ('<NUMBER>1/2</NUMBER>', '0.5', 0.0),
        ('<NUMBER> -3.2e-5 </NUMBER>', '<NUMBER>-3.2e-5</NUMBER>', 0.0),
        (r'Of 7 samples: \boxed{5 \text{ mg}}', '5', 0.0),
        ('I looked at 3. The answer is 5 million.', '5000000', 0.0),
    ],
)
def test_a_predicted_number_is_the_one_stated_as_the_answer(reply: str, gold: str, error: float) -> None:
    assert scored('MAEEvaluator', (reply, gold)).value == pytest.approx(error)


@pytest.mark.parametrize(
    'reply',
    [
        '',
        'The cat sat.',
        'Sure!\nThe cat sat on the mat.\nIt is 3.5 kg, well-known.',
        '猫坐在\n垫子上。\n\nThe mat, the mat',
        'A <skipped>cat &amp;c. .5,-3-4 sat .. on{a}mat,\nis on a mat, 3.5 kg<skipped>\nA cat\nis\non a mat,\n\u20073.5\nkg',
        '\n'.join(['So the cat', 'sat', 'on the', 'mat.', 'A cat is', 'on a mat, 3.5', 'kg', '? A', 'mat'] * 2),
    ],
)
def test_the_lines_nearest_to_a_translation_are_scored_as_sacrebleu_scores_them(reply: str) -> None:
    from sacrebleu.metrics import BLEU

    wanted = ['The cat sat on the mat.', 'A cat is on a mat, 3.5 kg']
    lines = [' '.join(re.sub('[\u2e80-\u9fff]', r' \g<0> ', line).split()) for line in reply.split('\n') if line]
    parts = [' '.join(lines[start:end]) for start in range(len(lines)) for end in range(start + 1, len(lines) + 1)]
    best = max(
        (BLEU(effective_order=True).sentence_score(part, wanted) for part in parts or ['']),
        key=lambda result: result.score,
    )
    mark = read_evaluator('PMMEvalFloresEvaluator').mark(Answer(reply, wanted))
    assert mark is not None
    assert mark.score == pytest.approx(best.score / 100)
    assert mark.tally == (*best.counts, *best.totals, best.sys_len, best.ref_len)
