"""What rules look at (a dataset, a model or the two together, and rows as they are asked about) and what they find.

Everything here is handed in: rules read no files and ask no model. Texts are compared as people do: case, spacing and
Unicode form do not count.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from rolecall.core.prompts.pieces import Pieces, Row, Text, text_of
from rolecall.core.prompts.script import Expand, Script
from rolecall.core.prompts.wording import Mode, Wording
from rolecall.core.render.chat_template import ChatTemplate
from rolecall.core.render.meta import MetaTemplate, Role
from rolecall.errors import Problem, RenderError
from rolecall.experiment.pairs.pair import Preview
from rolecall.models.tokenizers.tokenizer import Tokenizer
from rolecall.patterns import compile_late

if TYPE_CHECKING:
    from rolecall.models.http.server_facts import ServerFacts

_CONTROL = re.compile(
    r'<[|｜][^<>|｜\s]+[|｜]>'  # <|im_end|>
    r'|</?[A-Za-z_][\w-]*>'  # <s>, </s>, <start_of_turn>
    r'|\[/?[A-Z_]{2,}\]'  # [INST]
    r'|<</?[A-Z]+>>'  # <<SYS>>
)

Level = Literal['dataset', 'model', 'pair']
"""What a rule depends on: the dataset alone, the model alone, or how the two go together."""


@dataclass(frozen=True, slots=True)
class Postprocessor:
    """How a prediction is cut out of a reply: the function's name and its options."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A dataset, a model, or one with the other: everything about it that does not depend on a row."""

    level: Level
    where: str
    namesakes: tuple[str, ...] = ()
    """Where else in the config the same abbr is used."""
    unknown_keys: tuple[tuple[str, str | None], ...] = ()
    """Keys of the entry that nothing reads, each with what was probably meant."""
    foreign_keys: tuple[str, ...] = ()
    """Keys of the entry that configure another program."""

    wording: Wording | None = None
    input_columns: tuple[str, ...] = ()
    asks: Literal['gen', 'wordings', 'choices', 'label', 'whole', 'dialogue'] = 'gen'
    labels: tuple[Hashable, ...] = ()
    shots: int = 0
    """How many examples each row asks for."""
    same_rows: bool = False
    """Examples are picked from the rows that are asked about."""
    rows_missing: str = ''
    """Why there are no rows to look at."""
    test_range: object = None
    """The part of the rows that is asked about; None if all are."""
    misplaced_options: tuple[str, ...] = ()
    """Options of the inferencer that stand beside it, where they have no effect."""
    postprocessor: Postprocessor | None = None
    scoring_problems: tuple[Problem, ...] = ()
    assertions: tuple[str, bool] = ('', False)
    """The column that holds assertions, where rows are scored by them, and whether the config has some for all."""
    """What is wrong with eval_cfg: it could not be scored."""
    judge_missing: str = ''
    """Why the dataset's judge cannot be asked."""

    type_problems: tuple[Problem, ...] = ()
    """Why there is no model of the entry's type."""
    meta: MetaTemplate | None = None
    chat_template: ChatTemplate | None = None
    template_unused: bool = False
    """The model's files have a chat template, and prompts are sent as bare text."""
    takes: Literal['text', 'api', 'chat', ''] = ''
    tokenizer: Tokenizer | None = None
    values_stay_text: bool = False
    """Whether a control token in a value is carried as the characters it is."""
    tokenizer_missing: str = ''
    """Why there is no tokenizer."""
    server: ServerFacts | None = None
    """What was found out about the model's server when it was last asked."""
    max_seq_len: int | None = None
    """As the model's entry states it."""
    max_out_len: int | None = None
    sampling_problems: tuple[Problem, ...] = ()
    """Sampling parameters that cannot be used, or are misspelt."""
    alike_samples: bool = False
    """Several answers are drawn to one prompt, without a temperature."""

    @property
    def mode(self) -> Mode:
        """`ppl` where prompts are weighed, `gen` where an answer is asked for."""
        return 'ppl' if self.asks in ('label', 'whole') else 'gen'

    @property
    def output_column(self) -> str | None:
        """The column that holds the gold answer."""
        return self.wording.output_column if self.wording else None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns that the prompt's wording fills in from the row being asked about."""
        hidden = self.output_column if self.asks != 'whole' else None
        return tuple(column for column in _find_text_columns(self._scripts) if column != hidden)

    @cached_property
    def shot_columns(self) -> tuple[str, ...]:
        """The columns that an example's wording fills in."""
        template = self.wording.ice_template if self.wording and self.shots else None
        if template is None:
            return ()
        return _find_text_columns([template.shot(label) for label in template.labels or (None,)])

    @cached_property
    def question_columns(self) -> tuple[str, ...]:
        """The columns that make a row the question it is."""
        return self.input_columns or self.columns

    @cached_property
    def marks(self) -> tuple[str, ...]:
        """Tokens that mean something in the dataset's templates: for examples, and for the end of the context."""
        templates = (self.wording.prompt_template, self.wording.ice_template) if self.wording else ()
        marks = [getattr(template, name, None) for template in templates for name in ('ice_token', 'sep_token')]
        return tuple(dict.fromkeys(mark for mark in marks if mark))

    @cached_property
    def control_tokens(self) -> tuple[str, ...]:
        """What the model side writes between speeches: from the meta template, the chat template and the tokenizer."""
        tokens = [
            *(_tokens_in_markers(self.meta) if self.meta else ()),
            *(_tokens_in_template(self.chat_template) if self.chat_template else ()),
            *(self.tokenizer.special_tokens if self.tokenizer else ()),
        ]
        return tuple(dict.fromkeys(token for token in tokens if len(token.strip()) >= 3))

    @cached_property
    def _scripts(self) -> list[Script]:
        if self.wording is None:
            return []
        template = self.wording.prompt
        return [template.script(label) for label in template.labels or (None,)]


@dataclass(frozen=True, slots=True)
class CheckedRow:
    """One row as it is asked about."""

    values: Row
    shots: tuple[Row, ...] = ()
    shot_ids: tuple[int, ...] = ()
    skipped: tuple[int, ...] = ()
    spoken: tuple[Preview, ...] = ()
    """Its prompts before the model side."""
    sent: tuple[Preview, ...] = ()
    """Its prompts as the model receives them; nothing where no model is looked at."""
    judged: tuple[Preview, ...] = ()
    """What the dataset's judge is asked about it, with stand-ins for the replies."""
    failed: str = ''
    """Why there is no prompt for this row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedRows:
    """What is known of a dataset's rows after they have been looked at."""

    empty: bool = False
    """Whether there are none."""
    columns: tuple[str, ...] = ()
    """The columns that any of them has."""
    same_prompt: str = ''
    """The prompt that all of them give, where there are several."""
    unpicked: str = ''
    """Why the retriever could not pick examples, which ended the looking."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """How many malformed lines were left out, by what they would have been: `test` rows, `training` rows."""


def _find_text_columns(scripts: Sequence[Script]) -> tuple[str, ...]:
    """Columns that become text (a column of messages does not)."""
    messages = {item.column for script in scripts for item in script.items if isinstance(item, Expand)}
    columns = {column for script in scripts for column in script.columns}
    return tuple(sorted(columns - messages))


def _tokens_in_markers(meta: MetaTemplate) -> Iterator[str]:
    """The tokens in what a meta template writes, and its markers as a whole where they are no ordinary words."""
    roles = [role for role in (*(meta.round or ()), *meta.reserved) if isinstance(role, Role)]
    affixes: list[Pieces] = [meta.begin, meta.end, tuple(item for item in meta.round or () if isinstance(item, Text))]
    affixes += [affix for role in roles for affix in (role.begin, role.end)]
    for piece in (piece for affix in affixes for piece in affix if isinstance(piece, Text)):
        yield from _CONTROL.findall(piece.text)
        bare = piece.text.strip()
        if len(bare) > 3 and not bare.isalnum():
            yield bare


def _tokens_in_template(template: ChatTemplate) -> Iterator[str]:
    """The tokens that a chat template names or writes."""
    for value in (template.bos_token, template.eos_token, *template.tokens.values()):
        yield from [value] if isinstance(value, str) else [token for token in value if isinstance(token, str)]
    yield from _CONTROL.findall(template.source)


Severity = Literal['error', 'warning', 'info']
SEVERITIES: tuple[Severity, ...] = ('error', 'warning', 'info')
"""Worst first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a person should know before a run."""

    rule: str
    severity: Severity
    where: str
    """The dataset, the model, or `dataset × model`."""
    message: str
    remedy: str
    row: int | None = None
    """The row that shows it best; None if it is not about rows."""
    example: str = ''
    """An excerpt that shows it."""
    count: int = 0
    """How many rows are concerned; 0 if it is not about rows."""
    seen: int = 0
    """How many rows were looked at."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule applies to a dataset or model as such, or to one row. Violations about one thing make one finding."""

    message: str
    about: str = ''
    """What in particular, a field for instance: violations about different things are different findings."""
    example: str = ''
    remedy: str = ''
    """What to do in this very case, before what the rule advises in general."""
    severity: Severity | None = None
    """Where this case is worse, or less bad, than the rule's usual one."""
    weight: int = 0
    """The heaviest violation is the one that is shown."""
    if_all_of: int = 0
    """Not sure in itself: it counts only if every row shows it, and at least this many rows were seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that the linter looks for, at one level or several: once, in each row, after the rows, or several."""

    name: str
    severity: Severity
    description: str
    remedy: str
    levels: tuple[Level, ...]
    once: Callable[[Subject], Iterator[Violation]] | None = None
    each: Callable[[Subject, CheckedRow], Iterator[Violation]] | None = None
    after: Callable[[Subject, CheckedRows], Iterator[Violation]] | None = None


def excerpt(text: str, around: str = '', *, width: int = 80) -> str:
    """A stretch of a text, with `around` in it where it occurs.

    >>> excerpt('0123456789 needle 0123456789', 'needle', width=12)
    '…89 needle 01…'
    """
    at = max(text.find(around), 0)
    start = max(0, min(at - (width - len(around)) // 2, len(text) - width))
    stop = min(len(text), start + max(width, len(around)))
    return f'{"…" * (start > 0)}{text[start:stop]}{"…" * (stop < len(text))}'


_UNSPACED = '\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff'
_WORD = compile_late(rf'[{_UNSPACED}]|[^\W{_UNSPACED}]+')


def plain(text: str) -> str:
    """The text without differences of case, white space and Unicode form.

    >>> plain('What is  １+1?\\n')
    'what is 1+1?'
    """
    form = text if text.isascii() else unicodedata.normalize('NFKC', text)
    return ' '.join(form.casefold().split())


def readable(value: object) -> str:
    """The text of a value, or nothing if it has none (bytes, say, in a column that no template shows).

    >>> readable(42), readable(b'...')
    ('42', '')
    """
    return text_or_none(value) or ''


def text_or_none(value: object) -> str | None:
    """The text of a value; None if it has none.

    >>> text_or_none(None), text_or_none({'bytes': b'...'})
    ('', None)
    """
    try:
        return text_of(value)
    except RenderError:
        return None


def nearest_name(name: str, candidates: Iterable[object]) -> str:
    """The known name that was probably meant; nothing if none is near.

    >>> nearest_name('qestion', ['question', 'answer']), nearest_name('MaxLen', ['max_len']), nearest_name('x', ['y'])
    ('question', 'max_len', '')
    """
    names = [other for other in candidates if isinstance(other, str)]
    same = [other for other in names if _letters(other) == _letters(name)]
    return next(iter(same or difflib.get_close_matches(name, names, n=1, cutoff=0.75)), '')


def _letters(name: str) -> str:
    return ''.join(filter(str.isalnum, name)).casefold()


def bag(text: str) -> Counter[str]:
    """How often each word occurs; in scripts without spaces, each character.

    >>> bag('to be or not to be')['to'], bag('苹果')
    (2, Counter({'苹': 1, '果': 1}))
    """
    return Counter(_WORD.findall(plain(text)))


def likeness(bag_of_words: Counter[str], other: Counter[str]) -> float:
    """The share of words that two bags have in common, from 0 to 1.

    >>> likeness(bag('a b c d'), bag('a b c e'))
    0.75
    """
    size = bag_of_words.total() + other.total()
    return 2 * (bag_of_words & other).total() / size if size else 1.0
