"""Prompts per second of OpenCompass, for `benchmarks/prompts.py`. Runs in an environment that has it installed.

Reads one JSON object from standard input ({rows, train, cases}) and prints one JSON object: case -> prompts per second.
"""

import json
import os
import sys
import time
import warnings

out = os.fdopen(os.dup(1), 'w')
os.dup2(2, 1)
warnings.filterwarnings('ignore')
os.environ.update(HF_HUB_OFFLINE='1', TQDM_DISABLE='1')

from datasets import Dataset, DatasetDict  # noqa: E402
from opencompass.models.base import BaseModel  # noqa: E402
from opencompass.models.base_api import BaseAPIModel  # noqa: E402
from opencompass.openicl.icl_dataset_reader import DatasetReader  # noqa: E402
from opencompass.openicl.icl_prompt_template import PromptTemplate  # noqa: E402
from opencompass.openicl.icl_retriever import FixKRetriever, ZeroRetriever  # noqa: E402


class Rows:
    """The least a retriever wants of a dataset."""

    def __init__(self, train, test, columns):
        data = DatasetDict(train=Dataset.from_list(train), test=Dataset.from_list(test))
        self.reader = DatasetReader(data, input_columns=columns, output_column='answer')
        self.train, self.test = self.reader.dataset['train'], self.reader.dataset['test']


def prompts(case, dataset):
    """Build every prompt of a case and count them."""
    ice = PromptTemplate(**case['ice']) if case.get('ice') else None
    prompt = PromptTemplate(**case['prompt'])
    shots = case.get('shots', 0)
    retriever = FixKRetriever(dataset, fix_id_list=list(range(shots))) if shots else ZeroRetriever(dataset)
    model = (BaseAPIModel if case.get('api') else BaseModel)(path='none', meta_template=case.get('meta'))
    made = 0
    start = time.perf_counter()
    for i, ids in enumerate(retriever.retrieve()):
        examples = retriever.generate_ice(ids, ice_template=ice)
        if case['mode'] == 'ppl':
            for label in case['prompt']['template']:
                text = retriever.generate_label_prompt(i, examples, label, ice_template=ice, prompt_template=prompt)
                model.parse_template(text, mode='ppl')
                made += 1
        else:
            text = retriever.generate_prompt_for_generate_task(i, examples, ice_template=ice, prompt_template=prompt)
            model.parse_template(text, mode='gen')
            made += 1
    return made / (time.perf_counter() - start)


if __name__ == '__main__':
    job = json.load(sys.stdin)
    dataset = Rows(job['train'], job['rows'], ['question', 'A', 'B', 'C', 'D'])
    rates = {name: max(prompts(case, dataset) for _ in range(2)) for name, case in job['cases'].items()}
    out.write(json.dumps(rates))
    out.flush()
