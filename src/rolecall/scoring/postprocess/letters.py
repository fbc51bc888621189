"""Which option a reply chooses.

Letters are ranked by how clearly they are chosen, not by position: stated (`the answer is C`, `选C`, `\\boxed{C}`),
a conclusion (`so C`), a leading letter, a letter on its own line, a marked letter (`(C)`, `**C**`), any other single
letter. Letters inside words, the article in `A dog`, the pronoun in `I think` and options that the reply rules out
(`not A`, `B is wrong`) do not count, nor do several that it leaves open (`A or B?`). After a correction (`Wait, …`)
only what follows counts, if that states an option.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from unicodedata import normalize

from rolecall.scoring.texts import after_reasoning, cut_next_problem


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
    """Here `x` may capture a list of letters. The only option of a reply counts: it may be asked what is wrong."""
    denied: tuple[re.Pattern[str], ...]
    """As `ruled_out`, and never chosen: `not A`."""
    left_open: tuple[re.Pattern[str], ...]
    """As `ruled_out`: alternatives between which the reply has not decided yet."""
    checked: tuple[re.Pattern[str], ...]
    """An option with a verdict of its own, `good` or not, in a list of all options."""


_SAID_OF_A_LETTER = (
    'is|are|was|and|or|because|since|as|but|would|seems|appears|states|says|describes|matches|fits'
    '|with|due|for|given|if|which|in|the|to|here|then|instead'
)
"""Words that may follow the option A; before any other lower-case word it is the article."""
_NAMED_BY_A_LETTER = ('vitamin', 'hepatitis', 'theorem', 'lemma', 'figure', 'appendix')
_BE = r'(?:\s+(?:is|was|(?:would|should|must|will|has\s+to|ought\s+to)\s+be)\b|\s*[*_`"\')\]]*\s*(?::|=|-+>|→|[-–—]\s))'
_GAP = r'\s*[^.。!?;；\n]{0,40}?'
_OPEN, _CLOSE = r'[\s"\'“‘(\[{<【*_`]{0,8}', r'[\s"\'”’)\]}>】*_`]{0,8}'


@lru_cache(maxsize=64)
def _ways(options: str) -> _Ways:
    one = '[' + re.escape(options) + ']'
    word_like = (
        rf"[A-Za-z0-9_]|['’][A-Za-z]|-[A-Za-z0-9]|(?<=[AI])[ \t]+(?!(?:{_SAID_OF_A_LETTER})\b)[a-z]"
        r'|(?<=["“][AI])[ \t]+[A-Z]'  # a title: "A Tale of Two Cities"
    )
    # The letter comes first and what may not precede it afterwards, so that a search skips to the next letter at once.
    bare = rf'(?-i:{one}(?<![A-Za-z0-9_].)(?!{word_like}))' + ''.join(
        rf'(?<!\b{noun}\ .)' for noun in _NAMED_BY_A_LETTER
    )
    x = f'(?P<x>{bare})'
    several = rf'(?P<x>{bare}(?:{_CLOSE}(?:,\s*and\b|,\s*or\b|,|/|、|和|或|\band\b|\bor\b){_OPEN}{bare}){{0,9}})'
    comma = rf'{_CLOSE},{_OPEN}{bare}'
    either = rf'(?P<x>{bare}(?:{comma}){{0,8}}{_CLOSE},?\s*(?:\bor\b|还是|或者?)\s*(?:option\s+)?{_OPEN}{bare})'
    all_of = rf'(?P<x>{bare}(?:{comma}){{0,8}}{_CLOSE},?\s*(?:\band\b|\bor\b|&|/|和|与|或){_OPEN}{bare})'
    return _Ways(
        stated=_patterns(
            rf'\\boxed\s*\{{(?:\\\w+\{{|[^{{}}]){{0,40}}?{x}',
            rf'\banswer(?:\s+(?:to|for)\b[^.\n]{{0,60}}?)?{_BE}{_GAP}{x}',
            rf'\b(?:correct|right|best|final|my)\s+(?:option|choice|one|letter|response|statement){_BE}{_GAP}{x}',
            rf'\b(?:which|this|that|it)\s{{1,4}}(?:is|matches|corresponds\sto|means)\s{{1,4}}(?:option|choice)\s{{1,4}}{_OPEN}{x}',
            rf'^[\s*>-]{{0,6}}(?:\[x\]|☑)\s{{0,3}}{_OPEN}{x}',
            rf'^[ \t*#>+•-]{{0,8}}{_OPEN}{x}{_CLOSE}[:.)][^\n]{{0,80}}[✅✓✔☑]\s{{0,3}}$',
            rf'\bis:?\s+\*\*{_OPEN}{x}[.):]',
            rf'\bleav(?:es|ing)\s(?:us\swith\s)?(?:only\s)?(?:(?:option|choice)\s)?{_OPEN}{x}',
            rf'\bi(?:\s+(?:would|will|am|have\s+to)|[\'’](?:d|ll|m))?\s+(?:choose|chose|pick|select|go(?:ing)?\s+with|opt\s+for|say'
            rf'|lean(?:ing)?\s+towards?)\b{_GAP}{x}',
            rf'{x}(?={_CLOSE}(?:(?!{bare})[^.,;\n]){{0,60}}?\b(?:is|seems|appears\s+to\s+be|fits|suits)\s+(?:clearly\s+)?(?:the\s+)?(?:most\s+)?'
            r'(?:correct|right|best|better|answer|accurate|appropriate)\b)',
            rf'(?:答案|正确选项|正确的选项|正确的是|最佳选项|选(?!项))[^A-Za-z。\n]{{0,12}}?{x}',
            rf'{x}(?=\s*(?:选项)?\s*(?:是|为)?(?:正确|对的|符合|最佳))',
        ),
        concluded=_patterns(
            r'\b(?:so|thus|therefore|hence|consequently|conclusion|finally|actually|wait|no|sorry|correction|i\s+meant?'
            r'|in\s+(?:fact|reality)|on\s+(?:second\s+thought|reflection)|the\s+truth\s+is|go\s+with)\b[,:]?'
            rf'[^.。!?;；\n]{{0,24}}?{x}',
            rf'(?:所以|因此|综上|应该?是|应为)[^A-Za-z。\n]{{0,24}}?{x}',
        ),
        leading=_patterns(rf'\A[\W_]*(?:(?:option|choice)\s+{_OPEN})?{x}(?=[\s.):,;、。*_\]}}"\']|\Z)'),
        alone=_patterns(rf'^(?:[^\w\n]|_)*{x}(?:[^\w\n]|_)*$'),
        marked=_patterns(
            rf'(?<!\b[A-Za-z])[(\[{{【*"\'“‘<]\s*{x}\s*[)\]}}】*"\'”’>]',  # but not `P(A)`
        ),
        called=_patterns(rf'\b(?:option|choice)s?\s+{_OPEN}{x}', f'选项{x}'),
        plain=_patterns(x),
        ruled_out=_patterns(
            rf'{several}{_CLOSE}(?:选?项|均|都|is|are|was|were|does|do|can|could|must)?\s*(?:all\s+|both\s+|clearly\s+|also\s+)?'
            r'(?:not\b|n[\'’]t\b|wrong\b|incorrect\b|false\b|contradicts?\b|unsupported\b|unlikely\b|不对|不正确|错|不符合|不是)',
            rf'{several}{_CLOSE}(?:would|could|might)\s+(?:be|have\s+been)\b(?=[^.\n]{{0,60}}\b(?:if|had|were)\b)',
            rf'(?:如果|假如|假设|若)[^A-Za-z。,\n]{{0,8}}[^。,\n]{{0,20}}?选{_OPEN}{several}',
            r'\b(?:(?:first|initially|originally)\b[^.;\n]{0,20}\b(?:thought|chose|picked|guessed|assumed|said)'
            rf'|(?:might|may|could)\s+(?:be\s+tempted\s+to\s+)?(?:think|choose|assume|pick|guess))\b{_GAP}{several}',
            rf'\banswer\s+(?:would|could|might)\s+(?:be|have\s+been)\s+{_OPEN}{several}{_CLOSE}\s*(?:if|had)\b',
            *_opinions(x, several),
        ),
        denied=_patterns(
            r'(?:\bnot|n[\'’]t|\bneither|\bnor|\brul(?:e|es|ed|ing)\s+out|\beliminat\w+|\brather\s+than'
            rf'|\binstead\s+of|不是|不选|并非|排除|而非)\s*(?:be\s+)?(?:options?|choices?|选项)?{_OPEN}{several}',
            rf'\b(?:unlike|contrary\s+to|anything\s+but)\s+(?:options?|choices?)?{_OPEN}{x}',
            r'(?:\b(?:not|cannot)|n[\'’]t)\s+(?:think|believe|say|suppose|know|sure)\s+(?:(?:that|if|whether)\s+)?'
            rf'(?:(?:it|this|that)(?:\s+is|[\'’]s)|the\s+(?:correct\s+|right\s+|best\s+)?(?:answer|option|choice)\s+is)?\s*{_OPEN}{several}',
            rf'\bdoubt\s+(?:that\s+)?(?:it(?:\s+is|[\'’]s)|the\s+answer\s+is)?\s*{_OPEN}{x}',
            rf'~~{_OPEN}{several}{_CLOSE}~~',
            rf'{x}(?=\s*选?项?(?:\s*[、,和与及]\s*[A-Z]\s*选?项?){{0,5}}(?:均|都)?(?:可以?|应该?|能)?被?排除)',
            rf'{several}{_CLOSE}(?:is|are|was|were|can\s+be|must\s+be)\s+(?:thus\s+|also\s+)?(?:excluded|eliminated|ruled\s+out|impossible)\b',
            rf'{x}{_CLOSE}(?:\?\s*(?:no(?:pe)?|wrong)\b|[.,;—-]{{1,3}}\s*(?:no|wait|hmm)[,.\s]+(?:that|this)(?:\s+is|[\'’]s)\s+(?:wrong|incorrect|not\b)'
            r'|吗?[?。,]\s*不对?[,。])',
        ),
        left_open=_patterns(
            either,
            rf'\b(?:none\s+of|neither\s+of){_OPEN}(?:options?\s+)?{several}',
            rf'(?:\b(?:between|both)|在){_OPEN}(?:options?\s+)?{all_of}',
            rf'(?P<x>{bare}{_CLOSE}\s(?:if|when)\b[^.\n]{{1,60}}?\b(?:and|or|but)\s{_OPEN}{bare}){_CLOSE}\s(?:if|when|otherwise)\b',
            rf'\bif\b[^.;\n]{{1,60}},\s(?:then\s)?{_OPEN}(?P<x>{bare}{_CLOSE}[;,.]\s(?:and\s|but\s)?(?:if|otherwise)\b'
            rf'[^.;\n]{{0,60}}?,\s(?:then\s)?{_OPEN}{bare})',
            rf'{all_of}{_CLOSE}\s*(?:are|were)\s+(?:all\s+|both\s+)?(?:correct|true|right|valid|plausible|possible)\b',
            rf'\A\W*{all_of}\W*\Z',
            rf'(?P<x>(?-i:(?<!\w){one}\s?(?:implies|entails|[=<>≤≥∩∪∧∨⇒⊂⊆])\s?{one}(?!\w)))',
            rf'{several}{_CLOSE}\s*(?:seems?|looks?|appears?|sounds?|(?:might|may|could)\s+be)\b(?=[^\n]{{0,60}}\b(?:but|however)\b)',
        ),
        checked=_patterns(
            rf'(?:^|(?<=[.,;]\s)|(?<=[；。✅✓✔☑❌✗✘✖]))[ \t*#>+•|-]{{0,8}}(?:\d{{1,2}}[.)]\s)?(?=[\w(\[{{<【*`“])'
            rf'(?:(?:option|choice)\s+)?{_OPEN}{x}{_CLOSE}(?:[:.?、：–—-]|is\b|(?:\|[^|\n]{{1,60}})?\|){{0,2}}{_CLOSE}'
            r'(?:[^\n→]{0,40}→\s?)?'
            r'(?:(?P<good>correct|true|right|yes|works|正确|对|[✅✓✔☑])|incorrect|false|wrong|no|fails|错误?|不正确|不对|[❌✗✘✖])(?![a-z])'
        ),
    )


def _opinions(x: str, several: str) -> tuple[str, ...]:
    """Options that others choose (`People often say A`), or that a reply names to turn them down (`A is tempting`)."""
    others = (
        r'people|many|most|some|others|students|(?:common|conventional)\s+wisdom'
        r'|it\s+is\s+(?:often|commonly|widely|sometimes)'
    )
    claim = r'say|says|said|think|choose|pick|believed?|claim(?:ed)?|argued?(?:\s+for)?|assumed?|answer|guess|thought'
    trap = (
        r'(?:very\s+|quite\s+)?(?:tempting|popular|a\s+(?:common\s+|popular\s+)?(?:trap|misconception|distractor|myth|mistake)'
        r'|what\s+(?:most\s+|many\s+)?(?:people|students))'
    )
    return (
        rf'\b(?:{others})\s+(?:\w+\s+){{0,3}}?(?:{claim})\b(?:\s+that)?\s+(?:(?:option|choice)\s+)?{_OPEN}{several}',
        rf'\b(?:(?:al)?though|while)\s+(?:option\s+)?{_OPEN}{x}',
        rf'{x}{_CLOSE}\s*(?:is|was|looks?)\s+{trap}\b',
        rf'(?:很多人|许多人|大多数人|多数人|不少人|有人|有些人|人们)[^A-Za-z。\n]{{0,8}}{several}',
    )


def _patterns(*sources: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(source, re.IGNORECASE | re.MULTILINE) for source in sources)


def _pick_letter(text: str, ways: _Ways, ranks: Iterable[tuple[re.Pattern[str], ...]], *, place: int) -> str:
    """The most clearly chosen letter; the only one that is ruled out or left open counts if nothing else is found."""
    plainly = normalize('NFKC', after_reasoning(text)).replace('__', '**')
    own = _take_last_box(_take_correction(cut_next_problem(plainly), ways), ways)
    approved = _approve_one(own, ways.checked)
    if approved and not any(pattern.search(own) for pattern in ways.stated):
        own += approved
    ranks, tried = tuple(ranks), set[str]()
    for reading in (reading for part in dict.fromkeys((own, plainly)) for reading in _read_ways(part, ways)):
        if reading in tried:
            continue
        tried.add(reading)
        for patterns in ranks:
            found = sorted((m.start('x'), m['x']) for pattern in patterns for m in pattern.finditer(reading))
            if found:
                return found[place][1]
    return ''


_CORRECTED = re.compile(
    r'\b(?:wait|actually|correction|on\s+(?:second\s+thought|reflection|closer\s+(?:inspection|examination|look))|scratch\s+that|i\s+made\s+an?\s+(?:mistake|error)'
    r'|correcting|let\s+me\s+(?:re-?check|double[ -]check|re-?consider|re-?think|correct))\b|等等|等一下|更正',
    re.IGNORECASE,
)


def _take_correction(text: str, ways: _Ways) -> str:
    """What follows the last correction, if that states or concludes an option and the text before it states one."""
    corrected = [found.start() for found in _CORRECTED.finditer(text)]
    possible = _hide_letters(text, ways.denied) if corrected else ''
    stated = [found.span('x') for pattern in ways.stated for found in pattern.finditer(possible)]
    if stated:
        later = [found.start('x') for pattern in ways.concluded for found in pattern.finditer(possible)]
        first, last = min(end for _, end in stated), max([start for start, _ in stated] + later)
        for start in reversed(corrected):
            if first <= start <= last:
                return text[start:]
    return text


def _take_last_box(text: str, ways: _Ways) -> str:
    """The text with only its last box, if that names an option: earlier ones hold steps of the solution."""
    before, box, last = text.rpartition(r'\boxed')
    named = any(pattern.match(box + last) for pattern in ways.stated) if r'\boxed' in before else False
    return before.replace(box, '') + box + last if named else text


def _read_ways(text: str, ways: _Ways) -> Iterable[str]:
    """The text without options that do not count, then with the only one that is open or ruled out."""
    rejected = ways.checked if not any(_find_verdicts(text, ways.checked).values()) else ()
    possible = _hide_letters(text, ways.denied)
    decided = _hide_letters(possible, (*ways.ruled_out, *rejected))
    yield _hide_letters(decided, ways.left_open)
    if not _hides_several(decided, ways.left_open):
        yield decided
        if not _hides_several(possible, (*ways.ruled_out, *rejected)):
            yield possible
            yield _capitalise_marked(possible)


def _hides_several(text: str, patterns: Iterable[re.Pattern[str]]) -> bool:
    """Whether the patterns find more than one option."""
    found = (one for pattern in patterns for match in pattern.finditer(text) for one in re.findall('[A-Z]', match['x']))
    return len(set(found)) > 1


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
