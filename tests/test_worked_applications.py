"""The applications of examples/apps are executed, and docs show them as they are. (The third is in examples/tuning.)"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rolecall import OnlineChatModule, TrainableModule
from servers import serve
from small_models import make_tokenizer

ROOT = Path(__file__).parent.parent
APPS = ROOT / 'examples' / 'apps'
TEMPLATE = '{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}'


@pytest.fixture
def apps(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(APPS))

    def load(name: str) -> ModuleType:
        sys.modules.pop(name, None)
        return __import__(name)

    return load


@pytest.mark.parametrize(('page', 'app'), [('modules.md', 'support_bot.py'), ('prompters.md', 'handbook.py')])
def test_the_pages_show_the_applications_as_they_are(page: str, app: str) -> None:
    shown = re.findall(
        rf'```python\n# {re.escape(app)}\n(.*?)```', (ROOT / 'docs' / page).read_text('utf-8'), re.DOTALL
    )
    assert shown
    source = (APPS / app).read_text('utf-8')
    for block in shown:
        for part in block.split('\n…\n'):
            assert part.strip('\n') in source


def test_the_support_bot_files_looks_up_and_remembers(apps: Any, capsys: pytest.CaptureFixture[str]) -> None:
    support_bot = apps('support_bot')

    def answer(body: Mapping[str, Any]) -> Any:
        asked = [message['content'] for message in body['messages'] if message['role'] == 'user'][-1]
        if 'response_format' in body:
            return json.dumps({'topic': 'return' if 'back' in asked else 'order', 'urgent': '!' in asked})
        last = body['messages'][-1]
        if last['role'] == 'tool':
            return f'The shop says: {last["content"]}'
        name, given = ('open_return', {'reason': 'broken'}) if 'back' in asked else ('find_order', {})
        given['number'] = re.findall(r'A-\d+', asked)[0]
        call = {'id': 'c1', 'type': 'function', 'function': {'name': name, 'arguments': json.dumps(given)}}
        return {'finish_reason': 'tool_calls', 'message': {'content': None, 'tool_calls': [call]}}

    with serve(answer) as server:
        bot = support_bot.SupportBot(
            OnlineChatModule(base_url=server.url, model='toy', price={'input': 1, 'output': 2})
        )
        ticket, text = bot.answer('Where is my order A-17?')
        assert ticket == support_bot.Ticket('order', urgent=False)
        assert json.loads(text.removeprefix('The shop says: '))['due'] == '2026-03-02'
        ticket, text = bot.answer('The toaster of A-18 is broken. I want to send it back!')
        assert (ticket.topic, ticket.urgent) == ('return', True)
        assert text == 'The shop says: return R-A-18 is open (broken)'
        _, text = bot.answer('I send A-17 back too.')
        assert 'only delivered orders can be returned' in text
        assert bot.spent > 0
        assert len(bot.history) == 12
        assert len(server.bodies[-1]['messages']) == 12  # system, all before the answer
    assert '[open_return failed: A-17 is shipped' in capsys.readouterr().err


def test_the_handbook_answers_thirty_questions_in_a_small_context(apps: Any, tmp_path: Path) -> None:
    pytest.importorskip('scipy')
    handbook = apps('handbook')
    folder = make_tokenizer(tmp_path, bos=False)
    with serve('It is a fair rule, and it is written down. ' * 3) as server:
        module = OnlineChatModule(
            base_url=server.url,
            model='toy',
            tokenizer_path=str(folder),
            chat_template=TEMPLATE,
            max_seq_len=3000,
            max_tokens=100,
        )
        app = handbook.Handbook(module)
        dropped = []
        for number in range(30):
            passage = handbook.PASSAGES[number % len(handbook.PASSAGES)]
            reply = app.ask(f'What are the rules for {passage["title"].lower()}?')
            question = server.bodies[-1]['messages'][-1]['content']
            assert passage['text'] in question
            assert question.count('\n- ') == 2
            assert all('From the handbook' not in message['content'] for message in server.bodies[-1]['messages'][:-1])
            assert app.module._connection().model.count(server.bodies[-1]['messages']) <= 2900
            dropped.append(len(reply.dropped))
    assert len(app.history) == 60
    assert dropped == sorted(dropped)
    assert dropped[0] == 0
    assert dropped[-1] > 20
    assert all(count % 2 == 0 for count in dropped)


def test_the_handbook_runs_for_a_model_whose_tokenizer_is_not_here(
    apps: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip('scipy')
    monkeypatch.setenv('TIKTOKEN_CACHE_DIR', str(tmp_path))
    monkeypatch.setenv('OPENAI_API_KEY', 'k')
    handbook = apps('handbook')
    with serve('It is a fair rule. ' * 8, models=('gpt-4o-mini',)) as server:
        monkeypatch.setenv('OPENAI_BASE_URL', server.url)
        handbook.main('openai/gpt-4o-mini', 12)
    assert '12. ' in capsys.readouterr().out
    assert all(len(str(body['messages'])) < 3 * 512 for body in server.bodies)


@pytest.mark.heavy
def test_the_applications_run_on_the_embedded_model(apps: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip('xllamacpp')
    apps('support_bot').main()
    assert capsys.readouterr().out.count('Ticket(topic=') == 2
    handbook = apps('handbook')
    asked = [f'What are the rules for {passage["title"].lower()}?' for passage in handbook.PASSAGES * 2]
    with TrainableModule('smollm2', max_seq_len=256, max_tokens=8, temperature=0) as module:
        app = handbook.Handbook(module, passages=1)
        # Reading 30 trimmed prompts takes minutes on a busy CPU: 27 turns are given, and the last three are real.
        app.history = [[question, 'They are in the handbook.'] for question in asked[:27]]
        replies = [app.ask(question) for question in asked[27:]]
    assert len(app.history) == 27 + 2 * len(replies) == 33
    assert all(reply.usage.input_tokens is not None and reply.usage.input_tokens <= 256 - 8 for reply in replies)
    assert all(reply.dropped for reply in replies)
    assert 'eight weeks before it begins' in str(replies[-1].prompt)
