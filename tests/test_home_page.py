"""The manual's home page: an animated terminal that runs no script, whose commands are commands of today."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

from rolecall.ui.cli.main import build_parser

PICTURE = Path(__file__).parent.parent / 'docs/images/terminal.svg'


def test_the_terminal_is_a_picture_without_scripts_or_links() -> None:
    text = PICTURE.read_text('utf-8')
    tags = {element.tag.rpartition('}')[2] for element in ElementTree.fromstring(text).iter()}
    assert tags == {'svg', 'style', 'rect', 'g', 'text', 'tspan'}
    assert 'prefers-reduced-motion' in text
    assert not re.search(r'https?://(?!www\.w3\.org/2000/svg)|/tmp/', text)


def test_the_commands_in_the_terminal_parse() -> None:
    root = ElementTree.fromstring(PICTURE.read_text('utf-8'))
    lines = [''.join(element.itertext()) for element in root.iter() if element.tag.endswith('text')]
    commands = [line.removeprefix('$ ') for line in lines if line.startswith('$ rolecall ')]
    assert len(commands) == 3
    for command in commands:
        words = shlex.split(command)[1:]
        assert build_parser(words).parse_args(words)
