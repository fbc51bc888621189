"""Answers from a handbook: passages are found with BM25, and a long conversation keeps to the model's context.

python examples/apps/handbook.py                          # on the embedded model
python examples/apps/handbook.py openai/gpt-4o-mini       # or any other: a service, a URL, a file, a folder
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from rolecall import ChatPrompter, OnlineChatModule, TrainableModule
from rolecall.apps.chat import ChatModule, ChatReply
from rolecall.sources.datasets import Reader
from rolecall.sources.retrievers import BM25Retriever

PASSAGES = [
    {'title': title, 'text': text}
    for title, _, text in (
        line.partition(': ') for line in Path(__file__).with_name('handbook.txt').read_text('utf-8').splitlines()
    )
]
PROMPTER = ChatPrompter(
    {
        'system': 'You answer questions of employees in one short sentence, from the handbook.',
        'user': 'From the handbook:\n{passages}\n\nQuestion: ',
    },
    system='',
)
READER = Reader(input_columns=('title', 'text'), output_column='text')


def terms_of(text: str) -> list[str]:
    """What BM25 compares: words of four letters or more, without case and punctuation."""
    return re.findall(r'\w{4,}', text.lower())


def estimate_tokens(text: str) -> int:
    """For models whose tokenizer is not on this machine: three bytes a token are more tokens than most texts have."""
    return len(text.encode()) // 3 + 1


class Handbook:
    """One conversation about the handbook."""

    def __init__(self, module: ChatModule, *, passages: int = 2) -> None:
        count = None if module.count_tokens('') is not None else estimate_tokens
        self.module = module.prompt(PROMPTER).with_token_budget(count=count)
        self.retriever = BM25Retriever(ice_num=passages, tokenizer=terms_of)
        self.history: list[Any] = []

    def find(self, question: str) -> list[dict[str, str]]:
        """The passages that have most in common with a question, the best first."""
        asked = [{'title': '', 'text': question}]
        [picked] = self.retriever.retrieve(PASSAGES, asked, reader=READER)
        return [PASSAGES[number] for number in picked.ids]

    def ask(self, question: str) -> ChatReply:
        """The answer. Passages stand before this question alone; the history has questions and answers."""
        shown = '\n'.join(f'- {passage["title"]}: {passage["text"]}' for passage in self.find(question))
        reply = self.module.reply({'passages': shown, 'input': question}, history=self.history)
        self.history = reply.history
        return reply


def open_module(name: str) -> ChatModule:
    """A small context, so that 30 turns do not fit into it."""
    if name == 'smollm2' or name.endswith('.gguf'):
        return TrainableModule(name, max_seq_len=512, max_tokens=40, temperature=0)
    return OnlineChatModule(name, max_seq_len=512, max_tokens=40, temperature=0)


def main(name: str = 'smollm2', turns: int = 30) -> None:
    with open_module(name) as module:
        handbook = Handbook(module)
        for number in range(turns):
            title = PASSAGES[number % len(PASSAGES)]['title']
            reply = handbook.ask(f'What are the rules for {title.lower()}?')
            print(f'{number + 1:2}. {title}: {reply.text}  [{len(reply.dropped)} earlier messages not sent]')


if __name__ == '__main__':
    main(sys.argv[1] if len(sys.argv) > 1 else 'smollm2')
