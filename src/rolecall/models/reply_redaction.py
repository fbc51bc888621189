"""Removes secrets that a model echoes, before a reply is shown, stored or streamed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rolecall.models.protocol import Reply, Served
from rolecall.redaction import Redactor, environment_secrets


class RedactingModel:
    """The base of models in this process: they hide secrets of the environment and of their config."""

    def __init__(self) -> None:
        self._redactor = Redactor(environment_secrets())

    def add_secrets(self, secrets: Iterable[str]) -> None:
        self._redactor = Redactor({*self._redactor.secrets, *secrets})

    def _redact(self, replies: Sequence[Reply]) -> list[Reply]:
        return [redact_reply(reply, self._redactor) for reply in replies]


def redact_reply(reply: Reply, redactor: Redactor) -> Reply:
    """The reply with every secret that a server echoed replaced."""
    if not redactor.secrets:
        return reply
    generated = ''.join(token for token, _ in reply.logprobs)
    plain = not (reply.tool_calls or reply.thinking or reply.others)
    if plain and all(map(redactor.is_clean, (reply.text, reply.reason, reply.reasoning, generated, *reply.served))):
        return reply
    return replace(
        reply,
        text=redactor.redact(reply.text),
        reason=redactor.redact(reply.reason),
        reasoning=redactor.redact(reply.reasoning),
        tool_calls=redactor.redact_value(reply.tool_calls),
        thinking=redactor.redact_value(reply.thinking),
        others=tuple(redact_reply(other, redactor) for other in reply.others),
        logprobs=reply.logprobs if redactor.is_clean(generated) else (),
        served=Served(*map(redactor.redact, reply.served)),
    )
