"""BFCL: whether a reply calls the right functions with right arguments, or rightly calls none.

A reply is a JSON list of `{name: arguments}`, or calls as Python writes them (`[f(a=1)]`). The gold answer lists for
every call the values each argument may have; an empty text among them makes it optional.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from rolecall.core.prompts.pieces import text_of
from rolecall.scoring.metrics.metric import Answer, row_comparison
from rolecall.scoring.texts import parse_gold

Call = tuple[str, Mapping[str, Any]]


@row_comparison('accuracy')
def single_turn_calls(answer: Answer, category: str = '', is_fc_model: bool = True) -> bool:
    """The share of rows whose calls have the right names and arguments, in any order where there are several."""
    calls = read_calls(answer.prediction)
    wanted = [(name, allowed) for call in parse_gold(answer.gold) for name, allowed in call.items()]
    if calls is None or len(calls) != len(wanted):
        return False
    left = list(calls)
    for name, allowed in wanted:
        match = next((call for call in left if _fits(call, name, allowed)), None)
        if match is None:
            return False
        left.remove(match)
    return True


@row_comparison('accuracy', needs_gold=False)
def call_relevance(answer: Answer, category: str = '', is_fc_model: bool = True) -> bool:
    """The share of rows that call a function where one helps, and none where none does (`irrelevance` in the id)."""
    irrelevant = 'irrelevance' in (text_of(answer.values.get('id', '')) or category)
    return bool(read_calls(answer.prediction)) != irrelevant


def read_calls(reply: Any) -> list[Call] | None:
    """The calls of a reply; None if it is not a list of calls.

    >>> read_calls('[{"f": "{\\\\"a\\\\": 1}"}]') == read_calls('[f(a=1)]') == [('f', {'a': 1})]
    True
    """
    entries = reply if isinstance(reply, (list, tuple)) else None
    if entries is None:
        text = re.sub(r'\A```\w*\s*', '', text_of(reply).strip())
        text = text[:-3].rstrip() if text.endswith('```') else text
        try:
            entries = json.loads(text)
        except ValueError:
            return _python_calls(text)
    if isinstance(entries, Mapping):
        entries = [entries]
    try:
        return [_call_of(entry) for entry in entries]
    except (AttributeError, TypeError, ValueError):
        return None


def _call_of(entry: Mapping[str, Any]) -> Call:
    if 'function' in entry:
        entry = entry['function']
    if 'name' in entry and ('arguments' in entry or 'parameters' in entry):
        name, arguments = entry['name'], entry.get('arguments', entry.get('parameters'))
    else:
        ((name, arguments),) = entry.items()
    fields = json.loads(arguments) if isinstance(arguments, str) else arguments
    if not isinstance(fields, Mapping):
        raise TypeError(name)
    return str(name), fields


def _python_calls(text: str) -> list[Call] | None:
    bracketed = text if text.startswith('[') else f'[{text}]'
    try:
        tree = ast.parse(bracketed.strip(), mode='eval').body
        calls = tree.elts if isinstance(tree, ast.List) else []
        named: list[Call] = [
            (ast.unparse(call.func), {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords})
            for call in calls
            if isinstance(call, ast.Call) and not call.args
        ]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return named if len(named) == len(calls) else None


def _fits(call: Call, name: str, wanted: Mapping[str, Sequence[Any]]) -> bool:
    ours, arguments = call
    if ours.replace('.', '_') != name.replace('.', '_') or any(argument not in wanted for argument in arguments):
        return False
    return all(
        any(_equal(arguments[argument], value) for value in allowed) if argument in arguments else '' in allowed
        for argument, allowed in wanted.items()
    )


def _equal(ours: Any, right: Any) -> bool:
    """Whether two values are equal; texts without case, spaces and punctuation, and dicts with allowed values."""
    if isinstance(ours, str) and isinstance(right, str):
        return _plain(ours) == _plain(right)
    if isinstance(ours, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(ours) == len(right) and all(map(_equal, ours, right))
    if isinstance(ours, Mapping) and isinstance(right, Mapping):
        allowed = {key: value if isinstance(value, list) else [value] for key, value in right.items()}
        return _fits(('', ours), '', allowed)
    same_kind = isinstance(ours, bool) == isinstance(right, bool)
    return same_kind and bool(ours == right)


def _plain(text: str) -> str:
    return re.sub(r'[ ,./\-_*^]', '', text).lower().replace("'", '"')
