"""The form in which a prompt asks for its answer: what stands before answers in its instruction and its examples."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rolecall.patterns import compile_late
from rolecall.strings import common_length

_PLACEHOLDER = r'\(?(?:\[[^\[\]\n]{1,40}\]|<[^<>/\n]{1,40}>|\$[A-Z]{2,}|\.\.\.|…|[XY](?![A-Za-z])|_{2,})'
_WORDED = compile_late(
    rf'(?:^|["\'`“‘「])[ \t]*(?P<lead>[^\n"\'`“”‘’「」]{{1,40}}?(?:[:：>#]|\bis|[是为]))[ \t]*{_PLACEHOLDER}',
    re.MULTILINE,
)
_TAGGED = compile_late(r'<(?P<tag>[A-Za-z_]{2,20})>[^<>\n]{0,60}</(?P=tag)>')
_FIELDS = compile_late(r'"(?P<key>\w{1,30})"\s*:\s*[^{}\n]{0,80}\}')
_LAST_WORD = compile_late(r'[\w.$,-]*\Z')


def find_asked_forms(prompt: str, examples: Sequence[str] = ()) -> tuple[str, ...]:
    """What stands before the answer in the form that a prompt asks for, or that its examples end in, in lower case.

    >>> find_asked_forms('Think first. End with "Decision => [yes or no]".')
    ('decision =>',)
    >>> find_asked_forms('Put it into <pick>letter</pick>.'), find_asked_forms('', ['2+2\\n>>> 4', '3+3\\n>>> 6'])
    (('<pick>',), ('>>>',))
    """
    leads = [match['lead'] for match in _WORDED.finditer(prompt)]
    leads += [f'<{match["tag"]}>' for match in _TAGGED.finditer(prompt)]
    leads += [f'"{match["key"]}":' for match in _FIELDS.finditer(prompt)]
    ends = [example.strip().rpartition('\n')[2] for example in examples]
    ends = [end.rpartition('. ')[2] for end in ends]
    leads.append(_LAST_WORD.sub('', ends[0][: common_length(ends)] if len(ends) > 1 else ''))
    squeezed = (' '.join(lead.lower().split()) for lead in leads)
    return tuple(dict.fromkeys(lead for lead in squeezed if len(lead) > 1))
