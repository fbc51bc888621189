"""Short answers, programs and instructions: what a person reads in a reply, and whether it is right."""

from __future__ import annotations

from typing import Any

import pytest

from rolecall.scoring.code.extraction import first_fenced_lines, fit_completion, longest_program, mbpp_program
from rolecall.scoring.evaluate import Scorable, build_scorer
from rolecall.scoring.families.ifeval import INSTRUCTIONS, follow_instructions
from rolecall.scoring.postprocessors import read_postprocessor

SHORT = [  # evaluator, reply, gold answer, score
    ('EMEvaluator', 'Paris', 'Paris', 1.0),
    ('EMEvaluator', 'paris', 'Paris', 0.0),
    ('EMEvaluator', 'The Paris', 'Paris', 1.0),
    ('EMEvaluator', 'Paris.', 'Paris', 1.0),
    ('EMEvaluator', '"Paris"', 'Paris', 1.0),
    ('EMEvaluator', '**Paris**', 'Paris', 1.0),
    ('EMEvaluator', 'Paris, France', 'Paris', 1.0),
    ('EMEvaluator', 'It is Paris', 'Paris', 0.0),
    ('EMEvaluator', 'Rome', 'Paris', 0.0),
    ('EMEvaluator', '', 'Paris', 0.0),
    ('EMEvaluator', 'Paris\nRome', 'Paris', 1.0),
    ('EMEvaluator', '12,000', '12000', 1.0),
    ('EMEvaluator', '3.14', '3.14', 1.0),
    ('EMEvaluator', '-5', '5', 0.0),
    ('EMEvaluator', '3.5', '35', 0.0),
    ('EMEvaluator', 'U.S.A.', 'USA', 1.0),
    ('EMEvaluator', 'Dr. Who', 'Dr. Who', 1.0),
    ('EMEvaluator', 'Dr. Who', 'Dr. No', 0.0),
    ('EMEvaluator', 'St. Louis', 'St. Louis', 1.0),
    ('EMEvaluator', 'Mr. Smith', 'Mr. Jones', 0.0),
    ('EMEvaluator', 'J. K. Rowling', 'J.K. Rowling', 1.0),
    ('EMEvaluator', 'J. R. R. Tolkien', 'J. K. Rowling', 0.0),
    ('EMEvaluator', 'Paris!', 'Paris', 1.0),
    ('EMEvaluator', '50%', '50', 1.0),
    ('EMEvaluator', '$50', '50', 1.0),
    ('EMEvaluator', '10:30', '1030', 0.0),
    ('EMEvaluator', '1/2', '12', 0.0),
    ('EMEvaluator', 'a', 'a', 1.0),
    ('EMEvaluator', 'The Beatles', 'Beatles', 1.0),
    ('EMEvaluator', '巴黎', '巴黎', 1.0),
    ('EMEvaluator', '巴黎。', '巴黎', 1.0),
    ('EMEvaluator', 'Café', 'Café', 1.0),
    ('SQuAD20Evaluator', 'Denver Broncos', 'Denver Broncos', 1),
    ('SQuAD20Evaluator', 'the Denver Broncos', 'Denver Broncos', 1),
    ('SQuAD20Evaluator', 'Denver Broncos won', 'Denver Broncos', 0.8),
    ('SQuAD20Evaluator', 'Broncos', 'Denver Broncos', 0.6667),
    ('SQuAD20Evaluator', 'Panthers', 'Denver Broncos', 0),
    ('SQuAD20Evaluator', '', 'Denver Broncos', 0),
    ('SQuAD20Evaluator', 'DENVER BRONCOS.', 'Denver Broncos', 1),
    ('SQuAD20Evaluator', '$5', '5', 1),
    ('SQuAD20Evaluator', '1,000', '1000', 1),
    ('TriviaQAEvaluator', 'Paris', 'Paris', 1.0),
    ('TriviaQAEvaluator', 'The capital is Paris.', 'Paris', 1.0),
    ('TriviaQAEvaluator', 'It was Neil Armstrong in 1969', 'Neil Armstrong', 1.0),
    ('TriviaQAEvaluator', 'Armstrong', 'Neil Armstrong', 0.0),
    ('TriviaQAEvaluator', 'Parisian', 'Paris', 0.0),
    ('TriviaQAEvaluator', 'The answer: **Paris**', 'Paris', 1.0),
    ('TriviaQAEvaluator', '\nParis', 'Paris', 1.0),
    ('TriviaQAEvaluator', 'I think\nParis', 'Paris', 0.0),
    ('TriviaQAEvaluator', 'nothing', 'no', 0.0),
    ('DropOpenAIEvaluator', 'Answer: 12', '12', 1.0),
    ('DropOpenAIEvaluator', '12', '12', 1.0),
    ('DropOpenAIEvaluator', 'Answer: 12 yards', '12', 1.0),
    ('DropOpenAIEvaluator', '**Answer:** 12', '12', 1.0),
    ('DropOpenAIEvaluator', 'Answer: the Bears', 'Bears', 1.0),
    ('DropOpenAIEvaluator', 'Answer: Bears', 'Chicago Bears|Bears', 1.0),
    ('DropOpenAIEvaluator', 'Answer: 1,200', '1200', 1.0),
    ('DropOpenAIEvaluator', 'Let me think. 5 + 7 = 12.\nAnswer: 12', '12', 1.0),
    ('DropOpenAIEvaluator', 'Answer: $12', '12', 1.0),
    ('DropOpenAIEvaluator', 'Answer: 12.', '12', 1.0),
    ('DropOpenAIEvaluator', 'Answer: 12%', '12', 1.0),
    ('DropOpenAIEvaluator', 'The answer is 12.', '12', 1.0),
    ('DropOpenAIEvaluator', 'Answer: Tom Brady', 'Brady', 1.0),
    ('DropOpenAIEvaluator', 'Answer: a', 'Atlanta', 0.0),
    ('DropOpenAIEvaluator', 'Answer:\n12', '12', 1.0),
    ('DropOpenAIEvaluator', 'Answer: **Bears**', 'Bears', 1.0),
    ('DropOpenAIEvaluator', '', '12', 0.0),
    ('BBHEvaluator', 'So the answer is True.', 'True', 1.0),
    ('BBHEvaluator', 'True', 'True', 1.0),
    ('BBHEvaluator', 'true', 'True', 1.0),
    ('BBHEvaluator', 'False', 'True', 0.0),
    ('BBHEvaluator', 'The answer is **False**.', 'False', 1.0),
    ('BBHEvaluator', 'not ( True ) and ( True ) is False. So the answer is False.', 'False', 1.0),
    ('BBHEvaluator', 'So the answer is False', 'True', 0.0),
    ('BBHEvaluator', 'valid', 'valid', 1.0),
    ('BBHEvaluator', 'The argument is invalid. So the answer is invalid.', 'valid', 0.0),
    ('BBHEvaluator', 'invalid', 'valid', 0.0),
    ('BBHEvaluator', 'So the answer is yes', 'Yes', 1.0),
    ('BBHEvaluator', 'So the answer is 5.', '5', 1.0),
    ('BBHEvaluator', 'So the answer is 15', '5', 0.0),
    ('BBHEvaluator', 'So the answer is -5.', '-5', 1.0),
    ('BBHEvaluator', 'So the answer is: } ] )', '} ] )', 1.0),
    ('BBHEvaluator', 'So the answer is ] >.', '] >', 1.0),
    ('BBHEvaluator', 'apple banana cherry', 'apple banana cherry', 1.0),
    ('BBHEvaluator', 'So the answer is apple banana cherry.', 'apple banana cherry', 1.0),
    ('BBHEvaluator', 'Answer: Yes', 'yes', 1.0),
    ('BBHEvaluator', '**Answer: No**', 'no', 1.0),
    ('BBHEvaluator', 'No, it is not plausible', 'no', 1.0),
    ('BBHEvaluator', 'The answer is "plausible".', 'plausible', 1.0),
    ('BBHEvaluator', "The answer is 'yes'.", 'yes', 1.0),
    ('BBHEvaluator', 'The answer is $5$.', '5', 1.0),
    ('BBHEvaluator', 'The answer is \\boxed{5}.', '5', 1.0),
    ('BBHEvaluator', '\\boxed{True}', 'True', 1.0),
    ('BBHEvaluator', 'The answer is 5.5', '5.5', 1.0),
    ('BBHEvaluator', 'The answer is 5 apples', '5', 0.0),
    ('BBHEvaluator', 'So the answer is (A).', '(A)', 1.0),
    ('BBHEvaluator', 'The final answer is: True', 'True', 1.0),
    ('BBHEvaluator', '<think>the answer is False</think>True', 'True', 1.0),
    ('BBHEvaluator', "Let's think. True and False is False. False or True is True.", 'True', 0.0),
    ('BBHEvaluator', '', 'True', 0.0),
    ('BBHEvaluator', 'Yes.', 'yes', 1.0),
    ('BBHEvaluator', 'Yes! Because...', 'yes', 1.0),
    ('BBHEvaluator', 'So the answer is Yes because they fit.', 'yes', 1.0),
]

PRESCRIBED_SHORT = [  # SQuAD drops punctuation, DROP accepts what contains the gold answer or is part of it
    ('EMEvaluator', 'C++', 'C', 1.0),
    ('EMEvaluator', 'C#', 'C', 1.0),
    ('SQuAD20Evaluator', '-5', '5', 1.0),
    ('SQuAD20Evaluator', '3.5', '35', 1.0),
    ('DropOpenAIEvaluator', 'Answer: 112', '12', 1.0),
    ('DropOpenAIEvaluator', 'Answer: 3.5', '35', 1.0),
    ('DropOpenAIEvaluator', 'Answer: -5', '5', 1.0),
    ('DropOpenAIEvaluator', 'Answer: no', 'none', 1.0),
    ('DropOpenAIEvaluator', 'Answer: 2', '12', 1.0),
]

YES_OR_NO = [  # reply, answer
    ('Yes', 'yes'),
    ('No.', 'no'),
    ('So the answer is yes.', 'yes'),
    ('So the answer is No.', 'no'),
    ('**Yes**', 'yes'),
    ('The answer is **no**.', 'no'),
    ('Yes, because no one objected. So the answer is yes.', 'yes'),
    ('Maybe', ''),
    ('', ''),
    ('I know nothing.', ''),
    ('yes\n\nQ: next? So the answer is no.', 'yes'),
    ('Answer: yes', 'yes'),
    ('The answer is: No', 'no'),
    ('No, wait. The answer is yes.', 'yes'),
    ('There is no evidence that fish fly. So the answer is no.', 'no'),
    ('Let us think.\n\nSo the answer is yes.', 'yes'),
    ('<think>no?</think>Yes', 'yes'),
    ('是', ''),
    ('YES!', 'yes'),
    ('The answer is "yes".', 'yes'),
    ('Not sure, but I would say yes.', 'yes'),
    ("I don't know.", ''),
    ('No one has done it, so the answer is no.', 'no'),
]

PRESCRIBED_YES_OR_NO = [  # StrategyQA's rule is the first `yes` or `no`
    ('There is no reason against it, so yes.', 'no'),
    ('There is no doubt. Yes.', 'no'),
    ('True', ''),
    ('False', ''),
    ('nope', ''),
]

INSTRUCTIONS_FOLLOWED = [  # IFEval's instruction, its arguments, reply, whether it is followed
    ('keywords:existence', {'keywords': ['sun', 'moon']}, 'The Sun and the MOON.', True),
    ('keywords:existence', {'keywords': ['sun', 'moon']}, 'Only the sun.', False),
    ('keywords:frequency', {'keyword': 'cat', 'frequency': 2, 'relation': 'at least'}, 'Cat, cat, dog.', True),
    ('keywords:frequency', {'keyword': 'cat', 'frequency': 2, 'relation': 'less than'}, 'Cat, cat, dog.', False),
    ('keywords:frequency', {'keyword': 'cat', 'frequency': 2, 'relation': 'less than'}, 'One cat.', True),
    ('keywords:forbidden_words', {'forbidden_words': ['bad']}, 'A badly made thing.', True),
    ('keywords:forbidden_words', {'forbidden_words': ['bad']}, 'Not **bad**.', False),
    ('keywords:letter_frequency', {'letter': 'q', 'let_frequency': 1, 'let_relation': 'at least'}, 'Quite so.', True),
    ('keywords:letter_frequency', {'letter': '#', 'let_frequency': 4, 'let_relation': 'at least'}, '#a #b #c', False),
    (
        'language:response_language',
        {'language': 'de'},
        'Das ist ein langer deutscher Satz über das Wetter von morgen.',
        True,
    ),
    (
        'language:response_language',
        {'language': 'de'},
        'This is a rather long English sentence about the weather.',
        False,
    ),
    ('language:response_language', {'language': 'hi'}, 'यह एक हिंदी वाक्य है जो मौसम के बारे में है।', True),
    ('length_constraints:number_sentences', {'num_sentences': 3, 'relation': 'at least'}, 'One. Two! Three?', True),
    ('length_constraints:number_sentences', {'num_sentences': 3, 'relation': 'less than'}, 'One. Two! Three?', False),
    (
        'length_constraints:number_sentences',
        {'num_sentences': 2, 'relation': 'less than'},
        'Dr. Smith paid $3.50 to Mr. Jones.',
        True,
    ),
    ('length_constraints:number_paragraphs', {'num_paragraphs': 3}, 'One\n***\nTwo\n***\nThree', True),
    ('length_constraints:number_paragraphs', {'num_paragraphs': 2}, 'One\n\nTwo', False),
    ('length_constraints:number_paragraphs', {'num_paragraphs': 2}, 'One\n***\n\n***\nTwo', False),
    ('length_constraints:number_words', {'num_words': 5, 'relation': 'at least'}, 'It has five words, yes.', True),
    ('length_constraints:number_words', {'num_words': 5, 'relation': 'less than'}, 'It has five words, yes.', False),
    (
        'length_constraints:nth_paragraph_first_word',
        {'num_paragraphs': 2, 'nth_paragraph': 2, 'first_word': 'however'},
        'First.\n\nHowever, second.',
        True,
    ),
    (
        'length_constraints:nth_paragraph_first_word',
        {'num_paragraphs': 2, 'nth_paragraph': 2, 'first_word': 'however'},
        'First.\n\nBut however.',
        False,
    ),
    ('detectable_content:number_placeholders', {'num_placeholders': 2}, 'Dear [name], see you at [place].', True),
    ('detectable_content:number_placeholders', {'num_placeholders': 3}, 'Dear [name], see you at [place].', False),
    ('detectable_content:postscript', {'postscript_marker': 'P.S.'}, 'Bye.\n\nP.S. Call me.', True),
    ('detectable_content:postscript', {'postscript_marker': 'P.P.S'}, 'Bye.\n\nP.S. Call me.', False),
    ('detectable_content:postscript', {'postscript_marker': 'P.P.S'}, 'Bye.\n\nP.P.S. Call me.', True),
    ('detectable_format:number_bullet_lists', {'num_bullets': 2}, '* one\n* two', True),
    ('detectable_format:number_bullet_lists', {'num_bullets': 2}, '- one\n- two\n- three', False),
    ('detectable_format:number_bullet_lists', {'num_bullets': 2}, '**Title**\n* one\n* two', True),
    ('detectable_format:constrained_response', {}, 'My answer is yes.', True),
    ('detectable_format:constrained_response', {}, 'Yes.', False),
    ('detectable_format:number_highlighted_sections', {'num_highlights': 2}, '*one* and *two*', True),
    ('detectable_format:number_highlighted_sections', {'num_highlights': 2}, '*one* only', False),
    (
        'detectable_format:multiple_sections',
        {'section_spliter': 'SECTION', 'num_sections': 2},
        'SECTION 1\na\nSECTION 2\nb',
        True,
    ),
    ('detectable_format:multiple_sections', {'section_spliter': 'SECTION', 'num_sections': 2}, 'SECTION 1\na', False),
    ('detectable_format:json_format', {}, '```json\n{"a": 1}\n```', True),
    ('detectable_format:json_format', {}, '{"a": 1,}', False),
    ('detectable_format:json_format', {}, 'Here it is: {"a": 1}', False),
    ('detectable_format:title', {}, '<<My Poem>>\nRoses', True),
    ('detectable_format:title', {}, 'My Poem\nRoses', False),
    ('detectable_format:title', {}, '<<>>\nRoses', False),
    ('combination:two_responses', {}, 'One\n******\nTwo', True),
    ('combination:two_responses', {}, 'One\n******\nOne', False),
    ('combination:repeat_prompt', {'prompt_to_repeat': 'Say hi.'}, 'Say hi.\n\nHi.', True),
    ('combination:repeat_prompt', {'prompt_to_repeat': 'Say hi.'}, 'Hi. Say hi.', False),
    ('startend:end_checker', {'end_phrase': 'Is there anything else?'}, 'Done. Is there anything else?', True),
    ('startend:end_checker', {'end_phrase': 'Is there anything else?'}, 'Is there anything else? No.', False),
    ('startend:quotation', {}, '"All of it."', True),
    ('startend:quotation', {}, '“All of it.”', False),
    ('startend:quotation', {}, '"All" of it.', False),
    (
        'change_case:capital_word_frequency',
        {'capital_frequency': 2, 'capital_relation': 'at least'},
        'This is VERY IMPORTANT.',
        True,
    ),
    (
        'change_case:capital_word_frequency',
        {'capital_frequency': 2, 'capital_relation': 'less than'},
        'This is VERY IMPORTANT.',
        False,
    ),
    ('change_case:english_capital', {}, 'THIS IS A LONG ENGLISH SENTENCE IN CAPITALS.', True),
    ('change_case:english_capital', {}, 'THIS IS A LONG ENGLISH SENTENCE IN cAPITALS.', False),
    ('change_case:english_lowercase', {}, 'this is a long english sentence without capitals.', True),
    ('change_case:english_lowercase', {}, 'This is a long english sentence.', False),
    ('punctuation:no_comma', {}, 'No comma; none.', True),
    ('punctuation:no_comma', {}, 'One, two.', False),
]

PROGRAMS = [  # how the program is taken out; a reply that defines `add`
    (None, '    return a + b'),
    (None, 'return a + b'),
    ('humaneval_postprocess_v2', '```python\n    return a + b\n```'),
    ('humaneval_postprocess_v2', '```python\nreturn a + b\n```'),
    ('humaneval_postprocess_v2', '```python\ndef add(a, b):\n    return a + b\n```'),
    (
        'humaneval_postprocess_v2',
        'Here is the function:\n\n```python\ndef add(a, b):\n    return a + b\n```\n\nIt adds.',
    ),
    ('humaneval_postprocess_v2', '```py\ndef add(a, b):\n    return a + b\n```'),
    ('humaneval_postprocess_v2', '```\ndef add(a, b):\n    return a + b\n```'),
    ('humaneval_postprocess_v2', '```Python\ndef add(a, b):\n    return a + b\n```'),
    ('humaneval_postprocess_v2', '```python3\ndef add(a, b):\n    return a + b\n```'),
    ('humaneval_postprocess_v2', '```python\ndef add(a, b):\n    return a + b'),
    ('humaneval_postprocess_v2', 'def add(a, b):\n    return a + b\n\nThis adds.'),
    ('humaneval_postprocess_v2', 'def add(a, b):\n    return a + b'),
    ('humaneval_postprocess_v2', '```python\nfrom typing import List\n\ndef add(a, b):\n    return a + b\n```'),
    ('humaneval_postprocess_v2', '```python\ndef helper(x):\n    return x\n\ndef add(a, b):\n    return a + b\n```'),
    ('humaneval_postprocess_v2', '```python\ndef add(a, b):\n    return a + b\n\nprint(add(1, 2))\n```'),
    (
        'humaneval_postprocess_v2',
        '```python\ndef add(a, b):\n    return a + b\n```\n\n```python\nprint(add(1, 2))\n```',
    ),
    ('humaneval_postprocess_v2', '  ```python\n  def add(a, b):\n      return a + b\n  ```'),
    (
        'humaneval_postprocess_v2',
        '<think>\n```python\ndef add(a, b): return a - b\n```\n</think>\n```python\ndef add(a, b):\n    return a + b\n```',
    ),
    ('humaneval_postprocess_v2', '    return a + b\n```\nThat is it.'),
    ('humaneval_postprocess_v2', '    return a + b\n\n# Test\nprint(add(1, 2))'),
    ('humaneval_postprocess_v2', '    return a + b\n\n\ndef other():\n    return 1'),
    ('humaneval_postprocess_v2', '\treturn a + b'),
    ('humaneval_postprocess_v2', '    # add them\n    total = a\n    total += b\n    return total'),
    ('humaneval_postprocess_v2', 'def add(a: int, b: int) -> int:\n    """Add."""\n    return a + b'),
    ('humaneval_postprocess_v2', 'Sure! Here you go:\n\ndef add(a, b):\n    return a + b'),
    ('humaneval_postprocess_v2', '~~~python\ndef add(a, b):\n    return a + b\n~~~'),
    (
        'humaneval_postprocess_v3',
        'First try:\n```python\ndef add(a, b):\n    return a - b\n```\nFixed:\n```python\ndef add(a, b):\n    return a + b\n```',
    ),
    ('humaneval_postprocess', '```python\ndef add(a, b):\n    return a + b\n```'),
    ('humaneval_postprocess', '    return a + b'),
    ('humaneval_postprocess', 'return a + b'),
    ('humaneval_postprocess', '```python\nimport math\n\ndef add(a, b):\n    return a + b\n```'),
    ('humaneval_postprocess', 'def add(a, b):\n    return a + b'),
    ('MBPP', '[BEGIN]\ndef add(a, b):\n    return a + b\n[DONE]'),
    ('MBPP', "[BEGIN]\n 'def add(a, b):\n    return a + b'\n[DONE]"),
    ('MBPP', '```python\ndef add(a, b):\n    return a + b\n```'),
    ('MBPP', 'def add(a, b):\n    return a + b'),
    ('MBPP', 'def add(a, b):\n    return a + b\n[DONE]\nmore'),
    ('MBPP', '[BEGIN]\n```python\ndef add(a, b):\n    return a + b\n```\n[DONE]'),
    ('MBPP', 'Here is it:\n```python\ndef add(a, b):\n    return a + b\n```\nDone.'),
    ('MBPP', '[BEGIN]\ndef add(a, b):\n    return a + b'),
    ('MBPP', '<think>x</think>\n```python\ndef add(a, b):\n    return a + b\n```'),
    ('MBPP', '<think>\n```python\nx\n```</think>\n```python\ndef add(a, b):\n    return a + b\n```'),
    ('MBPP', 'Sure.\n\ndef add(a, b):\n    return a + b'),
    ('LCB', '```python\ndef add(a, b):\n    return a + b\n```'),
    ('BCB', 'Sure!\ndef add(a, b):\n    return a + b\nHope it helps.'),
    ('BCB', '```python\ndef add(a, b):\n    return a + b\n```'),
]
PROMPT = 'def add(a, b):\n    """Add."""\n'


@pytest.mark.parametrize(('evaluator', 'reply', 'gold', 'score'), [*SHORT, *PRESCRIBED_SHORT])
def test_a_short_answer_is_scored_as_a_person_would(evaluator: str, reply: str, gold: str, score: float) -> None:
    run = build_scorer({'evaluator': evaluator}).score([Scorable(0, 'ok', reply, gold)])
    assert run.verdicts[0].score == pytest.approx(score, abs=1e-3)


@pytest.mark.parametrize(('reply', 'answer'), [*YES_OR_NO, *PRESCRIBED_YES_OR_NO])
def test_yes_and_no_are_read(reply: str, answer: str) -> None:
    assert read_postprocessor('strategyqa_pred_postprocess')(reply) == answer


@pytest.mark.parametrize(('kind', 'options', 'reply', 'followed'), INSTRUCTIONS_FOLLOWED)
def test_an_instruction_is_followed_if_a_person_says_so(
    kind: str, options: dict[str, Any], reply: str, followed: bool
) -> None:
    assert follow_instructions(reply, [kind], [options]) == [followed]


def test_every_kind_of_instruction_is_tried() -> None:
    assert {kind for kind, *_ in INSTRUCTIONS_FOLLOWED} == set(INSTRUCTIONS)


@pytest.mark.parametrize(('way', 'reply'), PROGRAMS)
def test_the_program_in_a_reply_runs(way: str | None, reply: str) -> None:
    readers = {'MBPP': mbpp_program, 'LCB': first_fenced_lines, 'BCB': longest_program}
    if way in readers:
        program = readers[way](reply)
    else:
        program = PROMPT + fit_completion(PROMPT, read_postprocessor(way)(reply) if way else reply)
    names: dict[str, Any] = {'print': lambda *values: None}
    exec(program, names)
    assert names['add'](2, 3) == 5
