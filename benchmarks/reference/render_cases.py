"""Prompts of OpenCompass or AISBench for given cases, for `benchmarks/config_prompts.py`.

Runs in an environment that has them installed: `python render_cases.py ENGINE CASES RESULTS`, both files pickles. A case
has reader_cfg, infer_cfg (types by name), train, test, meta, api; a result is {'prompts': …} or {'error': …}.
"""

import os
import pickle
import sys
import types
import warnings
from pathlib import Path

warnings.filterwarnings('ignore')
os.environ.update(HF_HUB_OFFLINE='1', TQDM_DISABLE='1')
os.dup2(2, 1)


def plain(value):
    """The value without the engine's own list and dict classes."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def engine_of(name):
    """The engine's classes under common names."""
    if name == 'opencompass':
        from opencompass.models.base import BaseModel
        from opencompass.models.base_api import BaseAPIModel
        from opencompass.openicl import icl_prompt_template, icl_raw_prompt_template, icl_retriever
        from opencompass.openicl.icl_dataset_reader import DatasetReader

        templates = {
            'PromptTemplate': icl_prompt_template.PromptTemplate,
            'RawPromptTemplate': icl_raw_prompt_template.RawPromptTemplate,
        }
    else:
        from ais_bench.benchmark.models.api_models.base_api import BaseAPIModel
        from ais_bench.benchmark.models.local_models.base import BaseModel
        from ais_bench.benchmark.openicl import icl_prompt_template, icl_retriever
        from ais_bench.benchmark.openicl.icl_dataset_reader import DatasetReader

        names = ('PromptTemplate', 'MMPromptTemplate', 'MultiTurnPromptTemplate')
        templates = {kind: getattr(icl_prompt_template, kind) for kind in names}
    return types.SimpleNamespace(
        name=name, reader=DatasetReader, retrievers=icl_retriever, templates=templates, text=BaseModel, api=BaseAPIModel
    )


def dataset_of(engine, case):
    """The least that a retriever wants of a dataset."""
    from datasets import Dataset, DatasetDict

    data = DatasetDict(train=Dataset.from_list(case['train']), test=Dataset.from_list(case['test']))
    reader = engine.reader(data, **{**case['reader_cfg'], 'train_split': 'train', 'test_split': 'test'})
    return types.SimpleNamespace(reader=reader, train=reader.dataset['train'], test=reader.dataset['test'], abbr='case')


def render(engine, case):
    """Every prompt of a case, in order."""
    infer = case['infer_cfg']
    built = {}
    for key in ('ice_template', 'prompt_template'):
        if infer.get(key):
            options = dict(infer[key])
            kind = options.pop('type')
            built[key] = (engine.templates[kind], options)
    options = dict(infer['retriever'])
    kind = getattr(engine.retrievers, options.pop('type'))
    model = (engine.api if case['api'] else engine.text)(path='none', meta_template=case['meta'])
    dataset = dataset_of(engine, case)
    if engine.name == 'opencompass':
        made = {key: make(**given) for key, (make, given) in built.items()}
        retriever, call = kind(dataset, **options), {key: made.get(key) for key in ('ice_template', 'prompt_template')}
        ice_call = {'ice_template': made.get('ice_template')}
    else:
        given = {key: {'type': make, **kwargs} for key, (make, kwargs) in built.items()}
        retriever, call, ice_call = kind(dataset, **given, **options), {}, {}
    prompts = []
    for i, ids in enumerate(retriever.retrieve()):
        ice = retriever.generate_ice(ids, **ice_call)
        if case['labels']:
            for label in case['labels']:
                prompt = retriever.generate_label_prompt(i, ice, label, **call)
                prompts.append(plain(model.parse_template(prompt, mode='ppl')))
        else:
            prompt = retriever.generate_prompt_for_generate_task(
                i, ice, gen_field_replace_token=case['replacement'], **call
            )
            prompts.append(plain(model.parse_template(prompt, mode=case['mode'])))
    return prompts


def main():
    name, cases, results = sys.argv[1:]
    engine = engine_of(name)
    answers = []
    for case in pickle.loads(Path(cases).read_bytes()):
        try:
            answers.append({'prompts': render(engine, case)})
        except Exception as error:  # whatever the reference raises is its answer
            answers.append({'error': f'{type(error).__name__}: {str(error)[:200]}'})
    Path(results).write_bytes(pickle.dumps(answers))


if __name__ == '__main__':
    main()
