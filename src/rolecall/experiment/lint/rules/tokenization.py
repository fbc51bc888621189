"""Rules about how a prompt falls into tokens. Most need the model's tokenizer and are silent without it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rolecall.core.render.spans import texts_of
from rolecall.experiment.lint.subject import CheckedRow, Subject, Violation, excerpt
from rolecall.experiment.pairs.pair import Preview
from rolecall.strings import common_length

if TYPE_CHECKING:
    from rolecall.models.tokenizers.tokenizer import Tokenizer


_TAIL = 64
_FIRST_WORDS = ('A', 'The', '1', '答')


def skipped_rules(subject: Subject) -> Iterator[Violation]:
    """Say once that there is no tokenizer."""
    if subject.tokenizer is None:
        place = f'{subject.where} ({subject.tokenizer_missing})' if subject.tokenizer_missing else subject.where
        yield Violation(f'token rules skipped: no tokenizer at hand for {place}.')


def wrong_bos(subject: Subject, row: CheckedRow) -> Iterator[Violation]:
    """Prompts that begin with two BOS tokens, or with none where the tokenizer wants one."""
    tokenizer = subject.tokenizer
    if tokenizer is None or tokenizer.bos_id is None:
        return
    for prompt in row.sent:
        if not isinstance(prompt.request, str):
            continue
        start = excerpt(prompt.request[:40])
        in_text = _written_bos(tokenizer, prompt.request)
        total = in_text + (tokenizer.adds_bos and subject.takes == 'text')
        if total > 1:
            also = ', one of them added by the tokenizer' if total > in_text else ''
            yield Violation(
                f'the prompt begins with {total} BOS tokens{also}.', about='many', example=start, severity='error'
            )
        elif total == 0 and tokenizer.adds_bos:
            yield Violation(
                'the tokenizer wants a BOS token, and the prompt begins without.', about='none', example=start
            )


def _written_bos(tokenizer: Tokenizer, text: str) -> int:
    """How many BOS tokens a text begins with as it is written."""
    ids = tokenizer.encode(text[:_TAIL])
    return next((i for i, token in enumerate(ids) if token != tokenizer.bos_id), len(ids))


def trailing_spaces(subject: Subject, row: CheckedRow) -> Iterator[Violation]:
    """White space at the end of a prompt that would have been part of the model's first token."""
    for prompt in row.sent if subject.mode == 'gen' else ():
        text = prompt.request if isinstance(prompt.request, str) else ''
        if not text or not text[-1].isspace():
            continue
        if subject.tokenizer is None:
            merges, how = text[-1] in ' \t', 'most tokenizers join it to the next word'
        else:
            merges = any(not _goes_on(subject.tokenizer, text[-_TAIL:], word) for word in _FIRST_WORDS)
            how = "the model's tokenizer joins it to the next word"
        if merges:
            yield Violation(
                f'the prompt ends in white space ({_wrote_the_end(prompt)}), and {how}.',
                example=excerpt(repr(text[-40:])),
            )


def _goes_on(tokenizer: Tokenizer, text: str, word: str) -> bool:
    """Whether a text keeps its tokens when a word follows."""
    before = tokenizer.encode(text)
    return tokenizer.encode(text + word)[: len(before)] == before


def _wrote_the_end(prompt: Preview) -> str:
    last = next((span.origin for span in reversed(prompt.spans) if span.text), None)
    if last is None or last.kind in ('marker', 'chat_template', 'default', 'message'):
        return 'written by the model side'
    return f"from column '{last.name}'" if last.kind == 'field' else 'written in the template'


def label_boundaries(subject: Subject, row: CheckedRow) -> Iterator[Violation]:
    """Label prompts that cannot be told apart, or differ where they should be the same."""
    if subject.asks != 'label' or len(row.sent) < 2:
        return
    yield from _identical(row.sent)
    texts = ['\0'.join(texts_of(prompt.request or '').values()) for prompt in row.sent]
    contexts = [_find_context(prompt) for prompt in row.sent]
    marked = [context for context in contexts if context is not None]
    if len(marked) == len(texts) and len(set(marked)) > 1:
        here = common_length(marked)
        yield Violation(
            'the prompts of the labels differ before the label.', about='context', example=excerpt(marked[0][here:])
        )
        return
    shared = marked[0] if len(marked) == len(texts) else _whole_words(texts[0][: common_length(texts)], texts)
    for prompt, text in zip(row.sent, texts, strict=True):
        if (len(set(texts)) > 1 and text == shared) or _says_nothing(prompt):
            yield _nothing(prompt)
    if subject.tokenizer and all(isinstance(prompt.request, str) for prompt in row.sent):
        yield from _token_boundaries(subject.tokenizer, row.sent, texts, shared)


def _identical(prompts: Sequence[Preview]) -> Iterator[Violation]:
    for i, prompt in enumerate(prompts):
        twin = next((other for other in prompts[:i] if other.request == prompt.request), None)
        if twin is not None:
            yield Violation(
                f'the labels {twin.label!r} and {prompt.label!r} have the same prompt.',
                about='same',
                example=excerpt(prompt.text[-80:]),
                severity='error',
            )


def _find_context(prompt: Preview) -> str | None:
    """What stands before the label; None if the prompt does not say where that is."""
    texts: list[str] = []
    for span in prompt.spans:
        if span.origin.shot is None and span.origin.kind in ('label', 'sep'):
            return ''.join(texts)
        texts.append(str(span.text))
    return None


def _whole_words(shared: str, texts: Sequence[str]) -> str:
    """The shared beginning, without the first letters of words that go on differently."""
    if all(len(text) == len(shared) or not text[len(shared)].isalnum() for text in texts):
        return shared
    return shared[: len(shared) - next((i for i, c in enumerate(reversed(shared)) if not c.isalnum()), len(shared))]


def _says_nothing(prompt: Preview) -> bool:
    """Whether the label has a place in the prompt, and no letters."""
    labels = [str(span.text) for span in prompt.own if span.origin.kind == 'label']
    return bool(labels) and not any(map(str.strip, labels))


def _nothing(prompt: Preview) -> Violation:
    return Violation(
        f'the prompt of the label {prompt.label!r} is nothing more than the shared context.',
        about='nothing',
        example=excerpt(prompt.text[-80:]),
    )


def _token_boundaries(
    tokenizer: Tokenizer, prompts: Sequence[Preview], texts: Sequence[str], shared: str
) -> Iterator[Violation]:
    tail = shared[-_TAIL:]
    context = tokenizer.encode(tail)
    unspaced = tokenizer.encode(tail.rstrip(' '))  # a label may bring its own space: ' A' is one token
    boundaries: dict[tuple[int, ...], Preview] = {}
    for prompt, text in zip(prompts, texts, strict=True):
        ids = tokenizer.encode(tail + text[len(shared) :])
        if text != shared and ids == context:
            yield _nothing(prompt)
        elif ids[: len(context)] != context and ids[: len(unspaced)] != unspaced:
            yield Violation(
                f'the first token of the label {prompt.label!r} takes in the end of the context.',
                about='boundary',
                example=excerpt(repr(tail[-40:] + text[len(shared) :])),
            )
        twin = boundaries.setdefault(tuple(ids), prompt)
        if twin is not prompt and twin.request != prompt.request:
            yield Violation(
                f'the labels {twin.label!r} and {prompt.label!r} are the same tokens.',
                about='same tokens',
                example=excerpt(prompt.text[-80:]),
                severity='error',
            )


def overflowing(subject: Subject, row: CheckedRow) -> Iterator[Violation]:
    """Prompts that do not fit, with what is left out to make them fit."""
    for prompt in row.sent:
        for note in prompt.notes:
            if note.kind == 'too_long':
                yield Violation(note.message, about='row', example=excerpt(prompt.text), severity='error')
            elif note.kind in ('shots_dropped', 'truncated'):
                yield Violation(
                    note.message, about=note.kind, example=excerpt(prompt.text), weight=prompt.shots_dropped
                )
