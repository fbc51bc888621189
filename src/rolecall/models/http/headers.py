"""Which headers HTTP can carry. Others would break the request, or smuggle further headers into it."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CONTROL = re.compile(r'[\x00-\x08\x0a-\x1f\x7f]')
HEADER_RULE = 'A name has letters, digits and hyphens, a value no line breaks or other control characters.'


def find_unsendable_header(headers: Mapping[str, str]) -> str | None:
    """The name of the first header that cannot be sent.

    >>> find_unsendable_header({'X-Team': 'a'}), find_unsendable_header({'X-Team': 'a\\nb'})
    (None, 'X-Team')
    """
    wrong = (name for name, value in headers.items() if not _NAME.fullmatch(name) or _CONTROL.search(value))
    return next(wrong, None)
