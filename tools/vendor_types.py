"""Writes `src/rolecall/apps/chat/vendor_types.pyi`: what type checkers know of modules whose vendor lacks some options.

python tools/vendor_types.py write      # after a change of the calls in calls.py
python tools/vendor_types.py check

The calls of a module are declared once, in `ModuleCalls`. Here they stand once more for each vendor, with its options.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
CHAT = ROOT / 'src' / 'rolecall' / 'apps' / 'chat'
TARGET = CHAT / 'vendor_types.pyi'
VENDORS = (('Anthropic', 'OnlineChatModule'), ('Mistral', 'OnlineChatModule'), ('Local', 'ChatModule'))
HEAD = """# Written by tools/vendor_types.py from calls.py: do not edit.
# fmt: off
# ruff: noqa: E501, I001
# mypy: disable-error-code="override"
# pyright: reportIncompatibleMethodOverride=false
from collections.abc import Iterable
from typing import Any, TypeVar, overload

from typing_extensions import Unpack

from rolecall.apps.chat.call_options import (
    AnthropicSampling, BatchFields, CallFields, LocalSampling, MistralSampling, ServedFields,
)
from rolecall.apps.chat.chat_reply import ChatReply
from rolecall.apps.chat.module import ChatModule
from rolecall.apps.chat.online import OnlineChatModule, OnlineFields
from rolecall.apps.chat.streaming import AsyncStream, Stream

T = TypeVar('T')
"""


def read_calls() -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The signatures of the calls that take options; of overloaded ones, the overloads."""
    tree = ast.parse((CHAT / 'calls.py').read_text('utf-8'))
    [body] = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == 'ModuleCalls']
    functions = [node for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    calls = [function for function in functions if 'Options]' in ast.unparse(function.args)]
    for call in calls:
        call.body = [ast.Expr(ast.Constant(...))]
    return calls


def write_types() -> str:
    """The text of the stub."""
    signatures = '\n'.join(ast.unparse(call).replace(':\n    ...', ': ...') for call in read_calls())
    parts = [HEAD]
    for vendor, base in VENDORS:
        fields = 'CallFields' if base == 'ChatModule' else 'ServedFields'
        own = signatures.replace('[CallOptions]', f'[{vendor}CallOptions]')
        own = own.replace('[BatchOptions]', f'[{vendor}BatchOptions]').replace('\n', '\n    ')
        if base == 'OnlineChatModule':
            parts.append(f'class {vendor}Options({vendor}Sampling, OnlineFields, total=False): ...')
        parts.append(f'class {vendor}CallOptions({vendor}Sampling, {fields}, total=False): ...')
        parts.append(f'class {vendor}BatchOptions({vendor}CallOptions, BatchFields, total=False): ...')
        parts.append(f'class {vendor}Module({base}):\n    {own}')
    return '\n'.join(parts).replace('=...', ' = ...') + '\n'


def main() -> int:
    if sys.argv[1:] == ['write']:
        TARGET.write_text(write_types(), 'utf-8')
        return 0
    if sys.argv[1:] != ['check']:
        raise SystemExit(__doc__)
    if TARGET.read_text('utf-8') == write_types():
        return 0
    print('vendor_types.pyi is not what calls.py says: python tools/vendor_types.py write')
    return 1


if __name__ == '__main__':
    raise SystemExit(main())
