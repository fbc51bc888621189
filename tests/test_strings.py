"""Words that every room writes alike."""

import pytest

from rolecall.strings import count_noun, printable


@pytest.mark.parametrize(
    ('count', 'noun', 'expected'),
    [
        (0, 'row', '0 rows'),
        (1, 'row', '1 row'),
        (2, 'reply', '2 replies'),
        (1234, 'empty reply', '1,234 empty replies'),
    ],
)
def test_a_count_agrees_with_its_noun(count, noun, expected):
    assert count_noun(count, noun) == expected


@pytest.mark.parametrize('character', ['\x00', '\x1b', '\r', '\x7f', '\x9b', '\u202e', '\u2028', '\ufeff', '\ud800'])
def test_a_character_that_acts_on_a_terminal_is_written_out(character):
    assert character not in printable(f'a{character}b')


def test_ordinary_text_is_left_alone():
    assert printable('Grüße,\n\t你好 🙂') == 'Grüße,\n\t你好 🙂'
