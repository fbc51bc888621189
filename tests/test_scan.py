"""Scanners of replies: what each reports and leaves alone, and a scan of a run in terminal, JSON, report and page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rolecall import run_config
from rolecall.insight.kept_counts import HitCount, keep_counts, read_counts
from rolecall.insight.reply_scan import ask_about_replies, count_hits, last_text, scan_run
from rolecall.insight.run_source import StoredRun
from rolecall.runs.store.run_reader import RunReader
from rolecall.scoring.scanners import SCANNERS, ScannedReply, scan_reply
from rolecall.ui.cli.main import main
from rolecall.ui.report.page import report_html
from rolecall.ui.report.text_reports import report_markdown
from tables import in_one

PROSE = 'The first train leaves at nine. The second train leaves at ten. They meet in the middle of the valley. '
LONG = PROSE * 3
QUESTION = (
    'A baker sells forty loaves on Monday and twice as many on Tuesday. '
    'How many loaves does the baker sell on both days together?'
)


@in_one
@pytest.mark.parametrize(
    ('scanner', 'reply'),
    [
        ('refusal', ScannedReply('I cannot assist with that request.')),
        ('refusal', ScannedReply('As an AI language model, I am not able to predict elections.')),
        ('refusal', ScannedReply('I must decline. This could hurt people.')),
        ('refusal', ScannedReply("I'm not able to provide the address of a person.")),
        ('refusal', ScannedReply('It is not appropriate or ethical to joke about this.')),
        ('refusal', ScannedReply('I am an AI language model and do not condone theft.')),
        ('refusal', ScannedReply('抱歉，我无法回答这个问题。')),
        ('refusal', ScannedReply('Es tut mir leid, dabei kann ich Ihnen nicht helfen.')),
        *(('refusal', ScannedReply(text)) for text in (
            'Je suis désolé, mais je ne peux pas vous aider.', 'Lo siento, pero no puedo ayudarte con eso.',
            'Mi dispiace, ma non posso aiutarti.', 'Desculpe, mas não posso ajudar com isso.',
            'Извините, но я не могу помочь с этим.', 'К сожалению, мы не можем на это ответить.',
            '申し訳ありませんが、お応えできません。', '죄송하지만 도와드릴 수 없습니다.', 'عذرًا، لا يمكنني مساعدتك في ذلك.',
        )),
        ('loop', ScannedReply('So the area is four. ' * 9)),
        ('loop', ScannedReply('We check.\n' + ''.join(f'{n}. Look at the triangle again.\n' for n in range(9)))),
        ('loop', ScannedReply('答案是四。我们再检查一遍。' * 12)),
        ('language', ScannedReply('Ответ: сорок два, потому что так написано в книге.', QUESTION)),
        ('language', ScannedReply('La réponse est que les pains sont pour le boulanger et les clients, dans une '
                                  'ville que nous avons avec des rues.', QUESTION + ' That is what the list is for.')),
        ('format', ScannedReply('The answer is 120.', 'How many? Reply as JSON.')),
        ('format', ScannedReply('It is the second one, B.', 'Which? Answer with only the letter.')),
        ('format', ScannedReply('Yes, it is.', 'Is 7 prime? Answer "[Yes]" or "[No]".')),
        ('copied', ScannedReply(QUESTION, QUESTION)),
        ('cut', ScannedReply('Fine.', ended='length')),
        ('cut', ScannedReply(LONG + 'Then we add the')),
        ('cut', ScannedReply(LONG + 'So the answer is \\boxed{12')),
        ('no answer', ScannedReply(LONG, answered=False)),
        ('no answer', ScannedReply('<think>First, let me')),
        ('gold in prompt', ScannedReply('7', 'Seven as a digit?\nAnswer: 7', gold='7')),
        ('gold in prompt', ScannedReply('b', 'Which? The correct answer is (B). Say it.', gold=['A', 'B'])),
    ],
)  # fmt: skip
def test_a_scanner_reports_its_trouble(scanner: str, reply: ScannedReply) -> None:
    assert scanner in scan_reply(reply)


@in_one
@pytest.mark.parametrize(
    'reply',
    [
        ScannedReply('', QUESTION, gold='120'),
        ScannedReply('120', QUESTION, gold='120'),
        ScannedReply('The lock cannot help him. He is sorry. I think the answer is C.', QUESTION),
        ScannedReply("I can't help laughing. I cannot help but notice that both days make 120.", QUESTION),
        ScannedReply('すみません、と彼は言った。答えは120です。', 'Answer in Japanese: ' + QUESTION),
        ScannedReply("As an AI language model, I cannot see the news. However, the cup was won by Chile.", QUESTION),
        ScannedReply('I cannot determine the price from the data, so the answer is E.', QUESTION),
        ScannedReply(LONG + 'It ends with a list:\n- red and blue things\n- things that are neither of these two colours at all', QUESTION),
        ScannedReply(LONG + 'So it reads:\nreturn 12;', QUESTION),
        ScannedReply('Here it is: json.dump(counts, file)', 'Write a script that saves a dictionary in json format.'),
        ScannedReply('\n'.join('abcdefgh'), QUESTION),
        ScannedReply('\n'.join(f'{n} does not divide 6311.' for n in (3, 5, 7, 11, 13, 17, 19, 23)), QUESTION),
        ScannedReply(LONG + 'The answer is 12.', QUESTION, ended='stop'),
        ScannedReply(LONG + '**Rating: [[8]]**', QUESTION),
        ScannedReply('```json\n{"reasoning": "' + PROSE + '", "answer": "12"}\n```', 'How many? Reply as JSON.'),
        ScannedReply('我认为是十二个。', '请问：篮子里有多少个苹果？请用中文回答，并写出理由。'),
        ScannedReply('我认为答案是选项二，因为它最符合题意要求，其他的都不对。', 'Translate this into Chinese: I think so.'),
        ScannedReply('The fee was 9 euros.', 'Say it with one word changed: The price was 9 euros.'),
        ScannedReply('I cannot provide a definitive date, but most banks expect it in the spring of next year.', QUESTION),
        ScannedReply('Seven', 'Which is it: 3, 5, or 7?\nAnswer: ', gold='7'),
        ScannedReply('A', 'Choose the right answer: A, B or C.', gold='A'),
        ScannedReply('C', 'Q: one\nAnswer: B\n\nQ: two\nAnswer:', gold='B'),
        ScannedReply(QUESTION + ' Forty and eighty make one hundred and twenty loaves.', QUESTION, answered=True),
    ],
)  # fmt: skip
def test_a_sound_reply_is_left_alone(reply: ScannedReply) -> None:
    assert not scan_reply(reply)


@in_one
@pytest.mark.parametrize(
    'unit', ['a', 'ab ', 'I cannot ', '\\boxed{', '[[', 'answer is ', '{"', '我', '\n', '# ' * 50 + '\n']
)
def test_huge_replies_are_scanned(unit: str) -> None:
    text = unit * (60_000 // len(unit))
    scan_reply(ScannedReply(text, text, gold=unit))


def test_the_last_thing_asked_is_the_last_message_of_a_user() -> None:
    parts = [{'type': 'text', 'text': 'Look.'}, {'type': 'text', 'text': 'What is it?'}]
    messages = [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': parts}]
    assert last_text(messages) == 'Look.\nWhat is it?'
    assert last_text([*messages, {'role': 'assistant', 'content': 'A cat'}]) == 'Look.\nWhat is it?'
    assert last_text('Q: x\nA:') == 'Q: x\nA:'
    assert not last_text([{'role': 'system', 'content': 'Be brief.'}])


def answer(prompt: str) -> str:
    return 'I cannot assist with that.' if '1?' in prompt else 'Four.'


def says_whether_it_assists(prompt: str) -> str:
    return 'Yes' if 'assist' in prompt.partition('<reply>')[2] else 'No'


@pytest.fixture
def run(tmp_path: Path) -> Path:
    rows = [{'question': f'{n}?', 'answer': 'Four'} for n in range(4)]
    dataset = {
        'abbr': 'sums',
        'type': 'Rows',
        'test': rows,
        'reader_cfg': {'input_columns': ['question'], 'output_column': 'answer'},
        'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': '{question}'}},
        'eval_cfg': {'evaluator': 'TriviaQAEvaluator'},
    }
    models = [{'abbr': name, 'type': answer} for name in ('a', 'b')]
    run_config({'models': models, 'datasets': [dataset]}, out=tmp_path / 'run')
    return tmp_path / 'run'


def test_a_scan_counts_by_model_and_dataset_and_is_shown_wherever_the_run_is(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['runs', 'scan', str(run), '--json']) == 0
    counts = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(counts) == 2 * len(SCANNERS)
    [refusal] = [count for count in counts if (count['name'], count['model']) == ('refusal', 'b')]
    assert (refusal['hits'], refusal['total'], [hit['row'] for hit in refusal['rows']]) == (1, 4, [1])
    assert 0 < refusal['low'] < 0.25 < refusal['high'] < 1
    with RunReader(run) as reader:
        source = StoredRun(reader)
        assert '| refusal | sums | a | 1 of 4 |' in report_markdown(source)
        page = report_html(source)
    assert page.index('<h3>Replies</h3>') < page.index('1 of 4')
    assert main(['report', str(run)]) == 0
    assert 'refusal' in capsys.readouterr().out


def test_a_question_is_planned_then_answered_by_a_model_and_resumes(run: Path) -> None:
    asked: list[str] = []

    def judge(prompt: str) -> str:
        asked.append(prompt)
        return says_whether_it_assists(prompt)

    with RunReader(run) as reader:
        summary, counts = ask_about_replies(reader, 'Does it refuse?', judge, limit=2, dry_run=True)
        assert (summary.plan.pairs[0].rows, asked, counts) == (4, [], [])
        summary, counts = ask_about_replies(reader, 'Does it refuse?', judge, limit=4)
        assert [(count.name, count.model, count.hits, count.total) for count in counts] == [
            ('Does it refuse?', 'a', 1, 4),
            ('Does it refuse?', 'b', 1, 4),
        ]
        sent = len(asked)
        ask_about_replies(reader, 'Does it refuse?', judge, limit=4)
    assert len(asked) == sent


def test_a_copied_question_is_found_where_the_metric_reads_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path('rows.jsonl').write_text(json.dumps({'question': QUESTION, 'answer': '120'}) + '\n')
    Path('same.py').write_text('def say(prompt):\n    return prompt\n')
    run = [
        'run',
        'rows.jsonl',
        '--answer',
        'answer',
        '--metric',
        'contains',
        '--model',
        'same:say',
        '--out',
        'run',
        '-q',
    ]
    assert main(run) == 0
    capsys.readouterr()
    assert main(['runs', 'scan', 'run', '--rule', 'copied']) == 0
    assert '1 of 1' in capsys.readouterr().out


def test_a_second_scan_replaces_its_own_counts_and_keeps_the_others(run: Path) -> None:
    with RunReader(run) as reader:
        keep_counts(run, 'scan', list(scan_run(reader)))
    keep_counts(run, 'scan', [count_hits('Is it rude?', 'sums', 'a', [], 4), count_hits('loop', 'sums', 'a', [], 9)])
    counts = {(count.name, count.model): count for count in read_counts(run, 'scan')}
    assert len(counts) == 2 * len(SCANNERS) + 1
    assert counts['loop', 'a'].total == 9
    assert counts['refusal', 'a'].hits == 1


@in_one
@pytest.mark.parametrize('text', ['', '{', '[1]', '[{"scanner": 1}]', '[' * 100_000, 'null'])
def test_a_damaged_scan_is_no_scan(text: str) -> None:
    import tempfile

    folder = Path(tempfile.mkdtemp())
    (folder / 'scan.json').write_text(text)
    assert read_counts(folder, 'scan') == []


def test_a_scan_of_another_version_is_said_to_be_left_out(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / 'scan.json').write_text('[{"scanner": "loop", "dataset": "sums", "model": "a", "replies": 4, "hits": 1}]')
    assert main(['report', str(run)]) == 0
    printed = ''.join(capsys.readouterr().out.split())  # the path before it decides where lines are broken
    said = 'scan.json is left out: this version cannot read it. Scan again: rolecall runs scan RUN.'
    assert said.replace(' ', '') in printed
    assert main(['runs', 'scan', str(run)]) == 0
    assert main(['report', str(run)]) == 0
    assert 'left out' not in capsys.readouterr().out


def test_an_unknown_rule_and_half_a_question_are_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['runs', 'scan', str(run), '--rule', 'refusals']) == 2
    assert "Did you mean 'refusal'?" in capsys.readouterr().err
    assert main(['runs', 'scan', str(run), '--ask', 'Is it rude?']) == 2
    assert '--judge' in capsys.readouterr().err


def test_a_model_that_answers_neither_yes_nor_no_is_no_scan(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / 'vague.py').write_text('def judge(prompt):\n    return "Hard to say."\n')
    monkeypatch.chdir(tmp_path)
    assert main(['runs', 'scan', str(run), '--ask', 'Is it rude?', '--judge', 'vague.py:judge']) == 1
    assert 'gave no Yes or No about any reply' in capsys.readouterr().err


def test_the_page_shows_the_scan(run: Path) -> None:
    pytest.importorskip('aiohttp')
    from rolecall.ui.web.run_documents import RunDocument

    assert RunDocument(run).overview()['scan'] == []
    keep_counts(run, 'scan', [HitCount('loop', 'sums', 'a', 1, 4), HitCount('cut', 'sums', 'a', 0, 4)])
    [count] = RunDocument(run).overview()['scan']
    assert (count['name'], count['share']) == ('loop', '25.0 [4.6, 69.9]')
