"""Every prompt that the dataset configs of OpenCompass and AISBench lead to, against those systems' own rendering.

    python benchmarks/config_prompts.py --reference-python /path/to/other/env/bin/python

The other environment has the two packages installed. Each distinct pair of reader_cfg and infer_cfg is filled with made-up
rows and rendered for four model sides by both; equal, different and not comparable (with the reason) are counted. With
`--show N` the first N differences are printed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pickle
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rolecall.core.prompts.template import TEMPLATES
from rolecall.errors import RolecallError
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.opening.loading import load_config
from rolecall.experiment.opening.tasks import INFERENCER_KINDS
from rolecall.registry import part_name

ROOTS = {'opencompass': 'opencompass/configs/datasets', 'aisbench': 'ais_bench/benchmark/configs/datasets'}
CHATML = {
    'round': [
        {'role': 'HUMAN', 'begin': '<|im_start|>user\n', 'end': '<|im_end|>\n'},
        {'role': 'BOT', 'begin': '<|im_start|>assistant\n', 'end': '<|im_end|>\n', 'generate': True},
    ],
    'reserved_roles': [{'role': 'SYSTEM', 'begin': '<|im_start|>system\n', 'end': '<|im_end|>\n'}],
    'begin': '<s>',
}
API = {'round': [{'role': 'HUMAN', 'api_role': 'HUMAN'}, {'role': 'BOT', 'api_role': 'BOT', 'generate': True}]}
SIDES: dict[str, tuple[bool, Any]] = {
    'text': (False, None),
    'chatml': (False, CHATML),
    'api': (True, API),
    'api+system': (True, {**API, 'reserved_roles': [{'role': 'SYSTEM', 'api_role': 'SYSTEM'}]}),
}
FIELD = re.compile(r'\{([^{}]+)\}')
MEDIA = '<AIS_TEXT_START>made-up question {n}<AIS_CONTENT_TAG><AIS_IMAGE_START>pic{n}.jpg<AIS_CONTENT_TAG>'
API_NAMES = {'HUMAN': 'user', 'BOT': 'assistant', 'SYSTEM': 'system'}


def plain(value: Any) -> Any:
    """A config value with types by name, so that any Python can read it."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, str | int | float | bool) else part_name(value)


def entries(root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every dataset entry below a folder of config files that load."""
    for file in sorted(root.rglob('*.py')):
        if file.name == '__init__.py':
            continue
        try:
            config = load_config(file)
        except (RolecallError, Exception):  # counted by benchmarks/configs.py
            continue
        for name, value in config.items():
            if not isinstance(value, list | tuple) or not name.endswith('datasets'):
                continue
            for entry in value:
                if isinstance(entry, Mapping) and 'infer_cfg' in entry:
                    yield str(file.relative_to(root)), plain(entry)


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


def made_rows(entry: dict[str, Any], kind: str, n: int, start: int) -> list[dict[str, Any]]:
    """Made-up rows with every column that the entry mentions."""
    reader, infer = entry.get('reader_cfg', {}), entry['infer_cfg']
    columns = reader.get('input_columns') or []
    columns = columns.split() if isinstance(columns, str) else list(columns)
    fields = {
        name for text in texts(infer) for name in FIELD.findall(text) if re.fullmatch(r'[\w\u4e00-\u9fff ]+', name)
    }
    output = reader.get('output_column')
    labels = labels_of(infer)
    rows = []
    for i in range(start, start + n):
        row: dict[str, Any] = {name: f'made-up {name} {i}' for name in sorted({*columns, *fields})}
        if output:
            row[output] = labels[i % len(labels)] if labels else f'made-up answer {i}'
        for column in expanded(infer):
            row[column] = [{'role': 'user', 'content': f'earlier {i}'}, {'role': 'assistant', 'content': 'yes'}]
        if kind == 'MMPromptTemplate':
            row['content'] = MEDIA.format(n=i)
            row.pop('image', None), row.pop('video', None), row.pop('audio', None)
        rows.append(row)
    return rows


def expanded(infer: dict[str, Any]) -> set[str]:
    """The columns that hold messages."""
    messages = [m for key in ('prompt_template', 'ice_template') for m in (infer.get(key) or {}).get('messages', [])]
    return {
        message['expand_column'] for message in messages if isinstance(message, dict) and 'expand_column' in message
    }


def defect(mine: Any, theirs: list[Any]) -> str | None:
    """The known defect of the reference that explains a difference, if one does."""
    if isinstance(mine, str):
        return 'examples without a place are lost' if 'would be lost' in mine else None
    if all(isinstance(text, str) for text in theirs):
        if mine == [text.lstrip('\n') for text in theirs]:
            return 'an empty first speech leaves a line break'
        silent = re.compile(r'<\|im_start\|>(?:user|assistant)\n<\|im_end\|>\n')
        return 'an empty speech is invented' if mine == [silent.sub('', text) for text in theirs] else None
    kept = [[message for message in messages if message['content'] != ''] for messages in theirs]
    return 'an empty speech is invented' if mine == kept else None


def labels_of(infer: dict[str, Any]) -> list[Any]:
    template = (infer.get('prompt_template') or infer.get('ice_template') or {}).get('template')
    if isinstance(template, dict) and not set(template) <= {'begin', 'round', 'end'}:
        return list(template)
    return []


def case_of(entry: dict[str, Any]) -> dict[str, Any] | str:
    """What both sides render, or the reason why it cannot be compared."""
    infer = entry['infer_cfg']
    asks = infer.get('inferencer', {})
    name = asks.get('type', 'GenInferencer')
    prompt = infer.get('prompt_template') or infer.get('ice_template')
    if not isinstance(prompt, dict):
        return 'no template'
    if not isinstance(entry.get('reader_cfg', {}), dict):
        return 'reader_cfg is no dict'
    kind = prompt.get('type', 'PromptTemplate')
    if kind not in TEMPLATES:
        return f'template type {kind}'
    if INFERENCER_KINDS.get(name) not in ('gen', 'label', 'whole'):
        return f'inferencer {name}'
    retriever = infer.get('retriever', {'type': 'ZeroRetriever'})
    ids = retriever.get('fix_id_list') or []
    if retriever['type'] not in ('ZeroRetriever', 'FixKRetriever'):
        retriever, ids = {'type': 'FixKRetriever', 'fix_id_list': [0, 1]}, [0, 1]
    labels = list(asks.get('labels') or labels_of(infer)) if INFERENCER_KINDS[name] == 'label' else []
    if INFERENCER_KINDS[name] == 'label' and not labels:
        return 'labels from the data'
    templates = {key: infer[key] for key in ('ice_template', 'prompt_template') if infer.get(key)}
    return {
        'reader_cfg': {key: entry.get('reader_cfg', {}).get(key) for key in ('input_columns', 'output_column')},
        'infer_cfg': {**templates, 'retriever': retriever},
        'inferencer': asks if 'type' in asks else {'type': name},
        'mode': 'ppl' if INFERENCER_KINDS[name] == 'whole' else 'gen',
        'labels': labels,
        'media': kind == 'MMPromptTemplate',
        'replacement': asks.get('gen_field_replace_token', ''),
        'train': made_rows(entry, kind, max(ids, default=0) + 1, 100),
        'test': made_rows(entry, kind, 2, 0),
    }


def ours(case: dict[str, Any]) -> list[Any]:
    """Our prompts in the reference's shape: text, or speeches for an API."""
    api, meta = case['api'], case['meta']
    config = {
        'models': [{'type': 'OpenAI' if api else 'HuggingFaceCausalLM', 'meta_template': meta}],
        'datasets': [
            {
                'type': 'Rows',
                'train': case['train'],
                'test': case['test'],
                'reader_cfg': case['reader_cfg'],
                'infer_cfg': {**case['infer_cfg'], 'inferencer': case['inferencer']},
            }
        ],
    }
    experiment = Experiment.open(config)
    pair = experiment.pair(experiment.tasks[0], experiment.models[0])
    return [request for _, row, picked in pair.rows() for _, request in pair.step(row, picked).requests]


def as_messages(prompt: Any) -> Any:
    """The reference's API prompt as messages."""
    if isinstance(prompt, str):
        return [{'role': 'user', 'content': prompt}]
    return [
        {'role': API_NAMES.get(speech['role'], speech['role']), 'content': speech.get('content', speech.get('prompt'))}
        if isinstance(speech, dict)
        else speech
        for speech in prompt
    ]


def collect(root: Path) -> tuple[list[dict[str, Any]], Counter[str], int]:
    """The distinct cases below a folder, what was left out, and how many entries there were."""
    cases: dict[str, dict[str, Any]] = {}
    left_out: Counter[str] = Counter()
    total = 0
    for file, entry in entries(root):
        total += 1
        case = case_of(entry)
        if isinstance(case, str):
            left_out[case] += 1
            continue
        key = hashlib.sha256(repr(sorted(case.items())).encode()).hexdigest()
        cases.setdefault(key, {**case, 'file': file})
    return list(cases.values()), left_out, total


def reference(python: str, engine: str, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    script = Path(__file__).parent / 'reference' / 'render_cases.py'
    with tempfile.TemporaryDirectory() as folder:
        given, taken = Path(folder) / 'cases', Path(folder) / 'results'
        given.write_bytes(pickle.dumps(cases))
        subprocess.run([python, str(script), engine, str(given), str(taken)], check=True, capture_output=True)
        return list(pickle.loads(taken.read_bytes()))


def compare(engine: str, root: Path, python: str, show: int) -> None:
    found, left_out, total = collect(root)
    cases = [
        {**case, 'side': side, 'api': api, 'meta': meta}
        for case in found
        for side, (api, meta) in SIDES.items()
        if api or not case['media']  # the reference sends a text model an empty prompt instead of media
    ]
    counts: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    defects: Counter[str] = Counter()
    for case, theirs in zip(cases, reference(python, engine, cases), strict=True):
        if 'error' in theirs:
            errors[re.sub(r"'[^']*'|\d+", '…', theirs['error'])[:70]] += 1
            continue
        expected = [as_messages(prompt) for prompt in theirs['prompts']] if case['api'] else theirs['prompts']
        try:
            mine: Any = ours(case)
        except RolecallError as error:
            mine = f'{type(error).__name__}: {error}'
        if mine == expected:
            counts['equal'] += 1
            continue
        if known := defect(mine, expected):
            defects[known] += 1
            continue
        counts['different'] += 1
        if counts['different'] <= show:
            print(
                json.dumps(
                    {'file': case['file'], 'side': case['side'], 'ours': mine, 'theirs': expected}, ensure_ascii=False
                )[:3000]
            )
    compared = counts['equal'] + counts['different']
    print(f'{engine}: {total:,} entries, {len(found):,} distinct cases x {len(SIDES)} model sides')
    print(f'  compared {compared:,}: equal {counts["equal"]:,} ({counts["equal"] / max(compared, 1):.2%})')
    print(
        f'  different {counts["different"]:,}; known defects of the reference {sum(defects.values()):,}: {dict(defects)}'
    )
    print(f'  the reference raises {sum(errors.values()):,}: {dict(errors.most_common(8))}')
    print(f'  entries not comparable {sum(left_out.values()):,}: {dict(left_out.most_common(12))}')


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument('--reference-python', required=True, help='a Python that has both packages installed')
    options.add_argument(
        '--show', type=int, default=0, metavar='N', help='print the first N differences of each system'
    )
    options.add_argument('--only', choices=list(ROOTS))
    given = options.parse_args()
    where = 'import sysconfig; print(sysconfig.get_paths()["purelib"])'
    site = Path(
        subprocess.run([given.reference_python, '-c', where], capture_output=True, text=True, check=True).stdout.strip()
    )
    for engine, folder in ROOTS.items():
        if given.only in (None, engine):
            compare(engine, site / folder, given.reference_python, given.show)


if __name__ == '__main__':
    main()
