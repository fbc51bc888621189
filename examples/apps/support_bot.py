"""A support bot: it files every message as a ticket, looks orders up with tools, and keeps the conversation.

python examples/apps/support_bot.py                          # on the embedded model
python examples/apps/support_bot.py openai/gpt-4o-mini       # or any other: a service, a URL, a file, a folder
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from rolecall import ChatPrompter, OnlineChatModule, TrainableModule
from rolecall.apps.chat import ChatModule, Event


@dataclass
class Order:
    number: str
    item: str
    state: Literal['packed', 'shipped', 'delivered']
    due: date


@dataclass
class Ticket:
    topic: Literal['order', 'return', 'other']
    urgent: bool


ORDERS = {
    'A-17': Order('A-17', 'blue kettle', 'shipped', date(2026, 3, 2)),
    'A-18': Order('A-18', 'toaster', 'delivered', date(2026, 2, 20)),
}


def find_order(number: str) -> Order:
    """Look an order up.

    Args:
        number: The order number, such as A-17.
    """
    return ORDERS[number.upper()]


def open_return(number: str, reason: Literal['broken', 'unwanted']) -> str:
    """Open a return for a delivered order."""
    order = find_order(number)
    if order.state != 'delivered':
        raise ValueError(f'{order.number} is {order.state}, and only delivered orders can be returned')
    return f'return R-{order.number} is open ({reason})'


class SupportBot:
    """One conversation with one customer."""

    def __init__(self, module: ChatModule) -> None:
        self.filing = module.prompt('File what a customer of a shop writes: its topic, and whether it is urgent.')
        desk = ChatPrompter('You are the help desk of a shop. Look orders up before you answer. Topic: {topic}.')
        self.desk = (
            module.prompt(desk)
            .with_tools([find_order, open_return], timeout=10)
            .with_token_budget(1500, count=lambda text: len(text) // 3)  # an estimate that every model allows
            .watch(self.note)
        )
        self.history: list[Any] = []
        self.spent = 0.0

    def answer(self, message: str) -> tuple[Ticket, str]:
        """The ticket that the message is filed as, and the answer."""
        ticket = self.filing(message, returns=Ticket, temperature=0)
        reply = self.desk.reply({'topic': ticket.topic, 'input': message}, history=self.history, timeout=60)
        self.history = reply.history
        self.spent += reply.cost or 0.0
        return ticket, reply.text

    def note(self, event: Event) -> None:
        """Tool failures reach the model as text; the developer sees them here, and in the log."""
        if event.kind == 'tool_failure':
            print(f'  [{event.data.name} failed: {event.data.error}]', file=sys.stderr)


def open_module(name: str) -> ChatModule:
    """A local model for a packaged name, a file or a folder; otherwise a service or a server."""
    if name == 'smollm2' or name.endswith('.gguf'):
        return TrainableModule(name, max_seq_len=2048, max_tokens=80, temperature=0)
    return OnlineChatModule(name, max_tokens=300, temperature=0)


def main(name: str = 'smollm2') -> None:
    with open_module(name) as module:
        bot = SupportBot(module)
        for message in ('Where is my order A-17?', 'The toaster of A-18 is broken. I want to send it back!'):
            ticket, answer = bot.answer(message)
            print(f'> {message}\n  {ticket}\n  {answer}\n')


if __name__ == '__main__':
    main(*sys.argv[1:2])
