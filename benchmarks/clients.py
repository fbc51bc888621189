"""What a call costs beside the model: CPU time and memory of `OnlineChatModule` and of other clients, one process each.

python benchmarks/clients.py                       # every client that is installed
python benchmarks/clients.py --clients rolecall openai --calls 500

All ask the same server on loopback, one call after the other; the server's time is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Any

from aiohttp import web

QUESTION = ' '.join(f'word{number}' for number in range(50))
Ask = Callable[[], Awaitable[str]]


def with_rolecall(url: str) -> tuple[Ask, Ask]:
    from rolecall import OnlineChatModule

    module = OnlineChatModule(url, 'toy', api_key='k')

    async def stream() -> str:
        return ''.join([piece async for piece in module.astream(QUESTION)])

    return lambda: module.acall(QUESTION), stream


def with_openai(url: str) -> tuple[Ask, Ask]:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=url, api_key='k')
    messages: Any = [{'role': 'user', 'content': QUESTION}]

    async def ask() -> str:
        reply = await client.chat.completions.create(model='toy', messages=messages)
        return reply.choices[0].message.content or ''

    async def stream() -> str:
        events = await client.chat.completions.create(model='toy', messages=messages, stream=True)
        return ''.join([event.choices[0].delta.content or '' async for event in events if event.choices])

    return ask, stream


def with_litellm(url: str) -> tuple[Ask, Ask]:
    import litellm

    options: dict[str, Any] = {'model': 'openai/toy', 'api_base': url, 'api_key': 'k'}
    options['messages'] = [{'role': 'user', 'content': QUESTION}]

    async def ask() -> str:
        return str((await litellm.acompletion(**options)).choices[0].message.content)

    async def stream() -> str:
        events = await litellm.acompletion(**options, stream=True)
        return ''.join([event.choices[0].delta.content or '' async for event in events if event.choices])

    return ask, stream


def with_pydantic_ai(url: str) -> tuple[Ask, Ask]:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    agent = Agent(OpenAIChatModel('toy', provider=OpenAIProvider(base_url=url, api_key='k')))

    async def ask() -> str:
        return str((await agent.run(QUESTION)).output)

    async def stream() -> str:
        async with agent.run_stream(QUESTION) as result:
            return ''.join([piece async for piece in result.stream_text(delta=True, debounce_by=None)])

    return ask, stream


def with_langchain(url: str) -> tuple[Ask, Ask]:
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model='toy', base_url=url, api_key='k')

    async def ask() -> str:
        return str((await model.ainvoke(QUESTION)).content)

    async def stream() -> str:
        return ''.join([str(piece.content) async for piece in model.astream(QUESTION)])

    return ask, stream


CLIENTS = {
    'rolecall': ('rolecall', with_rolecall),
    'openai': ('openai', with_openai),
    'litellm': ('litellm', with_litellm),
    'pydantic-ai': ('pydantic_ai', with_pydantic_ai),
    'langchain': ('langchain_openai', with_langchain),
}


async def answer(request: web.Request) -> web.StreamResponse:
    """The question as the answer: at once, or a word at a time."""
    body = await request.json()
    shared: dict[str, Any] = {'id': 'c1', 'created': 1, 'model': 'toy'}
    usage = {'prompt_tokens': 50, 'completion_tokens': 50, 'total_tokens': 100}
    if not body.get('stream'):
        choice = {'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': QUESTION}}
        return web.json_response({**shared, 'object': 'chat.completion', 'choices': [choice], 'usage': usage})
    response = web.StreamResponse(headers={'Content-Type': 'text/event-stream'})
    await response.prepare(request)
    words = [f'{" " if number else ""}{word}' for number, word in enumerate(QUESTION.split())]
    deltas = [({'role': 'assistant', 'content': word}, None) for word in words] + [({}, 'stop')]
    for delta, reason in deltas:
        choice = {'index': 0, 'delta': delta, 'finish_reason': reason}
        event = {**shared, 'object': 'chat.completion.chunk', 'choices': [choice]}
        await response.write(f'data: {json.dumps(event)}\n\n'.encode())
    await response.write(b'data: [DONE]\n\n')
    return response


async def serve() -> None:
    """Serve on a free port, which is printed, until the process is ended."""
    app = web.Application()
    app.router.add_post('/v1/chat/completions', answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, '127.0.0.1', 0).start()
    print(f'http://127.0.0.1:{runner.addresses[0][1]}/v1', flush=True)
    await asyncio.sleep(600)


async def measure(name: str, url: str, calls: int) -> dict[str, float]:
    """CPU milliseconds of a call and of a streamed one, and megabytes at the end."""
    ask, stream = CLIENTS[name][1](url)
    figures = {}
    for kind, work in (('call', ask), ('stream', stream)):
        for _ in range(10):
            answer = await work()
            if QUESTION not in answer:
                raise SystemExit(f'{name}: a wrong answer: {answer!r:.80}')
        before = time.process_time()
        for _ in range(calls):
            await work()
        figures[kind] = 1000 * (time.process_time() - before) / calls
    figures['memory'] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--clients', nargs='+', choices=CLIENTS, default=list(CLIENTS))
    parser.add_argument('--calls', type=int, default=300)
    parser.add_argument('--url', help=argparse.SUPPRESS)
    parser.add_argument('--serve', action='store_true', help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve())
    if options.url:
        print(json.dumps(asyncio.run(measure(options.clients[0], options.url, options.calls))))
        return
    server = subprocess.Popen([sys.executable, __file__, '--serve'], stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().strip() if server.stdout is not None else ''
        print(f'{"client":12} {"call, ms CPU":>13} {"stream, ms CPU":>15} {"memory, MB":>11}')
        for name in options.clients:
            print(f'{name:12} {describe(name, url, options.calls)}', flush=True)
    finally:
        server.terminate()
        server.wait()


def describe(name: str, url: str, calls: int) -> str:
    """The figures of one client, measured in a process of its own."""
    if find_spec(CLIENTS[name][0]) is None:
        return 'not installed'
    command = [sys.executable, __file__, '--clients', name, '--calls', str(calls), '--url', url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        return f'failed: {done.stderr.strip().splitlines()[-1]}'
    figures = json.loads(done.stdout.splitlines()[-1])
    return f'{figures["call"]:13.2f} {figures["stream"]:15.2f} {figures["memory"]:11.0f}'


if __name__ == '__main__':
    main()
