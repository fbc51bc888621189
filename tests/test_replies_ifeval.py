"""IFEval: for each of the 25 kinds of instructions, replies that follow it and replies that do not, as a person judges."""

from __future__ import annotations

from typing import Any

import pytest

from rolecall.compat.benchmark_metrics.ifeval import follow_instructions

FOLLOWED = [  # instruction, its arguments, reply, followed
    ('keywords:existence', {'keywords': ['river', 'stone']}, '**River** and STONE', True),
    ('keywords:existence', {'keywords': ['river', 'stone']}, 'rivers and stones', True),
    ('keywords:existence', {'keywords': ['river', 'stone']}, 'The river ran on.', False),
    ('keywords:frequency', {'keyword': 'data', 'frequency': 3, 'relation': 'at least'}, 'Data, data and *data*.', True),
    ('keywords:frequency', {'keyword': 'data', 'frequency': 3, 'relation': 'at least'}, 'Data about data.', False),
    ('keywords:frequency', {'keyword': 'data', 'frequency': 3, 'relation': 'less than'}, 'Data about data.', True),
    ('keywords:frequency', {'keyword': 'data', 'frequency': 2, 'relation': 'less than'}, 'data\ndata', False),
    ('keywords:forbidden_words', {'forbidden_words': ['rock', 'hand']}, 'A handy rocket.', True),
    ('keywords:forbidden_words', {'forbidden_words': ['rock', 'hand']}, 'Rock-solid.', False),
    ('keywords:forbidden_words', {'forbidden_words': ['rock', 'hand']}, '`HAND`', False),
    ('keywords:forbidden_words', {'forbidden_words': ['rock', 'hand']}, '我们用手。', True),
    ('keywords:letter_frequency', {'letter': 'q', 'let_frequency': 2, 'let_relation': 'at least'}, 'Quick quiz', True),
    ('keywords:letter_frequency', {'letter': 'q', 'let_frequency': 2, 'let_relation': 'at least'}, 'Quick', False),
    ('keywords:letter_frequency', {'letter': '!', 'let_frequency': 2, 'let_relation': 'less than'}, 'Wow!', True),
    ('keywords:letter_frequency', {'letter': 'z', 'let_frequency': 1, 'let_relation': 'less than'}, 'Zoo', False),
    (
        'language:response_language',
        {'language': 'fr'},
        'Bonjour, je vous remercie de votre question sur la météo.',
        True,
    ),
    ('language:response_language', {'language': 'fr'}, 'Thank you for your question about the weather.', False),
    ('language:response_language', {'language': 'zh-cn'}, '今天的天气很好，我们去公园散步吧。', True),
    ('language:response_language', {'language': 'en'}, 'Guten Tag, ich danke Ihnen für Ihre Frage zum Wetter.', False),
    (
        'length_constraints:number_sentences',
        {'num_sentences': 3, 'relation': 'at least'},
        'Mr. Fox ran. Dr. Owl slept! Who knows?',
        True,
    ),
    (
        'length_constraints:number_sentences',
        {'num_sentences': 3, 'relation': 'at least'},
        'Mr. Fox ran, e.g. to the U.S. embassy at 3.5 km.',
        False,
    ),
    ('length_constraints:number_sentences', {'num_sentences': 3, 'relation': 'less than'}, 'One... and two!!', True),
    (
        'length_constraints:number_sentences',
        {'num_sentences': 2, 'relation': 'less than'},
        'First. Second.   \n\n',
        False,
    ),
    ('length_constraints:number_paragraphs', {'num_paragraphs': 2}, 'One.\n\n***\n\nTwo.', True),
    ('length_constraints:number_paragraphs', {'num_paragraphs': 2}, 'One. *** Two.', True),
    ('length_constraints:number_paragraphs', {'num_paragraphs': 2}, 'One.\n\nTwo.', False),
    ('length_constraints:number_paragraphs', {'num_paragraphs': 3}, '***\nOne.\n***\nTwo.\n***', False),
    ('length_constraints:number_words', {'num_words': 4, 'relation': 'at least'}, '**Four** words\n\nare - here', True),
    ('length_constraints:number_words', {'num_words': 4, 'relation': 'at least'}, 'three - * - words here', False),
    ('length_constraints:number_words', {'num_words': 4, 'relation': 'less than'}, 'Just three words.', True),
    ('length_constraints:number_words', {'num_words': 4, 'relation': 'less than'}, "I don't know it", False),
    (
        'length_constraints:nth_paragraph_first_word',
        {'num_paragraphs': 3, 'nth_paragraph': 2, 'first_word': 'weekend'},
        'One.\n\nWeekend! Two.\n\nThree.',
        True,
    ),
    (
        'length_constraints:nth_paragraph_first_word',
        {'num_paragraphs': 3, 'nth_paragraph': 3, 'first_word': 'so'},
        'One.\n\nTwo.\n\n"So," he said.',
        True,
    ),
    (
        'length_constraints:nth_paragraph_first_word',
        {'num_paragraphs': 3, 'nth_paragraph': 2, 'first_word': 'weekend'},
        'One.\nWeekend two.\nThree.',
        False,
    ),
    (
        'length_constraints:nth_paragraph_first_word',
        {'num_paragraphs': 2, 'nth_paragraph': 1, 'first_word': 'so'},
        'Sofa one.\n\nTwo.',
        False,
    ),
    ('detectable_content:number_placeholders', {'num_placeholders': 2}, 'Dear [name],\nyours, [sender]', True),
    ('detectable_content:number_placeholders', {'num_placeholders': 2}, '`[a]`[b]', True),
    ('detectable_content:number_placeholders', {'num_placeholders': 2}, 'Dear {name}, <sender>', False),
    ('detectable_content:number_placeholders', {'num_placeholders': 2}, 'Dear [name', False),
    ('detectable_content:postscript', {'postscript_marker': 'P.S.'}, 'Bye.\n\n**P.S.** Call.', True),
    ('detectable_content:postscript', {'postscript_marker': 'P.P.S'}, 'Bye.\nP. P. S. Call.', True),
    ('detectable_content:postscript', {'postscript_marker': 'P.S.'}, 'Bye. PS call.', False),
    ('detectable_content:postscript', {'postscript_marker': 'P.S.'}, 'Bye.', False),
    ('detectable_format:number_bullet_lists', {'num_bullets': 3}, 'Intro:\n* a\n* b\n  - c', True),
    ('detectable_format:number_bullet_lists', {'num_bullets': 2}, '* **a**: x\n* **b**: y\n', True),
    ('detectable_format:number_bullet_lists', {'num_bullets': 2}, '1. a\n2. b', False),
    ('detectable_format:constrained_response', {}, 'After some thought, My answer is maybe.', True),
    ('detectable_format:constrained_response', {}, '**My answer is no.**', True),
    ('detectable_format:constrained_response', {}, 'My answer is perhaps.', False),
    ('detectable_format:constrained_response', {}, 'my answer is yes', False),
    ('detectable_format:number_highlighted_sections', {'num_highlights': 2}, '*a b* and **c**', True),
    ('detectable_format:number_highlighted_sections', {'num_highlights': 3}, '*a*\n*b*\n*c*', True),
    ('detectable_format:number_highlighted_sections', {'num_highlights': 1}, '2 * 3 = 6', False),
    ('detectable_format:number_highlighted_sections', {'num_highlights': 1}, '_a_ and ****', False),
    (
        'detectable_format:multiple_sections',
        {'section_spliter': 'Section', 'num_sections': 2},
        '**Section 1**\na\n**Section 2**\nb',
        True,
    ),
    (
        'detectable_format:multiple_sections',
        {'section_spliter': 'PARAGRAPH', 'num_sections': 3},
        'PARAGRAPH 1\na\nPARAGRAPH 2\nb\nPARAGRAPH 3\nc\n',
        True,
    ),
    (
        'detectable_format:multiple_sections',
        {'section_spliter': 'Section', 'num_sections': 2},
        'Section I\na\nSection II\nb',
        False,
    ),
    (
        'detectable_format:multiple_sections',
        {'section_spliter': 'Section', 'num_sections': 2},
        'Section 1\na\nPart 2\nb',
        False,
    ),
    ('detectable_format:json_format', {}, '[1, {"a": null}]', True),
    ('detectable_format:json_format', {}, '```json\n{"名": "猫"}\n```\n', True),
    ('detectable_format:json_format', {}, "{'a': 1}", False),
    ('detectable_format:json_format', {}, '{"a": 1} // done', False),
    ('detectable_format:title', {}, '# <<On Cats>>\n\nText', True),
    ('detectable_format:title', {}, '<<诗>>', True),
    ('detectable_format:title', {}, '<On Cats>\nText', False),
    ('detectable_format:title', {}, '<<\n>>\nText', False),
    ('combination:two_responses', {}, 'First answer.\n\n******\n\nSecond answer.', True),
    ('combination:two_responses', {}, 'a******b', True),
    ('combination:two_responses', {}, 'First.\n******\nSecond.\n******\nThird.', False),
    ('combination:two_responses', {}, 'First.\n***\nSecond.', False),
    ('combination:repeat_prompt', {'prompt_to_repeat': 'Write a poem.'}, '  write a poem.\nRoses', True),
    ('combination:repeat_prompt', {'prompt_to_repeat': 'Write a poem.'}, 'Write a poem.', True),
    ('combination:repeat_prompt', {'prompt_to_repeat': 'Write a poem.'}, 'Sure! Write a poem.\nRoses', False),
    ('combination:repeat_prompt', {'prompt_to_repeat': 'Write a poem.'}, 'Write poem.\nRoses', False),
    ('startend:end_checker', {'end_phrase': 'Any other questions?'}, 'Done.\nany other questions?  \n', True),
    ('startend:end_checker', {'end_phrase': 'Any other questions?'}, '"Done. Any other questions?"', True),
    ('startend:end_checker', {'end_phrase': 'Any other questions?'}, 'Any other questions? Bye.', False),
    ('startend:quotation', {}, '  "Yes, all."\n', True),
    ('startend:quotation', {}, '"a" and "b"', True),
    ('startend:quotation', {}, "'Yes.'", False),
    ('startend:quotation', {}, '"Yes.', False),
    (
        'change_case:capital_word_frequency',
        {'capital_frequency': 2, 'capital_relation': 'at least'},
        'NASA and the EU.',
        True,
    ),
    (
        'change_case:capital_word_frequency',
        {'capital_frequency': 2, 'capital_relation': 'less than'},
        'Only NASA Here.',
        True,
    ),
    (
        'change_case:capital_word_frequency',
        {'capital_frequency': 2, 'capital_relation': 'at least'},
        'Nasa and the Eu.',
        False,
    ),
    (
        'change_case:capital_word_frequency',
        {'capital_frequency': 1, 'capital_relation': 'less than'},
        'I said STOP!',
        False,
    ),
    ('change_case:english_capital', {}, 'THE WEATHER IS FINE TODAY AND WE ARE GOING OUT.\n1. YES', True),
    ('change_case:english_capital', {}, 'HELLO THERE, THIS IS ALL IN CAPITAL LETTERS!', True),
    ('change_case:english_capital', {}, 'HELLO THERE, This is not.', False),
    ('change_case:english_capital', {}, 'DAS WETTER IST HEUTE SEHR SCHÖN UND WIR GEHEN HINAUS.', False),
    ('change_case:english_lowercase', {}, 'the weather is fine today and we are going out.', True),
    ('change_case:english_lowercase', {}, '- one two three\n- this is all written without capitals', True),
    ('change_case:english_lowercase', {}, 'the weather in Rome is fine today.', False),
    ('change_case:english_lowercase', {}, 'das wetter ist heute sehr schön und wir gehen hinaus.', False),
    ('punctuation:no_comma', {}, 'One; two - three.', True),
    ('punctuation:no_comma', {}, '一，二、三', True),
    ('punctuation:no_comma', {}, '1,000', False),
    ('punctuation:no_comma', {}, '```\nf(a, b)\n```', False),
]

PRESCRIBED = [  # keywords count inside words; bullets are `*` and `-`; strictly, asterisks after the phrase end the reply
    ('keywords:existence', {'keywords': ['art']}, 'We start here.', True),
    ('detectable_format:number_bullet_lists', {'num_bullets': 2}, '• a\n• b', False),
    ('startend:end_checker', {'end_phrase': 'Any other questions?'}, '**Any other questions?**', False),
]


@pytest.mark.parametrize(('kind', 'arguments', 'reply', 'followed'), [*FOLLOWED, *PRESCRIBED])
def test_an_instruction_is_followed_if_a_person_or_the_definition_says_so(
    kind: str, arguments: dict[str, Any], reply: str, followed: bool
) -> None:
    assert follow_instructions(reply, [kind], [arguments]) == [followed]


@pytest.mark.parametrize(
    ('kind', 'arguments', 'piece'),
    [
        ('detectable_content:number_placeholders', {'num_placeholders': 1}, '['),
        ('detectable_content:postscript', {'postscript_marker': 'P.S.'}, '\n'),
        ('detectable_content:postscript', {'postscript_marker': 'P.P.S'}, ' '),
        ('detectable_format:number_bullet_lists', {'num_bullets': 1}, '\n'),
        ('detectable_format:title', {}, '<<'),
        ('detectable_format:json_format', {}, '['),
    ],
)
def test_a_reply_that_repeats_itself_to_its_limit_is_read_at_once(
    kind: str, arguments: dict[str, Any], piece: str
) -> None:
    """Work that grows with the square of the length would take hours."""
    assert follow_instructions('x' + piece * 1_000_000, [kind], [arguments]) == [False]
    assert follow_instructions(piece * 100_000 + 'x', [kind], [arguments]) == [False]
