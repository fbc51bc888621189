"""Which option a reply chooses.

Letters are ranked by how clearly they are chosen, not by position: stated (`the answer is C`, `选C`, `\\boxed{C}`),
a conclusion (`so C`), a leading letter, a letter on its own line, a marked letter (`(C)`, `**C**`), any other single
letter. Letters inside words, the article in `A dog`, the pronoun in `I think` and options that the reply rules out
(`not A`, `B is wrong`) do not count. Options that a reply leaves open (`A or B?`) count only if it names no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from unicodedata import normalize

from rolecall.scoring.texts import after_reasoning, cut_next_problem

__all__ = [
    'bbh_mcq_postprocess',
    'choice_postprocess',
    'first_capital_postprocess',
    'first_capital_postprocess_multi',
    'first_option_postprocess',
    'last_capital_postprocess',
    'last_option_postprocess',
    'multiple_select_postprocess',
]


def first_option_postprocess(text: str, options: str | Sequence[str], cushion: bool = True) -> str:
    """The first of the most clearly chosen options; without `cushion`, a bare letter in running text does not count.

    >>> first_option_postprocess('A dog. I think the best is (C)', options='ABCD')
    'C'
    """
    ways = _ways(''.join(options))
    guesses = ((*ways.marked, *ways.called), ways.plain) if cushion else (ways.called,)
    return _pick_letter(text, ways, (ways.stated, ways.concluded, ways.leading, ways.alone, *guesses), place=0)


def last_option_postprocess(text: str, options: str | Sequence[str]) -> str:
    """The last of the most clearly chosen options.

    >>> last_option_postprocess('The answer is B. No, wait: so the answer is (C), since vitamin A helps.', 'ABCD')
    'C'
    """
    ways = _ways(''.join(options))
    decided = (*ways.stated, *ways.concluded)
    return _pick_letter(
        text, ways, (decided, ways.alone, ways.leading, (*ways.marked, *ways.called), ways.plain), place=-1
    )


def choice_postprocess(text: str, choices: Sequence[str]) -> str:
    """The choice that the reply begins with, states (`the answer is positive`) or names alone, in any case.

    >>> choice_postprocess('I would say: Positive!', ['positive', 'negative'])
    'positive'
    >>> choice_postprocess('It could be positive or negative.', ['positive', 'negative'])
    ''
    >>> choice_postprocess('This is not positive, it is negative.', ['positive', 'negative'])
    'negative'
    >>> choice_postprocess('The answer is (C).', 'ABCD')
    'C'
    """
    if all(len(choice) == 1 and choice.isascii() and choice.isupper() for choice in choices):
        return first_option_postprocess(text, options=''.join(choices))
    spellings = {_fold(str(choice)): str(choice) for choice in choices}
    longest_first = '|'.join(map(_bounded, sorted(spellings, key=len, reverse=True)))
    one = rf'(?P<x>{longest_first})'
    folded = _fold(text)
    for pattern in (rf'\A\W*{one}', rf'\b(?:answer|label|choice|class|category)(?:\s+is|\s*:)\W*{one}'):
        if found := re.search(pattern, folded):
            return spellings[found['x']]
    named = {found['x'] for found in re.finditer(one, folded) if not _RULED_OUT.search(folded[: found.start()])}
    return spellings[named.pop()] if len(named) == 1 else ''


_RULED_OUT = re.compile(
    r"(?:\bnot|n['’]t|\bneither|\bnor|\brather than|\binstead of|不是|并非)(?:\s+(?:a|an|the|at all|be))?\W*\Z"
)


def _bounded(choice: str) -> str:
    """A choice that is not part of a longer word or number. Scripts without spaces have no such bounds."""
    before = r'(?<![a-z0-9_])(?<!\d[.,])' if re.match(r'[a-z0-9_]', choice) else ''
    after = r'(?![a-z0-9_]|[.,]\d)' if re.search(r'[a-z0-9_]\Z', choice) else ''
    return f'{before}{re.escape(choice)}{after}'


def _fold(text: str) -> str:
    return ' '.join(normalize('NFKC', text).casefold().split())


def bbh_mcq_postprocess(text: str) -> str:
    """The letter of a BBH multiple-choice answer, such as `(B)`.

    >>> bbh_mcq_postprocess('So the answer is (B).'), bbh_mcq_postprocess('I think B')
    ('B', 'B')
    """
    return first_option_postprocess(text, options='ABCDEFGHIJKLMNOPQR')


def first_capital_postprocess(text: str) -> str:
    """The first capital letter of the reply, wherever it stands.

    >>> first_capital_postprocess('b or C?')
    'C'
    """
    return next(filter(str.isupper, text), '')


def last_capital_postprocess(text: str) -> str:
    """The last capital letter of the reply, wherever it stands.

    >>> last_capital_postprocess('B, not c')
    'B'
    """
    return next(filter(str.isupper, reversed(text)), '')


def first_capital_postprocess_multi(text: str) -> str:
    """The first run of the letters A to D, for questions with several right options.

    >>> first_capital_postprocess_multi('正确选项：ACD')
    'ACD'
    """
    found = re.search('[A-D]+', text)
    return found[0] if found else ''


def multiple_select_postprocess(text: str) -> str:
    """All capital letters of the reply, each once, in alphabetical order.

    >>> multiple_select_postprocess('D, B and D')
    'BD'
    """
    return ''.join(sorted(set(filter(str.isupper, text))))


@dataclass(frozen=True, slots=True)
class _Ways:
    """Patterns that name an option, by clarity. Each captures the letter as group `x`."""

    stated: tuple[re.Pattern[str], ...]
    concluded: tuple[re.Pattern[str], ...]
    leading: tuple[re.Pattern[str], ...]
    alone: tuple[re.Pattern[str], ...]
    called: tuple[re.Pattern[str], ...]
    marked: tuple[re.Pattern[str], ...]
    plain: tuple[re.Pattern[str], ...]
    ruled_out: tuple[re.Pattern[str], ...]
    """Here `x` may capture a list of letters."""
    left_open: tuple[re.Pattern[str], ...]
    """As `ruled_out`: alternatives between which the reply has not decided yet."""
    checked: tuple[re.Pattern[str], ...]
    """An option with a verdict of its own, `good` or not, in a list of all options."""


_SAID_OF_A_LETTER = (
    'is|are|was|and|or|because|since|as|but|would|seems|with|due|for|given|if|which|in|the|to|here|then|instead'
)
"""Words that may follow the option A; before any other lower-case word it is the article."""
_BE = r'(?:\s+(?:is|was|(?:would|should|must|will|has\s+to|ought\s+to)\s+be)\b|\s*[*_`"\')\]]*\s*(?::|=|-+>|→))'
_GAP = r'\s*[^.。!?;；\n]{0,40}?'
_OPEN, _CLOSE = r'[\s"\'“‘(\[{<【*_`]{0,8}', r'[\s"\'”’)\]}>】*_`]{0,8}'


@lru_cache(maxsize=64)
def _ways(options: str) -> _Ways:
    one = '[' + re.escape(options) + ']'
    word_like = rf"[A-Za-z0-9_]|['’][A-Za-z]|-[A-Za-z0-9]|(?<=[AI])[ \t]+(?!(?:{_SAID_OF_A_LETTER})\b)[a-z]"
    bare = rf'(?-i:(?<![A-Za-z0-9_]){one}(?!{word_like}))'
    x = f'(?P<x>{bare})'
    several = rf'(?P<x>{bare}(?:{_CLOSE}(?:,\s*and\b|,\s*or\b|,|/|、|和|或|\band\b|\bor\b){_OPEN}{bare}){{0,9}})'
    comma = rf'{_CLOSE},{_OPEN}{bare}'
    either = rf'(?P<x>{bare}(?:{comma}){{0,8}}{_CLOSE},?\s*(?:\bor\b|还是|或者?)\s*(?:option\s+)?{_OPEN}{bare})'
    return _Ways(
        stated=_patterns(
            rf'\\boxed\s*\{{(?:\\\w+\{{|[^{{}}]){{0,40}}?{x}',
            rf'\banswer(?:\s+(?:to|for)\b[^.\n]{{0,60}}?)?{_BE}{_GAP}{x}',
            rf'\b(?:correct|right|best|final|my)\s+(?:option|choice|one|letter|response|statement){_BE}{_GAP}{x}',
            rf'\bbest{_BE}{_GAP}{x}',
            rf'\bi(?:\s+(?:would|will|am|have\s+to)|[\'’](?:d|ll|m))?\s+(?:choose|chose|pick|select|go(?:ing)?\s+with|opt\s+for|say'
            rf'|lean(?:ing)?\s+towards?)\b{_GAP}{x}',
            rf'{x}(?={_CLOSE}(?:(?!{bare})[^.,;\n]){{0,60}}?\b(?:is|seems)\s+(?:clearly\s+)?(?:the\s+)?(?:most\s+)?'
            r'(?:correct|right|best|better|answer)\b)',
            rf'(?:答案|正确选项|正确的选项|正确的是|最佳选项|选(?!项))[^A-Za-z。\n]{{0,12}}?{x}',
            rf'{x}(?=\s*(?:选项)?\s*(?:是|为)?(?:正确|对的|符合|最佳))',
        ),
        concluded=_patterns(
            r'\b(?:so|thus|therefore|hence|consequently|conclusion|finally|actually|wait|no)\b[,:]?'
            rf'[^.。!?;；\n]{{0,24}}?{x}',
            rf'(?:所以|因此|综上)[^A-Za-z。\n]{{0,24}}?{x}',
        ),
        leading=_patterns(rf'\A[\W_]*(?:(?:option|choice)\s+{_OPEN})?{x}(?=[\s.):,;、。*_\]}}"\']|\Z)'),
        alone=_patterns(rf'^(?:[^\w\n]|_)*{x}(?:[^\w\n]|_)*$'),
        marked=_patterns(
            rf'[(\[{{【*"\'“‘<]\s*{x}\s*[)\]}}】*"\'”’>]',
            rf'{x}\)',
        ),
        called=_patterns(rf'\b(?:option|choice)s?\s+{_OPEN}{x}', f'选项{x}'),
        plain=_patterns(x),
        ruled_out=_patterns(
            r'(?:\bnot|n[\'’]t|\bneither|\bnor|\bexcept|\bunlike|\brul(?:e|es|ed|ing)\s+out|\beliminat\w+|\brather\s+than'
            rf'|\binstead\s+of|不是|不选|并非|排除|而非)\s*(?:be\s+)?(?:options?|choices?|选项)?{_OPEN}{several}',
            rf'{several}{_CLOSE}(?:选?项|均|都|is|are|was|were|does|do|can|could|must)?\s*(?:all\s+|both\s+|clearly\s+|also\s+)?'
            r'(?:not\b|n[\'’]t\b|wrong\b|incorrect\b|false\b|不对|不正确|错|不符合|不是)',
            r'\b(?:(?:first|initially|originally)\b[^.;\n]{0,20}\b(?:thought|chose|picked|guessed|assumed|said)'
            rf'|(?:might|may|could)\s+(?:be\s+tempted\s+to\s+)?(?:think|choose|assume|pick|guess))\b{_GAP}{several}',
        ),
        left_open=_patterns(
            either,
            rf'\b(?:between|none\s+of|neither\s+of|both){_OPEN}(?:options?\s+)?{several}',
            rf'{several}{_CLOSE}\s*(?:seems?|looks?|appears?|sounds?|(?:might|may|could)\s+be)\b(?=[^.\n]{{0,60}}\b(?:but|however)\b)',
        ),
        checked=_patterns(
            rf'(?:^|(?<=[.;]\s)|(?<=[；。]))[\s*#>+•-]{{0,8}}(?:(?:option|choice)\s+)?{_OPEN}{x}{_CLOSE}(?:[:.、：-]|is\b){{0,2}}{_CLOSE}'
            r'(?:(?P<good>correct|true|right|yes|正确|对|[✅✓✔☑])|incorrect|false|wrong|no|错误?|不正确|不对|[❌✗✘✖])(?![a-z])'
        ),
    )


def _patterns(*sources: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(source, re.IGNORECASE | re.MULTILINE) for source in sources)


def _pick_letter(text: str, ways: _Ways, ranks: Iterable[tuple[re.Pattern[str], ...]], *, place: int) -> str:
    """The most clearly chosen letter; open and ruled-out options are considered only if nothing else is found."""
    plainly = normalize('NFKC', after_reasoning(text))
    own = cut_next_problem(plainly)
    if not any(pattern.search(own) for pattern in ways.stated):
        own += _approve_one(own, ways.checked)
    readings = dict.fromkeys(reading for part in (own, plainly) for reading in _read_ways(part, ways))
    ranks = tuple(ranks)
    for reading in readings:
        for patterns in ranks:
            found = sorted((m.start('x'), m['x']) for pattern in patterns for m in pattern.finditer(reading))
            if found:
                return found[place][1]
    return ''


def _read_ways(text: str, ways: _Ways) -> Iterable[str]:
    """The text without options that do not count, then with ever more of them."""
    rejected = ways.checked if not any(_find_verdicts(text, ways.checked).values()) else ()
    decided = _hide_letters(text, (*ways.ruled_out, *rejected))
    yield _hide_letters(decided, ways.left_open)
    yield decided
    yield text
    yield _capitalise_marked(text)


def _approve_one(text: str, checked: Iterable[re.Pattern[str]]) -> str:
    """`Answer: B` to append to a list of options in which only B has the verdict `correct`; else nothing."""
    verdicts = _find_verdicts(text, checked)
    approved = [letter for letter, good in verdicts.items() if good]
    return f'\n\nAnswer: {approved[0]}' if len(verdicts) > 1 and len(approved) == 1 else ''


def _find_verdicts(text: str, checked: Iterable[re.Pattern[str]]) -> dict[str, bool]:
    """The options that have a verdict of their own, and whether it is good."""
    return {found['x']: found['good'] is not None for pattern in checked for found in pattern.finditer(text)}


def _hide_letters(text: str, patterns: Iterable[re.Pattern[str]]) -> str:
    for pattern in patterns:
        text = pattern.sub(lambda found: found[0].replace(found['x'], '·' * len(found['x'])), text)
    return text


_SMALL = re.compile(
    r'\([a-z]\)|\A[\W_]*[a-z](?:[).:]|[\W_]*\Z)'
    r'|\b(?:answer|option|choice|choose|pick|select)(?:\s+is)?[\s:*("]{1,8}(?:[b-hj-z]|[ai](?!\s+[a-z]))(?![\w\'’-])',
    re.IGNORECASE,
)


def _capitalise_marked(text: str) -> str:
    """Capitalise `(b)`, `b)` at the beginning, `the answer is b`, and a reply that is only `b`."""
    return _SMALL.sub(lambda found: found[0].upper(), text)
