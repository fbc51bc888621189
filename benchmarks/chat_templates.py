"""Chat templates rendered per second: ours, jinja2 compiled once and unbounded, transformers where it is installed.

    python benchmarks/chat_templates.py

Every figure comes with its ratio to jinja2 in the same run. All must write the same text.
"""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from rolecall.core.render.chat_template import ChatTemplate

sys.path.insert(0, str(Path(__file__).parent.parent / 'tests'))

from chat_template_corpus import FAMILIES, WEATHER, Family, assistant, user

Render = Callable[[], str]
SECONDS = 0.5
ROUNDS = 5


def dialogue(turns: int) -> list[dict[str, Any]]:
    return [(user, assistant)[turn % 2](f'This is what is said in turn {turn}. ' * 5) for turn in range(turns)]


def ours(family: Family, options: dict[str, Any]) -> Render:
    template = ChatTemplate(family.source, bos_token=family.bos, eos_token=family.eos)
    return lambda: template.render(**options)


def plain_jinja(family: Family, options: dict[str, Any]) -> Render:
    import json

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters['tojson'] = lambda value: json.dumps(value, ensure_ascii=False)
    template = env.from_string(family.source)
    given = {**options, 'add_generation_prompt': True, 'bos_token': family.bos, 'eos_token': family.eos}
    return lambda: template.render(**given)


def transformers(family: Family, options: dict[str, Any]) -> Render:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    tokens = {name: token for name, token in (('bos_token', family.bos), ('eos_token', family.eos)) if token}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), **tokens)
    tokenizer.chat_template = family.source
    messages, tools = options['messages'], options['tools']
    return lambda: str(tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=True))


def per_second(render: Render) -> float:
    done, start = 0, time.perf_counter()
    while (spent := time.perf_counter() - start) < SECONDS / ROUNDS:
        for _ in range(20):
            render()
        done += 20
    return done / spent


def main() -> None:
    makers = {'jinja2': plain_jinja, 'rolecall': ours}
    if importlib.util.find_spec('transformers'):
        makers['transformers'] = transformers
    for name, turns, tools in (
        ('chatml', 1, None),
        ('chatml', 11, None),
        ('llama3', 11, None),
        ('qwen-tools', 11, [WEATHER]),
    ):
        options = {'messages': dialogue(turns), 'tools': tools}
        renders = {maker: make(FAMILIES[name], options) for maker, make in makers.items()}
        if len({render() for render in renders.values()}) != 1:
            raise SystemExit(f'{name}: the texts differ')
        speeds = {maker: max(per_second(render) for _ in range(ROUNDS)) for maker, render in renders.items()}
        figures = '   '.join(
            f'{maker} {speed:>9,.0f}/s ({speed / speeds["jinja2"]:.2f}×)' for maker, speed in speeds.items()
        )
        print(f'{name:<11}{turns:>3} turns   {figures}')


if __name__ == '__main__':
    main()
