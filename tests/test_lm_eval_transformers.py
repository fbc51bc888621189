"""Likelihoods of task files with a Transformers model: the first token counts, and greedy means the argmax."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from rolecall import load_config, run_config
from small_models import make_model

pytestmark = pytest.mark.heavy
ROLLING = 'task: t\ntest_split: test\noutput_type: loglikelihood_rolling\ndoc_to_text: ""\ndoc_to_target: text\n'
FOLLOWS = 'task: t\ntest_split: test\noutput_type: loglikelihood\ndoc_to_text: text\ndoc_to_target: next\n'
TEXTS = ['the quick brown fox', 'a river under the bridge']


def logits_after(folder: Path, ids: list[int]) -> Any:
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    with torch.inference_mode():
        return model(torch.tensor([ids])).logits[0].log_softmax(-1)


def encode(folder: Path, text: str) -> list[int]:
    from tokenizers import Tokenizer

    ids: list[int] = Tokenizer.from_file(str(folder / 'tokenizer.json')).encode(text, add_special_tokens=False).ids
    return ids


def scores(
    folder: Path, task: str, rows: list[dict[str, Any]], batch_size: int | None = None, **options: Any
) -> dict[str, float]:
    path = folder / 'task.yaml'
    path.write_text(task)
    entry = {'abbr': 'm', 'type': 'HuggingFaceCausalLM', 'path': str(folder), 'device': 'cpu', 'batch_size': batch_size}
    config = {**load_config(path, **options), 'models': [entry]}
    rows_file = folder / 'rows.jsonl'
    rows_file.write_text('\n'.join(map(json.dumps, rows)))
    [card] = run_config(config, out=folder / 'run', data={'test': str(rows_file)}).scorecards
    return {card.metric: card.value, **card.details.get('further', {})}


@pytest.mark.parametrize(
    ('kind', 'emulate', 'before', 'counted'),
    [('gpt2', None, [0], 0), ('llama', None, [0], 0), ('llama', 'lm-eval', [0, 0], 1)],
    ids=['no bos of its own', 'its own bos', 'bos after bos'],
)
def test_the_first_token_of_a_text_counts(
    kind: str, emulate: Any, before: list[int], counted: int, tmp_path: Path
) -> None:
    make_model(tmp_path, kind)
    total, size = 0.0, 0
    for text in TEXTS:
        ids = [*before, *encode(tmp_path, text)]
        table = logits_after(tmp_path, ids)
        total += sum(float(table[i - 1, ids[i]]) for i in range(len(before) - counted, len(ids)))
        size += len(text.encode())
    found = scores(tmp_path, ROLLING, [{'text': text} for text in TEXTS], emulate=emulate)
    assert found['bits_per_byte'] == pytest.approx(-total / size / 0.6931471805599453, rel=1e-5)


def test_a_continuation_is_greedy_where_each_token_is_the_likeliest(tmp_path: Path) -> None:
    make_model(tmp_path, 'llama')
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(tmp_path / 'tokenizer.json'))
    rows = []
    for text in ('the q', 'in an', 'on the th'):
        ids = [0, *encode(tmp_path, text)]
        table = logits_after(tmp_path, ids)
        best, second = (tokenizer.decode([int(one)]) for one in table[-1].topk(2).indices)
        for word, right in ((best, 1.0), (second, 0.0)):
            if (
                encode(tmp_path, text + word) == [*ids[1:], *encode(tmp_path, word)]
                and len(encode(tmp_path, word)) == 1
            ):
                rows.append(({'text': text, 'next': word}, right))
    assert rows
    found = scores(tmp_path, FOLLOWS, [row for row, _ in rows])
    assert found['acc'] == pytest.approx(sum(right for _, right in rows) / len(rows))


def test_with_emulate_and_one_prompt_at_a_time_perplexity_is_pytorchs_to_the_last_digit(tmp_path: Path) -> None:
    import torch

    make_model(tmp_path, 'llama', spread=0.1)
    rows = [{'text': text, 'next': ' over the lazy dog and away'} for text in TEXTS]
    logs = []
    for row in rows:
        context, whole = ([0, *encode(tmp_path, text)] for text in (row['text'], row['text'] + row['next']))
        table = logits_after(tmp_path, whole[:-1])
        picked = [table[i - 1, whole[i]] for i in range(len(context), len(whole))]
        logs.append(float(torch.stack(picked).sum()))
    found = scores(tmp_path, FOLLOWS, rows, emulate='lm-eval', batch_size=1)
    assert found['perplexity'] == math.exp(-sum(logs) / len(logs))
