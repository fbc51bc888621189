"""The limiter against a bare loop with sound retries, in virtual time: minutes of waiting, and no computing, in seconds.

    python benchmarks/limiter_time.py [--seeds 10]

What is left of a difference in `api_faults.py` is computing, not waiting.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rolecall.models.protocol import ModelError, Reply, Sampling, Usage
from rolecall.runs.client.concurrent_client import ConcurrentClient
from rolecall.runs.client.limiter import Limiter, Limits
from rolecall.runs.client.model_client import ModelCall
from rolecall.runs.client.retry import RetryPolicy

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / 'tests'))
from virtual_time import _VirtualLoop


@dataclass
class Server:
    """Answers after a latency, refuses, fails and drops by chance, and may have a bucket of allowed calls."""

    seed: int
    latency: float = 0.2
    faults: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Shares of calls that are dropped, refused and failed."""
    per_second: float | None = None
    burst: float = 10
    answers: list[float] = field(default_factory=list)
    refused: int = 0
    name, batch, identity, max_seq_len = 'toy', 1, {'server': 'toy'}, None

    def __post_init__(self) -> None:
        self._draw, self._level, self._filled = random.Random(self.seed), self.burst, 0.0

    async def generate(self, requests: list[str], sampling: Sampling) -> list[Reply]:
        loop, chance, (dropped, refused, failed) = asyncio.get_running_loop(), self._draw.random(), self.faults
        if self.per_second is not None:
            self._level = min(self.burst, self._level + (loop.time() - self._filled) * self.per_second)
            self._filled = loop.time()
        if self._level < 1 or dropped <= chance < dropped + refused:
            self.refused += 1
            await asyncio.sleep(0.003)
            raise ModelError('Rate limit reached: requests', transient=True, status=429)
        self._level -= self.per_second is not None
        if chance < dropped:
            await asyncio.sleep(0.001)
            raise ModelError('the connection broke', transient=True)
        await asyncio.sleep(self.latency)
        if chance < dropped + refused + failed:
            raise ModelError('the server had an error', transient=True, status=500)
        self.answers.append(loop.time())
        return [Reply('42', usage=Usage(9, 1))]


async def ask_by_client(server: Server, count: int, at_once: int) -> None:
    limits = Limits(at_once, at_once)
    client = ConcurrentClient(server, limits, RetryPolicy())  # type: ignore[arg-type]
    client._limiter = Limiter(limits, clock=asyncio.get_running_loop().time)
    client._retrier.on_reachable = client._limiter.note_reachable
    window = asyncio.Semaphore(client.window)

    async def ask(number: int) -> None:
        async with window:
            await client.send(ModelCall('generate', f'What is {number} plus {number}?', Sampling()))

    await asyncio.gather(*map(ask, range(count)))


async def ask_barely(server: Server, count: int, at_once: int) -> None:
    places = asyncio.Semaphore(at_once)

    async def ask(number: int) -> None:
        for attempt in range(60):
            try:
                async with places:
                    await server.generate(['x'], Sampling())
                    return
            except ModelError:
                await asyncio.sleep(min(8, 0.5 * 2**attempt) * random.uniform(0.5, 1.5))

    await asyncio.gather(*map(ask, range(count)))


def measure(ask: Callable[..., Coroutine[Any, Any, None]], server: Server, count: int, at_once: int) -> float:
    """Seconds until the last answer, by a clock that jumps to the next timer."""
    loop, clock = _VirtualLoop(), time.monotonic
    random.seed(server.seed)
    time.monotonic = loop.time
    try:
        loop.run_until_complete(ask(server, count, at_once))
    finally:
        time.monotonic = clock
        loop.close()
    return max(server.answers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seeds', type=int, default=10, help='runs with faults, each drawn anew')
    seeds = range(parser.parse_args().seeds)
    print('| | bare loop | rolecall | aim | |', '|---|---|---|---|---|', sep='\n')
    for count, at_once in ((2000, 64), (2000, 512), (8000, 512), (2000, 0)):
        faults, calls = ((0.02, 0.05, 0.05), at_once) if at_once else ((0.0, 0.0, 0.0), 512)
        bare, ours = (
            [measure(ask, Server(seed, faults=faults), count, calls) for seed in (seeds if at_once else (0,))]
            for ask in (ask_barely, ask_by_client)
        )
        texts = [f'{median(each):.2f} s ({min(each):.2f} to {max(each):.2f})' for each in (bare, ours)]
        ratio, aim = median(ours) / median(bare), 1.1 if at_once else 1.6
        name = f'{"5/5/2 % faults" if at_once else "clean"}, {count:,} calls, {calls} at once'
        print(f'| {name} | {texts[0]} | {texts[1]}: {ratio:.2f} times | {aim} | {_judge(ratio <= aim)} |', flush=True)
    for rate, burst, count in ((50, 1, 1000), (500, 10, 8000)):
        server = Server(0, latency=0.1, per_second=rate, burst=burst)
        share = count / measure(ask_by_client, server, count, 64) / rate
        refused = server.refused / (count + server.refused)
        aims = f'85 %, under 5 % | {_judge(share >= 0.85 and refused < 0.05)} |'
        print(f'| {rate}/s, burst {burst}, {count:,} calls | | {share:.0%} of it, {refused:.1%} refused | {aims}')


def _judge(is_met: bool) -> str:
    return 'met' if is_met else '**missed**'


if __name__ == '__main__':
    main()
