"""Spans of OpenTelemetry: calls, tools, retries, rows and judges, without what people wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rolecall import OnlineChatModule
from rolecall.apps.chat import Event
from rolecall.models.protocol import ModelError
from rolecall.runs.run import run_config
from servers import Server, in_order, serve

exporters = pytest.importorskip('opentelemetry.sdk.trace.export.in_memory_span_exporter')
KEY = 'sk-never-in-a-span-0123456789'


@pytest.fixture(scope='module')
def exporter() -> Any:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    collected = exporters.InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(collected))
    trace.set_tracer_provider(provider)
    return collected


class Spans:
    """The finished spans: by name, or every one."""

    def __init__(self, every: Any) -> None:
        self.every = every

    def __call__(self) -> dict[str, Any]:
        return {span.name: span for span in self.every()}


@pytest.fixture
def spans(exporter: Any) -> Iterator[Any]:
    exporter.clear()
    by_name = Spans(exporter.get_finished_spans)
    yield by_name
    exporter.clear()


def module_of(server: Server, **options: Any) -> OnlineChatModule:
    return OnlineChatModule(base_url=server.url, model='toy', api_key=KEY, **options)


def pays(body: Mapping[str, Any]) -> Any:
    if body['messages'][-1]['role'] == 'tool':
        return 'Paid.'
    call = {'id': 'c1', 'type': 'function', 'function': {'name': 'pay', 'arguments': '{"amount": 5}'}}
    return {'finish_reason': 'tool_calls', 'message': {'content': None, 'tool_calls': [call]}}


def pay(amount: int) -> str:
    return f'paid {amount}'


def test_a_call_its_requests_and_its_tools_are_one_tree(spans: Any) -> None:
    from opentelemetry import trace

    with serve(pays) as server, trace.get_tracer('app').start_as_current_span('page'):
        module_of(server).with_tools([pay])('Pay 5.', temperature=0.5, max_tokens=9)
    found = spans()
    call, tool, chat = found['invoke_agent'], found['execute_tool pay'], found['chat toy']
    assert call.parent.span_id == found['page'].context.span_id
    assert tool.parent.span_id == chat.parent.span_id == call.context.span_id
    assert tool.attributes['gen_ai.tool.call.id'] == 'c1'
    assert chat.attributes['gen_ai.operation.name'] == 'chat'
    assert chat.attributes['gen_ai.request.model'] == 'toy'
    assert (chat.attributes['gen_ai.request.temperature'], chat.attributes['gen_ai.request.max_tokens']) == (0.5, 9)
    assert chat.attributes['gen_ai.usage.output_tokens'] == 3
    assert chat.attributes['server.address'] == '127.0.0.1'
    assert 'Pay 5.' not in str([span.to_json() for span in found.values()])


def test_retries_are_events_and_failures_have_a_status(spans: Any) -> None:
    with serve(faults=in_order('error', None, '400')) as server:
        module_of(server)('Hi')
        [retry] = spans()['chat toy'].events
        assert (retry.name, retry.attributes['status']) == ('retry', 500)
        with pytest.raises(ModelError):
            module_of(server)('Hi')
    failed = spans()['chat toy']
    assert failed.attributes['error.type'] == '400'
    assert failed.status.status_code.name == 'ERROR'


def test_a_tool_that_raises_has_a_failed_span(spans: Any) -> None:
    def pay(amount: int) -> str:
        raise ValueError('no money')

    with serve(pays) as server:
        module_of(server).with_tools([pay])('Pay 5.')
    assert spans()['execute_tool pay'].attributes['error.type'] == 'ValueError'


def test_streams_are_traced_too(spans: Any) -> None:
    with serve() as server:
        assert ''.join(module_of(server).stream('Hi')) == 'Answer to Hi'
    assert spans()['chat toy'].attributes['gen_ai.response.finish_reasons'] == ('stop',)


def test_contents_are_there_if_they_are_asked_for_and_keys_never_are(
    spans: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv('OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT', 'true')
    monkeypatch.setenv('OPENAI_API_KEY', KEY)
    with serve() as server:
        module_of(server)(f'My key is {KEY}')
    span = spans()['chat toy']
    assert 'My key is [key]' in span.attributes['gen_ai.input.messages']
    assert 'Answer to' in span.attributes['gen_ai.output.messages']
    assert KEY not in span.to_json()
    with serve(pays) as server:
        module_of(server).with_tools([pay])('Pay 5.')
    first, last = [span.attributes for span in spans.every() if span.name == 'chat toy'][-2:]
    arguments = {'type': 'tool_call', 'id': 'c1', 'name': 'pay', 'arguments': {'amount': 5}}
    assert json.loads(first['gen_ai.output.messages']) == [
        {'role': 'assistant', 'parts': [arguments], 'finish_reason': 'tool_calls'}
    ]
    assert json.loads(last['gen_ai.input.messages']) == [
        {'role': 'user', 'parts': [{'type': 'text', 'content': 'Pay 5.'}]},
        {'role': 'assistant', 'parts': [arguments]},
        {'role': 'tool', 'parts': [{'type': 'tool_call_response', 'id': 'c1', 'response': 'paid 5'}]},
    ]


def test_rows_of_a_run_hold_their_requests(spans: Any, tmp_path: Path) -> None:
    with serve() as server:
        (tmp_path / 'rows.jsonl').write_text('{"q": "1+1", "a": "2"}\n{"q": "2+2", "a": "4"}\n')
        (tmp_path / 'config.yaml').write_text(f"""
datasets:
  - abbr: sums
    path: {tmp_path / 'rows.jsonl'}
    reader_cfg: {{input_columns: [q], output_column: a}}
    infer_cfg:
      prompt_template: {{type: PromptTemplate, template: '{{q}}'}}
      retriever: {{type: ZeroRetriever}}
      inferencer: {{type: GenInferencer}}
models:
  - {{abbr: toy, type: OpenAI, path: toy, openai_api_base: '{server.url}', key: ''}}
""")
        run_config(str(tmp_path / 'config.yaml'), out=tmp_path / 'run')
    found = spans()
    row, chat = next(span for name, span in found.items() if name.startswith('row ')), found['chat toy']
    assert chat.parent.span_id in {span.context.span_id for span in found.values() if span.name.startswith('row ')}
    assert row.attributes['rolecall.outcome'] == 'ok'


def test_requests_of_judges_stand_below_a_span_that_names_the_row(spans: Any, tmp_path: Path) -> None:
    (tmp_path / 'rows.jsonl').write_text('{"q": "1+1", "a": "2"}\n{"q": "2+2", "a": "4"}\n')
    with serve() as server, serve('GRADE: C') as judge:
        for name, running in (('toy', server), ('judge', judge)):
            running.models = (name,)
        judge_cfg = f"{{abbr: judge, type: OpenAI, path: judge, openai_api_base: '{judge.url}', key: '{KEY}'}}"
        (tmp_path / 'config.yaml').write_text(f"""
datasets:
  - abbr: sums
    path: {tmp_path / 'rows.jsonl'}
    reader_cfg: {{input_columns: [q], output_column: a}}
    infer_cfg:
      prompt_template: {{type: PromptTemplate, template: '{{q}}'}}
      retriever: {{type: ZeroRetriever}}
      inferencer: {{type: GenInferencer}}
    eval_cfg:
      evaluator: {{rubric: correctness, judge_cfg: {judge_cfg}}}
models:
  - {{abbr: toy, type: OpenAI, path: toy, openai_api_base: '{server.url}', key: ''}}
""")
        run_config(str(tmp_path / 'config.yaml'), out=tmp_path / 'run')
        assert len(judge.calls) == 2
    finished = spans.every()
    parents = {'chat toy': 'row ', 'chat judge': 'judge '}
    for name, parent in parents.items():
        rows = {span.context.span_id: span for span in finished if span.name.startswith(parent)}
        below = [rows[span.parent.span_id] for span in finished if span.name == name]
        assert sorted(span.attributes['rolecall.row'] for span in below) == [0, 1]
    assert KEY not in str([span.to_json() for span in finished])


def test_all_events_of_a_call_share_its_id() -> None:
    events: list[Event] = []
    with serve(pays) as server:
        module = module_of(server).with_tools([pay]).watch(events.append)
        module('Pay 5.')
        first = {event.call for event in events}
        module('Pay 5.')
    assert len(first) == 1
    assert len({event.call for event in events}) == 2
