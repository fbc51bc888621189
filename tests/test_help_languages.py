"""The help of the command line in Chinese: chosen by option, variable or locale, complete, and no wider than the screen."""

from __future__ import annotations

import argparse
import ast
import functools
import inspect
import os
import re
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

import rolecall
from rolecall.experiment.lint import RULES
from rolecall.ui.cli.config.list import KINDS, list_parts, load_registry
from rolecall.ui.cli.languages import choose_language, help_texts
from rolecall.ui.cli.main import build_parser, main
from rolecall.ui.views.chinese import read_chinese, to_chinese

ARGPARSE, FACTS, HEADS, HELP, MESSAGES = map(read_chinese, ('argparse', 'fact', 'head', 'help', 'message'))
VARIABLES = ('ROLECALL_LANG', 'LC_ALL', 'LC_MESSAGES', 'LANG')


@pytest.fixture(autouse=True)
def _no_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_every_text_of_the_help_has_a_chinese_one() -> None:
    wanted = list(dict.fromkeys(help_texts(build_parser([]))))
    missing = [text for text in wanted if text not in HELP]
    assert not missing, f'add these to src/rolecall/ui/views/chinese.tsv: {missing}'
    assert not set(HELP) - set(wanted), 'texts that the help no longer has'
    untranslated = [text for text, chinese in HELP.items() if not re.search('[\u4e00-\u9fff]', chinese)]
    assert untranslated == ['lm-eval, inspect, opencompass, aisbench']


@pytest.mark.parametrize(
    ('arguments', 'lines'),
    [
        (['run', 'rows.cvs', '--template', 'x'], ['没有这个文件。', "是不是想写 'rows.csv'？数据文件的扩展名为 .csv,"]),
        (['run', 'gsm9k'], ["'gsm9k' 不是文件，也没有叫这个名字的评测集。", "是不是想写 'gsm8k'？"]),
        (['report', 'nowhere'], ['nowhere：没有找到运行']),
        (['run', 'rows.csv', '--template', '{q}', '--answer', 'a', '--model', 'm'], ["未知模型 'm'。"]),
        (
            ['run', 'rows.csv', '--template', '{q}', '--answer', 'a', '--model', 'own:answer'],
            ['警告：rows × answer：所有回复都是空的。用 rolecall view 查看提示词', '结果保存在 runs/rows。', '查看每条样本：rolecall report'],
        ),
        (['run', 'rows.csv', '--template', '{x}', '--answer', 'a', '--model', 'own:answer'], ['没有发送任何请求。']),
    ],
)  # fmt: skip
def test_common_errors_and_the_end_of_a_run_are_in_the_language_asked_for(
    arguments: list[str],
    lines: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'rows.csv').write_text('q,a\n1+1,2\n2+2,4\n')
    (tmp_path / 'own.py').write_text('def answer(request):\n    return ""\n')
    main(['--lang', 'zh', *arguments])
    chinese = capsys.readouterr().err
    main(arguments)
    english = capsys.readouterr().err
    assert all(line in chinese for line in lines), chinese
    assert not re.search('[\u4e00-\u9fff]', english)


def test_a_word_has_one_chinese_term_everywhere() -> None:
    root = Path(__file__).parent.parent
    table = (root / 'design/words.md').read_text('utf-8').partition('## In Chinese')[2]
    lines = [
        [cell.strip() for cell in line.strip('|').split('|')] for line in table.splitlines() if line.startswith('| ')
    ]
    terms = {chinese: others.split('、') for _, chinese, others in lines[1:]}
    assert len(terms) > 10
    package = Path(rolecall.__file__).parent / 'ui'
    files = [
        package / 'views/chinese.tsv',
        root / 'docs/tutorial.zh.md',
        root / 'README.zh.md',
    ]
    for file in files:
        text = file.read_text('utf-8')
        assert '样本' in text, file
        assert not [other for others in terms.values() for other in others if other in text], file


def test_values_that_cannot_be_told_apart_stay_side_by_side() -> None:
    apart = [english for english, chinese in MESSAGES.items() if '{}{}' in english and '{}{}' not in chinese]
    assert not apart, 'one value would be torn in two'


def test_a_line_that_fits_a_message_in_a_million_ways_stays_english() -> None:
    line = 'a' + ''.join(f'{part}b' * 60 for part in (' scores ', ' [', ', ', '] on ', ' rows of ')) + '!'
    assert to_chinese(line) == line
    assert to_chinese('m scores 33.3 [6.1, 79.2] on 3 rows of he.') != 'm scores 33.3 [6.1, 79.2] on 3 rows of he.'


def test_every_message_can_be_filled_and_keeps_its_values_but_for_plurals_and_totals() -> None:
    left_out = []
    for english, chinese in MESSAGES.items():
        values = [f'<{number}>' for number in range(english.count('{}'))]
        filled = chinese.format(*values) if values else chinese
        left_out += [english] * sum(value not in filled for value in values)
    assert [message.split(':')[0] for message in left_out] == ['{}', 'turn {} is out of range']


PACKAGE = Path(rolecall.__file__).parent
ERRORS = re.compile(r'.*(Error|Problem)$|^(fail|print_note|_refuse|Violation)$')
"""Calls whose texts people read."""
PROGRAMMING = ('apps/chat',)
"""Rooms whose errors only those who write Python meet: not in Chinese."""


def texts_of(node: ast.expr) -> Iterator[str]:
    """The texts that an expression can give, `{}` for what differs."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield ''.join(str(part.value) if isinstance(part, ast.Constant) else '{}' for part in node.values)
    elif isinstance(node, ast.IfExp):
        yield from (*texts_of(node.body), *texts_of(node.orelse))


def messages_of(path: Path) -> Iterator[str]:
    """Every sentence, of three words or more, of the errors, notes and findings in a module."""
    for call in ast.walk(ast.parse(path.read_text('utf-8'))):
        name = getattr(call.func, 'id', getattr(call.func, 'attr', '')) if isinstance(call, ast.Call) else ''
        if isinstance(call, ast.Call) and ERRORS.match(name):
            arguments = [*call.args, *(word.value for word in call.keywords if word.arg in ('what', 'remedy'))]
            for line in '\n'.join(text for argument in arguments for text in texts_of(argument)).splitlines():
                if len(re.findall('[A-Za-z]{2,}', line.replace('{}', ' '))) > 2 and line.strip()[-1:] in '.:':
                    yield line.strip()


@functools.cache
def messages_by_room() -> dict[str, list[str]]:
    """The messages of the package by its rooms."""
    rooms: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob('*.py')):
        place = path.relative_to(PACKAGE).parts
        room = '/'.join(place[:2]) if place[0] == 'apps' else place[0].removesuffix('.py')
        rooms.setdefault(room, []).extend(messages_of(path))
    return rooms


def is_in_chinese(message: str) -> bool:
    return bool(re.search('[\u4e00-\u9fff]', to_chinese(message.replace('{}', 'x7'))))


def test_errors_notes_and_findings_have_a_chinese_text() -> None:
    rooms = {room: messages for room, messages in messages_by_room().items() if room not in PROGRAMMING}
    assert sum(map(len, rooms.values())) > 500
    missing = {message for messages in rooms.values() for message in messages if not is_in_chinese(message)}
    assert not missing, f'add these to src/rolecall/ui/views/chinese.tsv: {missing}'


def test_what_config_list_says_of_its_parts_is_in_chinese() -> None:
    said = [part for kind in KINDS.keys() - {'meta_templates'} for part in list_parts(kind, load_registry(kind))]
    ours = {part.summary for part in said if part.origin == 'rolecall' and part.summary}
    assert len(ours) > 200
    assert not [summary for summary in ours if not is_in_chinese(summary)]


def test_lint_rules_have_chinese_texts() -> None:
    texts = [text for rule in RULES.values() for text in (rule.description, rule.remedy) if text]
    assert not [text for text in texts if not is_in_chinese(text)]


def test_every_message_of_the_catalogue_is_one_of_the_source() -> None:
    trees = [ast.parse(path.read_text('utf-8')) for path in PACKAGE.rglob('*.py')]
    texts = [text for tree in trees for node in ast.walk(tree) if isinstance(node, ast.expr) for text in texts_of(node)]
    names = [text for text in texts if len(text) < 30]
    texts += [text for name in names for text in (f'the answers are {name}: scored by', f'misread by {name}')]
    tables = [
        *PACKAGE.rglob('[!c]*.tsv'),
        *PACKAGE.rglob('rubrics.yaml'),
        *PACKAGE.rglob('wordings/*.yaml'),
        *PACKAGE.rglob('templates/*.html'),
    ]
    source = '\n'.join([*texts, *(path.read_text('utf-8') for path in tables)])
    argparse_says = inspect.getsource(argparse)
    for message in ARGPARSE:
        assert max(message.rstrip('.').split('{}'), key=len).strip('() ') in argparse_says, message
    for head in HEADS:
        assert head in source, head
    for message in MESSAGES.keys() - ARGPARSE.keys():
        longest = max(re.split(r'{}|run\.sqlite|[()?:;,.] ?', message), key=len).strip()
        part = re.sub('^(lint |other )?(row|answer|error|score|line|change)s? ?', '', longest)
        assert part in source, message


@pytest.mark.parametrize(
    ('english', 'chinese'),
    [
        ('qa × m: 1,024 rows, 64 requests (8 known), 9 input tokens', 'qa × m：1,024 条样本，64 个请求（8 个已有回复），输入 9 个 token'),
        ('qa × m: 8/20 rows, 0.2 rows/s, 1 failed, 0:48 left, 8 in flight', 'qa × m：8/20 条样本，每秒 0.2 条样本，1 条样本失败，剩余 0:48，8 个请求进行中'),
        ('qa × m: accuracy 65.00 [43.29, 81.88], 20 of 20 rows scored', 'qa × m: accuracy 65.00 [43.29, 81.88]，20/20 条样本已评分'),
        ('12 % cut; 75.0 of all, 78.6 of finished', '12 % 被截断；全部 75.0，完整回复 78.6'),
        ('a beats b by 7.0 points (1.0 to 9.0) on 92 rows.', 'a 比 b 高 7.0 分（1.0 到 9.0），共 92 条样本。'),
        ('qa × m: too few rows to tell (need 273), +0.00 [-1.00, +1.00], 10 rows', 'qa × m：样本太少，无法判断（需要 273 条样本），+0.00 [-1.00, +1.00]，10 条样本'),
        ('the rows are left, and nothing in flight', 'the rows are left, and nothing in flight'),
    ],
)  # fmt: skip
def test_progress_and_scores_are_put_into_chinese_fact_by_fact(english: str, chinese: str) -> None:
    assert to_chinese(english) == chinese
    assert all(fact.count('#') == said.count('#') for fact, said in FACTS.items())


def test_a_run_its_report_and_a_comparison_are_in_chinese(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('COLUMNS', '80')
    (tmp_path / 'rows.csv').write_text('question,answer\n1+1,2\n2+2,4\n3+3,6\n')
    (tmp_path / 'own.py').write_text('def same(prompt):\n    return "2"\ndef other(prompt):\n    return "4"\n')
    for name in ('same', 'other'):
        main(['--lang', 'zh', 'run', 'rows.csv', '--answer', 'answer', '--model', f'own:{name}', '--out', name])
    shown = capsys.readouterr()
    assert 'rows × same：3 条样本，3 个请求\n3 个请求待发送\nrows × same：3/3 条样本，' in shown.err
    assert 'same 在 rows 的 3 条样本上得分 33.3' in shown.out
    assert re.search(r'数据集 +same\b', shown.out)
    assert re.search(r'\n rows +33\.3', shown.out), 'the name of a dataset is not a head'
    main(['--lang', 'zh', 'compare', 'same', 'other', '--flips', '0'])
    assert re.search(r'样本数 *\n +数据集 × 模型', capsys.readouterr().out)
    assert main(['--lang', 'zh', 'compare', 'same', 'other', '--gate']) == 3
    assert 'other 对比 same，容差 2：样本太少，无法判断' in capsys.readouterr().out


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['run'], '缺少参数：CONFIG。\n  `rolecall run --help` 会列出所有选项。'),
        (['run', 'x.py', '--limit', 'two'], "--limit\n  需要不小于 1 的整数，得到 'two'。"),
        (['run', 'x.py', '--limit'], '--limit\n  需要一个值。'),
        (['completion', 'csh'], "shell\n  无效的取值 'csh'（可选："),
        (['runs', 'list', '--unknown'], '未知选项：--unknown'),
    ],
)
def test_errors_of_the_command_line_are_in_chinese(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: object = main(['--lang', 'zh', *arguments])
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ('environment', 'arguments', 'language'),
    [
        ({}, [], 'en'),
        ({}, ['--lang', 'zh', 'run'], 'zh'),
        ({}, ['--lang=zh', 'run'], 'zh'),
        ({}, ['--lang'], 'en'),
        ({'ROLECALL_LANG': 'zh'}, ['run'], 'zh'),
        ({'ROLECALL_LANG': 'zh-Hans'}, [], 'zh'),
        ({'ROLECALL_LANG': 'zh'}, ['--lang', 'en', 'run'], 'en'),
        ({'LANG': 'zh_CN.UTF-8'}, [], 'zh'),
        ({'LC_ALL': 'zh_TW.UTF-8', 'LANG': 'en_US.UTF-8'}, [], 'zh'),
        ({'LC_ALL': 'C', 'LANG': 'zh_CN.UTF-8'}, [], 'en'),
        ({'LC_MESSAGES': 'zh_CN', 'LC_ALL': ''}, [], 'zh'),
        ({'ROLECALL_LANG': 'en', 'LANG': 'zh_CN'}, [], 'en'),
        ({'LANG': 'zhx'}, [], 'en'),
        ({}, ['run', '--lang', 'zh'], 'en'),
    ],
)
def test_option_then_variable_then_locale_choose(
    environment: dict[str, str], arguments: list[str], language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert choose_language(arguments)[0] == language


@pytest.mark.parametrize('command', [[], ['run'], ['view'], ['compare'], ['export', 'sft'], ['completion']])
@pytest.mark.parametrize('columns', [80, 120])
def test_no_line_of_chinese_help_is_wider_than_the_screen(
    command: list[str], columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv('COLUMNS', str(columns))
    with pytest.raises(SystemExit):
        main(['--lang', 'zh', *command, '--help'])
    shown = capsys.readouterr().out
    assert '用法: rolecall' in shown
    told = re.split('\n(?:示例|退出码):', shown)[0]
    for line in filter(re.compile('[\u4e00-\u9fff]').search, told.splitlines()):
        width = sum(2 if unicodedata.east_asian_width(one) in 'WF' else 1 for one in line)
        assert width <= columns, line


def test_an_unknown_language_is_an_error_that_names_the_known(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(['--lang', 'fr', 'runs', 'list'])
    assert end.value.code == 2
    assert "invalid choice: 'fr'" in capsys.readouterr().err


def test_english_help_does_not_load_the_catalogue() -> None:
    code = "import sys; from rolecall.ui.cli.main import build_parser, main; main(['runs', 'list', 'none']); from rolecall.ui.views.chinese import read_chinese; print(read_chinese.cache_info().currsize)"
    environment = {'PATH': os.environ['PATH'], 'PYTHONPATH': ':'.join(sys.path)}
    ran = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True, env=environment)
    assert ran.stdout.splitlines()[-1] == '0'
