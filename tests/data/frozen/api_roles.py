"""Roles of an API: none for the system, own names, a prompt for every speech, speeches that are joined."""

from .dataset_parts import ROUND, TEXT, dataset
from .frozen_models import ROLES, answer

TALK = [dict(role='HUMAN', api_role='HUMAN'), dict(role='BOT', api_role='BOT', generate=True)]
SIDES = {
    'system': ROLES,
    'no-system': dict(round=TALK),
    'with-begin': dict(round=[dict(role='HUMAN', api_role='HUMAN', begin='[', end=']'), TALK[1]]),
    'other-names': dict(round=TALK, reserved_roles=[dict(role='SYSTEM', api_role='HUMAN')]),
}
SYSTEM = dict(role='SYSTEM', fallback_role='HUMAN', prompt='Be brief.')
models = [dict(abbr=name, type=answer, meta_template=meta, max_out_len=16) for name, meta in SIDES.items()]
datasets = [
    dataset('text', TEXT),
    dataset('dialogue', dict(begin=[SYSTEM, '</E>'], round=ROUND), shots=(0, 1)),
    dataset('many', dict(begin=[SYSTEM, 'loose text'], round=[*ROUND, dict(role='HUMAN', prompt='Sure?'), dict(role='HUMAN', prompt='Really?')])),
]
