"""Changes to a template as a config writes it: a text as a dialogue, a place for examples, a system message.

Nothing is changed in place: what is returned shares everything that stayed the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from rolecall.core.prompts.template_reader import is_dialogue
from rolecall.errors import ConfigError, Problem
from rolecall.registry import part_name

ICE_TOKEN = '</E>'
_PLAIN_TYPES = ('PromptTemplate', 'MMPromptTemplate')


def unescape(template: str) -> str:
    r"""A template from a command line, where `\n` and `\t` are typed as two characters.

    >>> unescape(r'Q: {q}\nA:')
    'Q: {q}\nA:'
    """
    return template.replace('\\n', '\n').replace('\\t', '\t')


def as_dialogue(text: str, output_column: str | None) -> dict[str, Any]:
    """A text as a dialogue: the answer at its end, if there is one, is the bot's turn.

    >>> as_dialogue('Q: {q}\\nA: {a}', 'a')
    {'round': [{'role': 'HUMAN', 'prompt': 'Q: {q}\\nA:'}, {'role': 'BOT', 'prompt': '{a}'}]}
    """
    answer = f'{{{output_column}}}' if output_column else ''
    question = text.rstrip().removesuffix(answer).rstrip() if answer and text.rstrip().endswith(answer) else text
    bot = [{'role': 'BOT', 'prompt': answer}] if answer else []
    return {'round': [{'role': 'HUMAN', 'prompt': question}, *bot]}


def add_examples(infer: Mapping[str, Any], output_column: str | None, where: str) -> dict[str, Any]:
    """An `infer_cfg` whose prompt has a place for examples, and an `ice_template` to word them.

    >>> added = add_examples({'prompt_template': {'template': 'Q: {q}\\nA: {a}'}}, 'a', 'datasets[0]')
    >>> added['ice_template'], added['prompt_template']
    ({'template': 'Q: {q}\\nA: {a}'}, {'template': '</E>Q: {q}\\nA: {a}', 'ice_token': '</E>'})
    """
    if infer.get('ice_template'):
        return dict(infer)
    entry = _plain_template(infer.get('prompt_template'), where, 'examples cannot be added to')
    template = entry['template']
    example = f'{{{output_column}}}' if output_column else None
    if example is None or example not in str(template):
        what = 'the template shows no answer, so examples would have none.'
        remedy = (
            'Name the column of the answer (output_column)' if example is None else f'Write {example} where it stands'
        )
        raise ConfigError(Problem(f'{where}.infer_cfg.prompt_template', what, f'{remedy}, or add an ice_template.'))
    token = entry.get('ice_token') or ICE_TOKEN
    prompt = {**entry, 'template': _map_prompts(template, lambda text: _with_place(text, token)), 'ice_token': token}
    examples = {key: value for key, value in entry.items() if key != 'ice_token'}
    examples['template'] = _map_prompts(template, lambda text: {'round': text['round']} if is_dialogue(text) else text)
    return {**infer, 'ice_template': examples, 'prompt_template': prompt}


def add_system(infer: Mapping[str, Any], system: str, output_column: str | None, where: str) -> dict[str, Any]:
    """An `infer_cfg` whose prompt begins with a system message; one that is there already is replaced.

    >>> added = add_system({'prompt_template': {'template': '{q}'}}, 'Be brief.', None, 'datasets[0]')
    >>> added['prompt_template']['template']['begin']
    [{'role': 'SYSTEM', 'fallback_role': 'HUMAN', 'prompt': 'Be brief.'}]
    """
    speech = {'role': 'SYSTEM', 'fallback_role': 'HUMAN', 'prompt': system}

    def add(dialogue: Mapping[str, Any]) -> dict[str, Any]:
        begin = dialogue.get('begin') or []
        others = [begin] if isinstance(begin, str) else [item for item in begin if not _is_system(item)]
        return {'begin': [speech, *others], **{name: dialogue[name] for name in ('round', 'end') if name in dialogue}}

    infer = as_dialogues(infer, output_column, where)
    key = 'prompt_template' if infer.get('prompt_template') else 'ice_template'
    return {**infer, key: {**infer[key], 'template': _map_prompts(infer[key]['template'], add)}}


def as_dialogues(infer: Mapping[str, Any], output_column: str | None, where: str) -> dict[str, Any]:
    """An `infer_cfg` whose prompt and examples are dialogues.

    >>> turned = as_dialogues({'prompt_template': {'template': 'Q: {q}\\nA: {a}'}}, 'a', 'datasets[0]')
    >>> turned['prompt_template']['template']
    {'round': [{'role': 'HUMAN', 'prompt': 'Q: {q}\\nA:'}, {'role': 'BOT', 'prompt': '{a}'}]}
    """
    changed = dict(infer)
    first = 'prompt_template' if infer.get('prompt_template') else 'ice_template'
    for key in (first, *(['ice_template'] if infer.get('ice_template') else [])):
        entry = _plain_template(infer.get(key), where, 'a system message cannot be added to')
        token = str(entry.get('ice_token') or '')
        turn = partial(_turn, output_column=output_column, token=token if key == first else '')
        changed[key] = {**entry, 'template': _map_prompts(entry['template'], turn)}
    return changed


def _turn(template: Any, *, output_column: str | None, token: str) -> Any:
    return template if is_dialogue(template) else _dialogue_with_place(str(template), output_column, token)


def match_shapes(
    left: Mapping[str, Any], right: Mapping[str, Any], columns: tuple[str | None, str | None]
) -> list[dict[str, Any]]:
    """Two `infer_cfg` as dialogues if either is one, and with a place for examples if either has one.

    >>> asked = {'prompt_template': {'template': {'begin': ['</E>'], 'round': [{'role': 'HUMAN', 'prompt': '{q}'}]},
    ...                              'ice_token': '</E>'}}
    >>> match_shapes({'prompt_template': {'template': '{q}'}}, asked, (None, None))[0] == asked
    True
    """
    sides = [dict(left), dict(right)]
    with suppress(ConfigError):
        if any(map(is_worded_as_dialogue, sides)):
            sides = [as_dialogues(side, column, '') for side, column in zip(sides, columns, strict=True)]
    for at, column in enumerate(columns):
        own, other = (side.get('prompt_template') for side in (sides[at], sides[1 - at]))
        if not (isinstance(own, Mapping) and isinstance(other, Mapping)) or own.get('ice_token'):
            continue
        token = other.get('ice_token')
        if token and _without_place(other, str(token)) == _without_place(own, str(token)):
            examples = {'ice_template': sides[1 - at].get('ice_template'), **sides[at]}
            sides[at] = {**{key: value for key, value in examples.items() if value}, 'prompt_template': other}
        elif token:
            with suppress(ConfigError):
                sides[at] = add_examples(sides[at], column, '')
    return sides


def is_worded_as_dialogue(infer: Mapping[str, Any]) -> bool:
    """Whether the prompt of an `infer_cfg`, or that of its first label, is a dialogue."""
    entry = infer.get('prompt_template') or infer.get('ice_template')
    template = entry.get('template') if isinstance(entry, Mapping) else None
    some = (
        template if is_dialogue(template) or not isinstance(template, Mapping) else next(iter(template.values()), None)
    )
    return is_dialogue(some)


def _without_place(entry: Mapping[str, Any], token: str) -> Any:
    """What a template says without the place for examples."""

    def clear(template: Any) -> Any:
        if isinstance(template, str):
            return template.replace(token, '')
        sections = {
            name: [item for item in ([items] if isinstance(items, str) else items) if item != token]
            for name, items in template.items()
        }
        return {name: items for name, items in sections.items() if items}

    return _map_prompts(entry.get('template') or '', clear)


def _is_system(speech: Any) -> bool:
    return isinstance(speech, Mapping) and speech.get('role') == 'SYSTEM'


def _plain_template(entry: Any, where: str, cannot: str) -> dict[str, Any]:
    """A template entry of a kind that can be changed."""
    if isinstance(entry, Mapping) and part_name(entry.get('type', 'PromptTemplate')) in _PLAIN_TYPES:
        template = entry.get('template')
        if isinstance(template, str | Mapping) and template:
            return dict(entry)
    kind = part_name(entry.get('type')) if isinstance(entry, Mapping) else type(entry).__name__
    raise ConfigError(Problem(f'{where}.infer_cfg', f'{cannot} a template of type {kind}.', 'Change the config.'))


def _map_prompts(template: Any, change: Any) -> Any:
    """The same change to a template's one prompt, or to the prompt of each label."""
    if isinstance(template, str) or is_dialogue(template):
        return change(template)
    return {label: change(item) for label, item in template.items()}


def _with_place(template: Any, token: str) -> Any:
    if isinstance(template, str):
        return f'{token}{template}'
    begin = template.get('begin') or []
    return {**template, 'begin': [*([begin] if isinstance(begin, str) else begin), token]}


def _dialogue_with_place(text: str, output_column: str | None, token: str) -> dict[str, Any]:
    """A text as a dialogue; the place for examples, if it has one, comes before the question."""
    if not token or token not in text:
        return as_dialogue(text, output_column)
    return {'begin': [token], **as_dialogue(text.replace(token, ''), output_column)}
