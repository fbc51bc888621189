"""Patterns of task files and rows: they mean what they mean in `re`, and none can hold up a run."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path

import pytest

from rolecall import load_config, preview, run_config
from rolecall.errors import RenderError
from rolecall.patterns import PatternError, find_all, search_groups, substitute
from test_lm_eval_scores import GENERATE

PATTERNS = [
    r'(-?[$0-9.,]{2,})|(-?[0-9]+)',
    r'#### (\-?[0-9\.\,]+)',
    r'(?i)answer is:?\s*\(?([A-D])\)?',
    r'(?<=\[).*?(?=\])',
    r'(\w+)\s+\1',
    r'x*',
    r'^',
    r'[\ud800-\udfff]|\s+$',
]
TEXTS = ['', 'The answer is (B). #### 1,000.5', 'the the [a] [b]', 'xx\nx  \n', '\ud800 ä 猫', 'axxb ' * 1000]


@pytest.mark.parametrize('pattern', PATTERNS)
def test_a_pattern_means_what_it_means_in_re(pattern: str) -> None:
    for text in TEXTS:
        assert find_all(pattern, text, re.IGNORECASE) == re.findall(pattern, text, re.IGNORECASE)
        assert substitute(pattern, '-', text, 2) == re.sub(pattern, '-', text, count=2)
        match = re.search(pattern, text)
        assert search_groups(pattern, text) == ((match[0], *match.groups()) if match else None)


@pytest.mark.parametrize(
    ('pattern', 'text'),
    [(r'(a+)+$', 'a' * 40 + 'b'), (r'(a|a)*$', 'a' * 40 + 'b'), (r'\s*x', ' ' * 300_000), (r'(a*)*\1b', 'a' * 60)],
)
def test_a_pattern_that_takes_too_long_is_stopped_and_the_next_one_runs(
    pattern: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr('rolecall.patterns.PATTERN_SECONDS', 0.3)
    for call in (find_all, search_groups):
        with pytest.raises(PatternError, match=r'took more than 0.3 s'):
            call(pattern, text)
    assert find_all(r'(b+)+$', 'abb') == ['bb']


def test_threads_share_the_process() -> None:
    counts: list[int] = []
    threads = [
        threading.Thread(target=lambda size=size: counts.append(len(find_all(r'(a+)+', 'ab' * size))))
        for size in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(counts) == [*range(8)]


def echo(prompt: str) -> str:
    return prompt


def task(folder: Path, text: str, rows: list[dict[str, str]]) -> str:
    (folder / 'rows.jsonl').write_text('\n'.join(map(json.dumps, rows)))
    files = '{test: ' + str(folder / 'rows.jsonl') + '}'
    path = folder / 'task.yaml'
    path.write_text(f'{text}dataset_path: json\ndataset_kwargs: {{data_files: {files}}}\n')
    return str(path)


def test_a_filter_that_takes_too_long_fails_its_row_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('rolecall.patterns.PATTERN_SECONDS', 0.3)
    pattern = 'filter_list: [{name: f, filter: [{function: regex, regex_pattern: "(a+)+$"}, {function: take_first}]}]\n'
    metric = 'metric_list: [{metric: exact_match}]\n'
    rows = [{'question': 'aa', 'answer': 'aa'}, {'question': 'a' * 40 + 'b', 'answer': 'aa'}]
    datasets = load_config(task(tmp_path, GENERATE + pattern + metric, rows))['datasets']
    summary = run_config({'datasets': datasets, 'models': [{'type': echo, 'abbr': 'echo'}]}, out=tmp_path / 'run')
    [card] = summary.scorecards
    assert dict(card.outcomes) == {'ok': 1, 'failed': 1}


def test_a_template_s_pattern_that_takes_too_long_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr('rolecall.patterns.PATTERN_SECONDS', 0.3)
    text = GENERATE.replace('question', "\"{{ question | regex_replace('(a+)+$', '') }}\"", 1)
    path = task(tmp_path, text, [{'question': 'a' * 40 + 'b', 'answer': 'B'}])
    with pytest.raises(RenderError, match=r'took more than 0.3 s on 41 characters'):
        list(preview(load_config(path)))
