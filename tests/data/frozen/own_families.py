"""Meta templates of one's own: prompts and markers of roles, begin and end, reserved roles, a dataset that overrides."""

from .dataset_parts import ROUND, TEXT, dataset
from .frozen_models import text_model

HUMAN, BOT = dict(role='HUMAN', begin='<H>', end='</H>\n'), dict(role='BOT', begin='<B>', end='</B>\n', generate=True)
FORMATS = {
    'plain': dict(round=[HUMAN, BOT]),
    'framed': dict(begin='<<<', round=[HUMAN, BOT], end='>>>'),
    'frame-only': dict(begin='<<<', end='>>>'),
    'reserved': dict(round=[HUMAN, BOT], reserved_roles=[dict(role='SYSTEM', begin='<S>', end='</S>', prompt='Default.')]),
    'defaults': dict(round=[dict(role='HUMAN', begin='<H>', prompt='nothing', end='</H>'), BOT]),
}
OVERRIDES = [dict(role='HUMAN', begin='[', prompt='{q}', end=']'), dict(role='BOT', prompt='{a}')]
models = [text_model(name, meta_template=meta) for name, meta in FORMATS.items()]
datasets = [
    dataset('text', TEXT),
    dataset('dialogue', dict(begin=[dict(role='SYSTEM', fallback_role='HUMAN', prompt='S.'), '</E>'], round=ROUND), shots=(0, 1)),
    dataset('overrides', dict(round=OVERRIDES)),
]
