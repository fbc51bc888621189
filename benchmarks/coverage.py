"""How many dataset configs of OpenCompass and AISBench reach a score here.

    python benchmarks/coverage.py --reference-python /path/to/other/env/bin/python [--real] [--show N]

Every distinct entry of every file is prepared and run on two made-up rows, with a Python function as the model and as the
judge. A file counts if all its entries are scored. Three ways: natively with rows supplied; with one of our loaders as
well; and, with `--real`, in the other environment, which has the two packages installed, with what a config names there
used as it is (`load_config(…, foreign='real')`). Where both can score an entry, `--compare` sends the same replies to
both and counts equal verdicts.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from coverage_rows import JUDGE, REPLY, made_rows
from rolecall.config.files import load_config
from rolecall.datasets.benchmarks import HUB_BENCHMARKS
from rolecall.datasets.dataset import DATASETS
from rolecall.errors import RolecallError
from rolecall.models.protocol import Scored
from rolecall.registry import part_name
from rolecall.runs.run import run_config
from rolecall.scoring.code import CODE_METRICS
from rolecall.scoring.evaluate import Scorable, build_scorer

ROOTS = {'OpenCompass': 'opencompass/configs/datasets', 'AISBench': 'ais_bench/benchmark/configs/datasets'}
HUB = ('HFDataset', *HUB_BENCHMARKS)
POSTPROCESSING = ('pred_postprocessor', 'dataset_postprocessor')
KNOWN = ('evaluator', *POSTPROCESSING, 'model_postprocessor')
JUDGES = ('LMEvaluator', 'GenericLLMEvaluator')
DENSE = ('TopkRetriever', 'VotekRetriever', 'DPPRetriever', 'MDLRetriever')
API = {
    'round': [{'role': 'HUMAN', 'api_role': 'HUMAN'}, {'role': 'BOT', 'api_role': 'BOT', 'generate': True}],
    'reserved_roles': [{'role': 'SYSTEM', 'api_role': 'SYSTEM'}],
}


@dataclass
class Entry:
    """A dataset entry of a file: what makes it distinct, and how it fares."""

    file: str
    entry: dict[str, Any]
    key: str = ''
    reason: str = ''


@dataclass
class Tally:
    files: set[str] = field(default_factory=set)
    unscored: set[str] = field(default_factory=set)
    without_loader: set[str] = field(default_factory=set)
    with_hub: set[str] = field(default_factory=set)
    reasons: Counter[str] = field(default_factory=Counter)
    loaders: Counter[str] = field(default_factory=Counter)


def entries(root: Path, foreign: Any) -> Iterator[Entry]:
    """Every dataset entry below a folder of config files."""
    for file in sorted(root.rglob('*.py')):
        if file.name == '__init__.py':
            continue
        try:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                config = load_config(file, foreign=foreign)
        except (RolecallError, Exception):  # counted by benchmarks/configs.py
            continue
        for name, value in config.items():
            if isinstance(value, list | tuple) and name.endswith('datasets'):
                for entry in value:
                    if isinstance(entry, Mapping) and 'infer_cfg' in entry:
                        yield Entry(str(file.relative_to(root)), dict(entry))


def plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, str | int | float | bool) else part_name(value)


def key_of(entry: Mapping[str, Any]) -> str:
    """What is asked and how it is scored; where the data lies does not matter."""
    kept = {name: plain(entry.get(name)) for name in ('reader_cfg', 'infer_cfg', 'eval_cfg', 'k', 'n')}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()


def try_entry(entry: Mapping[str, Any], folder: str) -> str:
    """Prepare and run an entry; why it has no score, or nothing."""
    try:
        train, test = made_rows(entry)
    except (TypeError, AttributeError) as error:
        return f'entry of another form: {error}'
    given = {name: entry[name] for name in ('reader_cfg', 'infer_cfg', 'eval_cfg') if name in entry}
    reader = {
        key: value for key, value in (given.get('reader_cfg') or {}).items() if not key.endswith(('split', 'range'))
    }
    config = {
        'datasets': [{**given, 'abbr': 'd', 'type': 'Rows', 'train': train, 'test': test, 'reader_cfg': reader}],
        'models': [
            {'abbr': 'm', 'type': answer, 'score': score, **({'meta_template': API} if takes_media(given) else {})}
        ],
    }
    put_judge(config['datasets'][0])
    retriever = given['infer_cfg'].get('retriever')
    if isinstance(retriever, Mapping) and part_name(retriever.get('type')) in DENSE:
        weigh = {'score': weigh_labels} if part_name(retriever.get('type')) == 'MDLRetriever' else {}
        embedded = {**given['infer_cfg'], 'retriever': {**retriever, 'encoder': encode, **weigh}}
        config['datasets'][0]['infer_cfg'] = embedded
    if not given.get('eval_cfg'):
        return 'no eval_cfg'
    said = io.StringIO()
    try:
        with redirect_stdout(said), redirect_stderr(said), tempfile.TemporaryDirectory(dir=folder) as out:
            card = run_config(config, out=Path(out) / 'run', lint=False).scorecards[0]
    except RolecallError as error:
        return ' '.join(str(error).split())
    except Exception as error:  # a traceback is a defect
        return f'TRACEBACK {type(error).__name__}: {error}'
    if card.error:
        return ' '.join(card.error.split())
    return '' if card.value is not None else f'no value: {dict(card.outcomes)} {card.details.get("excluded")}'


def put_judge(value: Any) -> None:
    """Let every judge of an entry be a function."""
    if isinstance(value, dict):
        if 'judge_cfg' in value or (value.get('type') is not None and part_name(value['type']) in JUDGES):
            value['judge_cfg'] = {'abbr': 'judge', 'type': judge}
        for inner in value.values():
            put_judge(inner)
    elif isinstance(value, list):
        for inner in value:
            put_judge(inner)


def takes_media(entry: Mapping[str, Any]) -> bool:
    written = entry['infer_cfg'].get('prompt_template') or {}
    return isinstance(written, Mapping) and part_name(written.get('type') or '') in (
        'MMPromptTemplate',
        'RawPromptTemplate',
    )


def answer(prompt: Any) -> str:
    return REPLY


def weigh_labels(row: Any, shots: Any, labels: Any) -> list[float]:
    return [1.0, 2.0]


def encode(prompts: Any) -> list[list[float]]:
    return [[float(len(text)), 1.0] for text in prompts]


def score(prompts: Any) -> list[Scored]:
    return [Scored(tuple(range(len(str(text)))), (None, *[-1.0] * (len(str(text)) - 1))) for text in prompts]


def judge(prompt: Any) -> str:
    return JUDGE


def measure(root: Path, foreign: Any) -> tuple[Tally, dict[str, str]]:
    tally, known = Tally(), {}
    memory = (
        '/dev/shm' if os.path.isdir('/dev/shm') else None
    )  # thousands of small runs: the disk would be what is timed
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        for one in entries(root, foreign):
            tally.files.add(one.file)
            key = key_of(one.entry)
            if key not in known:
                known[key] = try_entry(one.entry, folder)
            if known[key]:
                if one.file not in tally.unscored:
                    tally.reasons[shorten(known[key], one.entry)] += 1
                tally.unscored.add(one.file)
            kind = one.entry.get('type')
            name = (
                DATASETS.builtin_name(kind) if not (foreign == 'real' and isinstance(kind, type)) else part_name(kind)
            )
            if name is None:
                tally.without_loader.add(one.file)
                tally.loaders[part_name(kind)] += 1
            elif name in HUB and not one.entry.get('data_files'):
                tally.with_hub.add(one.file)
    return tally, known


def shorten(reason: str, entry: Mapping[str, Any]) -> str:
    scoring = entry.get('eval_cfg')
    evaluator = (scoring.get('evaluator') if isinstance(scoring, Mapping) else None) or ''
    kind = part_name(evaluator.get('type') if isinstance(evaluator, Mapping) else evaluator)
    return f'{kind}: {reason.replace("datasets[0].", "")[:230]}'


def replies_to(gold: Any) -> list[str]:
    """Right and wrong replies in several forms."""
    right = gold[0] if isinstance(gold, list | tuple) and gold else gold
    text = str(right.get('answers', right) if isinstance(right, Mapping) else right)
    return [
        text,
        f'The answer is {text}.',
        f'Let us think. So the final answer is \\boxed{{{text}}}.',
        f'({text})',
        f'答案是{text}',
        f'**{text}** and nothing else',
        f'{text}\n\nThe end.',
        'The answer is B.',
        'It is 42, or so.',
        'I do not know.',
    ]


def compare(root: Path, most: int) -> None:
    """Scores of ours and of the package, on the same rows and replies."""
    counts: Counter[str] = Counter()
    differences: dict[str, tuple[int, str]] = {}
    theirs_by_key = {}
    for one in entries(root, 'real'):
        theirs_by_key.setdefault(key_of(one.entry), one.entry)
    for key, entry in {key_of(one.entry): one.entry for one in entries(root, 'reference')}.items():
        theirs, scoring = theirs_by_key.get(key), entry.get('eval_cfg')
        if theirs is None or not isinstance(scoring, Mapping) or not isinstance(entry.get('reader_cfg'), Mapping):
            continue
        evaluator = scoring.get('evaluator')
        name = part_name(evaluator.get('type') if isinstance(evaluator, Mapping) else evaluator or '')
        if name in (*JUDGES, 'CascadeEvaluator', '', *CODE_METRICS):
            continue
        found = [score_replies(one) for one in (entry, theirs)]
        if any(isinstance(value, str) for value in found):
            counts['one cannot score' if isinstance(found[0], float) or isinstance(found[1], float) else 'neither'] += 1
            continue
        same = abs(found[0] - found[1]) < 0.06
        counts['equal' if same else 'different'] += 1
        if not same:
            shown = ', '.join(
                part_name((scoring.get(one) or {}).get('type', '')) for one in POSTPROCESSING if scoring.get(one)
            )
            label = f'{name} ({shown})' if shown else name
            number, _ = differences.get(label, (0, ''))
            differences[label] = (number + 1, f'ours {found[0]:.1f}, theirs {found[1]:.1f}')
    print(f'  verdicts on the same replies: {dict(counts)}')
    for label, (number, values) in sorted(differences.items(), key=lambda item: -item[1][0])[:most]:
        print(f'  {number:4}  {label}: {values}')


def score_replies(entry: Mapping[str, Any]) -> float | str:
    """The score of ten replies to one row, as a share of 100; or why there is none."""
    try:
        [row, *_] = made_rows(entry)[1]
        output = (entry.get('reader_cfg') or {}).get('output_column')
        gold = row.get(output) if output else None
        scoring = {key: value for key, value in entry['eval_cfg'].items() if key in KNOWN}
        scorer = build_scorer(scoring, output_column=output)
        rows = [Scorable(number, 'ok', reply, gold, row) for number, reply in enumerate(replies_to(gold))]
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            value = scorer.score(rows).value
    except (RolecallError, Exception) as error:
        return str(error) or 'failed'
    if value is None:
        return 'no value'
    return value * 100 if 0 < value <= 1 else value


def show(name: str, tally: Tally, most: int) -> dict[str, int]:
    files, scored = len(tally.files), len(tally.files - tally.unscored)
    loaded = len(tally.files - tally.unscored - tally.without_loader)
    local = len(tally.files - tally.unscored - tally.without_loader - tally.with_hub)
    print(
        f'{name}: {files:,} files; scored with rows supplied {scored:,} ({scored / files:.0%}); '
        f'and the loader is ours {loaded:,} ({loaded / files:.0%}); without a hub {local:,} ({local / files:.0%})'
    )
    for reason, count in tally.reasons.most_common(most):
        print(f'  {count:4}  {reason}')
    if most:
        print('  loaders missing:', ', '.join(f'{kind} {count}' for kind, count in tally.loaders.most_common(3 * most)))
    return {'files': files, 'scored': scored, 'loaded': loaded, 'local': local}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument('--reference-python', required=True, help='a Python with opencompass and ais-bench installed')
    options.add_argument('--real', action='store_true', help='also in that environment, with what it names as it is')
    options.add_argument('--show', type=int, default=0, metavar='N', help='the N most frequent reasons')
    options.add_argument('--compare', action='store_true', help='with --real: scores of ours and of theirs, compared')
    options.add_argument('--only', choices=[*ROOTS], help='one of the two')
    options.add_argument('--inside', action='store_true', help=argparse.SUPPRESS)
    given = options.parse_args()
    os.environ.update(HF_HUB_OFFLINE='1', HF_DATASETS_OFFLINE='1', TRANSFORMERS_OFFLINE='1')
    # Some classes of the packages download as they are made: such attempts end at a closed port of this machine.
    os.environ.update(dict.fromkeys(('http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY'), 'http://127.0.0.1:9'))
    warnings.simplefilter('ignore')
    logging.disable(logging.CRITICAL)
    packages = subprocess.run(
        [given.reference_python, '-c', 'import sysconfig; print(sysconfig.get_paths()["purelib"])'],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    for name, root in ROOTS.items():
        if given.only in (None, name):
            began = time.monotonic()
            if given.compare and given.inside:
                print(name)
                compare(Path(packages) / root, given.show or 30)
                continue
            tally, _ = measure(Path(packages) / root, 'real' if given.inside else 'reference')
            show(f'{name}, {"package installed" if given.inside else "natively"}', tally, given.show)
            print(f'  {time.monotonic() - began:.0f} s', flush=True)
    if given.real and not given.inside:
        source = str(Path(__file__).parent.parent / 'src')
        again = [word for word in sys.argv[1:] if word not in ('--real', '--compare')]
        environment = {**os.environ, 'PYTHONPATH': source, 'PYTHONWARNINGS': 'ignore'}
        for further in ([], ['--compare']) if given.compare else ([],):
            command = [given.reference_python, __file__, *again, *further, '--inside']
            subprocess.run(command, check=True, env=environment)


if __name__ == '__main__':
    main()
