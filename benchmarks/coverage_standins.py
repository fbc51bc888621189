"""What evaluators of the packages download, or ask of a service: replaced by small things that answer at once.

The weights and data of a benchmark and the services that a config names are not here, and the network is blocked. The
package's own code runs; only these ends of it are made up: a service's verdict, a judge's reply, an encoder's vectors, a
vocabulary, a data file. The keys and addresses that a user would set are set.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

__all__ = ['put_stand_ins', 'write_data']

KEYS = {
    'PerspectiveAPIkey': 'made-up',
    'OC_JUDGE_MODEL': 'judge',
    'OC_JUDGE_API_BASE': 'http://localhost:9/v1',
    'OC_JUDGE_API_KEY': 'made-up',
    'OPENAI_API_KEY': 'made-up',
}
"""What a user of these evaluators sets in the environment."""
VERDICT = '{"criteria_met": true, "explanation": "made up"}\n\\boxed{yes}\n## Equivalence Judgement\nTRUE'
PASSED = {'pass@1': 100.0}


@cache
def put_stand_ins() -> None:
    """Put all stand-ins in their places in this process. Where a package is not loaded, nothing happens."""
    if 'opencompass.datasets' not in sys.modules:
        return
    os.environ.update({name: value for name, value in KEYS.items() if name not in os.environ})
    for put in (put_vocabularies, put_metrics, put_encoders, put_services, put_judges, put_data):
        put()


def replace_in(module: str, names: Mapping[str, Any]) -> None:
    """Replace `Class.attribute` or `name` of a module, where there is such a module."""
    try:
        found = importlib.import_module(module)
    except ImportError:
        return
    for path, value in names.items():
        *owners, name = path.split('.')
        owner: Any = found
        for one in owners:
            owner = getattr(owner, one, None)
        if owner is not None:
            setattr(owner, name, value)


def put_services() -> None:
    """Services that run programs, and Perspective."""
    passes = {'_code_eval_service': lambda self, file_path: (True, json.dumps(PASSED))}
    places = {
        'humanevalx': 'HumanevalXEvaluator',
        'humaneval_multi': 'HumanevalMultiEvaluator',
        'ds1000': 'DS1000ServiceEvaluator',
        'PMMEval.humanevalxl': 'PMMEvalHumanEvalXLEvaluator',
    }
    for module, kind in places.items():
        replace_in(f'opencompass.datasets.{module}', {f'{kind}.{name}': made for name, made in passes.items()})
    replace_in('opencompass.openicl.icl_evaluator.code_evaluator', {'Client': StandInClient})
    scores = {'PerspectiveAPIClient.get_toxicity_scores': rate_toxicity}
    replace_in('opencompass.openicl.icl_evaluator.icl_toxic_evaluator', scores)


class StandInClient:
    """Gradio's client of a service that runs programs: all of them pass."""

    def __init__(self, address: str) -> None:
        self.address = address

    def predict(self, programs: list[Any], api_name: str) -> list[dict[str, str]]:
        return [{'status': 'OK'} for _ in programs]


def rate_toxicity(self: Any, predictions: list[str]) -> dict[str, dict[str, float]]:
    return {str(number): {'toxicity_score': 0.1} for number, _ in enumerate(predictions)}


def put_judges() -> None:
    """Models that evaluators build for themselves."""
    replies = {'generate': lambda self, inputs, *others, **options: [VERDICT for _ in inputs]}
    for kind in ('OpenAISDK', 'OpenAI'):
        replace_in('opencompass.models', {f'{kind}.{name}': reply for name, reply in replies.items()})
    served = {**replies, '__init__': lambda self, *others, **options: None}
    api = 'opencompass.models.turbomind_api'
    replace_in(api, {f'TurboMindAPIModel.{name}': made for name, made in served.items()})
    sampler = 'opencompass.datasets.healthbench.sampler.chat_completion_sampler'
    said = SimpleNamespace(response_text=VERDICT.partition('\n')[0])
    replace_in(sampler, {'ChatCompletionSampler.__call__': lambda self, messages: said})


def put_encoders() -> None:
    """Sentence encoders and BERTScore."""
    import torch

    class Encoder:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def encode(self, texts: Any, **_: Any) -> Any:
            return torch.ones((2,)) if isinstance(texts, str) else torch.ones((len(texts), 2))

    for module in ('planning_evaluator', 'reason_retrieve_understand_evaluator'):
        replace_in(f'opencompass.datasets.teval.evaluators.{module}', {'SentenceTransformer': Encoder})
    replace_in(
        'bert_score', {'score': lambda answers, golds, **_: tuple(torch.full((len(golds),), 0.5) for _ in '123')}
    )


def put_metrics() -> None:
    """Modules that `evaluate` downloads."""
    import evaluate

    load = evaluate.load

    def load_or_stand_in(name: str, *others: Any, **options: Any) -> Any:
        try:
            return load(name, *others, **options)
        except FileNotFoundError:
            return SimpleNamespace(compute=lambda **_: {name: 0.5})

    evaluate.load = load_or_stand_in


def put_vocabularies() -> None:
    """Tokenizers: a token for each byte, or for each word."""
    import tiktoken
    import transformers

    bytes_only = tiktoken.Encoding(
        'made-up', pat_str=r'.+', mergeable_ranks={bytes([one]): one for one in range(256)}, special_tokens={}
    )
    tiktoken.encoding_for_model = tiktoken.get_encoding = lambda *_, **__: bytes_only
    for kind in (transformers.AutoTokenizer, transformers.BertTokenizerFast):
        kind.from_pretrained = staticmethod(lambda *_, **__: WordTokenizer())
    replace_in('perspective_gap.scoring', {'_tokenizer': WordTokenizer})


class WordTokenizer:
    """As much of a tokenizer as evaluators use."""

    def encode(self, text: str, **_: Any) -> SimpleNamespace:
        return SimpleNamespace(tokens=text.split())

    def tokenize(self, text: str, **_: Any) -> list[str]:
        return text.split()

    def get_context(self, question: str, reference: str, answer: str) -> str:
        return f'{question}\n{reference}\n{answer}'


def put_data() -> None:
    """Data that evaluators load by themselves: the files of `write_data`, and rows of ATLAS, CodeCompass, VLMEvalKit."""
    places = ('bio_instruction', 'bulk_modulus_material', 'composition_material')
    for module in (*(f'SciReasoner.{place}' for place in places), 'scicode', 'srbench'):
        replace_in(f'opencompass.datasets.{module}', {'get_data_path': lambda *_, **__: str(Path(DATA).absolute())})
    from opencompass.datasets.lmeval import LMEvalDataset

    reader = {'input_columns': ['problem'], 'output_column': None, 'train_split': 'test'}
    replace_in(
        'opencompass.datasets.atlas.evaluation',
        {'build_dataset_from_cfg': lambda config: LMEvalDataset(reader_cfg=reader, problem=['q', 'q'])},
    )

    problem = {'question_id': 'q', 'problem': 'Print 1.', 'cases': [{'input': '', 'output': '1'}]}
    replace_in('opencompass.datasets.codecompass.CodeCompass', {'load_dataset': lambda **_: [problem]})
    put_image_questions()


def put_image_questions() -> None:
    """VLMEvalKit's table of questions. The package is imported only where an evaluator asks for it: it is large."""
    import pandas
    from opencompass.evaluator import vlmevalkit

    build = vlmevalkit.build_vlmeval_dataset
    same = dict.fromkeys(('split', 'category', 'l2-category', 'subject'), 'made-up')
    rows = [{'index': number, 'question': 'q', 'A': 'x', 'B': 'y', 'answer': 'A', **same} for number in (1, 2)]

    def build_from_rows(*others: Any, **options: Any) -> Any:
        table = {'ImageBaseDataset.prepare_tsv': lambda *_: pandas.DataFrame(rows)}
        replace_in('vlmeval.dataset.image_base', table)
        return build(*others, **options)

    vlmevalkit.build_vlmeval_dataset = build_from_rows


DATA = 'made-up-data'


def write_data(folder: Path) -> None:
    """The data files that evaluators open, in a folder of the trial."""
    if 'opencompass.datasets' not in sys.modules or (folder / DATA).exists():
        return
    for name, content in data_files():
        file = folder / DATA / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content))


def data_files() -> Iterator[tuple[str, Any]]:
    """Names and contents, all in one folder: `get_data_path` of these evaluators leads there."""
    problem = {'id': '1', 'import': '', 'test': [['assert True']] * 2, 'sub_steps': []}
    for name in ('SciCode_datasets', 'SciCode_datasets_with_background'):
        yield f'{name}.json', [problem, {**problem, 'id': '2'}]
    points = [[float(x), float(x)] for x in range(400)]
    yield 'formula_data.json', [{'data': points}] * 2
    rows = [
        {'input': 'Build a material of Na and Cl.', 'output': 'Na Cl <sg1>', 'label': str(x), 'task': 'made_up'}
        for x in (1, 2)
    ]
    yield 'bulk_modulus_material/test/data.json', rows
    yield 'conditional_generation/composition_material/test/data.json', rows
    yield 'ec_labels.json', {}
    yield 'register_tasks.json', {'made_up': {'type': 'regression', 'metrics': 'R2', 'omics': 'made-up'}}
    for task in BIOLOGY:
        yield f'{task}/test/data.json', rows


BIOLOGY = (
    *('antibody_antigen', 'rna_protein_interaction', 'emp', 'enhancer_activity', 'tf_m', 'Isoform', 'Modification'),
    *('MeanRibosomeLoading', 'ProgrammableRNASwitches', 'CRISPROnTarget', 'promoter_enhancer_interaction'),
    *(
        'sirnaEfficiency',
        'cpd',
        'pd',
        'tf_h',
        'Fluorescence',
        'FunctionEC',
        'Stability',
        'Solubility',
        'Thermostability',
    ),
)
"""The tasks of SciReasoner's bio_instruction."""
