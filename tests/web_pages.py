"""Pages of `rolecall web` for tests: served on loopback by a thread, and asked as a browser would ask."""

import asyncio
import contextlib
import http.client
import json
import threading
import urllib.parse
from pathlib import Path

from aiohttp import web

from rolecall.ui.web.security import AccessRules
from rolecall.ui.web.server import _listen, make_app
from rolecall.ui.web.workspace import Workspace

SECRET = 'sk-very-secret'
CONFIG = f"""
models = [
    dict(abbr='chatml', type='HuggingFaceCausalLM', path='none', meta_template='chatml'),
    dict(abbr='gpt', type='OpenAI', path='gpt', key='{SECRET}', meta_template=dict(round=[
        dict(role='HUMAN', api_role='HUMAN'), dict(role='BOT', api_role='BOT', generate=True)])),
]
datasets = [dict(abbr='sums', type='Rows', train=[dict(q='0+1=?', a='1')],
    test=[dict(q=f'{{n}}+{{n}}=?', a=str(2 * n)) for n in range(250)],
    reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(
        ice_template=dict(type='PromptTemplate', template='{{q}} {{a}}'),
        prompt_template=dict(type='PromptTemplate', ice_token='</E>', template='</E>Add: {{q}}'),
        retriever=dict(type='FixKRetriever', fix_id_list=[0])))]
"""


PNG = bytes.fromhex(
    '89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc0000003010100c9fe92ef0000000049454e44ae426082'
)


@contextlib.contextmanager
def serve_page(*paths, watched=None):
    """A page on a free port, served by a thread; its port and rules."""
    listening = _listen('127.0.0.1', 0)
    rules = AccessRules.for_address('127.0.0.1', listening.getsockname()[1])
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(make_app(Workspace([Path(path) for path in paths], watched=watched), rules))

    async def start():
        await runner.setup()
        await web.SockSite(runner, listening).start()

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(start(), loop).result(60)
    try:
        yield listening.getsockname()[1], rules
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()


class Client:
    """Asks the page as a browser with its cookie would."""

    def __init__(self, port, rules):
        self.port, self.rules = port, rules

    def send(self, path, **options):
        answer, content = self.send_raw(path, **options)
        return answer, content.decode()

    def send_raw(self, path, *, method='GET', host=None, body=None, cookie=True, **headers):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=30)
        given = {
            'Host': host or f'127.0.0.1:{self.port}',
            **{key.replace('_', '-'): value for key, value in headers.items()},
        }
        if cookie:
            given['Cookie'] = f'{self.rules.cookie}={self.rules.token}'
        connection.request(method, path, body=body, headers=given)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer, content

    def get(self, name, **query):
        answer, text = self.send(f'/api/{name}?{urllib.parse.urlencode(query)}')
        assert answer.status == 200, text
        return json.loads(text)

    def post(self, name, /, **body):
        """The status and the lines of the answer."""
        headers = {'Origin': f'http://127.0.0.1:{self.port}', 'Content_Type': 'application/json'}
        answer, text = self.send(f'/api/{name}', method='POST', body=json.dumps(body), **headers)
        return answer.status, [json.loads(line) for line in text.splitlines()]
