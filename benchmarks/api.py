"""An evaluation over an API, whole command timed, against a bare aiohttp loop in the same run.

    python benchmarks/api.py [--requests 2000] [--latency 0.2] [--concurrency 64] [--datasets 57]

A server on loopback answers after the latency. Measured: wall time of the whole command, time from the first request to
the last (as the server sees it), CPU seconds of the client per 1,000 requests; then requests per second at no latency.
With several datasets, rolecall's rows are spread over as many files, as those of MMLU are; the bare loop knows of none.
The server runs in a process of its own; client and server share the machine's cores, for both clients alike.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

BARE = """
import asyncio, json, sys
import aiohttp

async def main(url, count, at_once):
    places = asyncio.Semaphore(at_once)
    replies = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        async def one(i):
            body = {'model': 'toy', 'messages': [{'role': 'user', 'content': f'What is {i} plus {i}?'}], 'max_tokens': 16}
            async with places, session.post(url + '/v1/chat/completions', json=body) as response:
                replies.append((await response.json())['choices'][0]['message']['content'])
        await asyncio.gather(*(one(i) for i in range(count)))
    assert len(replies) == count

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""

OURS = """
import sys
from rolecall.ui.cli.main import main
sys.exit(main(['run', sys.argv[1], '--out', sys.argv[2]]))
"""

CONFIG = """
models = [dict(abbr='toy', type='OpenAI', path='toy', base_url={url!r}, key='none', concurrency={at_once})]
datasets = [dict(
    abbr=f'sums-{{part}}', type='File', path={rows!r} + f'.{{part}}.jsonl',
    reader_cfg=dict(input_columns=['i'], output_column='answer'),
    infer_cfg=dict(
        prompt_template=dict(type='PromptTemplate', template=dict(round=[
            dict(role='HUMAN', prompt='What is {{i}} plus {{i}}?'), dict(role='BOT', prompt='{{answer}}')])),
        inferencer=dict(type='GenInferencer', max_out_len=16)),
    eval_cfg=dict(evaluator=dict(type='AccEvaluator'))) for part in range({datasets})]
"""


def serve(latency: float, pipe: Connection) -> None:
    """Answer until killed; the pipe is told the address, and asked for the times of the first and last request."""
    from aiohttp import web

    seen: list[float] = []
    reply = {
        'choices': [{'index': 0, 'message': {'role': 'assistant', 'content': '42'}, 'finish_reason': 'stop'}],
        'usage': {'prompt_tokens': 9, 'completion_tokens': 1},
    }
    body = json.dumps(reply).encode()

    async def answer(request: web.Request) -> web.Response:
        seen.append(time.monotonic())
        await request.read()
        if latency:
            await asyncio.sleep(latency)
        seen.append(time.monotonic())
        return web.Response(body=body, content_type='application/json')

    async def main() -> None:
        app = web.Application()
        app.router.add_post('/v1/chat/completions', answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, '127.0.0.1', 0, backlog=4096).start()
        pipe.send(f'http://127.0.0.1:{runner.addresses[0][1]}')
        loop = asyncio.get_running_loop()
        while await loop.run_in_executor(None, pipe.recv):
            pipe.send((len(seen) // 2, max(seen) - min(seen)) if seen else (0, 0.0))
            seen.clear()

    asyncio.run(main())


def timed(command: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write_config(folder: Path, url: str, count: int, at_once: int, datasets: int) -> Path:
    """A config whose datasets have so many rows together."""
    rows, config = folder / 'rows', folder / 'config.py'
    for part in range(datasets):
        lines = (json.dumps({'i': i, 'answer': str(2 * i)}) + '\n' for i in range(part, count, datasets))
        Path(f'{rows}.{part}.jsonl').write_text(''.join(lines))
    config.write_text(CONFIG.format(url=url, at_once=at_once, rows=str(rows), datasets=datasets))
    return config


def compare(latency: float, count: int, at_once: int, repeats: int, datasets: int) -> dict[str, dict[str, float]]:
    """The best of several runs of both clients, in turn."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(latency, theirs), daemon=True)
    server.start()
    url = ours.recv()
    best: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        config = write_config(Path(folder), url, count, at_once, datasets)
        for repeat in range(repeats):
            commands = {
                'bare aiohttp': [sys.executable, '-c', BARE, url, str(count), str(at_once)],
                'rolecall': [sys.executable, '-c', OURS, str(config), str(Path(folder, f'run{repeat}'))],
            }
            for name, command in commands.items():
                wall, cpu = timed(command)
                ours.send(True)
                answered, requests = ours.recv()
                if answered != count:
                    raise SystemExit(f'{name}: the server answered {answered} of {count} requests')
                found = {'wall': wall, 'requests': requests, 'cpu': 1000 * cpu / count}
                kept = best.setdefault(name, found)
                best[name] = {key: min(kept[key], value) for key, value in found.items()}
    ours.send(False)
    server.join(5)
    return best


def shown(best: dict[str, dict[str, float]], count: int) -> None:
    print(f'{"":14}{"wall s":>9}{"requests s":>12}{"requests/s":>12}{"CPU s per 1,000":>17}')
    for name, found in best.items():
        rate = count / found['requests']
        print(f'{name:14}{found["wall"]:9.2f}{found["requests"]:12.2f}{rate:12,.0f}{found["cpu"]:17.2f}')
    bare, ours = best['bare aiohttp'], best['rolecall']
    ratios: dict[str, Any] = {key: ours[key] / bare[key] for key in bare}
    print(
        f'{"ratio":14}{ratios["wall"]:9.2f}{ratios["requests"]:12.2f}{1 / ratios["requests"]:12.2f}{ratios["cpu"]:17.2f}'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--requests', type=int, default=2000)
    parser.add_argument('--latency', type=float, default=0.2)
    parser.add_argument('--concurrency', type=int, default=64)
    parser.add_argument('--datasets', type=int, default=1)
    parser.add_argument('--repeats', type=int, default=3)
    options = parser.parse_args()
    count, at_once, repeats, datasets = options.requests, options.concurrency, options.repeats, options.datasets
    ideal = -(-count // at_once) * options.latency
    print(f'{os.cpu_count()} cores, {count:,} requests, {datasets} datasets, {at_once} at once, best of {repeats}')
    print(f'\nlatency {options.latency * 1000:.0f} ms (ideal {ideal:.2f} s)')
    shown(compare(options.latency, count, at_once, repeats, datasets), count)
    print('\nno latency')
    shown(compare(0.0, count, at_once, repeats, datasets), count)


if __name__ == '__main__':
    main()
