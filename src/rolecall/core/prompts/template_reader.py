"""Parses the syntax of dialogue templates. All problems are collected, with their places, before any is raised."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from rolecall.checking import Problems
from rolecall.core.prompts.mixed import MixedParts
from rolecall.core.prompts.multimodal import MODALITIES, PartShape
from rolecall.core.prompts.pieces import SHOTS, Pieces, describe_value
from rolecall.core.prompts.script import BareText, Item, Section, Turn
from rolecall.errors import TemplateError, did_you_mean

DIALOGUE_KEYS: tuple[Literal['begin', 'round', 'end'], ...] = ('begin', 'round', 'end')
_SPEECH_KEYS = ('role', 'prompt', 'fallback_role', 'begin', 'end', 'generate')
_MAX_SPEECHES = 10_000
_MAX_CHARACTERS = 8_000_000

Read = Callable[[str], Pieces]


class ProblemCollector(Problems):
    """Collects the problems of one template, with their places."""

    error = TemplateError

    def text(self, where: str, value: object, *, remedy: str = '') -> str:
        """The value, if it is a string within the size limit; otherwise add a problem."""
        if not isinstance(value, str):
            self.add(where, f'expected a string, got {describe_value(value)}.', remedy)
            return ''
        if len(value) > _MAX_CHARACTERS:
            self.add(
                where,
                f'the text has {len(value):,} characters; the limit is {_MAX_CHARACTERS:,}.',
                'Put long text in a dataset column and refer to it as {column}.',
            )
        return value


def is_dialogue(template: object) -> bool:
    """Whether a mapping is a dialogue (keys begin, round, end) rather than a map of labels to prompts."""
    return isinstance(template, Mapping) and bool(template) and set(template) <= set(DIALOGUE_KEYS)


def read_dialogue(
    template: Mapping[str, Any], parse_text: Read, problems: ProblemCollector, where: str, *, media: bool
) -> tuple[Item, ...]:
    """The items of a dialogue template in order."""
    items: list[Item] = []
    for section in DIALOGUE_KEYS:
        if section in template:
            items += _read_section(template[section], section, parse_text, problems, f'{where}.{section}', media)
    if len(items) > _MAX_SPEECHES:
        problems.add(where, f'the template has {len(items):,} speeches; the limit is {_MAX_SPEECHES:,}.')
    return tuple(items)


def _read_section(
    source: object, section: Section, parse_text: Read, problems: ProblemCollector, where: str, media: bool
) -> list[Item]:
    if isinstance(source, str) and section != 'round':
        return [BareText(parse_text(problems.text(where, source)), section)]
    if isinstance(source, (str, Mapping)) or not isinstance(source, Sequence):
        expected = 'a list of speeches' if section == 'round' else 'a string, or a list of strings and speeches'
        problems.add(where, f'expected {expected}, got {describe_value(source)}.')
        return []
    items: list[Item] = []
    for i, entry in enumerate(source):
        if isinstance(entry, str) and section != 'round':
            items.append(BareText(parse_text(problems.text(f'{where}[{i}]', entry)), section))
        elif isinstance(entry, Mapping):
            items.append(_read_speech(entry, section, parse_text, problems, f'{where}[{i}]', media))
        else:
            expected, remedy = 'a speech or a string', ''
            if section == 'round':
                expected, remedy = 'a speech', "Write dict(role='HUMAN', prompt=…); bare strings go into begin or end."
            problems.add(f'{where}[{i}]', f'expected {expected}, got {describe_value(entry)}.', remedy)
    return items


def _read_speech(
    speech: Mapping[str, Any], section: Section, parse_text: Read, problems: ProblemCollector, where: str, media: bool
) -> Turn:
    allowed = (*_SPEECH_KEYS, 'prompt_mm') if media else _SPEECH_KEYS
    if 'prompt_mm' in speech and not media:
        problems.add(where, "'prompt_mm' needs a template of type MMPromptTemplate.", 'Change the type.')
    else:
        problems.unknown_keys(where, speech, allowed)
    role = problems.text(f'{where}.role', speech.get('role'), remedy="Every speech needs a role, e.g. 'HUMAN'.")
    fallback = speech.get('fallback_role')
    if fallback is not None:
        problems.text(f'{where}.fallback_role', fallback)
    generate = speech.get('generate')
    if generate is not None and not isinstance(generate, bool):
        problems.add(f'{where}.generate', f'expected True or False, got {describe_value(generate)}.')
    begin, end = (
        parse_text(problems.text(f'{where}.{key}', speech[key])) if key in speech else None for key in ('begin', 'end')
    )
    if speech.get('prompt_mm') is not None and speech.get('prompt'):
        problems.add(where, "the speech has both 'prompt' and 'prompt_mm'.", 'Keep one.')
    content: Pieces | MixedParts = ()
    if speech.get('prompt_mm') is not None and media:
        content = _read_media(speech['prompt_mm'], parse_text, problems, f'{where}.prompt_mm')
    elif 'prompt' in speech:
        content = parse_text(problems.text(f'{where}.prompt', speech['prompt']))
    silent = 'prompt' not in speech and 'prompt_mm' not in speech
    return Turn(role, content, fallback, begin, end, section, silent=silent, generate=generate)


def _read_media(source: object, parse_text: Read, problems: ProblemCollector, where: str) -> MixedParts:
    if not isinstance(source, Mapping):
        problems.add(where, f'expected a mapping of modality to content, got {describe_value(source)}.')
        return MixedParts.of(())
    shapes: list[PartShape] = []
    for key, value in source.items():
        kind = str(key).removesuffix('_url')
        if kind not in MODALITIES or key == 'text_url':
            problems.add(where, f'unknown modality {key!r}.', did_you_mean(key, MODALITIES))
        elif kind == 'text':
            part = {'type': 'text', **value} if isinstance(value, Mapping) else {'type': 'text', 'text': value}
            problems.text(f'{where}.text', part.get('text'))
            shapes.append(PartShape.read(part, parse_text, kind))
        else:
            shapes.append(_read_shape(kind, value, parse_text, problems, f'{where}.{key}'))
    check_urls(shapes, problems, where)
    return MixedParts.of(shapes)


def _read_shape(kind: str, value: object, parse_text: Read, problems: ProblemCollector, where: str) -> PartShape:
    type_ = f'{kind}_url'
    if not isinstance(value, Mapping):
        url = problems.text(where, value, remedy=f"Write a url, or {{'type': '{type_}', '{type_}': {{'url': …}}}}.")
        return PartShape.read({'type': type_, type_: {'url': url}}, parse_text, kind)
    shape = PartShape.read({'type': type_, **value}, parse_text, kind)
    if shape.is_text or not shape.place:
        what = f'expected a mapping with a type and a url (or data), got {describe_value(dict(value))}.'
        problems.add(where, what, f"Write {{'type': '{type_}', '{type_}': {{'url': …}}}}.")
    return shape


def check_urls(shapes: Iterable[PartShape], problems: ProblemCollector, where: str) -> None:
    """Report example tokens inside media urls."""
    for shape in shapes:
        if SHOTS in shape.words and not shape.is_text:
            what = f'the ice_token is inside the {shape.kind} url, where examples cannot go.'
            problems.add(where, what, 'Move it to a text.')
