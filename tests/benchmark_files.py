"""Small files in the layouts that benchmarks publish: (type, other keys of the entry, files, expected rows by split)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

__all__ = ['CASES', 'HUB_CASES', 'RECORDED', 'write_files']

NLI = {'sentence1': 'a', 'sentence2': 'b'}
WSC = {
    'text': 'Mark told Pete many lies which he believed',
    'target': {'span1_text': 'Pete', 'span1_index': 2, 'span2_text': 'he', 'span2_index': 6},
}
CLUE = {'text': '小明说他来', 'target': {'span1_text': '小明', 'span1_index': 0, 'span2_text': '他', 'span2_index': 3}}
CMRC = {
    'data': [
        {
            'paragraphs': [
                {'context': 'c', 'qas': [{'question': 'q', 'answers': [{'text': 'x'}, {'text': 'x'}]}]},
                {'context': 'd', 'qas': [{'question': 'r', 'answers': [{'text': 'y'}]}]},
            ]
        }
    ]
}
CMRC_ROWS = [{'context': 'c', 'question': 'q', 'answers': ['x']}, {'context': 'd', 'question': 'r', 'answers': ['y']}]
PUZZLE = {'train': [{'input': [[0]], 'output': [[1]]}], 'test': [{'input': [[1]], 'output': [[2]]}]}
STORY = {f'input_sentence_{n}': str(n) for n in (1, 2, 3, 4)} | {'answer_right_ending': 2}
CHOICE = {'question': ' q ', 'options': ['w', 'x', 'y', 'z'], 'answer': 'B'}
LONG = {'input': 'i', 'context': 'c', 'answers': ['a'], 'all_classes': ['a', 'b'], 'length': 3}
MULTIRC = {
    'passage': {
        'text': 't',
        'questions': [{'question': 'q', 'answers': [{'text': 'a', 'label': 1}, {'text': 'b', 'label': 0}]}],
    }
}
RECORD = {
    'passage': {'text': 'x\n\n@highlight\ny'},
    'qas': [{'query': 'who is @placeholder', 'answers': [{'text': 'A'}, {'text': 'B'}]}],
}
SCI = [{'input': f'i{n}', 'output': f'o{n}'} for n in range(7)]
PROBLEM = {'task_id': 't', 'prompt': 'p', 'test': 'x'}
STEM = {'stem': 's', 'choices': [{'text': one, 'label': one} for one in 'abcde']}

Case = tuple[str, dict[str, Any], dict[str, Any], dict[str, list[dict[str, Any]]]]
CASES: list[Case] = [
    ('AFQMCDatasetV2', {}, {'f.json': [{**NLI, 'label': '1'}]}, {'*': [{**NLI, 'label': 'B'}]}),
    ('DAPOMathDataset', {}, {'f.jsonl': [{'prompt': [{'role': 'user', 'content': 'p'}], 'reward_model': {'ground_truth': 34}, 'data_source': 's', 'ability': 'MATH', 'extra_info': {}}]},
     {'*': [{'prompt': 'p', 'answer': '34', 'data_source': 's', 'ability': 'MATH', 'extra_info': {}}]}),
    ('bustumDataset_V2', {}, {'f.json': [{**NLI, 'label': '0'}]}, {'*': [{**NLI, 'label': 'A'}]}),
    ('CMNLIDataset', {}, {'f.json': [{**NLI, 'label': '-'}, {**NLI, 'label': 'neutral'}]}, {'*': [{**NLI, 'label': 'neutral'}]}),
    ('CMNLIDatasetV2', {}, {'f.json': [{**NLI, 'label': '-'}, {**NLI, 'label': 'neutral'}]}, {'*': [{**NLI, 'label': 'C'}]}),
    ('CMRCDataset', {}, {'f.json': json.dumps(CMRC)}, {'*': CMRC_ROWS}),
    ('DRCDDataset', {}, {'f.json': json.dumps(CMRC)}, {'*': CMRC_ROWS}),
    ('CHIDDatasetV2', {}, {'f.json': [{'content': '甲#idiom#乙', 'candidates': [*'abcdefg'], 'answer': 2}]},
     {'*': [{'content': '甲______乙', **dict(zip('ABCDEFG', 'abcdefg', strict=True)), 'answer': 'C'}]}),
    ('CluewscDatasetV2', {}, {'f.json': [{**CLUE, 'label': 'true'}]}, {'*': [{'span1': '小明', 'span2': '他', 'text': '小明说他来', 'label': 'A'}]}),
    ('CslDatasetV2', {}, {'f.json': [{'abst': 'x', 'keyword': ['a', 'b'], 'label': '1'}]}, {'*': [{'abst': 'x', 'keywords': 'a，b', 'label': 'B'}]}),
    ('EprstmtDatasetV2', {}, {'f.json': [{'sentence': 's', 'label': 'Negative'}]}, {'*': [{'sentence': 's', 'label': 'B'}]}),
    ('TNewsDatasetV2', {}, {'f.json': [{'sentence': 's', 'label_desc': 'news_tech'}]}, {'*': [{'sentence': 's', 'label_desc2': 'D'}]}),
    ('C3Dataset', {}, {'f.json': json.dumps([[['ab', 'cd'], [{'question': 'q', 'choice': ['x', 'y'], 'answer': 'y'}], '1']])},
     {'*': [{'content': 'ab cd', 'question': 'q', 'choice0': 'x', 'choice1': 'y', 'choice2': 'x', 'choice3': 'x', 'choices': ['x', 'y', 'x', 'x'], 'label': 1}]}),
    ('C3Dataset_V2', {}, {'f.json': json.dumps([[['ab', 'cd'], [{'question': 'q', 'choice': ['x', 'y'], 'answer': 'y'}], '1']])},
     {'*': [{'content': 'abcd', 'question': 'q', 'choice0': 'x', 'choice1': 'y', 'choice2': '[NULL]', 'choice3': '[NULL]', 'label': 'B'}]}),
    ('CharmDataset', {'name': 'n'}, {'n.json': json.dumps({'examples': [{'input': 'i', 'target': 't'}]})}, {'*': [{'input': 'i', 'target': 't'}]}),
    ('FinanceIQDataset', {'name': 'n'}, {'dev/n.csv': ',Q,A,B,C,D,Answer\n0,q,a,b,c,d,A\n', 'test/n.csv': ',Q,A,B,C,D,Answer\n0,r,a,b,c,d,B\n'},
     {'test': [{'question': 'r', 'A': 'a', 'B': 'b', 'C': 'c', 'D': 'd', 'answer': 'B'}]}),
    ('GaokaoBenchDataset', {'filename': '/x/y.json', 'name': 'y'}, {'x/y.json': json.dumps({'keywords': 'k', 'example': [{'question': 'q', 'answer': ['A']}]})},
     {'*': [{'question': 'q', 'answer': ['A']}]}),
    ('LCSTSDataset', {}, {'test.src.txt': 'long one \nlong two\n', 'test.tgt.txt': 'one\n two\n'},
     {'*': [{'content': 'long one', 'abst': 'one'}, {'content': 'long two', 'abst': 'two'}]}),
    ('XiezhiDataset', {'name': 'xiezhi_spec_eng'}, {
        'xiezhi_spec_eng/xiezhi.v1.json': [{'question': 'q', 'options': 'a\nb\nc\nd', 'answer': 'c', 'label': ['x', 'long']}, {'question': 'q', 'options': 'a\nb', 'answer': 'a', 'label': []}],
        'xiezhi_train_eng/xiezhi.v1.json': [{'question': 'p', 'options': 'a\nb\nc\nd', 'answer': 'a', 'label': ['x']}],
     }, {'test': [{'question': 'q', 'A': 'a', 'B': 'b', 'C': 'c', 'D': 'd', 'labels': ['long', 'x'], 'answer': 'C'}]}),
    ('AXDatasetV2', {}, {'f.jsonl': [{**NLI, 'label': 'not_entailment'}]}, {'*': [{**NLI, 'label': 'B'}]}),
    ('AnliDataset', {}, {'f.jsonl': [{'context': 'c', 'label': 'e'}]}, {'*': [{'context': 'c', 'label': 'B'}]}),
    ('CBDatasetV2', {}, {'f.jsonl': [{'premise': 'p', 'label': 'neutral'}]}, {'*': [{'premise': 'p', 'label': 'C'}]}),
    ('COPADatasetV2', {}, {'f.jsonl': [{'premise': 'p', 'label': 1}]}, {'*': [{'premise': 'p', 'label': 'B'}]}),
    ('WiCDatasetV2', {}, {'f.jsonl': [{'word': 'w', 'label': 'false'}]}, {'*': [{'word': 'w', 'label': 'B'}]}),
    ('WSCDatasetV2', {}, {'f.jsonl': [{**WSC, 'label': 'true'}]}, {'*': [{'span1': 'Pete', 'span2': 'he', 'text': WSC['text'], 'label': 'A'}]}),
    ('WSCDatasetV3', {}, {'f.jsonl': [{**WSC, 'label': 'false'}]},
     {'*': [{'span1': 'Pete', 'span2': 'he', 'text': 'Mark told * Pete * many lies which # he # believed', 'label': 'B'}]}),
    ('MultiRCDataset', {}, {'f.jsonl': [MULTIRC]}, {'*': [{'text': 't', 'question': 'q', 'answer': 'a', 'label': 1}, {'text': 't', 'question': 'q', 'answer': 'b', 'label': 0}]}),
    ('MultiRCDatasetV2', {}, {'f.jsonl': [MULTIRC]}, {'*': [{'text': 't', 'question': 'q', 'answer': 'a', 'label': 'A'}, {'text': 't', 'question': 'q', 'answer': 'b', 'label': 'B'}]}),
    ('ReCoRDDataset', {}, {'f.jsonl': [RECORD]}, {'*': [{'text': 'x\n\n\ny', 'question': 'who is ____', 'answers': ['A', 'B']}]}),
    ('ReCoRDDatasetV2', {}, {'f.jsonl': [RECORD]}, {'*': [{'text': 'x\n\ny', 'question': 'who is ____', 'answers': ['A', 'B']}]}),
    ('commonsenseqaDataset', {}, {'train_rand_split.jsonl': [{'question': STEM, 'answerKey': 'A'}], 'dev_rand_split.jsonl': [{'question': STEM, 'answerKey': 'E'}]},
     {'validation': [{'question': 's', 'A': 'a', 'B': 'b', 'C': 'c', 'D': 'd', 'E': 'e', 'answerKey': 'E'}]}),
    ('CommonsenseQADataset_CN', {}, {'f.jsonl': [{'question': 'q', 'id': '1', 'question_concept': 'c', 'choices': {'text': [*'vwxyz']}, 'answerKey': 'A'}]},
     {'validation': [{'question': 'q', 'answerKey': 'A', **dict(zip('ABCDE', 'vwxyz', strict=True))}]}),
    ('OBQADataset', {'name': 'main'}, {'f.jsonl': [{'question': {**STEM, 'choices': STEM['choices'][:4]}, 'answerKey': 'D', 'fact1': 'f'}]},
     {'*': [{'A': 'a', 'B': 'b', 'C': 'c', 'D': 'd', 'question_stem': 's', 'answerKey': 'D', 'fact1': 'f'}]}),
    ('StoryClozeDataset', {'lang': 'en'}, {'en_train.jsonl': [STORY], 'en_eval.jsonl': [STORY]}, {'test': [{**STORY, 'context': '1 2 3 4'}] * 2}),
    ('StoryClozeDatasetV2', {'lang': 'en'}, {'en_train.jsonl': [STORY], 'en_eval.jsonl': [STORY]}, {'*': [{**STORY, 'context': '1 2 3 4', 'answer_right_ending': 'B'}] * 2}),
    ('SummeditsDataset_V2', {}, {'f.jsonl': [{'doc': 'd', 'label': 1}]}, {'*': [{'doc': 'd', 'label': 'A'}]}),
    ('StrategyQADataset', {}, {'f.json': json.dumps([{'question': 'q', 'answer': True}])}, {'*': [{'question': 'q', 'answer': True}]}),
    ('TheoremQADataset', {}, {'f.csv': 'Question,Answer\nq,3\n'}, {'test': [{'Question': 'q', 'Answer': '3'}]}),
    ('lambadaDataset', {}, {'f.jsonl': [{'prompt': 'p', 'label': 'l'}]}, {'test': [{'prompt': 'p', 'label': 'l'}]}),
    ('DropOpenAIDataset', {}, {'f.jsonl': [{'context': 'c', 'ref_text': 'a|b'}]}, {'validation': [{'prompt': 'c', 'answers': 'a|b'}]}),
    ('MMLUArabicDataset', {'name': 'n'}, {'dev/n_dev.csv': 'q,a,b,c,d,A\n', 'test/n_test.csv': 'r,a,b,c,d,B\n'},
     {'test': [{'input': 'r', 'A': 'a', 'B': 'b', 'C': 'c', 'D': 'd', 'target': 'B'}]}),
    ('MathBenchDataset', {'name': 'cloze_en'}, {'cloze_en.jsonl': [{'question': ' q ', 'answer': ' 3 '}]}, {'*': [{'question': 'q', 'answer': '3'}]}),
    ('MathBenchDataset', {'name': 'single_choice_en', 'with_circular': False}, {'single_choice_en.jsonl': [CHOICE]}, {'*': [{'question': 'q\nA. w\nB. x\nC. y\nD. z\n', 'answer': 'B'}]}),
    ('MathBenchDataset', {'name': 'single_choice_en'}, {'single_choice_en.jsonl': [CHOICE]}, {'*': [
        {'question': 'q\nA. w\nB. x\nC. y\nD. z\n', 'options': [*'wxyz'], 'answer': '0--B--ABCD'},
        {'question': 'q\nA. x\nB. y\nC. z\nD. w\n', 'options': [*'xyzw'], 'answer': '0--A--BCDA'},
        {'question': 'q\nA. y\nB. z\nC. w\nD. x\n', 'options': [*'yzwx'], 'answer': '0--D--CDAB'},
        {'question': 'q\nA. z\nB. w\nC. x\nD. y\n', 'options': [*'zwxy'], 'answer': '0--C--DABC'},
     ]}),
    ('WikiBenchDataset', {'filename': 'w.jsonl', 'name': 'single_choice_cn'}, {'w.jsonl': [CHOICE]}, {'*': [{**CHOICE, 'question': 'q\nA. w\nB. x\nC. y\nD. z\n'}]}),
    ('CompassBenchObjectiveV1_3', {'name': 'cloze_en'}, {'f.jsonl': [{'question': ' q', 'answer': '3 '}]}, {'*': [{'question': 'q', 'answer': '3'}]}),
    ('CrowspairsDatasetCN', {}, {'f.jsonl': [{'sent_more': 'a', 'sent_less': 'b'}]}, {'test': [{'sent_more': 'a', 'sent_less': 'b', 'label': 'A'}]}),
    ('QASPERDataset', {}, {'qasper-dev-v0.3.json': json.dumps({'id': {
        'full_text': [{'section_name': 'S', 'paragraphs': ['p', 'q']}, {'section_name': None, 'paragraphs': []}],
        'qas': [{'question': 'q', 'answers': [{'answer': {'extractive_spans': ['x']}}]}, {'question': 'r', 'answers': [{'answer': {'extractive_spans': []}}]}],
     }})}, {'dev': [{'answer': ['x'], 'question': 'q', 'evidence': 'S\np\nq\n\n\n\n'}]}),
    ('OlympiadBenchDataset', {'name': 'n'}, {'n.json': json.dumps([{'question': 'q', 'final_answer': ['3'], 'language': 'en', 'subject': 's', 'question_type': 't', 'answer_type': 'a', 'is_multiple_answer': False, 'unit': None, 'error': None}])},
     {'test': [{'problem': 'q', 'solution': '3', 'language': 'en', 'subject': 's', 'question_type': 't', 'answer_type': 'a', 'is_multiple_answer': False, 'unit': None, 'error': None,
       'questions': {'question': 'q', 'final_answer': ['3'], 'language': 'en', 'subject': 's', 'question_type': 't', 'answer_type': 'a', 'is_multiple_answer': False, 'unit': None, 'error': None}}]}),
    ('CMOFibDataset', {}, {'f.jsonl': [{'origin_prompt': 'q', 'gold_answer': '3'}]}, {'*': [{'origin_prompt': 'q', 'gold_answer': '3', 'question': 'q', 'answer': '3'}]}),
    ('SimpleQADataset', {}, {'f.csv': 'problem,answer\np,a\n'}, {'test': [{'problem': 'p', 'answer': 'a'}]}),
    ('XsumDataset', {}, {'f.jsonl': [{'dialogue': 'd', 'summary': 's', 'x': 1}]}, {'*': [{'dialogue': 'd', 'summary': 's'}]}),
    ('ArenaHardDataset', {'name': 'n'}, {'n.jsonl': [{'question_id': 1, 'cluster': 'c', 'turns': [{'content': 'q'}]}]},
     {'*': [{'question': 'q', 'capability': 'c', 'judge': {'capability': 'c', 'question': 'q', 'question_id': 1}}]}),
    ('FofoDataset', {'name': 'cn_x'}, {'cn_x.json': json.dumps([{'instruction': 'q', 'id': 1, 'domain': 'd', 'sub_domain': 's', 'format': 'f', 'format_type': 't'}])},
     {'*': [{'question': 'q', 'judge': {'lan': 'cn', 'id': 1, 'domain': 'd', 'sub_domain': 's', 'format': 'f', 'format_type': 't', 'question': 'q'}}]}),
    ('LongBenchlccDataset', {'name': 'lcc'}, {'data/lcc.jsonl': [LONG]}, {'test': [{'context': 'c', 'answers': ['a']}]}),
    ('LongBench2wikimqaDataset', {'name': '2wikimqa'}, {'data/2wikimqa.jsonl': [LONG]}, {'test': [{'input': 'i', 'context': 'c', 'answers': ['a']}]}),
    ('LongBenchtrecDataset', {'name': 'trec'}, {'trec.jsonl': [LONG]}, {'test': [{'input': 'i', 'context': 'c', 'all_labels': {'answers': ['a'], 'all_classes': ['a', 'b']}}]}),
    ('LongBenchv2Dataset', {}, {'data.json': json.dumps([{'_id': 1, 'question': 'q', 'context': 'c', 'answer': 'A', **{f'choice_{c}': c for c in 'ABCD'}, 'difficulty': 'easy', 'length': 'short'}])},
     {'test': [{'question': 'q', 'context': 'c', 'answer': 'A', **{f'choice_{c}': c for c in 'ABCD'}, 'difficulty': 'easy', 'length': 'short'}]}),
    ('BigCodeBenchDataset', {'release_version': 'v0.1.2', 'dataset_version': 'hard'}, {'BigCodeBench-Hard-v0.1.2.jsonl': [PROBLEM]}, {'test': [PROBLEM]}),
    ('HumanevalXDataset', {'language': 'python'}, {'humanevalx_python.jsonl.gz': [PROBLEM]}, {'*': [PROBLEM]}),
    ('HumanevalevalProDataset', {}, {'f.json': json.dumps([PROBLEM])}, {'*': [PROBLEM]}),
    ('MBPPProDataset', {}, {'f.json': [PROBLEM]}, {'*': [PROBLEM]}),
    ('MultiplEDataset', {'language': 'py', 'tag': 'mbpp'}, {'mbpp-py.jsonl': [PROBLEM]}, {'*': [PROBLEM]}),
    ('LCDataset', {'num_repeats': 2}, {'f.jsonl': [{'Contest id': n, 'Difficulty': 'Easy', 'test_list': ['assert 1', 'assert 2']} for n in range(6)]},
     {'test': [{'Contest id': 5, 'Difficulty': 'Easy', 'test_list': 'assert 1\nassert 2', 'test_case': ['assert 1', 'assert 2'], 'test_column': {'test_list_2': 'assert 1\nassert 2', 'task_id': 5}}] * 2}),
    ('ChemBenchDataset', {'name': 'n'}, {f'{s}/n_benchmark.json': json.dumps([{'question': s, 'A': 'a', 'B': 'b', 'C': 'c', 'D': 'd', 'answer': 'A'}]) for s in ('dev', 'test')},
     {'test': [{'input': 'test', 'A': 'a', 'B': 'b', 'C': 'c', 'D': 'd', 'target': 'A'}]}),
    ('MatbenchDataset', {'task': 't'}, {'matbench_base_fold_0_t_test.json': json.dumps([{'problem': 'p', 'answer': 'a', 'x': 1}])}, {'*': [{'problem': 'p', 'answer': 'a'}]}),
    ('MedbulletsDataset', {}, {'f.csv': 'question,opa,opb,opc,opd,ope,answer_idx\nq,a,b,c,d,,B\n'},
     {'*': [{'question': 'q\nA. a\nB. b\nC. c\nD. d', 'opa': 'a', 'opb': 'b', 'opc': 'c', 'opd': 'd', 'ope': '', 'answer_idx': 'B', 'options': [*'abcd'], 'label': 'B', 'prompt_mode': 'zero-shot', 'start': 'A', 'end': 'D'}]}),
    ('NejmaibenchDataset', {}, {'f.csv': 'Question,Choices,Answer\nq,"A. x\n\nB. y",B\n'},
     {'*': [{'Question': 'q', 'Choices': 'A. x\n\nB. y', 'Answer': 'B', 'options': ['x', 'y'], 'question': 'q\nA. x\nB. y', 'label': 'B', 'prompt_mode': 'zero-shot', 'start': 'A', 'end': 'B'}]}),
    ('LiveStemBenchDataset', {'version': 'v'}, {'v.json': json.dumps([{'question': 'q', 'options': ['A. x', 'B. y'], 'answer': 'A'}])}, {'test': [{'question': 'q\nA. x\nB. y', 'answer': 'A'}]}),
    ('LLM4ChemDataset', {'task': 't'}, {'t/dev/data.json': json.dumps(SCI), 't/test/data.json': json.dumps(SCI[:1])}, {'train': SCI[:5], 'test': SCI[:1]}),
    ('OpiDataset', {'task': 't'}, {'t/dev/data.json': json.dumps(SCI), 't/test/data.json': json.dumps(SCI[:1])}, {'train': SCI, 'test': SCI[:1]}),
    ('Bulk_modulus_material_Dataset', {}, {f'bulk_modulus_material/{s}/data.json': json.dumps(SCI[:2]) for s in ('dev', 'test')}, {'test': SCI[:2]}),
    ('GUE_Dataset', {'task': 't'}, {f't/{s}/data.json': json.dumps([{'input': 'i', 'output': 'o.', 'meta_data': {'label': 'x'}}]) for s in ('dev', 'test')},
     {'test': [{'input': 'i', 'output': 'o. The prediction result is x.', 'meta_data': {'label': 'x'}}]}),
    ('LLM4MatDataset', {'property': 'p', 'train_path': 'a.json', 'test_path': 'b.json'}, {'a.json': json.dumps([{'input': 'i', 'output': '{p : 1}'}]), 'b.json': json.dumps([{'input': 'i', 'output': '{q : 1}'}, {'input': 'j', 'output': '{p : 2}'}])},
     {'test': [{'input': 'j', 'output': '{p : 2}'}]}),
    ('CHIDDataset', {}, {'f.json': [{'content': '甲#idiom#', 'candidates': ['a', 'b'], 'answer': 0}]},
     {'*': [{'content': '甲#idiom#', 'candidates': ['a', 'b'], 'answer': 0, 'content0': '甲a', 'content1': '甲b'}]}),
    ('CluewscDataset', {}, {'f.json': [{**CLUE, 'label': 'true'}]}, {'*': [{'text': '小明说他来', 'label': 'true', 'new_text': '小明说小明来', 'answer': 1, 'span1': '小明', 'span2': '他'}]}),
    ('CslDataset', {}, {'f.json': [{'abst': 'x', 'keyword': ['a', 'b']}]}, {'*': [{'abst': 'x', 'keyword': ['a', 'b'], 'keywords': 'a，b'}]}),
    ('OCNLIDatasetV2', {}, {'f.json': [{**NLI, 'label': 'contradiction'}]}, {'*': [{**NLI, 'label': 'B'}]}),
    ('TNewsDataset', {}, {'f.json': [{'sentence': 's', 'label_desc': 'news_tech'}]}, {'*': [{'sentence': 's', 'label_desc': 'news_tech', 'label_desc2': '科技类别公司新闻'}]}),
    ('ARCPrizeDataset', {'version': 'arc_agi_1'}, {'b.json': json.dumps(PUZZLE), 'a.json': json.dumps({**PUZZLE, 'train': []})},
     {'*': [{'training_data': train, 'input_test_data': [[1]], 'output_test_data': [[2]]} for train in ([], PUZZLE['train'])]}),
    ('ChemExamDataset', {}, {'f.jsonl': [
        {'id': 1, 'has_img': False, 'question': 'q', 'answer': 'a', 'qa_type': 1},
        {'id': 2, 'has_img': False, 'question': 'r', 'sub_question': [{'question': 's', 'answer': 'b', 'qa_type': 2}, {'question': 't', 'sub_question': [{'question': 'u', 'answer': 'c', 'qa_type': 3}]}]}]},
     {'*': [{'id': 1, 'has_img': False, 'prompt': 'q', 'output': 'a', 'qa_type': ['1']},
            {'id': 2, 'has_img': False, 'prompt': 'r\nQ1: s\nQ2: t\nQ2.1: u', 'output': '\nA1: b\nA2.1: c', 'qa_type': ['2', '3']}]}),
    ('SciCodeDataset', {'with_bg': True}, {'SciCode_datasets_with_background.json': json.dumps([{'prompt': ['p']}])}, {'*': [{'prompt': ['p']}]}),
    ('TEvalDataset', {'name': 'n'}, {'n.json': json.dumps({'0': {'origin_prompt': '[{"role": "user", "content": "q"}]', 'ground_truth': 'g'}})},
     {'test': [{'prompt': [{'role': 'user', 'content': 'q'}, {'role': 'assistant', 'content': 'g'}], 'ground_truth': '{"origin_prompt": "[{\\"role\\": \\"user\\", \\"content\\": \\"q\\"}]", "ground_truth": "g"}'}]}),
    ('DS1000Dataset', {}, {'f.jsonl': [{'prompt': 'p', 'code_context': 'c'}]}, {'test': [{'prompt': 'p', 'code_context': 'c'}]}),
    ('SubjectiveCmpDataset', {'name': 'n'}, {'n.json': json.dumps([{'question': 'q', 'capability': 'c', 'others': {}, 'x': 1}])},
     {'*': [{'question': 'q', 'capability': 'c', 'others': {}, 'judge': {'capability': 'c', 'question': 'q'}}]}),
    ('WiCDataset', {}, {'f.jsonl': [{'word': 'w', 'label': 'true'}]}, {'*': [{'word': 'w', 'label': 'true', 'answer': 1}]}),
    ('WSCDataset', {}, {'f.jsonl': [{**WSC, 'label': 'false'}]},
     {'*': [{'text': WSC['text'], 'label': 'false', 'new_text': 'Mark told Pete many lies which Pete believed', 'answer': 0, 'span1': 'Pete', 'span2': 'he'}]}),
    ('Composition_material_Dataset', {}, {f'composition_material/{s}/data.json': json.dumps(SCI[:2]) for s in ('dev', 'test')}, {'test': SCI[:2]}),
    *[(kind, {'task': 't'}, {'t/dev/data.json': json.dumps(SCI), 't/test/data.json': json.dumps(SCI[:1])}, {'train': SCI[:5], 'test': SCI[:1]})
      for kind in ('Bioinstruction_Dataset', 'Mol_Instructions_Dataset', 'Mol_Instructions_Dataset_BioText', 'Mol_Instructions_Dataset_Protein_Design', 'PEER_Dataset')],
    *[(f'LongBench{task}Dataset', {'name': 'x'}, {'data/x.jsonl': [LONG]}, {'test': [{'input': 'i', 'context': 'c', 'answers': ['a']}]})
      for task in ('dureader', 'hotpotqa', 'multifieldqa_en', 'multifieldqa_zh', 'musique', 'narrativeqa', 'passage_count', 'passage_retrieval_en', 'passage_retrieval_zh', 'qasper', 'qmsum', 'repobench', 'samsum', 'triviaqa')],
    *[(f'LongBench{task}Dataset', {'name': 'x'}, {'data/x.jsonl': [LONG]}, {'test': [{'context': 'c', 'answers': ['a']}]}) for task in ('gov_report', 'multi_news', 'vcsum')],
    ('LongBenchlshtDataset', {'name': 'lsht'}, {'lsht.jsonl': [LONG]}, {'test': [{'input': 'i', 'context': 'c', 'all_labels': {'answers': ['a'], 'all_classes': ['a', 'b']}}]}),
]  # fmt: skip

HUB_CASES: list[Case] = [
    ('BFCLDataset', {'category': 'simple', 'test_ids': ['simple_0']}, {
        'BFCL_v4_simple_python.json': [{'id': 'newer'}],
        'BFCL_v3_simple.json': [{'id': 'simple_0', 'question': [[{'role': 'user', 'content': 'é'}]], 'function': []}, {'id': 'simple_1'}],
        'possible_answer/BFCL_v3_simple.json': [{'id': 'simple_1', 'ground_truth': []}, {'id': 'simple_0', 'ground_truth': [{'f': {}}]}]},
     {'*': [{'id': 'simple_0', 'question': '[[{"role": "user", "content": "é"}]]', 'function': '[]', 'ground_truth': '[{"f": {}}]'}]}),
    ('BFCLDataset', {'category': 'live_irrelevance'}, {'BFCL_v3_irrelevance.json': [{'id': 'other'}], 'BFCL_v3_live_irrelevance.json': [{'id': 'i', 'function': 'f'}]},
     {'*': [{'id': 'i', 'function': 'f', 'ground_truth': '["relevance_mock_gt"]'}]}),
    ('BFCLDataset', {'category': 'multi_turn_miss_func'}, {
        'BFCL_v3_multi_turn_miss_func.json': [{'id': 'm', 'involved_classes': ['MathAPI', 'TwitterAPI'], 'excluded_function': ['gone'], 'missed_function': {'1': ['late']}}],
        'possible_answer/BFCL_v3_multi_turn_miss_func.json': [{'id': 'm', 'ground_truth': [['f()']]}],
        'multi_turn_func_doc/math_api.json': [{'name': 'add'}, {'name': 'gone'}],
        'multi_turn_func_doc/posting_api.json': [{'name': 'late'}]},
     {'*': [{'id': 'm', 'involved_classes': '["MathAPI", "TwitterAPI"]', 'excluded_function': ['gone'], 'missed_function': '{"1": [{"name": "late"}]}',
             'ground_truth': '[["f()"]]', 'function': '[{"name": "add"}]'}]}),
    ('HLEDataset', {'category': 'Math'}, {'test.jsonl': [{'question': 'q', 'image': '', 'category': 'Math', 'answer': 'a'}, {'question': 'r', 'image': 'x', 'category': 'Math', 'answer': 'b'}, {'question': 's', 'image': '', 'category': 'Bio', 'answer': 'c'}]},
     {'test': [{'image': '', 'category': 'Math', 'answer': 'a', 'problem': 'q'}]}),
    ('MRCRDataset', {'subset': 's'}, {'s/test.jsonl': [{'context': 'c', 'question': 'Prepend abc to the poem', 'answers': ['x']}]},
     {'test': [{'context': 'c', 'question': 'Prepend abc to the poem', 'gold': '{"answer": "x", "prefix": "abc"}'}]}),
    ('MedmcqaDataset', {}, {'validation.jsonl': [{'question': 'q', 'opa': 'a', 'opb': 'b', 'opc': 'c', 'opd': 'd', 'cop': 2, 'subject_name': 'x_y'}]},
     {'*': [{'question': 'q\nA. a\nB. b\nC. c\nD. d', 'opa': 'a', 'opb': 'b', 'opc': 'c', 'opd': 'd', 'cop': 2, 'subject_name': 'x y', 'options': [*'abcd'], 'label': 'C', 'prompt_mode': 'zero-shot', 'start': 'A', 'end': 'D'}]}),
    ('SmolInstructDataset', {'name': 'n'}, {'validation.jsonl': [{'task': 'n', 'input': 'v'}], 'test.jsonl': [{'task': 'm', 'input': 'x'}, {'task': 'n', 'input': 'y'}]}, {'test': [{'task': 'n', 'input': 'y'}]}),
    ('ClimaQADataset', {'task': 'mcq'}, {'mcq/train.jsonl': [{'Question': 'q', 'Options': 'a) x', 'Answer': 'a'}]}, {'*': [{'Question': 'q', 'Options': 'a) x', 'Answer': 'a', 'input': 'q\na) x', 'target': 'a'}]}),
    ('IWSLT2017Dataset', {'name': 'en-de'}, {'en-de/test.jsonl': [{'translation': {'en': 'yes', 'de': 'ja'}}]}, {'test': [{'en': 'yes', 'de': 'ja'}]}),
    ('TACODataset', {'difficulty': 'EASY'}, {'test.jsonl': [{'difficulty': 'HARD'}, {'difficulty': 'EASY', 'starter_code': '', 'input_output': '{"inputs": []}', 'question': 'q'}]},
     {'test': [{'difficulty': 'EASY', 'starter_code': '', 'input_output': '{"inputs": []}', 'question': 'q', 'problem_id': 'test1', 'starter': '\\nUse Standard Input format'}]}),
    ('APPSDataset', {'num_repeats': 2}, {'test.jsonl': [{'starter_code': 'def f(): ', 'input_output': '{"fn_name": "f"}'}]},
     {'test': [{'starter_code': 'def f(): ', 'input_output': '{"fn_name": "f"}', 'starter': 'def f(): \\nUse Call-Based format'}] * 2}),
    ('APPS_miniDataset', {}, {'test.jsonl': [{'starter_code': ''}]}, {'test': [{'starter_code': '', 'starter': '\\nUse Standard Input format'}]}),
    ('OlymMATHDataset', {'subset': 'en'}, {'en/test.jsonl': [{'problem': 'p', 'answer': 'a'}]}, {'test': [{'problem': 'p', 'answer': 'a'}]}),
    ('OmniMathDataset', {}, {'test.jsonl': [{'problem': 'p', 'answer': 'a'}]}, {'*': [{'problem': 'p', 'answer': 'a'}]}),
    ('TruthfulQADataset', {'name': 'generation'}, {'validation.jsonl': [{'question': 'q', 'best_answer': 'b', 'correct_answers': ['b'], 'incorrect_answers': ['x']}]},
     {'validation': [{'question': 'q', 'reference': {'answers': {'best_answer': 'b', 'correct_answers': ['b'], 'incorrect_answers': ['x']}, 'question': 'q'}}]}),
    ('Earth_Silver_MCQDataset', {}, {'rows.jsonl': [{'question': 'q', 'answer': 'A'}]}, {'*': [{'question': 'q', 'answer': 'A'}]}),
    ('MMLUCFDataset', {'name': 'Math'}, {'rows.jsonl': [{'Question': 'q', 'A': 'a', 'B': 'b', 'C': 'c', 'D': 'd', 'Answer': 'A'}]}, {'test': [{'input': 'q', 'A': 'a', 'B': 'b', 'C': 'c', 'D': 'd', 'target': 'A'}]}),
    ('Uncond_material_Dataset', {'num': 2, 'prompt': 'make'}, {'x.txt': ''}, {'*': [{'input': 'make', 'output': ''}] * 2}),
    ('UPGDataset', {'max_cut': 2}, {'x.txt': ''}, {'test': [{'input': 'Generate a protein sequence with <protein> </protein>.', 'output': ''}] * 2}),
    ('UPGDataset', {'max_cut': 1, 'tag_bool': False}, {'x.txt': ''}, {'test': [{'input': 'Generate a protein sequence.', 'output': ''}]}),
    ('ATLASDataset', {'split': 'val'}, {'val.jsonl': [{'question': 'q', 'refined_standard_answer': ['a'], 'id': 1}]}, {'*': [{'problem': 'q', 'answer': "['a']"}]}),
    ('Uncond_RNA_Dataset', {'num': 3, 'prompt': 'make'}, {'x.txt': ''}, {'*': [{'input': 'make', 'output': ''}] * 3}),
]  # fmt: skip


def _recorded() -> list[Case]:
    """Cases whose rows the packages' own loaders gave (benchmarks/loader_rows.py)."""
    lines = (Path(__file__).parent / 'data' / 'benchmark_rows.jsonl').read_text('utf-8').splitlines()
    cases = map(json.loads, lines)
    return [(case['type'], case['entry'], case['files'], case['rows']) for case in cases]


RECORDED = _recorded()


def write_files(folder: Path, files: dict[str, Any]) -> Path:
    """Write the files; the path of a dataset is the one file called f.…, or the folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = (
            content
            if isinstance(content, str)
            else ''.join(json.dumps(row, ensure_ascii=False) + '\n' for row in content)
        )
        if name.endswith('.gz'):
            path.write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text, 'utf-8')
    [first, *_] = files
    return folder / first if first.startswith(('f.', 'data.json')) else folder
