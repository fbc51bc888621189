"""Receipts: what a server reports of the requests, against servers that cut, change and drop what they are sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tokenizers import Tokenizer

from rolecall import lint_config
from rolecall.models.http.server_facts import ServerFacts, remember_facts
from rolecall.models.model_names import resolve_model
from rolecall.models.openai.model import build
from rolecall.models.protocol import Sampling
from rolecall.models.token_counter import TokenCounter
from rolecall.runs import run_config
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.scoring.receipt import TokenCount, compare_counts
from rolecall.scoring.scorecard import Scorecard
from rolecall.ui.cli.main import main
from rolecall.ui.views.run_progress import PairProgress
from servers import Server, serve
from small_models import make_tokenizer
from tables import in_one

CHAT = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    '{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}'
)
Messages = list[Mapping[str, Any]]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found out about servers is remembered for their address, and ports are used again."""
    monkeypatch.setenv('ROLECALL_CACHE', str(tmp_path / 'cache'))


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tokenizer and chat template of a model, as the server and rolecall both have them."""
    path = make_tokenizer(tmp_path_factory.mktemp('model'), bos=True)
    settings = json.loads((path / 'tokenizer_config.json').read_text('utf-8'))
    (path / 'tokenizer_config.json').write_text(json.dumps(settings | {'chat_template': CHAT}), encoding='utf-8')
    return path


def as_chatml(messages: Messages) -> str:
    turns = ''.join(f'<|im_start|>{message["role"]}\n{message["content"]}<|im_end|>\n' for message in messages)
    return f'<s>{turns}<|im_start|>assistant\n'


def counting(
    folder: Path,
    *,
    write: Callable[[Messages], str] = as_chatml,
    more: int = 0,
    window: int | None = None,
    after: int = 0,
    **names: Any,
) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """A server's answers. From request `after` on, it reads what `write` makes of messages, and no more than `window`."""
    tokenizer = Tokenizer.from_file(str(folder / 'tokenizer.json'))
    numbers = iter(range(10**6))

    def answer(body: Mapping[str, Any]) -> dict[str, Any]:
        is_odd = next(numbers) >= after
        text = (write if is_odd else as_chatml)(body['messages'])
        size = len(tokenizer.encode(text, add_special_tokens=False).ids) + more * is_odd
        said = {'message': {'role': 'assistant', 'content': body['messages'][-1]['content'].split()[-1]}}
        usage = {'prompt_tokens': min(size, window or size), 'completion_tokens': 1}
        return {'choices': [{**said, 'finish_reason': 'stop', 'index': 0}], 'usage': usage, **(names if is_odd else {})}

    return answer


def config(server: Server, folder: Path | None, lengths: list[int], **entry: Any) -> dict[str, Any]:
    rows = [
        {'passage': 'the quick one ' * size, 'question': str(row), 'answer': str(row)}
        for row, size in enumerate(lengths)
    ]
    template = {
        'begin': [{'role': 'SYSTEM', 'fallback_role': 'HUMAN', 'prompt': 'Read and answer.'}],
        'round': [{'role': 'HUMAN', 'prompt': '{passage}\n{question}'}, {'role': 'BOT', 'prompt': '{answer}'}],
    }
    model = {'abbr': 'toy', 'type': 'OpenAI', 'path': 'toy', 'base_url': server.url, 'key': '', **entry}
    model |= {'tokenizer_path': str(folder)} if folder is not None else {}
    dataset = {
        'abbr': 'qa',
        'test': rows,
        'reader_cfg': {'input_columns': ['passage', 'question'], 'output_column': 'answer'},
        'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': template}},
        'eval_cfg': {'evaluator': 'AccEvaluator'},
    }
    return {'models': [model], 'datasets': [dataset]}


def run(server: Server, folder: Path | None, lengths: list[int], out: Path, **entry: Any) -> Scorecard:
    [card] = run_config(config(server, folder, lengths, **entry), out=out).scorecards
    return card


LENGTHS = [1, 2, 3, 4, 60, 5, 6, 80]


def test_a_server_that_cuts_silently_gets_no_credit_for_the_rows_it_cut(folder: Path, tmp_path: Path) -> None:
    with serve(counting(folder, window=200)) as server:
        card = run(server, folder, LENGTHS, tmp_path / 'run')
    assert card.outcomes == {'ok': 6, 'truncated_by_server': 2}
    assert (card.scored, card.total) == (6, 8)
    assert card.receipt is not None
    assert card.receipt.truncated == 2
    [warning] = card.warnings()
    assert 'silently cut 2 rows to 200 tokens' in warning
    assert 'max_seq_len=200' in warning
    with RunReader(tmp_path / 'run') as reader:
        cut = reader.result('qa', 'toy', 4)
    assert cut is not None
    assert cut.outcome == 'truncated_by_server'
    assert cut.correct is None
    assert cut.expected_tokens is not None
    assert cut.input_tokens == 200 < cut.expected_tokens
    assert 'if it dropped the beginning: chat template' in cut.reason
    assert 'if the end: field passage' in cut.reason


def test_the_remedy_of_a_truncation_keeps_long_rows_from_being_sent(folder: Path, tmp_path: Path) -> None:
    with serve(counting(folder, window=200)) as server:
        card = run(server, folder, LENGTHS, tmp_path / 'run', max_seq_len=200)
    assert card.outcomes == {'ok': 6, 'too_long': 2}
    assert card.warnings() == ()


def test_a_resumed_run_keeps_truncated_rows_and_sends_nothing(folder: Path, tmp_path: Path) -> None:
    with serve(counting(folder, window=200)) as server:
        first = run(server, folder, LENGTHS, tmp_path / 'run')
        calls = len(server.calls)
        again = run(server, folder, LENGTHS, tmp_path / 'run')
        assert (again.outcomes, len(server.calls)) == (first.outcomes, calls)


def test_a_ceiling_shows_without_a_tokenizer(folder: Path, tmp_path: Path) -> None:
    with serve(counting(folder, window=200)) as server:
        card = run(server, None, [1, 2, 60, 70, 80], tmp_path / 'run')
    assert card.outcomes == {'ok': 2, 'truncated_by_server': 3}


@pytest.mark.parametrize('reported', [3, 500])
def test_a_server_that_reports_the_same_for_every_prompt_cuts_nothing(
    reported: int, folder: Path, tmp_path: Path
) -> None:
    def answer(body: Any) -> Any:
        usage = {'prompt_tokens': reported, 'completion_tokens': 1}
        return {'choices': [{'message': {'content': 'yes'}, 'finish_reason': 'stop'}], 'usage': usage}

    with serve(answer) as server:
        assert run(server, None, LENGTHS, tmp_path / 'run').outcomes == {'ok': len(LENGTHS)}
        if reported < 100:
            assert run(server, folder, LENGTHS, tmp_path / 'counted').outcomes == {'ok': len(LENGTHS)}


def test_rows_of_one_length_that_are_all_cut_show_by_the_window_that_the_server_states(
    folder: Path, tmp_path: Path
) -> None:
    answers = engine(folder, window=180)
    card = {**answers['card'], 'max_model_len': 180}
    with serve(**{**answers, 'answer': counting(folder, window=180, more=120), 'card': card}) as server:
        cut = run(server, folder, [6, 6, 6, 7, 7], tmp_path / 'run', max_out_len=4)
    assert cut.outcomes == {'truncated_by_server': 5}
    assert 'silently cut 5 rows to 180 tokens' in cut.warnings()[0]


def test_a_report_that_is_the_same_for_prompts_of_three_lengths_is_named_and_a_probe_decides(
    folder: Path, tmp_path: Path
) -> None:
    with serve(counting(folder, window=501, more=30)) as server:
        unsure = run(server, folder, [157, 157, 158, 158, 159], tmp_path / 'run', max_out_len=4)
        written = config(server, folder, [157, 157, 158, 158, 159], max_out_len=4)
        [sure] = run_config(written, out=tmp_path / 'run', probe_servers=True).scorecards
    assert unsure.outcomes == {'ok': 5}
    [finding] = unsure.warnings()
    assert 'reports 501 prompt tokens for every row, though they differ in length' in finding
    assert 'Measure its context length with --probe-servers.' in finding
    assert sure.outcomes == {'truncated_by_server': 5}


def test_pictures_are_not_taken_for_long_prompts_and_their_tokens_are_said_to_be_unknown(
    folder: Path, tmp_path: Path
) -> None:
    """Each picture costs as many tokens, however many bytes it has."""

    def answer(body: Mapping[str, Any]) -> dict[str, Any]:
        texts = [part['text'] for part in body['messages'][-1]['content'] if part['type'] == 'text']
        usage = {'prompt_tokens': 576 + len(' '.join(texts).split()), 'completion_tokens': 1}
        return {'choices': [{'message': {'content': 'x'}, 'finish_reason': 'stop', 'index': 0}], 'usage': usage}

    questions = ['the', 'the quick', 'the quick one']
    parts = {
        'text': {'type': 'text', 'text': '{question}'},
        'image': {'type': 'image_url', 'image_url': {'url': 'data:image/png;base64,{image}'}},
    }
    with serve(answer) as server:
        written = config(server, folder, [])
        [dataset] = written['datasets']
        dataset['test'] = [
            {'image': 'A' * 90 * row, 'question': questions[row % 3], 'answer': 'x'} for row in range(12)
        ]
        dataset['reader_cfg']['input_columns'] = ['image', 'question']
        template = {'round': [{'role': 'HUMAN', 'prompt_mm': parts}]}
        dataset['infer_cfg'] = {'prompt_template': {'type': 'MMPromptTemplate', 'template': template}}
        [card] = run_config(written, out=tmp_path / 'run').scorecards
    assert card.outcomes == {'ok': 12}
    assert card.receipt is not None
    assert 'prompt tokens of 12 rows not known' in card.receipt.describe()
    assert main(['doctor', str(tmp_path / 'run')]) == 0


def test_a_judge_that_did_not_read_its_whole_question_gives_no_verdict(folder: Path, tmp_path: Path) -> None:
    def answer(prompt: str) -> str:
        return 'the quick one ' * int(prompt)

    template = {'type': 'PromptTemplate', 'template': 'Is it right? {prediction}'}
    with serve(counting(folder, window=200)) as server:
        judge = {'abbr': 'strict', 'type': 'OpenAI', 'path': 'toy', 'base_url': server.url, 'key': ''}
        judge |= {'tokenizer_path': str(folder), 'meta_template': {'round': [{'role': 'HUMAN', 'api_role': 'HUMAN'}]}}
        dataset = {
            'abbr': 'qa',
            'test': [{'size': size} for size in LENGTHS],
            'reader_cfg': {'input_columns': ['size']},
            'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': '{size}'}},
            'eval_cfg': {
                'evaluator': {'type': 'GenericLLMEvaluator', 'prompt_template': template, 'judge_cfg': judge},
            },
        }
        config = {'models': [{'abbr': 'm', 'type': answer}], 'datasets': [dataset]}
        summaries = [run_config(config, out=tmp_path / 'run', probe_servers=False) for _ in range(2)]
        assert len(server.calls) == len(LENGTHS)
    for summary in summaries:
        [card] = summary.scorecards
        [finding] = [line for line in card.warnings() if 'judge strict' in line]
        assert 'silently cut 2 questions to 200 tokens' in finding
        assert card.judging is not None
        assert card.judging.not_judged is not None
        assert card.judging.not_judged.reasons == {'strict: truncated_by_server: the server cut the question.': 2}


def test_tools_of_a_request_are_counted_by_the_chat_template(folder: Path) -> None:
    template = '{% for tool in tools or [] %}{{ tool.function.name }} {% endfor %}{{ style or "" }}' + CHAT
    tools = [{'type': 'function', 'function': {'name': 'look quick', 'parameters': {}}}]
    request: Any = [{'role': 'user', 'content': 'the quick one'}]

    def expect(**body: Any) -> int | None:
        entry = {'type': 'OpenAI', 'path': 'toy', 'base_url': 'http://127.0.0.1:9', 'key': '', 'extra_body': body}
        model: Any = build({**entry, 'tokenizer_path': str(folder), 'chat_template': template}, name='toy')
        count: int | None = model.expect_tokens(request, Sampling())
        return count

    bare = expect()
    assert bare is not None
    with_tools, styled = expect(tools=tools), expect(chat_template_kwargs={'style': 'quick '})
    assert None not in (with_tools, styled)
    assert bare < min(with_tools or 0, styled or 0)
    assert expect(response_format={'type': 'json_object'}) is None


def without_system(messages: Messages) -> str:
    return as_chatml([message for message in messages if message['role'] != 'system'])


@pytest.mark.parametrize(
    ('change', 'explanation'),
    [
        ({'more': 1}, 'the server adds a second BOS token'),
        ({'write': lambda messages: as_chatml(messages).removeprefix('<s>')}, 'the server leaves out the BOS token'),
        ({'write': without_system}, 'the server drops the system message'),
        (
            {'write': lambda messages: as_chatml(messages).removesuffix('<|im_start|>assistant\n')},
            'the server adds no generation prompt',
        ),
        (
            {'write': lambda messages: '\n'.join(message['content'] for message in messages)},
            'the server applies no chat template',
        ),
        ({'more': 37}, 'no BOS token, system message or known chat template explains it'),
    ],
)
def test_a_constant_difference_is_explained(change: Any, explanation: str, folder: Path, tmp_path: Path) -> None:
    with serve(counting(folder, **change)) as server:
        card = run(server, folder, [1, 2, 3, 4], tmp_path / 'run')
    assert explanation in ' '.join(card.warnings())
    assert card.outcomes == {'ok': 4}


def test_rows_whose_oldest_messages_are_dropped_are_cut_though_none_arrives_whole(folder: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(folder / 'tokenizer.json'))

    def fit(messages: Messages) -> str:
        system, *spoken = messages
        while len(tokenizer.encode(text := as_chatml([system, *spoken]), add_special_tokens=False).ids) > 300:
            spoken = spoken[2:]
        return text

    with serve(counting(folder, write=fit)) as server:
        settings = config(server, folder, [20, 21, 22, 20, 21])
        template = settings['datasets'][0]['infer_cfg']['prompt_template']['template']
        template['round'] = [
            *({'role': role, 'prompt': 'the quick one ' * 20} for role in ('HUMAN', 'BOT') * 2),
            *template['round'],
        ]
        [card] = run_config(settings, out=tmp_path / 'run').scorecards
    assert card.outcomes == {'truncated_by_server': 5}
    assert 'the server silently cut 5 rows to' in ' '.join(card.warnings())


@pytest.mark.parametrize('usage', [None, {'prompt_tokens': '90'}, {'prompt_tokens_details': {'cached_tokens': 90}}])
def test_a_server_that_reports_no_tokens_is_not_called_as_expected(usage: Any, folder: Path, tmp_path: Path) -> None:
    def answer(body: Mapping[str, Any]) -> dict[str, Any]:
        return {**counting(folder)(body), 'usage': usage}

    with serve(answer) as server:
        card = run(server, folder, [1, 2, 3], tmp_path / 'run')
    assert card.receipt is not None
    assert card.receipt.describe().endswith('prompt tokens of 3 rows not reported')


def test_another_server_in_the_middle_is_a_jump_and_a_change_of_names(folder: Path, tmp_path: Path) -> None:
    names = {'model': 'toy-v2', 'provider': 'Bolt', 'system_fingerprint': 'fp_2'}
    with serve(counting(folder, more=7, after=4, **names)) as server:
        card = run(server, folder, [1, 2, 3, 4, 5, 6, 7, 8], tmp_path / 'run', max_workers=1)
    (jump,) = card.warnings()
    assert '7 prompt tokens more than expected in 4 rows, first in row 4: another server' in jump
    assert card.receipt is not None
    assert card.receipt.served == {'toy-v2, Bolt, fp_2': 4}


def test_an_honest_server_is_as_expected_and_its_default_temperature_is_stated(folder: Path, tmp_path: Path) -> None:
    with serve(counting(folder)) as server:
        card = run(server, folder, [1, 2, 3], tmp_path / 'run')
        fixed = run(server, folder, [1, 2, 3], tmp_path / 'fixed', temperature=0)
    assert card.receipt is not None
    assert fixed.receipt is not None
    assert card.receipt.describe() == 'temperature: server default; prompt tokens as expected'
    assert fixed.receipt.describe() == 'prompt tokens as expected'
    assert not card.warnings()


@in_one
@pytest.mark.parametrize(
    ('pairs', 'kind', 'truncated'),
    [
        ([(100, 100), (200, 200), (300, 300)], 'same', ()),
        ([(100, 88), (200, 179), (300, 262), (400, 351)], 'varies', ()),
        ([(160_689, 16_387), (120_000, 16_387)], 'same', (0, 1)),
        ([(100, 100)] * 3 + [(4_097, 4_096)], 'same', (3,)),
        ([(100, 101)] * 3 + [(5_000, 4_096)], 'constant', (3,)),
        ([(5_812, 4_096)], 'constant', ()),
        ([(280, 53)] * 9 + [(281, 53)] * 5, 'level', ()),  # another tokenizer, and rows that are much alike
        ([(280, 281)] * 4 + [(281, 288)] * 4, 'jump', ()),
    ],
)
def test_counts_are_told_apart(pairs: Any, kind: str, truncated: tuple[int, ...]) -> None:
    comparison = compare_counts([TokenCount(row, *counts) for row, counts in enumerate(pairs)])
    assert (comparison.kind, comparison.truncated) == (kind, truncated)


def test_a_known_window_decides_where_one_row_alone_cannot() -> None:
    assert compare_counts([TokenCount(0, 5_812, 4_090), TokenCount(1, 9_000, 3_000)], window=4_096).truncated == (0, 1)


def engine(folder: Path, *, bos: int = 1, window: int | None = None, obeys: bool = True) -> dict[str, Any]:
    """An inference engine like vLLM. `obeys`: it keeps system messages and takes seeds, stop words and logprobs."""
    tokenizer = Tokenizer.from_file(str(folder / 'tokenizer.json'))
    count = iter(range(10**6))

    def answer(body: Mapping[str, Any]) -> dict[str, Any]:
        messages = [message for message in body['messages'] if obeys or message['role'] != 'system']
        ids = [0] * (bos - 1) + tokenizer.encode(as_chatml(messages), add_special_tokens=False).ids
        text = f'{body["seed"] if obeys and "seed" in body else next(count)} one two three four five six seven'
        for stop in body.get('stop', ()) if obeys else ():
            text = text.partition(stop)[0]
        choice = {'message': {'role': 'assistant', 'content': text}, 'finish_reason': 'stop', 'index': 0}
        if obeys and body.get('logprobs'):
            choice['logprobs'] = {'content': [{'token': text, 'logprob': -0.5}]}
        usage = {'prompt_tokens': min(len(ids), window or len(ids)), 'completion_tokens': 1}
        shown = {'prompt_token_ids': ids} if body.get('return_token_ids') else {}
        return {'choices': [choice], 'usage': usage, 'model': 'toy', 'system_fingerprint': 'vllm-9', **shown}

    card = {'owned_by': 'vllm', 'root': str(folder)}
    return {'answer': answer, 'card': card, 'pages': {'/version': lambda _body: {'version': '9.1'}}}


def read_facts(out: Path) -> dict[str, Any]:
    with RunReader(out) as reader:
        return dict(reader.manifest()['servers']['toy'])


def test_an_engine_of_ones_own_is_recognised_and_probed_once_for_its_address(folder: Path, tmp_path: Path) -> None:
    with serve(**engine(folder)) as server:
        card = run(server, None, [1, 2], tmp_path / 'run')
        sent = len(server.calls)
        run(server, None, [1, 2], tmp_path / 'again')
        again = len(server.calls) - sent
    facts = read_facts(tmp_path / 'run')
    assert (facts['engine'], facts['version'], facts['bos'], facts['probes']) == ('vLLM', '9.1', 1, sent - 3)
    assert all(facts[name] for name in ('keeps_system', 'logprobs', 'seed', 'stop'))
    assert again == 3  # two rows, and the ids of the first
    assert card.receipt is not None
    assert card.receipt.checked == 2  # by the tokenizer where the engine has its files


def test_probes_show_what_an_engine_ignores_and_the_window_it_hides(folder: Path, tmp_path: Path) -> None:
    with serve(**engine(folder, obeys=False, window=500)) as server:
        card = run(server, folder, [1, 2, 3, 400], tmp_path / 'run')
    facts = read_facts(tmp_path / 'run')
    assert [facts[name] for name in ('keeps_system', 'logprobs', 'stop', 'seed')] == [False] * 4
    assert (facts['window'], facts['truncates']) == (500, True)
    assert card.outcomes == {'ok': 3, 'too_long': 1}


def test_the_first_token_that_differs_is_named_with_its_origin(folder: Path, tmp_path: Path) -> None:
    with serve(**engine(folder, bos=2)) as server:
        card = run(server, None, [1, 2], tmp_path / 'run')
    assert read_facts(tmp_path / 'run')['bos'] == 2
    warnings = ' '.join(card.warnings())
    assert (
        "token 1 of the first prompt should be '<|im_start|>' (2) of chat template, the server has '<s>' (0)"
        in warnings
    )
    assert 'the server adds a second BOS token' in warnings


@pytest.mark.parametrize(('probe', 'card', 'probes'), [(False, 'vllm', 0), (None, 'acme', 0), (True, 'acme', 8)])
def test_servers_that_do_not_say_what_they_are_are_probed_only_if_asked(
    probe: bool | None, card: str, probes: int, folder: Path, tmp_path: Path
) -> None:
    options = engine(folder) | {'card': {'owned_by': card, 'max_model_len': 9000}}
    with serve(**options) as server:
        written = config(server, folder, [1])
        plan = run_config(written, out=tmp_path / 'run', probe_servers=probe, dry_run=True).plan
        assert server.calls == []
        summary = run_config(written, out=tmp_path / 'run', probe_servers=probe)
        assert (len(server.calls) - 1, summary.plan.probes) == (probes, probes)
    assert plan.probes >= probes


def test_vllm_scores_prompts_without_being_told_how(tmp_path: Path) -> None:
    template = {'yes': '{q} yes', 'no': '{q} no'}
    dataset = {
        'abbr': 'qa',
        'test': [{'q': 'Is it?', 'a': 'yes'}],
        'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
        'infer_cfg': {
            'prompt_template': {'type': 'PromptTemplate', 'template': template},
            'inferencer': {'type': 'PPLInferencer'},
        },
        'eval_cfg': {'evaluator': 'AccEvaluator'},
    }
    with serve(card={'owned_by': 'vllm'}) as server:
        model = {'abbr': 'toy', 'type': 'VLLMCustomAPI', 'model': 'toy', 'url': server.url}
        assert run_config({'models': [model], 'datasets': [dataset]}, out=tmp_path, probe_servers=False).outcomes == {
            'ok': 1
        }


def test_a_model_behind_a_url_is_called_what_the_server_calls_it() -> None:
    with serve(models=('org/tiny-1b',)) as server:
        entry = resolve_model(f'{server.url}/v1')
        assert (entry['abbr'], entry['path']) == ('tiny-1b', 'org/tiny-1b')
    assert resolve_model('http://127.0.0.1:9/v1')['abbr'] == '127.0.0.1'


@in_one
@pytest.mark.parametrize(
    ('facts', 'messages'),
    [
        ({'window': 4096}, ['max_seq_len is 8,192, but the server reads 4,096 tokens.']),
        ({'window': 8192, 'bos': 1, 'keeps_system': True}, []),
        ({'keeps_system': False}, ['the server drops system messages, as a probe showed.']),
        ({'bos': 2}, ['the server puts 2 BOS tokens before a prompt, as a probe showed.']),
    ],
)
def test_the_linter_knows_what_a_server_showed_and_does_not_connect(facts: Any, messages: list[str]) -> None:
    with TemporaryDirectory() as cache, pytest.MonkeyPatch.context() as patch:
        patch.setenv('ROLECALL_CACHE', cache)
        remember_facts('http://gpu-7/v1', 'toy', ServerFacts('vLLM', **facts))
        findings = lint_config(config(Server(str, url='http://gpu-7'), None, [1], max_seq_len=8192))
    assert [finding.message for finding in findings if finding.rule == 'server-limits'] == messages


def test_doctor_explains_the_receipts_of_a_run(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(counting(folder, window=200)) as server:
        run(server, folder, LENGTHS, tmp_path / 'run')
    assert main(['doctor', str(tmp_path / 'run')]) == 0
    said = ' '.join(capsys.readouterr().out.split())
    assert 'receipts: 8 rows compared' in said
    assert 'qa × toy: the server silently cut 2 rows to 200 tokens' in said


def test_compare_has_a_column_for_who_answered(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ('a', 'b'):
        with serve(counting(folder, provider=f'provider-{name}', model='toy')) as server:
            run(server, None, [1, 2], tmp_path / name)
    assert main(['compare', str(tmp_path / 'a'), str(tmp_path / 'b'), '--json']) == 0
    [difference] = json.loads(capsys.readouterr().out)['differences']
    assert difference['served'] == 'toy, provider-a → toy, provider-b'
    main(['compare', str(tmp_path / 'a'), str(tmp_path / 'b')])
    assert 'provider-a →' in capsys.readouterr().out


@in_one
@pytest.mark.parametrize(
    ('entry', 'provider'),
    [
        ({'provider': 'Acme'}, {'order': ['Acme'], 'allow_fallbacks': False}),
        ({'provider': ['Acme', 'Bolt']}, {'order': ['Acme', 'Bolt'], 'allow_fallbacks': False}),
        ({'provider': {'only': ['Acme']}, 'quantization': 'fp8'}, {'only': ['Acme'], 'quantizations': ['fp8']}),
        ({'quantization': ['fp8', 'bf16']}, {'quantizations': ['fp8', 'bf16']}),
        ({}, None),
    ],
)
def test_a_provider_is_pinned_where_one_address_stands_for_many(entry: Any, provider: Any) -> None:
    model = build({'type': 'OpenAI', 'path': 'm', 'base_url': 'https://openrouter.ai/api/v1', **entry}, name='m')
    assert model.identity.get('provider') == provider


def test_progress_mentions_prompts_that_the_server_seems_to_cut() -> None:
    progress = PairProgress('qa × toy', 2)
    progress.add(Result('qa', 'toy', 0, 'ok', input_tokens=4096, expected_tokens=5812), sent=True)
    progress.add(Result('qa', 'toy', 1, 'ok', input_tokens=101, expected_tokens=100), sent=True)
    assert 'fewer tokens than expected in 1 prompt' in progress.line()


def test_rows_that_were_cut_are_asked_again_once_the_server_has_a_longer_window(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = [counting(folder, window=200)]
    with serve(lambda body: answers[-1](body)) as server:
        file = tmp_path / 'config.json'
        file.write_text(json.dumps(config(server, folder, LENGTHS)), encoding='utf-8')
        command = ['run', str(file), '--out', str(tmp_path / 'run'), '--force']
        assert main(command) == 0
        assert '2 rows cut by the server. With a longer context' in ' '.join(capsys.readouterr().err.split())
        answers.append(counting(folder))
        sent = len(server.calls)
        assert main([*command, '--rerun', 'truncated_by_server']) == 0
        assert len(server.calls) - sent == 2
    with RunReader(tmp_path / 'run') as reader:
        assert {result.outcome for result in reader.results()} == {'ok'}


def test_messages_are_counted_by_the_files_of_a_hub_model_in_the_local_cache(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / 'models--org--tiny'
    (place / 'refs').mkdir(parents=True)
    (place / 'refs' / 'main').write_text('abc', encoding='utf-8')
    (place / 'snapshots').mkdir()
    (place / 'snapshots' / 'abc').symlink_to(folder)
    monkeypatch.setenv('HF_HUB_CACHE', str(tmp_path))
    request: Any = [{'role': 'user', 'content': 'the quick one'}]
    expected = TokenCounter({'path': str(folder)}).count(request)
    assert expected is not None
    assert TokenCounter({'type': 'OpenAI', 'path': 'org/tiny'}).count(request) == expected
    assert TokenCounter({'type': 'OpenAI', 'path': 'served'}).with_files('org/tiny').count(request) == expected


@in_one
@pytest.mark.parametrize(
    ('card', 'pages', 'line'),
    [
        ({'owned_by': 'sglang', 'max_model_len': 8192}, {}, 'SGLang, window 8,192 tokens'),
        (
            {'owned_by': 'library'},
            {
                '/api/ps': {
                    'models': [
                        {'name': 'toy', 'context_length': 4096, 'details': {'quantization_level': 'Q4_K_M'}},
                        {'name': 'other', 'context_length': 1},
                    ]
                }
            },
            'Ollama, Q4_K_M, window 4,096 tokens',
        ),
        (
            {'owned_by': 'llamacpp', 'meta': {'n_ctx': 99, 'ftype': 'Q8_0'}},
            {'/props': {'default_generation_settings': {'n_ctx': 2048, 'params': {}}, 'build_info': 'b1'}},
            'llama.cpp b1, Q8_0, window 2,048 tokens',
        ),
        ({'owned_by': 'vllm', 'max_model_len': 'many', 'root': 7}, {'/version': ['?']}, 'vLLM'),
        ({'owned_by': ['acme'], 'meta': 'none'}, {}, ''),
    ],
)
def test_what_engines_say_about_themselves_is_read(card: Any, pages: Any, line: str) -> None:
    answers = {path: (lambda _body, page=page: page) for path, page in pages.items()}
    with (
        TemporaryDirectory() as cache,
        pytest.MonkeyPatch.context() as patch,
        serve(card=card, pages=answers) as server,
    ):
        patch.setenv('ROLECALL_CACHE', cache)
        model: Any = build({'type': 'OpenAI', 'path': 'toy', 'base_url': server.url, 'key': ''}, name='toy')
        asyncio.run(look_up(model))
    assert model.facts.describe() == line


async def look_up(model: Any) -> None:
    await model.look_up()
    await model.close()
