"""`rolecall bench` beside a server's own clock, bare aiohttp, vLLM's serving benchmark and AISBench's.

python benchmarks/serving.py                                     # against the clock of a server with known delays
python benchmarks/serving.py --vllm-python VENV/bin/python       # the same server with vLLM's benchmark, too
python benchmarks/serving.py --aisbench-python VENV/bin/python   # and with AISBench's (a venv of its own)
python benchmarks/serving.py --url http://127.0.0.1:8000/v1 --name tiny --tokenizer FOLDER …   # on a real server

Everything runs in turn; the load of the machine is printed, because the client and the server share its cores.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).parents[1] / 'tests'))
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.opening.source_options import SourceOptions
from rolecall.models.http.served_model import StreamTimes
from rolecall.models.openai.model import build
from rolecall.models.protocol import Sampling
from rolecall.runs.serving.bench_options import BenchOptions
from rolecall.runs.serving.serving_benchmark import run_benchmark
from timed_server import fetch_times, timed_server

LEVELS = ((1, 0.2, 0.02, 20), (64, 0.2, 0.05, 30), (512, 1.0, 0.5, 10), (512, 1.0, 0.25, 20), (512, 1.0, 0.1, 40))
"""Requests at once, seconds to the first token and between tokens, tokens."""
Figures = dict[str, float]


def show_load() -> str:
    return f'load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores'


def measure_rolecall(url: str, concurrency: int, requests: int, tokens: int, prompt: int, **more: Any) -> Figures:
    name = more.pop('name', 'timed')
    experiment = Experiment.open([{'question': ''}], SourceOptions(models=(url,), model_name=name))
    options = BenchOptions(
        concurrency=(concurrency,),
        requests=requests,
        input_len=prompt,
        output_len=tokens,
        warmup=0,
        seconds=600,
        **more,
    )
    [level] = run_benchmark(experiment, options).levels
    figures = level.figures
    return {
        'TTFT': figures['mean_ttft_ms'],
        'TPOT': figures['mean_tpot_ms'],
        'ITL': figures['mean_itl_ms'],
        'E2EL': figures['mean_e2el_ms'],
        'P99 TTFT': figures['p99_ttft_ms'],
        'tok/s': figures['output_throughput'],
        'CPU': 100 * figures['client']['cpu_share'] * figures['client']['processes'],
        'lag': figures['client']['median_lag_ms'],
    }


def read_clock(url: str, requests: int) -> Figures:
    """The same figures from the server's own times of the last requests."""
    times = fetch_times(url)[-requests:]
    ttft = sorted(1e3 * (request['sent'][0] - request['received']) for request in times)
    gaps = [1e3 * (later - earlier) for request in times for earlier, later in pairwise(request['sent'])]
    begin, end = min(request['received'] for request in times), max(request['ended'] for request in times)
    return {
        'TTFT': fmean(ttft),
        'TPOT': fmean(gaps),
        'ITL': fmean(gaps),
        'E2EL': fmean(1e3 * (request['ended'] - request['received']) for request in times),
        'P99 TTFT': ttft[int(0.99 * (len(ttft) - 1))],
        'tok/s': sum(len(request['sent']) for request in times) / (end - begin),
    }


def compare_with_clock(processes: int) -> None:
    print(f'\nrolecall bench against the server’s own clock ({show_load()}); differences in percent')
    print(
        f'{"at once":>8} {"pieces/s":>9} {"processes":>9} {"TTFT":>7} {"ITL":>7} {"E2EL":>7} {"client CPU":>11} {"lag, ms":>8}'
    )
    for concurrency, first, gap, tokens in LEVELS:
        for count in sorted({1, processes if concurrency > 100 else 1}):
            requests = max(2 * concurrency, 20)
            with timed_server(first=first, gap=gap, longest=tokens) as url:
                own = measure_rolecall(url, concurrency, requests, tokens, 50, processes=count)
                clock = read_clock(url, requests)
            off = {key: 100 * (own[key] / clock[key] - 1) for key in ('TTFT', 'ITL', 'E2EL')}
            print(
                f'{concurrency:8} {clock["tok/s"]:9,.0f} {count:9} {off["TTFT"]:+7.2f} {off["ITL"]:+7.2f} {off["E2EL"]:+7.2f} '
                f'{own["CPU"]:10.0f}% {own["lag"]:8.2f}',
                flush=True,
            )


async def measure_cpu(ask: Callable[[], Awaitable[object]], calls: int) -> float:
    await ask()
    before = time.process_time()
    for _ in range(calls):
        await ask()
    return 1e3 * (time.process_time() - before) / calls


async def compare_cpu(url: str, rounds: int, calls: int = 20) -> dict[str, float]:
    """CPU milliseconds for a streamed reply of 100 pieces; the least of some rounds, taken in turn."""
    request = [{'role': 'user', 'content': 'x'}]
    body = {'model': 'timed', 'stream': True, 'messages': request, 'max_tokens': 100}
    model = build({'type': 'OpenAI', 'path': 'timed', 'openai_api_base': url, 'key': 'k'}, name='timed')
    least: dict[str, float] = {}
    async with aiohttp.ClientSession() as session:

        async def bare(*, parse: bool) -> int:
            pieces = 0
            async with session.post(f'{url}/chat/completions', json=body) as response:
                async for chunk in response.content.iter_any():
                    for event in chunk.split(b'\n\n') if parse else ():
                        if event.startswith(b'data: {'):
                            pieces += bool(json.loads(event[6:])['choices'])
            return pieces

        async def timed() -> None:
            times = StreamTimes()
            await model.time_reply(request, Sampling(max_out_len=100), times, stream=True)
            if len(times.pieces) != 100:
                raise SystemExit(f'{len(times.pieces)} pieces instead of 100')

        ways = {
            'bare aiohttp': lambda: bare(parse=False),
            'aiohttp and JSON': lambda: bare(parse=True),
            'rolecall': timed,
        }
        for _ in range(rounds):
            for name, ask in ways.items():
                least[name] = min(least.get(name, 1e9), await measure_cpu(ask, calls))
    await model.close()  # type: ignore[attr-defined]
    return least


def print_cpu(rounds: int) -> None:
    with timed_server(first=0.001, gap=0.001) as url:
        least = asyncio.run(compare_cpu(url, rounds))
    print(f'\nCPU of a streamed reply of 100 pieces, ms ({show_load()})')
    for name, cost in least.items():
        print(f'{name:18} {cost:6.2f}  {cost / least["bare aiohttp"]:.2f} times bare aiohttp')


async def plain_script(url: str, name: str, concurrency: int, requests: int, tokens: int, prompt: int) -> Figures:
    """What somebody would write in ten minutes."""
    text = ' '.join(['word'] * (prompt - 4))
    places = asyncio.Semaphore(concurrency)
    records: list[tuple[float, list[float]]] = []

    async def ask(session: aiohttp.ClientSession) -> None:
        body = {'model': name, 'stream': True, 'max_tokens': tokens, 'ignore_eos': True, 'temperature': 0}
        body['messages'] = [{'role': 'user', 'content': text}]
        async with places:
            sent, pieces = time.perf_counter(), []
            async with session.post(f'{url}/chat/completions', json=body) as response:
                async for line in response.content:
                    if line.startswith(b'data: {'):
                        choices = json.loads(line[6:]).get('choices')
                        if choices and choices[0]['delta'].get('content'):
                            pieces.append(time.perf_counter())
            records.append((sent, pieces))

    began = time.perf_counter()
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(600)
    ) as session:
        await asyncio.gather(*(ask(session) for _ in range(requests)))
    return summarise(records, time.perf_counter() - began, tokens)


def summarise(records: list[tuple[float, list[float]]], seconds: float, tokens: int) -> Figures:
    ttft = sorted(1e3 * (pieces[0] - sent) for sent, pieces in records)
    gaps = [1e3 * (later - earlier) for _, pieces in records for earlier, later in pairwise(pieces)]
    return {
        'TTFT': fmean(ttft),
        'TPOT': fmean(1e3 * (pieces[-1] - pieces[0]) / (tokens - 1) for _, pieces in records),
        'ITL': fmean(gaps),
        'E2EL': fmean(1e3 * (pieces[-1] - sent) for sent, pieces in records),
        'P99 TTFT': ttft[int(0.99 * (len(ttft) - 1))],
        'tok/s': len(records) * tokens / seconds,
    }


def measure_vllm(python: str, target: Target, concurrency: int, requests: int, tokens: int, prompt: int) -> Figures:
    """vLLM's own `bench serve`, with prompts of random tokens."""
    with tempfile.TemporaryDirectory() as folder:
        words = [python, '-c', 'from vllm.benchmarks.serve import *; import argparse; p = argparse.ArgumentParser(); '
                 'add_cli_args(p); main(p.parse_args())']  # fmt: skip
        words += [
            '--backend',
            'openai-chat',
            '--base-url',
            target.url.removesuffix('/v1'),
            '--endpoint',
            '/v1/chat/completions',
        ]
        words += ['--model', target.name, '--tokenizer', target.tokenizer, '--dataset-name', 'random', '--ignore-eos']
        words += ['--random-input-len', str(prompt), '--random-output-len', str(tokens), '--num-prompts', str(requests)]
        words += [
            '--max-concurrency',
            str(concurrency),
            '--save-result',
            '--result-dir',
            folder,
            '--percentile-metrics',
            'ttft,tpot,itl,e2el',
        ]
        run_quietly([*words, '--temperature', '0'], folder)
        [file] = Path(folder).glob('*.json')
        found = json.loads(file.read_text())
    return {
        **{name: found[f'mean_{name.lower()}_ms'] for name in ('TTFT', 'TPOT', 'ITL', 'E2EL')},
        'P99 TTFT': found['p99_ttft_ms'],
        'tok/s': found['output_throughput'],
    }


def run_quietly(words: list[str], folder: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, cwd=folder)
    if done.returncode:
        raise RuntimeError(f'{words[0]} failed:\n{(done.stdout + done.stderr)[-1500:]}')


_AISBENCH = """
from ais_bench.benchmark.models import VLLMCustomAPIChat
from ais_bench.benchmark.datasets.synthetic import SyntheticDataset
from ais_bench.benchmark.openicl.icl_prompt_template import PromptTemplate
from ais_bench.benchmark.openicl.icl_retriever import ZeroRetriever
from ais_bench.benchmark.openicl.icl_inferencer import GenInferencer
from ais_bench.benchmark.summarizers import DefaultPerfSummarizer
from ais_bench.benchmark.calculators import DefaultPerfMetricCalculator

models = [dict(
    attr='service', type=VLLMCustomAPIChat, abbr='served', path={tokenizer!r}, model={name!r}, stream=True, request_rate=0,
    retry=2, api_key='', host_ip={host!r}, host_port={port}, max_out_len={tokens}, batch_size={concurrency},
    trust_remote_code=False, generation_kwargs=dict(temperature=0.0, ignore_eos=True),
)]
synthetic_config = dict(Type='string', RequestCount={requests}, TrustRemoteCode=False, StringConfig=dict(
    Input=dict(Method='uniform', Params=dict(MinValue={prompt}, MaxValue={prompt})),
    Output=dict(Method='uniform', Params=dict(MinValue={tokens}, MaxValue={tokens}))))
datasets = [dict(
    abbr='synthetic', type=SyntheticDataset, config=synthetic_config,
    reader_cfg=dict(input_columns=['question', 'max_out_len'], output_column='answer'),
    infer_cfg=dict(
        prompt_template=dict(type=PromptTemplate, template=dict(round=[dict(role='HUMAN', prompt='{{question}}')])),
        retriever=dict(type=ZeroRetriever), inferencer=dict(type=GenInferencer)),
)]
summarizer = dict(attr='performance', type=DefaultPerfSummarizer, calculator=dict(type=DefaultPerfMetricCalculator))
"""


def measure_aisbench(python: str, target: Target, concurrency: int, requests: int, tokens: int, prompt: int) -> Figures:
    """AISBench's `--mode perf` with a synthetic dataset."""
    host, _, port = target.url.removesuffix('/v1').removeprefix('http://').partition(':')
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, 'perf.py')
        values = {'host': host, 'port': port, 'tokens': tokens, 'concurrency': concurrency, 'requests': requests}
        config.write_text(_AISBENCH.format(tokenizer=target.tokenizer, name=target.name, prompt=prompt, **values))
        run_quietly(
            [str(Path(python).parent / 'ais_bench'), str(config), '--mode', 'perf', '--work-dir', folder], folder
        )
        [file] = Path(folder).rglob('synthetic.csv')
        with file.open() as lines:
            table = {row['Performance Parameters']: row for row in csv.DictReader(lines) if row['Stage'] == 'total'}
        [common] = [json.loads(path.read_text()) for path in Path(folder).rglob('synthetic.json')]
    throughput = common['Output Token Throughput']['total']
    return {
        **{name: float(table[name]['Average'].split()[0]) for name in ('TTFT', 'TPOT', 'ITL', 'E2EL')},
        'P99 TTFT': float(table['TTFT']['P99'].split()[0]),
        'tok/s': float(str(throughput).split()[0]),
    }


class Target:
    """The server that is measured."""

    def __init__(self, url: str, name: str, tokenizer: str, *, timed: bool) -> None:
        self.url, self.name, self.tokenizer, self.timed = url, name, tokenizer, timed


@contextmanager
def open_target(options: argparse.Namespace) -> Iterator[Target]:
    if options.url:
        yield Target(options.url, options.name, options.tokenizer, timed=False)
    else:
        with timed_server(first=0.1, gap=0.02, longest=options.output_len) as url:
            yield Target(url, 'timed', options.tokenizer, timed=True)


def compare_tools(options: argparse.Namespace) -> None:
    """The same server with every tool in turn, twice, so that a drift of the machine shows."""
    for concurrency in options.concurrency:
        load = (concurrency, max(4 * concurrency, 20), options.output_len, options.input_len)
        with open_target(options) as target:
            print(
                f'\n{target.url if not target.timed else "server with known delays"}, {concurrency} at once, {load[1]} requests ({show_load()})'
            )
            print(f'{"":14}' + ''.join(f'{name:>10}' for name in ('TTFT', 'TPOT', 'ITL', 'E2EL', 'P99 TTFT', 'tok/s')))
            source = {'name': target.name}
            tools: dict[str, Callable[[], Figures]] = {
                'rolecall': lambda: measure_rolecall(target.url, *load, **source),  # noqa: B023
                'plain script': lambda: asyncio.run(plain_script(target.url, target.name, *load)),  # noqa: B023
            }
            if options.vllm_python:
                tools['vLLM'] = lambda: measure_vllm(options.vllm_python, target, *load)  # noqa: B023
            if options.aisbench_python:
                tools['AISBench'] = lambda: measure_aisbench(options.aisbench_python, target, *load)  # noqa: B023
            for name, measure in [*tools.items(), *tools.items()]:
                print_line(name, measure, target, load[1])


def print_line(name: str, measure: Callable[[], Figures], target: Target, requests: int) -> None:
    try:
        figures = measure()
    except (RuntimeError, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        print(f'{name:14} failed: {str(error)[-600:]}')
        return
    keys = ('TTFT', 'TPOT', 'ITL', 'E2EL', 'P99 TTFT', 'tok/s')
    print(f'{name:14}' + ''.join(f'{figures[key]:10.2f}' for key in keys), flush=True)
    if target.timed:
        clock = read_clock(target.url, requests)
        print(f'{"  its clock":14}' + ''.join(f'{clock[key]:10.2f}' for key in keys), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--vllm-python', metavar='PYTHON')
    parser.add_argument('--aisbench-python', metavar='PYTHON')
    parser.add_argument('--url', help='a real server instead of the one with known delays')
    parser.add_argument('--name', default='tiny', help='what it calls its model')
    parser.add_argument('--tokenizer', default='', help='the folder of its tokenizer')
    parser.add_argument('--concurrency', type=int, nargs='+', default=[1, 64])
    parser.add_argument('--input-len', type=int, default=64)
    parser.add_argument('--output-len', type=int, default=32)
    parser.add_argument('--processes', type=int, default=2)
    parser.add_argument('--only', choices=('cpu', 'clock', 'tools'))
    options = parser.parse_args()
    if options.only in (None, 'cpu') and not options.url:
        print_cpu(rounds=5)
    if options.only in (None, 'clock') and not options.url:
        compare_with_clock(options.processes)
    if options.only in (None, 'tools'):
        compare_tools(options)


if __name__ == '__main__':
    main()
