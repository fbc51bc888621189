"""Check this machine, or a run directory for damage.

Say what is installed, which models are at hand, and whether keys and endpoints work. With RUN: read every row and
request of a run and compare it with its checksum. Exit code 1 if something is wrong.

  rolecall doctor
  rolecall doctor --offline
  rolecall doctor runs/first
  rolecall doctor runs/first --repair runs/saved
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from rolecall._version import __version__
from rolecall.ui.cli.output import fail, print_json, print_lines
from rolecall.ui.views.chinese import translate_message

_EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    'api': (('aiohttp',), 'models behind APIs'),
    'llama': (('xllamacpp', 'numpy'), 'the embedded model and .gguf files'),
    'hf': (('transformers', 'torch'), 'Hugging Face models'),
    'vllm': (('vllm',), 'vLLM in this process (experimental)'),
    'data': (('pyarrow', 'datasets'), 'Parquet and datasets of the hub'),
    'retrieve': (('numpy', 'scipy'), 'BM25, DPP and other retrievers'),
    'dense': (('sentence_transformers',), 'retrievers by embedding'),
    'score': (('math_verify', 'rouge_score', 'sacrebleu'), 'mathematics, ROUGE, BLEU'),
    'code': (('sandlock',), 'code in a sandbox'),
    'tokenize': (('tokenizers', 'tiktoken'), 'token counts without a model'),
}
"""Each extra with the packages it brings, and what for."""


@dataclass(frozen=True, slots=True)
class Checked:
    """One line: what was checked, the result, and whether that is a problem."""

    what: str
    found: str
    problem: bool = False


def check_environment(*, offline: bool = False) -> Iterator[Checked]:
    """Everything, in the order it is printed."""
    yield Checked('rolecall', f'{__version__}, Python {platform.python_version()}, {platform.platform()}')
    yield Checked('processors', f'{os.cpu_count() or 1}; terminal writes {sys.stdout.encoding or "unknown"}')
    yield from _check_extras()
    yield from _check_sandboxes()
    yield from _check_models()
    yield from _check_keys()
    if not offline:
        yield from _check_endpoints()


def _check_extras() -> Iterator[Checked]:
    for extra, (packages, purpose) in _EXTRAS.items():
        missing = [package for package in packages if importlib.util.find_spec(package) is None]
        state = 'installed'
        if missing:
            state = f"{', '.join(missing)} missing: pip install 'rolecall[{extra}]'"
        yield Checked(f'extra {extra}', f'{state} ({purpose})')


def _check_sandboxes() -> Iterator[Checked]:
    """Each sandbox that is tried by default; what a program in it could still do, or why it cannot be used."""
    from rolecall.scoring.code.sandbox_probe import BY_DEFAULT, probe_sandbox

    for name in BY_DEFAULT:
        yield Checked(f'sandbox {name}', probe_sandbox(name) or 'holds: every attempt of a program to get out failed')


def _check_models() -> Iterator[Checked]:
    from rolecall.models.pull import PACKAGED, cached_path

    for name, model in PACKAGED.items():
        path = cached_path(name)
        state = f'at {path}' if path else f'not downloaded ({model.download / 1e6:.0f} MB): rolecall model pull {name}'
        yield Checked(f'model {name}', state)


def _check_keys() -> Iterator[Checked]:
    from rolecall.models.model_names import SOURCES

    services = [f'{source.name} ({source.variable})' for source in SOURCES.values() if source.variable]
    yield Checked('keys', ', '.join(services) if services else 'none in the environment, e.g. OPENAI_API_KEY')


def _check_endpoints() -> Iterator[Checked]:
    """Services with a key must work; of the servers on this machine, only those that answer are listed."""
    from concurrent.futures import ThreadPoolExecutor

    from rolecall.models.endpoint_check import check_service, services_to_check

    services = services_to_check()
    with ThreadPoolExecutor(max_workers=8) as pool:
        checks = list(pool.map(check_service, services))
    for service, check in zip(services, checks, strict=True):
        if service.keys or check.works:
            yield Checked(f'endpoint {check.service}', f'{check.status} ({check.url})', problem=not check.works)


def execute(arguments: argparse.Namespace) -> int:
    from rolecall.runs.batches.ledger_reader import describe_waiting
    from rolecall.runs.store.copies import check_run, describe_receipts, repair_run

    directory, target = arguments.directory, arguments.repair
    if directory is None:
        return fail('--repair needs a RUN.') if target else _check_machine(arguments)
    checkup = repair_run(directory, target) if target else check_run(directory)
    print_lines((*checkup.lines(), *describe_receipts(directory), *describe_waiting(directory)))
    if target:
        print_lines([f'Saved in {target}. Run the config there to ask for what is missing.'])
    return 0 if checkup.is_whole else 1


def _check_machine(arguments: argparse.Namespace) -> int:
    problems, home = 0, os.path.expanduser('~')
    for check in check_environment(offline=arguments.offline):
        problems += check.problem
        if arguments.json:
            print_json(check)
        else:
            words = translate_message(check.found)
            words = words if home == os.sep else words.replace(f'{home}{os.sep}', f'~{os.sep}')
            print_lines([f'{"! " if check.problem else "  "}{check.what:<22}{words}'], hang=22)
    return 1 if problems else 0
