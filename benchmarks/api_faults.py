"""An evaluation over an API that misbehaves, against a bare aiohttp loop with simple retries in the same run.

    python benchmarks/api_faults.py [faults limit tokens slow outage two windows zero] [--concurrency 64 512] [--seeds 10]

A server on loopback, in a process of its own, refuses, fails, drops, slows down or disappears by plan, and counts what it
answered and what it refused. The bare loop gives its place back while it waits (0.5 s, doubling up to 8 s, half of it by chance) and knows
nothing of rates. Faults are drawn anew for each seed; the table has the median and the spread. One seed of all scenarios
takes about 10 minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

BARE = """
import asyncio, random, sys
import aiohttp

async def main(url, count, at_once):
    places = asyncio.Semaphore(at_once)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        async def one(i):
            body = {'model': 'toy', 'messages': [{'role': 'user', 'content': f'What is {i} plus {i}?'}], 'max_tokens': 16}
            for attempt in range(60):
                try:
                    async with places, session.post(url + '/v1/chat/completions', json=body) as response:
                        if response.status == 200:
                            return (await response.json())['choices'][0]['message']['content']
                except (aiohttp.ClientError, OSError):
                    pass
                await asyncio.sleep(min(8, 0.5 * 2 ** attempt) * random.uniform(0.5, 1.5))
        assert None not in await asyncio.gather(*(one(i) for i in range(count)))

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""

CONFIG = """
models = [dict(abbr='toy', type='OpenAI', path={name!r}, base_url={url!r}, key='none', concurrency={at_once})]
datasets = [dict(
    abbr='sums', type='File', path={rows!r},
    reader_cfg=dict(input_columns=['i'], output_column='answer'),
    infer_cfg=dict(
        prompt_template=dict(type='PromptTemplate', template=dict(round=[
            dict(role='HUMAN', prompt='What is {{i}} plus {{i}}?'), dict(role='BOT', prompt='{{answer}}')])),
        inferencer=dict(type='GenInferencer', max_out_len=16)),
    eval_cfg=dict(evaluator=dict(type='AccEvaluator')))]
"""

OURS = """
import sys
from rolecall.ui.cli.main import main
sys.exit(main(['run', sys.argv[1], '--out', sys.argv[2]]))
"""


@dataclass
class Plan:
    """How a server behaves."""

    latency: float = 0.2
    refused: float = 0.0
    failed: float = 0.0
    dropped: float = 0.0
    per_second: float | None = None
    """Refill of a bucket of requests, or of tokens."""
    burst: float = 10
    tokens: tuple[int, int] | None = None
    """Tokens of a request, drawn between these; None: the bucket holds requests."""
    peak: int | None = None
    """Calls in flight with the highest throughput; beyond, it falls."""
    outage: tuple[float, float] = (0.0, 0.0)
    seed: int = 1
    announces: str = ''
    """Headers of each answer: 'window' counts down a window of `seconds`; 'zero' says that nothing is left, always."""
    seconds: float | None = None
    """Length of the windows in which `burst` requests are accepted; None: a bucket."""


@dataclass
class Counts:
    """What a server saw."""

    answers: list[tuple[float, str]] = field(default_factory=list)
    taken: float = 0.0
    """Of the limit, by requests that were answered."""
    refused: int = 0
    began: float = 0.0


class FaultyServer:
    """Answers chat completions by plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.counts = Counts()
        self._draw = random.Random(plan.seed)
        self._level, self._filled = plan.burst, time.monotonic()
        self._active = 0

    async def answer(self, request: Any) -> Any:
        from aiohttp import web

        now = time.monotonic()
        self.counts.began = self.counts.began or now
        body = json.loads(await request.read())
        plan, since = self.plan, now - self.counts.began
        tokens = self._draw.randint(*plan.tokens) if plan.tokens else 1
        if plan.outage[0] <= since < plan.outage[1] or (chance := self._draw.random()) < plan.dropped:
            request.transport.abort()
            return web.Response()
        if not self._take(now, tokens) or chance < plan.dropped + plan.refused:
            self.counts.refused += 1
            what = 'tokens' if plan.tokens else 'requests'
            error = {'error': {'message': f'Rate limit reached: {what} per minute'}}
            return web.json_response(error, status=429, headers=self._announce(now))
        self._active += 1
        try:
            slow = 1.0 if plan.peak is None else 1 + (self._active / plan.peak) ** 2
            await asyncio.sleep(plan.latency * slow)
        finally:
            self._active -= 1
        if chance < plan.dropped + plan.refused + plan.failed:
            return web.json_response({'error': {'message': 'The server had an error'}}, status=500)
        self.counts.answers.append((time.monotonic(), body['model']))
        self.counts.taken += tokens
        message = {'role': 'assistant', 'content': '42'}
        usage = {'prompt_tokens': max(tokens - 1, 1), 'completion_tokens': 1}
        return web.json_response(
            {'choices': [{'index': 0, 'message': message, 'finish_reason': 'stop'}], 'usage': usage},
            headers=self._announce(time.monotonic()),
        )

    def _announce(self, now: float) -> dict[str, str]:
        """The headers of an answer, in OpenAI's words."""
        if self.plan.announces == 'zero':
            return {'x-ratelimit-remaining-tokens': '0', 'x-ratelimit-reset-tokens': '6s'}
        if self.plan.announces == 'window' and self.plan.seconds:
            amounts = {'limit': f'{self.plan.burst:.0f}', 'remaining': f'{self._level:.0f}'}
            amounts['reset'] = f'{self._filled + self.plan.seconds - now:.3f}s'
            return {f'x-ratelimit-{part}-requests': text for part, text in amounts.items()}
        return {}

    async def list_models(self, request: Any) -> Any:
        """What a client asks to see whether the server is up."""
        from aiohttp import web

        since = time.monotonic() - self.counts.began
        if self.plan.outage[0] <= since < self.plan.outage[1]:
            request.transport.abort()
        return web.json_response({'data': [{'id': 'toy'}]})

    def _take(self, now: float, amount: float) -> bool:
        if self.plan.per_second is None:
            return True
        if self.plan.seconds is not None:
            if now - self._filled >= self.plan.seconds:
                self._level, self._filled = self.plan.burst, now
        else:
            self._level = min(self.plan.burst, self._level + (now - self._filled) * self.plan.per_second)
            self._filled = now
        if self._level < amount:
            return False
        self._level -= amount
        return True


def serve(plan: Plan, pipe: Connection) -> None:
    """Answer until told to stop; then send what was counted."""
    from aiohttp import web

    async def main() -> None:
        server = FaultyServer(plan)
        app = web.Application()
        app.router.add_post('/v1/chat/completions', server.answer)
        app.router.add_get('/v1/models', server.list_models)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, '127.0.0.1', 0, backlog=4096).start()
        pipe.send(f'http://127.0.0.1:{runner.addresses[0][1]}')
        await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
        pipe.send(server.counts)

    asyncio.run(main())


@contextmanager
def running(plan: Plan) -> Iterator[tuple[str, Connection]]:
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(plan, theirs), daemon=True)
    server.start()
    try:
        yield ours.recv(), ours
    finally:
        server.terminate()
        server.join(5)


def command(kind: str, folder: Path, url: str, count: int, at_once: int, name: str = 'toy') -> list[str]:
    if kind == 'bare':
        return [sys.executable, '-c', BARE, url, str(count), str(at_once)]
    rows, config = folder / f'{name}.jsonl', folder / f'{name}.py'
    rows.write_text(''.join(json.dumps({'i': i, 'answer': str(2 * i)}) + '\n' for i in range(count)))
    config.write_text(CONFIG.format(url=url, at_once=at_once, rows=str(rows), name=name))
    return [sys.executable, '-c', OURS, str(config), str(folder / f'run-{name}')]


def measure(plan: Plan, kind: str, count: int, at_once: int, clients: int = 1, seconds: float | None = None) -> Counts:
    """What the server saw of one client, or of several at the same time; those still running after `seconds` are ended."""
    with tempfile.TemporaryDirectory() as folder, running(plan) as (url, pipe):
        commands = [command(kind, Path(folder), url, count, at_once, f'toy{i}') for i in range(clients)]
        started = [subprocess.Popen(one, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for one in commands]
        for process in started:
            try:
                process.wait(timeout=seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        pipe.send('stop')
        counts: Counts = pipe.recv()
        return counts


def span(counts: Counts) -> float:
    return max(at for at, _ in counts.answers) - counts.began


def waste(counts: Counts) -> float:
    return counts.refused / max(1, counts.refused + len(counts.answers))


@dataclass
class Row:
    """A line of the table: what the bare loop and rolecall came to, and whether that is what it should be."""

    scenario: str
    bare: str
    ours: str
    aim: str
    met: bool


SEEDS = [1]
"""Seeds of the faults, set by `--seeds`."""


def faults(at_once: int, count: int | None = None) -> Row:
    count = count or (2000 if at_once <= 64 else 8000)
    seconds: dict[str, list[float]] = {'bare': [], 'rolecall': []}
    for seed in SEEDS:
        plan = Plan(refused=0.05, failed=0.05, dropped=0.02, seed=seed)
        for kind, spans in seconds.items():
            spans.append(span(measure(plan, kind, count, at_once)))
    bare, ours = (f'{median(spans):.1f} s ({min(spans):.1f} to {max(spans):.1f})' for spans in seconds.values())
    ratio = median(seconds['rolecall']) / median(seconds['bare'])
    return Row('5/5/2 % faults', bare, f'{ours}: {ratio:.2f} times', '1.1 times', ratio <= 1.1)


def windows(at_once: int) -> Row:
    """Announced windows of 10 s against the same windows without a word."""
    plan = Plan(latency=0.1, per_second=40, burst=400, seconds=10)
    silent, told = (
        measure(replace(plan, announces=announces), 'rolecall', 1200, at_once, seconds=90)
        for announces in ('', 'window')
    )
    ours = f'{span(told):.1f} s, {waste(told):.1%} refused (without headers {span(silent):.1f} s, {waste(silent):.1%})'
    return Row('400 in 10 s, announced; 20 s ideal', '', ours, '1.05 times ideal', span(told) <= 1.05 * (20 + 0.2))


def zero(at_once: int) -> Row:
    """A server that says with every answer that no tokens are left, and answers everything."""
    silent, told = (
        span(measure(Plan(announces=announces), 'rolecall', 1000, at_once, seconds=90)) for announces in ('', 'zero')
    )
    ours = f'{told:.1f} s (without headers {silent:.1f} s)'
    return Row('0 tokens left, always', '', ours, '30 s more', told <= silent + 30)


def _describe(counts: Counts, rate: float) -> tuple[str, bool]:
    share = counts.taken / span(counts) / rate
    return f'{share:.1%} of the rate, {waste(counts):.1%} refused', share >= 0.95 and waste(counts) < 0.05


def limit(at_once: int) -> Row:
    plan = Plan(latency=0.1, per_second=50)
    bare, _ = _describe(measure(plan, 'bare', 1500, at_once, seconds=15), 50)
    ours, met = _describe(measure(plan, 'rolecall', 1500, at_once, seconds=60), 50)
    return Row('50 requests/s, burst 10', bare, ours, '95 %, under 5 %', met)


def tokens(at_once: int) -> Row:
    rate = 100_000 / 60
    plan = Plan(latency=0.1, per_second=rate, burst=1000, tokens=(50, 150))
    bare, _ = _describe(measure(plan, 'bare', 600, at_once, seconds=10), rate)
    ours, met = _describe(measure(plan, 'rolecall', 600, at_once, seconds=60), rate)
    return Row('100,000 tokens/min', bare, ours, '95 %, under 5 %', met)


def slow(at_once: int) -> Row:
    plan = Plan(latency=0.1, peak=40)
    best = len((counts := measure(plan, 'bare', 1200, 40)).answers) / span(counts)
    shares = []
    for kind, count, seconds in (('bare', 3000, 12), ('rolecall', 3000, 40)):
        counts = measure(plan, kind, count, at_once, seconds=seconds)
        shares.append(len(counts.answers) / span(counts) / best)
    bare, ours = shares
    return Row('slows down with load', f'{bare:.1%} of the best', f'{ours:.1%}', '90 %', ours >= 0.9)


def outage(at_once: int) -> Row:
    down, up = 3, 63
    counts = measure(Plan(outage=(down, up)), 'rolecall', 60 * at_once, at_once, seconds=75)
    passed = [at - counts.began for at, _ in counts.answers]
    before = sum(1 <= at < down for at in passed) / (down - 1)
    after = sum(up + 5 <= at < up + 8 for at in passed) / 3
    first = min((at - up for at in passed if at > up), default=99.0)
    ours = f'first answer after {first:.1f} s; from second 5, {after / before:.0%} of the rate before'
    return Row('a minute of outage', '', ours, '5 s, 90 %', first <= 5 and after >= 0.9 * before)


def two(at_once: int) -> Row:
    counts = measure(Plan(latency=0.1, per_second=50), 'rolecall', 600, at_once, clients=2, seconds=60)
    ends = {name: max(at for at, who in counts.answers if who == name) for _, name in counts.answers}
    both = [who for at, who in counts.answers if at <= min(ends.values())]
    shares = sorted(both.count(who) / len(both) for who in ends)
    ours = f'{" : ".join(f"{one:.0%}" for one in shares)}, {waste(counts):.1%} refused'
    return Row('two runs, 50 requests/s', '', ours, '40 : 60', len(shares) == 2 and shares[0] >= 0.4)


SCENARIOS = {
    'faults': faults,
    'limit': limit,
    'tokens': tokens,
    'slow': slow,
    'outage': outage,
    'two': two,
    'windows': windows,
    'zero': zero,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('scenarios', nargs='*', choices=[*SCENARIOS, []])
    parser.add_argument('--concurrency', nargs='*', type=int, default=[64, 512])
    parser.add_argument('--seeds', type=int, default=10, help='runs of the faults, each drawn anew')
    arguments = parser.parse_args()
    SEEDS[:] = range(1, arguments.seeds + 1)
    print('| scenario | at once | bare loop | rolecall | aim | |', '|---|---|---|---|---|---|', sep='\n')
    for name in arguments.scenarios or SCENARIOS:
        for at_once in arguments.concurrency:
            row = SCENARIOS[name](at_once)
            met = 'met' if row.met else '**missed**'
            print(f'| {row.scenario} | {at_once} | {row.bare} | {row.ours} | {row.aim} | {met} |', flush=True)


if __name__ == '__main__':
    main()
