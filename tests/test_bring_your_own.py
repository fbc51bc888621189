"""Loaders, postprocessors and evaluators of others, used as they are."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rolecall
from rolecall.core.prompts.template import build_template
from rolecall.errors import ConfigError
from rolecall.experiment.opening.loading import load_config
from rolecall.experiment.opening.tasks import InferencerEntry
from rolecall.models.protocol import Reply, Scored
from rolecall.scoring.answers import Scorable
from rolecall.scoring.evaluate import build_scorer
from rolecall.sources.datasets import open_dataset

FAKE = """
class GSM8KDataset:
    @staticmethod
    def load(path, **others):
        return {'train': [{'q': 'shot', 'a': '1'}], 'test': [{'q': f'{path} {n}', 'a': str(n)} for n in range(4)]}

class OddDataset:
    def load(self, path):
        return [{'q': 'by an instance', 'a': 'x'}]

class HalfEvaluator:
    def __init__(self, bonus=0):
        self.bonus = bonus

    def score(self, predictions, references, test_set):
        print('noise')
        details = {str(n): {'pred': p, 'is_correct': p == r} for n, (p, r) in enumerate(zip(predictions, references))}
        right = sum(one['is_correct'] for one in details.values())
        return {'half': 100 * right / len(predictions) + self.bonus, 'rows': len(test_set), 'note': 'kept', 'details': details}

class AccEvaluator(HalfEvaluator):
    pass

class FailingEvaluator:
    def score(self, predictions, references):
        return {'error': 'lengths differ'}

class HumanEvalEvaluator:
    def score(self, predictions, references):
        raise RuntimeError('ran code without a sandbox')

class GradedEvaluator:
    def score(self, predictions, references):
        return {'grade': 66.5, 'details': [{'correct': 0.665} for one in predictions]}

class DepthEvaluator:
    def score(self, predictions, references):
        return {'Depth0': 0.0, 'Depth50': 100.0, 'average_score': 50.0}

class LossEvaluator:
    def score(self, ppl):
        return {'mean': sum(ppl) / len(ppl)}

half_evaluator = lambda *args, bonus=50, **kwargs: HalfEvaluator(*args, bonus=bonus, **kwargs)

def letter_judge(output, output_path, dataset, right='A'):
    marks = {key: one['prediction'] == right for key, one in output.items()}
    golds = [row['reference'] for row in dataset.reader.dataset['test']]
    assert [one['gold'] for one in output.values()] == golds
    return {'letters': 100 * sum(marks.values()) / len(marks), 'by': {'math': 1.0}, 'details': output}

def last_word(text, strip=''):
    return text.split()[-1].strip(strip)

def verdict_judge(output, output_path):
    return {'details': [{'correct': 'TRUE' in one['prediction']} for one in output.values()]}

class HumanevalXEvaluator:
    def __init__(self, language, ip_address='localhost'):
        self.language = language

    def score(self, predictions, references):
        return {'pass@1': 50.0 if self.language == 'cpp' else 0.0}

class StepsEvaluator:
    def score(self, predictions, references, steps):
        tools = [step['type'] for one in steps for step in one]
        return {'calls': float(len(tools)), 'tools': ' '.join(tools), 'errors': sum(bool(s['errmsg']) for one in steps for s in one)}

class TurnsEvaluator:
    def score(self, predictions, references):
        return {'turns': sum(map(len, predictions)) / len(predictions), 'golds': str(references)}

class PromptEvaluator:
    def score(self, predictions, references, origin_prompt):
        return {'rows': float(len(origin_prompt)), 'first': origin_prompt[0]}

class PromptTemplate:
    pass

class OwnJudgeEvaluator:
    def __init__(self, prompt_template, judges):
        self.kinds = [prompt_template['type'], *(one['type'] for one in judges)]

    def score(self, predictions, references):
        theirs = [kind for kind in self.kinds if getattr(kind, '__module__', '') == 'opencompass.datasets']
        return {'theirs': float(len(theirs)), 'named': ' '.join(kind for kind in self.kinds if isinstance(kind, str))}

class UnitTemplate:
    prompt_type = 'meta'

    def __init__(self, ask='In'):
        self.ask = ask

    def generate_item(self, entry, output_field=None, output_field_replace_token='', ice_field_replace_token=''):
        if entry['q'] == 'bad':
            raise KeyError('unit')
        words = f"{entry['q']} {self.ask} {entry['unit']}? {entry['a']}"
        return [{'section': 'round', 'pos': 'begin'}, {'role': 'HUMAN', 'prompt': words}, {'section': 'round', 'pos': 'end'}]

class MessageTemplate:
    prompt_type = 'raw_messages'

    def generate_item(self, entry, **others):
        return [{'role': 'system', 'content': entry['unit']}, {'role': 'user', 'content': entry['q']}]
"""


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An `opencompass` that is installed, with registries of its own."""
    package, datasets, registry = (ModuleType(f'opencompass{tail}') for tail in ('', '.datasets', '.registry'))
    package.__path__ = []  # type: ignore[attr-defined]
    for module in (package, datasets, registry):
        module.__spec__ = __import__('importlib.machinery').machinery.ModuleSpec(module.__name__, None)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(FAKE, '<opencompass>', 'exec'), vars(datasets))
    package.datasets, package.registry = datasets, registry  # type: ignore[attr-defined]
    registry.TEXT_POSTPROCESSORS = {'my-last': datasets.last_word}  # type: ignore[attr-defined]
    registry.ICL_EVALUATORS = {  # type: ignore[attr-defined]
        'HalfEvaluator': datasets.HalfEvaluator,
        'HalfEvaluator_50': datasets.half_evaluator,
    }
    registry.DICT_POSTPROCESSORS = {'letters': datasets.letter_judge}  # type: ignore[attr-defined]
    registry.ICL_PROMPT_TEMPLATES = {  # type: ignore[attr-defined]
        name: getattr(datasets, name) for name in ('UnitTemplate', 'PromptTemplate')
    }
    return datasets


CONFIG = """
from opencompass.datasets import GSM8KDataset, OddDataset, HalfEvaluator, AccEvaluator, last_word
datasets = [dict(
    abbr='d', type=GSM8KDataset, path='there',
    reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{q}'), inferencer=dict(type='GenInferencer')),
    eval_cfg=dict(evaluator=dict(type=HalfEvaluator, bonus=0), pred_postprocessor=dict(type=last_word, strip='.')))]
"""


def written(folder: Path, text: str = CONFIG) -> Path:
    path = folder / 'config.py'
    path.write_text(text)
    return path


def test_an_installed_package_is_used_as_it_is(package: ModuleType, tmp_path: Path) -> None:
    config = dict(load_config(written(tmp_path), foreign='real'))
    config['models'] = [
        {'abbr': 'm', 'type': lambda prompt: f'It is {prompt.split()[-1]}.' if '3' not in prompt else 'no.'}
    ]
    summary = rolecall.run_config(config, out=tmp_path / 'run')
    card = summary.scorecards[0]
    assert (card.metric, card.value, card.scored, card.total) == ('half', 75.0, 4, 4)
    assert card.low is not None
    assert card.low < 75 < (card.high or 0)
    assert card.details['further'] == {'rows': 4.0}
    assert card.details['returned'] == {'note': 'kept'}


def test_the_environment_asks_for_the_same(
    package: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv('ROLECALL_FOREIGN', 'real')
    entry = load_config(written(tmp_path))['datasets'][0]
    assert entry['type'] is package.GSM8KDataset
    assert [row['q'] for row in open_dataset(entry).test] == [f'there {n}' for n in range(4)]


def test_without_it_names_stay_names(package: ModuleType, tmp_path: Path) -> None:
    entry = load_config(written(tmp_path))['datasets'][0]
    assert repr(entry['type']) == 'opencompass.datasets.GSM8KDataset'


def test_the_error_offers_the_installed_package(package: ModuleType, tmp_path: Path) -> None:
    entry = load_config(written(tmp_path))['datasets'][0]
    with pytest.raises(
        ConfigError, match=r"opencompass is installed: ROLECALL_FOREIGN=real, or load_config\(path, foreign='real'\)"
    ):
        build_scorer(entry['eval_cfg'])


def test_the_error_offers_the_package_for_an_evaluator_that_is_refused_by_name(package: ModuleType) -> None:
    with pytest.raises(ConfigError, match='TEvalEvaluator is not supported[^$]*opencompass is installed'):
        build_scorer({'evaluator': 'opencompass.datasets.TEvalEvaluator'})


def test_bare_names_are_looked_up_in_its_registries(package: ModuleType, tmp_path: Path) -> None:
    text = CONFIG.replace('dict(type=last_word', "dict(type='my-last'").replace(
        'dict(type=HalfEvaluator, bonus=0)', "'HalfEvaluator'"
    )
    scoring = load_config(written(tmp_path, text), foreign='real')['datasets'][0]['eval_cfg']
    assert scoring['pred_postprocessor']['type'] is package.last_word
    assert scoring['evaluator'] is package.HalfEvaluator


def test_a_loader_that_is_a_method_gets_an_instance(package: ModuleType) -> None:
    assert open_dataset({'type': package.OddDataset, 'path': 'x'}).test[0] == {'q': 'by an instance', 'a': 'x'}


def test_a_class_of_the_package_goes_before_ours_of_that_name(package: ModuleType) -> None:
    scorer = build_scorer({'evaluator': {'type': package.AccEvaluator, 'bonus': 1}})
    assert scorer.score([Scorable(0, 'ok', 'a', 'a')]).value == 101.0


def test_code_is_never_run_by_the_package(package: ModuleType) -> None:
    metric = build_scorer({'evaluator': package.HumanEvalEvaluator}).metric
    assert metric is not None
    assert metric.name == 'pass@1'


def test_an_error_that_an_evaluator_returns_is_told(package: ModuleType) -> None:
    with pytest.raises(rolecall.RolecallError, match='FailingEvaluator returned an error: lengths differ'):
        build_scorer({'evaluator': package.FailingEvaluator}).score([Scorable(0, 'ok', 'a', 'a')])


def test_a_registered_function_makes_the_evaluator(package: ModuleType, tmp_path: Path) -> None:
    text = CONFIG.replace('dict(type=HalfEvaluator, bonus=0)', "dict(type='HalfEvaluator_50')")
    scoring = load_config(written(tmp_path, text), foreign='real')['datasets'][0]['eval_cfg']
    assert build_scorer(scoring).score([Scorable(0, 'ok', 'a', 'a')]).value == 150.0


@pytest.mark.parametrize(
    ('name', 'prediction', 'value'),
    [('GradedEvaluator', 'a', 66.5), ('DepthEvaluator', 'a', 50.0), ('LossEvaluator', 1.5, 1.5)],
)
def test_evaluators_of_the_package_keep_their_ways(
    package: ModuleType, name: str, prediction: Any, value: float
) -> None:
    run = build_scorer({'evaluator': getattr(package, name)}).score([Scorable(0, 'ok', prediction, 'a')])
    assert (run.value, run.scored) == (value, 1)


JUDGED = CONFIG.replace(
    "eval_cfg=dict(evaluator=dict(type=HalfEvaluator, bonus=0), pred_postprocessor=dict(type=last_word, strip='.'))",
    "eval_cfg=dict(evaluator=dict(type='GenericLLMEvaluator', judge_cfg=dict(type=JUDGE), "
    "prompt_template=dict(type='PromptTemplate', template='{q} {prediction}'), "
    "dict_postprocessor=dict(type='letters')))",
)


@pytest.mark.parametrize(
    ('options', 'judge', 'value', 'scored'),
    [
        ('', "lambda prompt: 'A' if '2' in prompt else 'B'", 25.0, 4),
        ("right='B'", "lambda prompt: 'A' if '2' in prompt else 'B'", 75.0, 4),
    ],
)
def test_a_judges_replies_are_read_by_the_package(
    package: ModuleType, tmp_path: Path, options: str, judge: str, value: float, scored: int
) -> None:
    text = JUDGED.replace('JUDGE', judge).replace("dict(type='letters')", f"dict(type='letters', {options})")
    config = dict(load_config(written(tmp_path, text), foreign='real'))
    config['models'] = [{'abbr': 'm', 'type': lambda prompt: 'said'}]
    card = rolecall.run_config(config, out=tmp_path / 'run').scorecards[0]
    assert (card.metric, card.value, card.scored, card.total) == ('letters', value, scored, 4)
    assert card.details['returned'] == {'by': {'math': 1.0}}


def test_a_cascade_takes_one_reply_at_a_time_to_the_package(package: ModuleType, tmp_path: Path) -> None:
    judge = {'type': 'GenericLLMEvaluator', 'dict_postprocessor': {'type': package.letter_judge}}
    cascade = {'type': 'CascadeEvaluator', 'rule_evaluator': 'AccEvaluator', 'llm_evaluator': judge}
    scorer = build_scorer({'evaluator': cascade}, judge=lambda values: 'A' if values['prediction'] == 'near' else 'B')
    rows = [Scorable(0, 'ok', 'x', 'x'), Scorable(1, 'ok', 'near', 'x'), Scorable(2, 'ok', 'far', 'x')]
    assert [verdict.correct for verdict in scorer.score(rows).verdicts] == [True, True, False]


def test_a_cascade_reads_the_verdict_of_a_function_that_gives_no_number(package: ModuleType) -> None:
    judge = {'type': 'GenericLLMEvaluator', 'dict_postprocessor': {'type': package.verdict_judge}}
    cascade = {'type': 'CascadeEvaluator', 'rule_evaluator': 'AccEvaluator', 'llm_evaluator': judge}
    scorer = build_scorer(
        {'evaluator': cascade}, judge=lambda values: 'TRUE' if values['prediction'] == 'near' else 'FALSE'
    )
    rows = [Scorable(0, 'ok', 'x', 'x'), Scorable(1, 'ok', 'near', 'x'), Scorable(2, 'ok', 'far', 'x')]
    assert [verdict.correct for verdict in scorer.score(rows).verdicts] == [True, True, False]


@pytest.mark.parametrize(('language', 'metric', 'value'), [('cpp', 'pass@1', 50.0), ('python', 'pass@1', None)])
def test_programs_in_other_languages_go_to_the_service_of_the_package(
    package: ModuleType, language: str, metric: str, value: float | None
) -> None:
    scorer = build_scorer({'evaluator': {'type': package.HumanevalXEvaluator, 'language': language}})
    assert scorer.metric is not None
    assert (scorer.metric.whole is not None) == (language == 'cpp')
    if value is not None:
        assert scorer.score([Scorable(0, 'ok', 'int f();', '')]).value == value
    with pytest.raises(ConfigError, match="'cpp' programs are not run here"):
        build_scorer({'evaluator': {'type': 'HumanevalXEvaluator', 'language': 'cpp'}})


def run_one(config: dict[str, Any], tmp_path: Path) -> Any:
    return rolecall.run_config(config, out=tmp_path / 'run', lint=False)


def entry_of(rows: list[dict[str, str]], template: Any, evaluator: Any, **inferencer: str) -> dict[str, Any]:
    return {
        'abbr': 'd',
        'type': 'Rows',
        'test': rows,
        'reader_cfg': {'input_columns': ['q', 'unit'], 'output_column': 'a'},
        'infer_cfg': {'prompt_template': template, 'inferencer': {'type': 'GenInferencer', **inferencer}},
        'eval_cfg': {'evaluator': evaluator},
    }


ROWS = [{'q': 'How far?', 'unit': 'km', 'a': '7'}, {'q': 'bad', 'unit': 'm', 'a': '8'}]


def test_the_calls_of_an_agent_reach_its_evaluator(package: ModuleType, tmp_path: Path) -> None:
    calls = (
        {'function': {'name': 'Python', 'arguments': {'code': '1+1'}}, 'result': {'text': '2'}},
        {'name': 'Search', 'errmsg': 'no network'},
    )
    model = {'abbr': 'agent', 'type': lambda prompt: Reply('7', tool_calls=calls if 'far' in prompt else ())}
    dataset = entry_of(ROWS, {'template': '{q}'}, package.StepsEvaluator, type='AgentInferencer')
    card = run_one({'datasets': [dataset], 'models': [model]}, tmp_path).scorecards[0]
    assert (card.value, card.details['returned']['tools'], card.details['further']['errors']) == (
        2.0,
        'Python Search',
        1.0,
    )


def test_an_evaluator_of_the_package_gets_the_turns_of_a_dialogue_as_a_list(
    package: ModuleType, tmp_path: Path
) -> None:
    rows = [{'q': ['Hi', 'And?'], 'a': ['x', 'y']}, {'q': ['Well', 'So?'], 'a': ['x', 'y']}]
    dataset = entry_of(rows, {'template': ''}, package.TurnsEvaluator, type='ChatInferencer', infer_mode='every')
    dataset['reader_cfg']['input_columns'] = ['q']
    card = run_one({'datasets': [dataset], 'models': [{'abbr': 'm', 'type': lambda prompt: 'x'}]}, tmp_path).scorecards[
        0
    ]
    assert (card.value, card.scored) == (2.0, 2)
    assert card.details['returned'] == {'golds': "[['x', 'y'], ['x', 'y']]"}


def test_functions_of_the_package_are_named_to_evaluators_that_look_them_up(package: ModuleType) -> None:
    options = {'prompt_template': {'type': rolecall.PromptTemplate}, 'judges': [{'type': package.last_word}]}
    run = build_scorer({'evaluator': {'type': package.OwnJudgeEvaluator, **options}}).score(
        [Scorable(0, 'ok', 'a', 'a')]
    )
    assert run.value == 1.0
    assert run.details['returned'] == {'named': 'opencompass.datasets.last_word'}


def test_an_agent_is_asked_turn_by_turn_where_every_turn_counts() -> None:
    kinds = [InferencerEntry.read('AgentInferencer', options).kind for options in ({}, {'infer_mode': 'every'})]
    assert kinds == ['gen', 'dialogue']


def test_an_evaluator_of_the_package_gets_the_prompt_of_a_row(package: ModuleType, tmp_path: Path) -> None:
    template = {'template': {'round': [{'role': 'HUMAN', 'prompt': '{q} {a}'}]}}
    config = {'datasets': [entry_of(ROWS, template, package.PromptEvaluator)], 'models': [{'type': lambda prompt: 'x'}]}
    card = run_one(config, tmp_path).scorecards[0]
    assert card.value == 2.0
    assert card.details['returned']['first'] == [{'role': 'HUMAN', 'prompt': 'How far? '}]  # the answer is hidden


def test_prompts_by_label_reach_an_evaluator_of_the_package_by_label(package: ModuleType, tmp_path: Path) -> None:
    template = {'template': {'7': '{q} Seven.', '8': '{q} Eight.'}}
    dataset = entry_of(ROWS, template, package.PromptEvaluator, type='PPLInferencer')
    score = lambda prompts: [Scored((1, 2), (None, -float(len(prompt)))) for prompt in prompts]  # noqa: E731
    config = {'datasets': [dataset], 'models': [{'abbr': 'm', 'type': lambda prompt: 'x', 'score': score}]}
    card = run_one(config, tmp_path).scorecards[0]
    assert card.value == 2.0
    assert card.details['returned']['first'] == {'7': 'How far? Seven.', '8': 'How far? Eight.'}


def test_an_evaluator_that_builds_its_own_judge_gets_the_packages_templates(package: ModuleType) -> None:
    options = {'prompt_template': {'type': rolecall.PromptTemplate}, 'judges': [{'type': rolecall.PromptTemplate}]}
    scorer = build_scorer({'evaluator': {'type': package.OwnJudgeEvaluator, **options}})
    assert scorer.score([Scorable(0, 'ok', 'a', 'a')]).value == 2.0


def test_a_template_of_the_package_words_the_prompts_and_never_sees_the_answer(
    package: ModuleType, tmp_path: Path
) -> None:
    seen: list[Any] = []
    model = {'abbr': 'm', 'type': lambda prompt: seen.append(prompt) or '7'}
    dataset = entry_of(ROWS, {'type': package.UnitTemplate, 'ask': 'Say it in'}, 'AccEvaluator')
    summary = run_one({'datasets': [dataset], 'models': [model]}, tmp_path)
    assert seen == ['How far? Say it in km? ']
    assert dict(summary.scorecards[0].outcomes) == {'ok': 1, 'failed': 1}
    assert summary.scorecards[0].value == 100.0


def test_its_messages_are_sent_as_they_are_and_a_bare_name_finds_it(package: ModuleType, tmp_path: Path) -> None:
    template = build_template({'type': package.MessageTemplate})
    prompt = template.script().fill(ROWS[0])
    assert prompt == [{'role': 'system', 'content': 'km'}, {'role': 'user', 'content': 'How far?'}]
    text = CONFIG.replace("dict(type='PromptTemplate', template='{q}')", "dict(type='UnitTemplate')")
    config = load_config(written(tmp_path, text), foreign='real')
    assert config['datasets'][0]['infer_cfg']['prompt_template']['type'] is package.UnitTemplate
    with pytest.raises(ConfigError, match="unknown template 'UnitTemplate'"):
        build_template({'type': 'UnitTemplate'})


def whole(predictions: list[str], references: list[str], **kwargs: Any) -> dict[str, float]:
    return {'share': sum(p == r for p, r in zip(predictions, references, strict=True)) / len(predictions)}


def number(predictions: list[str], references: list[str]) -> float:
    return 0.25


def process_results(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    return {'acc': float(results[0] == doc['target']), 'length': len(results[0])}


FUNCTIONS = [(whole, 'share', 0.5), (number, 'number', 0.25), (process_results, 'process_results', 0.5)]


@pytest.mark.parametrize(('function', 'name', 'value'), FUNCTIONS)
def test_functions_in_the_forms_of_other_harnesses(function: Any, name: str, value: float) -> None:
    rows = [Scorable(0, 'ok', 'a', 'a', {'target': 'a'}), Scorable(1, 'ok', 'b', 'c', {'target': 'c'})]
    run = build_scorer({'evaluator': function}).score(rows)
    assert (run.metric, run.value, run.scored) == (name, value, 2)


def test_a_function_of_a_row_needs_no_gold_answer() -> None:
    run = build_scorer({'evaluator': process_results}).score([Scorable(0, 'ok', 'a', None, {'target': 'a'})])
    assert (run.value, run.scored) == (1.0, 1)


RETRIEVER = """
class NearRetriever:
    def __init__(self, dataset, ice_separator='\\n', ice_eos_token='\\n', ice_num=1):
        self.dataset, self.ice_num = dataset, ice_num

    def retrieve(self):
        train = [row['topic'] for row in self.dataset.train]
        return [[n for n, topic in enumerate(train) if topic == row['topic']][:self.ice_num] for row in self.dataset.test]

class LostRetriever(NearRetriever):
    def retrieve(self):
        return [[99] for row in self.dataset.test]

class BrokenRetriever(NearRetriever):
    def retrieve(self):
        raise RuntimeError('no index')
"""
RETRIEVING = """
from opencompass.datasets import NearRetriever
datasets = [dict(
    abbr='d', type='Rows',
    train=[dict(q='1+1', topic='sum', a='2'), dict(q='2*2', topic='product', a='4'), dict(q='3*4', topic='product', a='12')],
    test=[dict(q='5*5', topic='product', a='25'), dict(q='3+4', topic='sum', a='7'), dict(q='2*2', topic='product', a='4')],
    reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(
        ice_template=dict(type='PromptTemplate', template='</E>{q}={a}', ice_token='</E>'),
        retriever=dict(type=NearRetriever, ice_num=2), inferencer=dict(type='GenInferencer')))]
"""


def shown(config: Any) -> list[str]:
    return [
        str(preview.request) for preview in rolecall.preview({**config, 'models': [{'abbr': 'm', 'type': str.upper}]})
    ]


def test_a_retriever_of_the_package_picks_the_examples(package: ModuleType, tmp_path: Path) -> None:
    exec(compile(RETRIEVER, '<opencompass>', 'exec'), vars(package))
    for name in ('NearRetriever', 'LostRetriever', 'BrokenRetriever'):
        getattr(package, name).__module__ = 'opencompass.datasets'
    path = written(tmp_path, RETRIEVING)
    with pytest.raises(
        ConfigError, match=r"unsupported retriever 'opencompass.datasets.NearRetriever'[^$]*foreign='real'"
    ):
        shown(load_config(path))
    prompts = shown(load_config(path, foreign='real'))
    assert prompts == ['2*2=4\n3*4=12\n5*5=', '1+1=2\n3+4=', '3*4=12\n2*2=']  # the last never sees its own answer


@pytest.mark.parametrize(
    ('name', 'options', 'said'),
    [
        ('LostRetriever', '', 'must return a list of training row numbers for each of 3 test rows'),
        ('BrokenRetriever', '', 'the retriever BrokenRetriever raised RuntimeError: no index'),
        ('NearRetriever', ', ice_nun=2', "NearRetriever has no option 'ice_nun'"),
        ('NearRetriever', "*'x'", "expected a whole number, got 'xx'"),
    ],
)
def test_a_retriever_of_the_package_that_fails_is_named(
    package: ModuleType, tmp_path: Path, name: str, options: str, said: str
) -> None:
    exec(compile(RETRIEVER, '<opencompass>', 'exec'), vars(package))
    getattr(package, name).__module__ = 'opencompass.datasets'
    text = RETRIEVING.replace('NearRetriever', name).replace('ice_num=2', f'ice_num=2{options}')
    with pytest.raises(ConfigError, match=said) as caught:
        shown(load_config(written(tmp_path, text), foreign='real'))
    assert 'datasets[0].infer_cfg.retriever' in str(caught.value)
