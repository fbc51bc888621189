"""Take the program out of a reply: fenced blocks, `[BEGIN]…[DONE]`, `<code>` tags, function bodies."""

from __future__ import annotations

import ast
import re
from textwrap import dedent, indent

from rolecall.scoring.texts import after_reasoning

_FENCE = re.compile(
    r'^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<language>[^\n`]*)\n(?P<code>.*?)'
    r'(?:^(?P=indent)?[ ]{0,3}(?P<end>(?P=fence))|\Z)',
    re.DOTALL | re.MULTILINE,
)
"""A block ends at a fence that is as long and not indented further, so that a docstring may have fences of its own."""
_FENCE_IN_LINE = re.compile(r'(?P<fence>`{3,})(?P<language>[^\n`]*)\n?(?P<code>.*?)(?:(?P=fence)|\Z)', re.DOTALL)
_BEGIN = re.compile(r'\[?BEGIN\]?')
_DONE = re.compile(r'\[DONE\]|\bDONE\b')
_NOT_PROGRAMS = ('', 'bash', 'sh', 'shell', 'console', 'text', 'txt', 'plaintext', 'output', 'json', 'markdown', 'diff')
_CODE_TAG = re.compile(r'<code>(.*?)(?:</code>|\Z)', re.DOTALL)
_SOLUTION = re.compile(r'BEGIN SOLUTION(.*?)(?:END SOLUTION|\Z)', re.DOTALL)
_CLEARS_THE_FIGURE = ('plt.show()', 'plt.clf()', 'plt.close()', 'savefig')


def fenced_block(text: str) -> str:
    """The first fenced block, also an unfinished one; without a fence, the text.

    Shell commands, sessions and notes are passed over if a program follows.

    >>> fenced_block('So:\\n```python\\nx = 1\\n```'), fenced_block('x = 1')
    ('x = 1\\n', 'x = 1')
    >>> fenced_block('```bash\\npip install x\\n```\\nThen:\\n```python\\nx = 1\\n```')
    'x = 1\\n'
    """
    blocks = _find_blocks(text)
    if not blocks:
        return text
    language, first = blocks[0]
    is_session = first.lstrip().startswith('>>>')
    if not is_session and (language not in _NOT_PROGRAMS or _is_python(first)):
        return first
    return next((code for _, code in blocks[1:] if _is_python(code)), first)


def _find_blocks(text: str) -> list[tuple[str, str]]:
    """The language and code of each fenced block. A fence may stand within a line if none stands on its own."""
    fences = list(_FENCE.finditer(text))
    if not fences or (not fences[-1]['end'] and '```' in fences[-1]['code']):
        fences = list(_FENCE_IN_LINE.finditer(text))
    return [(fence['language'].strip().lower(), dedent(fence['code'])) for fence in fences]


def _is_python(code: str) -> bool:
    """Whether this is a program or the body of a function."""
    return _compiles(code) or _compiles(f'def f():\n{indent(dedent(code), " ")}')


def first_fenced_lines(text: str) -> str:
    """The lines between the first two fences; nothing without two fences.

    >>> first_fenced_lines('```python\\nx = 1\\n```\\n```\\ny\\n```'), first_fenced_lines('```\\nx = 1')
    ('x = 1', '')
    """
    lines = after_reasoning(text).split('\n')
    fences = [number for number, line in enumerate(lines) if '```' in line]
    return dedent('\n'.join(lines[fences[0] + 1 : fences[1]])) if len(fences) > 1 else ''


def last_fenced_lines(text: str) -> str:
    """The lines between the last two fences; nothing without two fences.

    >>> last_fenced_lines('```python\\nx = 1\\n```\\n```\\ny\\n```'), last_fenced_lines('```\\nx = 1')
    ('y', '')
    """
    lines = text.split('\n')
    fences = [number for number, line in enumerate(lines) if '```' in line]
    return dedent('\n'.join(lines[fences[-2] + 1 : fences[-1]])) if len(fences) > 1 else ''


def mbpp_program(text: str) -> str:
    """The program between `[BEGIN]` and `[DONE]`, or in a fence, or the text up to `[DONE]`.

    >>> mbpp_program("[BEGIN]\\n 'def f():\\n    return 1'\\n[DONE]\\nMore"), mbpp_program('```python\\nx\\n```')
    ('def f():\\n    return 1', 'x')
    """
    text = after_reasoning(text)
    begin = _BEGIN.search(text)
    code = _before_done(text[begin.end() :].lstrip().removeprefix("'")) if begin else text
    code = fenced_block(code)
    whole = _before_done(code, within_lines=False)
    code = (whole if _compiles(whole) else _before_done(code)).replace('\\_', '_').strip('\n').rstrip()
    program = code if _compiles(code) else longest_program(code)
    return program if 'def ' in program else code


def _before_done(text: str, *, within_lines: bool = True) -> str:
    """The text before `[DONE]` or `DONE` without spaces and a quote at its end. `DONE` may have to start a line."""
    for marker in _DONE.finditer(text):
        end = marker.start()
        while end and text[end - 1].isspace():
            end -= 1
        if within_lines or marker[0] != 'DONE' or '\n' in text[end : marker.start()]:
            return text[:end].removesuffix("'")
    return text


def humaneval_postprocess(text: str) -> str:
    """The body of the function: a block's code without its head; all of it if it imports or has helpers.

    >>> humaneval_postprocess('```python\\ndef f(x):\\n    return x\\n```\\nDone')
    '    return x'
    >>> humaneval_postprocess('return x')
    '    return x'
    """
    text = fenced_block(after_reasoning(text)).lstrip('\n')
    if len(re.findall(r'^(?:def|class|import|from) ', text, re.MULTILINE)) > 1 and _compiles(text):
        return f'\n{text}'
    if text.lstrip().startswith(('from ', 'import ')) and 'def ' in text:
        text = text[text.index('def ') :]
    lines = [line for line in text.split('\n') if line.strip()]
    if lines and lines[0].lstrip().startswith('def '):
        lines = lines[1:]
    if not lines:
        return ''
    shift = 4 - (len(lines[0]) - len(lines[0].lstrip()))
    moved = [' ' * shift + line if shift > 0 else line[-shift:] for line in lines]
    return '\n'.join(_until_dedent(moved))


def humaneval_postprocess_v2(text: str) -> str:
    """The code in the first fenced block, also an unfinished one; without a fence, the reply itself.

    >>> humaneval_postprocess_v2('Here:\\n```python\\nreturn 1\\n```\\nDone.')
    'return 1\\n'
    """
    own = after_reasoning(text)
    return _before_closing_fence(own) or (fenced_block(own) if _find_blocks(own) else own.strip('\n'))


def humaneval_postprocess_v3(text: str) -> str:
    """The code in the last fenced block; without a fence, the reply itself.

    >>> humaneval_postprocess_v3('```\\nx\\n```\\nor\\n```\\ny\\n```')
    'y\\n'
    """
    own = after_reasoning(text)
    blocks = _find_blocks(own)
    return _before_closing_fence(own) or (blocks[-1][1] if blocks else own.strip('\n'))


def _before_closing_fence(text: str) -> str:
    """The indented code before a fence that closes a block which the prompt opened; else nothing."""
    fence = _FENCE.search(text)
    closes = fence and not fence['end'] and text[: fence.start()].strip() and text.startswith((' ', '\t'))
    return text[: fence.start()] if fence and closes else ''


def humaneval_internal_v2_postprocess(text: str) -> str:
    """The indented lines at the start of a completion.

    >>> replies = ('    return x\\n\\n\\n\\ndef g(): ...', '   return x')
    >>> [humaneval_internal_v2_postprocess(reply) for reply in replies]
    ['    return x', '    return x']
    """
    if text.startswith('   ') and not text.startswith('    '):
        text = ' ' + text
    text = text.split('\n\n\n')[0].split('\n```')[0]
    return '\n'.join(_until_dedent(text.split('\n')))


def fit_completion(prompt: str, reply: str) -> str:
    """The reply as it continues the prompt: indented where its spaces got lost, without words after the code.

    >>> fit_completion('def f(x):\\n', 'return x'), fit_completion('def f(x):\\n', '    return x\\nThis is it.')
    ('    return x', '    return x')
    """
    plain = reply.partition('\n```')[0].expandtabs(4)
    indented = '\n'.join(f'    {line}' for line in plain.split('\n'))
    body = '\n'.join(_until_dedent(plain.split('\n')))
    for candidate in (reply, plain, indented, f'    {plain}', f' {plain}', body, dedent(plain)):
        if candidate.strip() and _compiles(f'{prompt}{candidate}'):
            return candidate
    program = longest_program(plain)
    return program if 'def ' in program and _compiles(f'{prompt}{program}') else reply


def body_of_function(text: str, prompt: str) -> str:
    """What a reply adds to a prompt that ends in a function: the lines after a repeated head, up to the next one.

    >>> body_of_function('```python\\ndef f(x):\\n    return x\\n\\nprint(f(1))\\n```', 'def f(x):')
    '    return x\\n'
    """
    code = fenced_block(after_reasoning(text))
    head = prompt.rstrip().split('\n')[-1].strip()
    lines = code.split('\n')
    at = next((number for number, line in enumerate(lines) if head and line.strip() == head), None)
    if at is not None:
        lines = lines[at + 1 :]
    elif lines and lines[0].strip() and not lines[0].startswith((' ', '\t')):
        lines[0] = '    ' + lines[0]
    return '\n'.join(_until_dedent(lines))


def complete_stub(prompt: str) -> str:
    """A prompt that ends in the head of a function, as a program: the function does nothing.

    >>> complete_stub('import re\\ndef f(x):\\n'), complete_stub('def g():\\n    \"\"\"Doc.\"\"\"\\n')
    ('import re\\ndef f(x):\\n    pass', 'def g():\\n    \"\"\"Doc.\"\"\"\\n')
    """
    for candidate in (prompt, f'{prompt}    pass', f'{prompt}\n    pass'):
        if _compiles(candidate):
            return candidate
    return ''


def last_function(prompt: str) -> tuple[str, ...]:
    """The name of the function that a prompt ends in.

    >>> last_function('def helper():\\n    return 1\\n\\ndef f(x):\\n')
    ('f',)
    """
    return tuple(re.findall(r'^(?:async )?def (\w+)', prompt, re.MULTILINE)[-1:])


def _until_dedent(lines: list[str]) -> list[str]:
    """The lines before the first that starts at the margin."""
    end = next((at for at, line in enumerate(lines) if line.strip() and line[0] not in ' \t'), len(lines))
    return lines[:end]


def extract_execution_result(text: str) -> str:
    """The value a reply predicts: after `==` of the last `[PYTHON]` block, up to `[/ANSWER]` or the line's end.

    >>> extract_execution_result('[PYTHON]\\nassert f(1) == [1, 2]\\n[/ANSWER]\\n[/PYTHON]')
    '[1, 2]'
    """
    text = _last_between(text, '[PYTHON]', '[/PYTHON]') or text
    if '[ANSWER]' in text:
        text = text.split('[ANSWER]')[1]
    if '==' in text:
        text = text.split('==')[1].strip()
    return text.split('[/ANSWER]')[0].strip() if '[/ANSWER]' in text else text.strip().split('\n')[0].strip()


def _last_between(text: str, opening: str, closing: str) -> str:
    last, at = '', 0
    while (start := text.find(opening, at)) >= 0 and (end := text.find(closing, start)) >= 0:
        last, at = text[start + len(opening) : end], end + len(closing)
    return last


def extract_assertion(text: str) -> str:
    """The right side of the `assert … ==` in a reply, or the reply's block, as an expression; '' if there is none.

    >>> extract_assertion('So:\\nassert f(1) == [1, 2]'), extract_assertion('```\\n[3]\\n```')
    ('[1, 2]', '[3]')
    """
    lines = [line for line in text.split('\n') if line.startswith('assert')]
    code = lines[-1] if lines else first_fenced_lines(text)
    asserted = next((line for line in code.split('\n') if 'assert' in line and not line.startswith('#')), '')
    if not asserted:
        return code.strip()
    try:
        statement = ast.parse(asserted.strip()).body[0]
    except (SyntaxError, ValueError, IndexError, RecursionError, MemoryError):
        return ''
    compared = statement.test if isinstance(statement, ast.Assert) else None
    if not isinstance(compared, ast.Compare) or not isinstance(compared.ops[0], ast.Eq):
        return ''
    return ast.unparse(compared.comparators[0])


def longest_program(
    text: str, *, most_lines: int = 400, most_attempts: int = 1_000, most_characters: int = 4_000_000
) -> str:
    """The fenced block, or else the longest run of lines that Python can compile.

    >>> longest_program('Sure!\\nimport re\\ndef f(): return re\\nI hope it helps.')
    'import re\\ndef f(): return re'
    """
    text = after_reasoning(text)
    if _FENCE.search(text) or '```' in text:
        return fenced_block(text)
    lines = text.split('\n')[:most_lines]
    best: tuple[int, int] = (0, 0)
    attempts = characters = 0
    for start in range(len(lines)):
        if len(lines) - start <= best[1] - best[0]:
            break
        if not lines[start].strip() or lines[start][0] in ' \t':
            continue
        end = len(lines)
        while end - start > best[1] - best[0] and attempts < most_attempts and characters < most_characters:
            attempts += 1
            fault = _find_fault('\n'.join(lines[start:end]))
            characters += sum(map(len, lines[start : start + (fault or 0)]))
            if fault is None:
                best = (start, end)
                break
            end = min(end - 1, start + fault - 1)
    return '\n'.join(lines[best[0] : best[1]])


def _compiles(code: str) -> bool:
    return _find_fault(code) is None


def _find_fault(code: str) -> int | None:
    """The line from which on Python cannot compile the code; None if it can."""
    try:
        compile(code, '<program>', 'exec', dont_inherit=True)
    except SyntaxError as error:
        return error.lineno or 1
    except (ValueError, RecursionError, MemoryError):
        return 1
    return None


def ds1000_postprocess(text: str) -> str:
    """The code in `<code>` tags, in a fence, or between BEGIN SOLUTION and END SOLUTION.

    >>> ds1000_postprocess('<code>\\nx = 1\\n</code>')
    '\\nx = 1\\n'
    """
    if code := _CODE_TAG.search(text):
        text = code[1]
    text = fenced_block(text)
    code = _SOLUTION.search(text)
    return code[1] if code else text


def ds1000_completion_postprocess(text: str) -> str:
    """The text before `</code>`.

    >>> ds1000_completion_postprocess('x = 1</code> and so on')
    'x = 1'
    """
    return text.split('</code>')[0]


def ds1000_matplotlib_postprocess(text: str) -> str:
    """As `ds1000_postprocess`, without the lines that show, save or clear the figure.

    >>> ds1000_matplotlib_postprocess('plt.plot(x)\\nplt.show()')
    'plt.plot(x)'
    """
    lines = ds1000_postprocess(text).split('\n')
    return '\n'.join(line for line in lines if not any(phrase in line for phrase in _CLEARS_THE_FIGURE))
