"""Print a completion script for a shell.

Print a script that completes commands, options and the names of benchmarks.

  bash:  source <(rolecall completion bash)                              # in ~/.bashrc
  zsh:   source <(rolecall completion zsh)                               # in ~/.zshrc
  fish:  rolecall completion fish > ~/.config/fish/completions/rolecall.fish
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from rolecall.compat.benchmarks import benchmark_names
from rolecall.ui.cli.config.list import KINDS


@dataclass(frozen=True, slots=True)
class Completed:
    """A command with what may follow it."""

    words: tuple[str, ...]
    """`('export', 'sft')`; nothing for the program itself."""
    help: str
    commands: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    """Each option with its help."""
    choices: tuple[tuple[str, tuple[str, ...]], ...]
    """The values of options that have a fixed set of them."""


def execute(arguments: argparse.Namespace) -> int:
    from rolecall.ui.cli.main import build_parser

    commands = list(_walk(build_parser(()), (), ''))
    write = {'bash': _bash, 'zsh': _zsh, 'fish': _fish}[arguments.shell]
    print('\n'.join(write(commands)))
    return 0


def _walk(parser: argparse.ArgumentParser, words: tuple[str, ...], summary: str) -> Iterator[Completed]:
    inner: dict[str, argparse.ArgumentParser] = {}
    helps: dict[str, str] = {}
    options: list[tuple[str, str]] = []
    choices: list[tuple[str, tuple[str, ...]]] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            inner = dict(action.choices)
            helps = {str(choice.dest): choice.help or '' for choice in action._choices_actions}
            continue
        names = [name for name in action.option_strings if name.startswith('--')]
        options += [(name, ' '.join((action.help or '').split())) for name in names]
        if action.metavar == 'CONFIG':
            choices.append(('', benchmark_names()))
        if action.dest == 'kind':
            choices.append(('', ('benchmarks', *KINDS)))
        if action.choices:
            choices += [(name, tuple(map(str, action.choices))) for name in names or ['']]
    yield Completed(words, summary, tuple(inner), tuple(options), tuple(choices))
    for name, command in inner.items():
        yield from _walk(command, (*words, name), helps.get(name, ''))


def _bash(commands: list[Completed]) -> Iterator[str]:
    yield '_rolecall() {'
    yield '  local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" path="" word'
    yield '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do'
    yield '    case "$path $word" in'
    for command in commands:
        if command.words:
            yield f'      "{_path(command.words[:-1])} {command.words[-1]}") path="{_path(command.words)}" ;;'
    yield '    esac'
    yield '  done'
    yield '  local words="" values=""'
    yield '  case "$path" in'
    for command in commands:
        words = ' '.join([*command.commands, *(name for name, _ in command.options)])
        yield f'    "{_path(command.words)}")'
        yield f'      words="{words}"'
        if any(name for name, _ in command.choices):
            yield '      case "$before" in'
            yield from (f'        {name}) values="{" ".join(values)}" ;;' for name, values in command.choices if name)
            yield '      esac'
        yield from (f'      words="$words {" ".join(values)}"' for name, values in command.choices if not name)
        yield '      ;;'
    yield '  esac'
    yield '  if [[ -n $values ]]; then COMPREPLY=($(compgen -W "$values" -- "$current"))'
    yield '  elif [[ $current == -* || -z $path ]]; then COMPREPLY=($(compgen -W "$words" -- "$current"))'
    yield '  else COMPREPLY=($(compgen -W "$words" -- "$current") $(compgen -f -- "$current")); fi'
    yield '}'
    yield 'complete -o filenames -F _rolecall rolecall'


def _zsh(commands: list[Completed]) -> Iterator[str]:
    yield '#compdef rolecall'
    yield 'autoload -U +X bashcompinit && bashcompinit'
    yield from _bash(commands)


def _fish(commands: list[Completed]) -> Iterator[str]:
    yield 'complete -c rolecall -e'
    for command in commands:
        context = ''.join(f'; and __fish_seen_subcommand_from {word}' for word in command.words).removeprefix('; and ')
        others = ' '.join(command.commands)
        if command.commands:
            absent = f'not __fish_seen_subcommand_from {others}'
            condition = f'{context}; and {absent}' if context else absent
            for name in command.commands:
                summary = next((each.help for each in commands if each.words == (*command.words, name)), '')
                yield f"complete -c rolecall -f -n '{condition}' -a {name} -d '{_quote(summary)}'"
        values = dict(command.choices)
        for name, summary in command.options:
            condition = f" -n '{context}'" if context else ''
            values_of = f" -x -a '{' '.join(values[name])}'" if name in values else ''
            yield f"complete -c rolecall{condition} -l {name.removeprefix('--')}{values_of} -d '{_quote(summary)}'"
        if '' in values:
            files = '' if 'gsm8k' in values[''] else ' -f'  # a name, or a file
            yield f"complete -c rolecall{files} -n '{context}' -a '{' '.join(values[''])}'"


def _path(words: tuple[str, ...]) -> str:
    return '/'.join(words)


def _quote(text: str) -> str:
    return text.replace('\\', '\\\\').replace("'", "\\'")
