"""Reply bodies: server-sent events assembled from chunks of any size."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ['EventReader']


class EventReader:
    """Takes bytes as they arrive and yields the data of each complete event.

    >>> reader = EventReader()
    >>> list(reader.feed(b'data: {"a"')), list(reader.feed(b': 1}\\r\\n\\r\\ndata: [DONE]\\n\\n'))
    ([], [b'{"a": 1}', b'[DONE]'])
    """

    __slots__ = ('_data', '_rest')

    def __init__(self) -> None:
        self._rest = b''
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The events that this chunk completes."""
        *lines, self._rest = (self._rest + chunk).split(b'\n')
        for line in lines:
            line = line.removesuffix(b'\r')
            if line.startswith(b'data:'):
                self._data.append(line[5:].removeprefix(b' '))
            elif not line:
                yield from self._event()

    def finish(self) -> Iterator[bytes]:
        """The event that the end of the stream completes, if there is one."""
        yield from self.feed(b'\n\n')

    def _event(self) -> Iterator[bytes]:
        if self._data:
            yield b'\n'.join(self._data)
            self._data = []
