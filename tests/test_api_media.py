"""Pictures, sound and film on their way to a server."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from rolecall.core.prompts.multimodal import MediaUrl, Segment
from rolecall.models.http.media import MediaReader, media_type
from servers import serve
from test_api_http import ask, failure

PNG = b'\x89PNG\r\n\x1a\n' + bytes(20)


def seen(part: dict[str, Any], **entry: Any) -> Any:
    """The part as the server gets it."""
    with serve() as server:
        ask({'base_url': server.url, **entry}, [{'role': 'user', 'content': [{'type': 'text', 'text': 'What?'}, part]}])
        assert server.bodies[0]['messages'][0]['content'][0] == {'type': 'text', 'text': 'What?'}
        return server.bodies[0]['messages'][0]['content'][1]


def image(url: object) -> dict[str, Any]:
    return {'type': 'image_url', 'image_url': {'url': url, 'detail': 'low'}}


@pytest.mark.parametrize('form', ['file://{}', 'file:{}', 'file://localhost{}', '{}'])
def test_local_files_become_data_urls(form: str, tmp_path: Path) -> None:
    picture = tmp_path / 'a cat.jpg'
    picture.write_bytes(PNG)
    expected = f'data:image/png;base64,{base64.b64encode(PNG).decode()}'
    assert seen(image(form.format(picture)), inline_files=True) == image(expected)


def test_a_file_url_may_be_percent_encoded(tmp_path: Path) -> None:
    (tmp_path / 'a cat.png').write_bytes(PNG)
    assert MediaReader().data_url(f'file://{tmp_path}/a%20cat.png').startswith('data:image/png;base64,')


@pytest.mark.parametrize('url', ['https://example.com/cat.png', 'http://example.com/a b', 'data:image/png;base64,AAAA'])
def test_urls_are_kept(url: str) -> None:
    assert seen(image(url), inline_files=True) == image(url)


def test_a_server_on_this_machine_is_given_paths_unless_the_entry_says_otherwise(tmp_path: Path) -> None:
    assert seen(image('file:///no/such.png')) == image('file:///no/such.png')


@pytest.mark.parametrize('kind', ['image_url', 'audio_url', 'video_url'])
@pytest.mark.parametrize('nested', [True, False])
def test_every_kind_of_part_is_written_out(kind: str, nested: bool, tmp_path: Path) -> None:
    file = tmp_path / 'clip.mp4'
    file.write_bytes(b'film')
    written = 'data:video/mp4;base64,ZmlsbQ=='
    part = {'type': kind, kind: {'url': str(file)} if nested else str(file)}
    assert seen(part, inline_files=True) == {'type': kind, kind: {'url': written} if nested else written}


def test_media_carried_by_reference_are_written_out_at_the_edge() -> None:
    row = 'x' * 70_000
    url = MediaUrl('data:image/png;base64,', Segment('image', row, 0, len(row)))
    assert seen(image(url)) == image(f'data:image/png;base64,{row}')


def test_a_large_body_is_sent_whole() -> None:
    url = 'data:image/png;base64,' + 'A' * 3_000_000
    assert seen(image(url)) == image(url)


@pytest.mark.parametrize('url', ['file:///no/such/cat.png', '/no/such/cat.png', 'no\0such'])
def test_a_missing_file_is_named_and_not_tried_again(url: str) -> None:
    error = failure(
        {'base_url': 'http://127.0.0.1:9', 'inline_files': True}, [{'role': 'user', 'content': [image(url)]}]
    )
    assert not error.transient
    assert url in str(error)
    assert 'cannot be read' in str(error)


@pytest.mark.parametrize(
    ('name', 'content', 'kind'),
    [
        ('a.jpg', PNG, 'image/png'),
        ('a', b'\xff\xd8\xff\xe0', 'image/jpeg'),
        ('a', b'GIF89a', 'image/gif'),
        ('a', b'RIFF\x00\n\x00\x00WEBP', 'image/webp'),
        ('a', b'RIFF\x00\x00\x00\x00WAVE', 'audio/wav'),
        ('a', b'ID3\x04', 'audio/mpeg'),
        ('a.MP4', b'', 'video/mp4'),
        ('a.webp', b'?', 'image/webp'),
        ('a.unknown', b'?', 'application/octet-stream'),
    ],
)
def test_the_media_type_is_what_the_file_is(name: str, content: bytes, kind: str) -> None:
    assert media_type(name, content) == kind
