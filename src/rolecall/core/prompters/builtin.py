"""The built-in prompters: Alpaca's layout, a conversation, and the bare input."""

from __future__ import annotations

from typing import ClassVar

from rolecall.core.prompters.base_prompter import Prompter


class AlpacaPrompter(Prompter):
    """One instruction, one response. The input fills the instruction's slots.

    >>> print(AlpacaPrompter('Add: {input}', system='').generate_prompt('1+1'))
    Below is an instruction that describes a task, paired with extra messages such as input that provides further \
context if possible. Write a response that appropriately completes the request.
    <BLANKLINE>
     ### Instruction:
    Add: 1+1
    <BLANKLINE>
    <BLANKLINE>
    ### Response:
    <BLANKLINE>
    """

    template: ClassVar[str] = '{system}\n{instruction}\n{tools}{user}### Response:\n'
    instruction_template: ClassVar[str] = (
        'Below is an instruction that describes a task, paired with extra messages such as input that provides further '
        'context if possible. Write a response that appropriately completes the request.\n\n ### Instruction:\n'
        '{instruction}\n\n{extra_keys}'
    )
    before_user: ClassVar[str] = '\n'


class ChatPrompter(Prompter):
    """A conversation with history. The input fills the instruction's slot, or is the user's text.

    >>> ChatPrompter('Add.').generate_prompt('1+1', return_dict=True)['messages'][1:]
    [{'role': 'user', 'content': '1+1'}]
    """

    template: ClassVar[str] = '{sos}{system}{instruction}{tools}{eos}\n\n{history}\n{soh}\n{user}{input}\n{eoh}{soa}\n'
    instruction_template: ClassVar[str] = '{instruction}\n{extra_keys}\n'


class EmptyPrompter(Prompter):
    """Only the input; in messages, also history and tools.

    >>> EmptyPrompter().generate_prompt('Hi'), EmptyPrompter().generate_prompt('Hi', return_dict=True)
    ('Hi', {'messages': [{'role': 'user', 'content': 'Hi'}]})
    """

    template: ClassVar[str] = '{input}'
    messages_only: ClassVar[frozenset[str]] = frozenset(('history', 'tools'))
