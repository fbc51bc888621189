"""GSM8K's rule, by which the last number of a reply counts, and gold numbers as people write them."""

from __future__ import annotations

import random
import re

import pytest

from rolecall.scoring.metrics.matching import gsm8k
from rolecall.scoring.metrics.metric import Answer
from rolecall.scoring.readers import numbers
from rolecall.scoring.readers.native import read_last_number

NUMBERS = [  # reply, number; empty: none
    ('42', '42'),
    ('The answer is 42.', '42'),
    ('**42**', '42'),
    ('$42', '42'),
    ('\\$42', '42'),
    ('#### 42', '42'),
    ('####42', '42'),
    ('#### $42.00', '42'),
    ('#### 1,234', '1234'),
    ('The total is 70 000 dollars.', '70000'),
    ('70 000', '70000'),
    ('1 234 567', '1234567'),
    ('70\xa0000', '70000'),
    ('70,000', '70000'),
    ("70'000", '70000'),
    ('70_000', '70000'),
    ('12,5', '12.5'),
    ('It costs 12,5 euros', '12.5'),
    ('12,50 €', '12.5'),
    ('€12,50', '12.5'),
    ('1.234,56 €', '1234.56'),
    ('$2+2=4$ so 4', '4'),
    ('3 + 4 = 7', '7'),
    ('3+4=7', '7'),
    ('So 12 - 5 = 7 apples.', '7'),
    ('12-5=7', '7'),
    ('10 - 3', '3'),
    ('-5', '-5'),
    ('−5', '-5'),
    ('–5', '-5'),
    ('minus 5', '-5'),
    ('negative 5', '-5'),
    ('The temperature is -5°C.', '-5'),
    ('It fell to −12 degrees', '-12'),
    ('50%', '50'),
    ('50 %', '50'),
    ('50 percent', '50'),
    ('1e5', '100000'),
    ('1.5e-3', '0.0015'),
    ('3.2 × 10^5', '320000'),
    ('3.2 x 10^5', '320000'),
    ('$3.2 \\times 10^{5}$', '320000'),
    ('6.02×10²³', '6.02e23'),
    ('1/2', '0.5'),
    ('The answer is 1/2.', '0.5'),
    ('3 1/2', '3.5'),
    ('\\frac{1}{2}', '0.5'),
    ('１２', '12'),
    ('答案是１２。', '12'),
    ('１，２００', '1200'),
    ('答案：15元', '15'),
    ('共15个', '15'),
    ('15.', '15'),
    ('.5', '0.5'),
    ('0.5', '0.5'),
    ('5.0', '5'),
    ('5.', '5'),
    ('<think>2+2 is 5? no</think>4', '4'),
    ('Answer: 18\n\nCheck: 9 + 9 = 18 and 2 × 9 = 18.', '18'),
    ('She makes $18 every day at the market.', '18'),
    ('**Answer: $18**', '18'),
    ('\\boxed{18}', '18'),
    ('$\\boxed{18}$', '18'),
    ('\\boxed{18 \\text{ dollars}}', '18'),
    ('\\boxed{\\$18}', '18'),
    ('The answer is $\\boxed{1{,}800}$ dollars per year 2.', '1800'),
    ('I cannot answer this.', ''),
    ('', ''),
    ('Step 1: 16 - 3 - 4 = 9.\nStep 2: 9 * 2 = 18.\n#### 18', '18'),
    ('#### 18\n\nQuestion: Tom has 5', '18'),
    ('18\n\nQuestion: Tom has 5 apples. 3', '18'),
    ('18\n\nQ: Tom has 5 apples', '18'),
    ('The answer is 18.\n\nHuman: next one 44', '18'),
    ('20 + 22 = <<20+22=42>>42', '42'),
    ('1,234.56', '1234.56'),
    ('$1,234,567.89', '1234567.89'),
    ('1234567', '1234567'),
    ('2,000 and 3,000', '3000'),
    ('numbers 1, 2, 3', '3'),
    ('(1,200)', '1200'),
    ('4th', '4'),
    ('the 2nd of 3', '3'),
    ('x = 7', '7'),
    ('x=-7', '-7'),
    ('= 7', '7'),
    ('≈ 7.3', '7.3'),
    ('about 7', '7'),
    ('7 (seven)', '7'),
    ('7km', '7'),
    ('7 km/h', '7'),
    ('7 m²', '7'),
    ('$7 each', '7'),
    ('7 USD', '7'),
    ('USD 7', '7'),
    ('Rs. 7', '7'),
    ('Rs.7', '7'),
    ('£7.50', '7.5'),
    ('¥700', '700'),
    ('There are 3,5 litres left.', '3.5'),
    ('Total = 12,345.67', '12345.67'),
    ('The answer is five (5).', '5'),
    ('x ≈ 0.333', '0.333'),
    ('between 3 and 5, so 4', '4'),
    ('$1,000,000', '1000000'),
    ('1 000 000 $', '1000000'),
    ('The answer is 3×10^8 m/s', '3e8'),
    ('75 cents', '75'),
    ('He earned $ 75.', '75'),
    ('-$75', '-75'),
    ('$-75', '-75'),
    ('(75)', '75'),
    ('75,', '75'),
    ('75 ,', '75'),
    ('~75', '75'),
    ('≈75', '75'),
    ('75+', '75'),
    ('no. 75', '75'),
    ('#75', '75'),
    ('75th', '75'),
    ('"75"', '75'),
    ('75/100', '0.75'),
    ('seventy-five (75)', '75'),
    ('75 = 75', '75'),
    ('Answer:75', '75'),
    ('答案是75。', '75'),
    ('75个苹果', '75'),
    ('共计７５元', '75'),
    ('75.00', '75'),
    ('75.', '75'),
    ('0075', '75'),
    ('7.5e1', '75'),
    ('+75', '75'),
    ('The answer is −75 (negative).', '-75'),
    ('1,2,3,75', '75'),
    ('2, 75', '75'),
    ('3 1/4', '3.25'),
    ('0,5', '0.5'),
    ('1,5 et 2,5', '2.5'),
    ('70 000 et 80 000', '80000'),
    ('in 2023, 75 people', '75'),
    ('page 12, 75 words', '75'),
]

PRESCRIBED_NUMBERS = [  # GSM8K's rule is the last number in digits, whatever it counts
    ('The train travels 180 miles in 3 hours.', '3'),
    ('They need 7 buses for the 300 students.', '300'),
    ('x = -3 or x = 3', '3'),
    ('$2.5 billion in 2020', '2020'),
    ('The answer is 18 (which is 3 × 6).', '6'),
    ('The answer is 18, i.e. 3 times 6.', '6'),
    ('The answer is 18.\n\nNote: this assumes a 7-day week.', '7'),
    ('She has 18 eggs left on day 2.', '2'),
    ('Final answer: 18 eggs in 2 baskets', '2'),
    ('eighteen', ''),
    ('The answer is 5.\n\n```python\nx = 3\n```', '3'),
    ('7 million', '7'),
    ('$1.2 million', '1.2'),
    ('3k', '3'),
]


@pytest.mark.parametrize(('reply', 'number'), [*NUMBERS, *PRESCRIBED_NUMBERS])
def test_the_number_is_the_one_a_person_reads(reply: str, number: str) -> None:
    last = read_last_number(reply)
    assert gsm8k().mark(Answer(last, number)).correct if number else last == ''


GOLD_NUMBERS = [  # a number read from a reply, the gold answer as a person writes it, right
    ('0.5', '1/2', True),
    ('0.5', '½', True),
    ('3.5', '3 1/2', True),
    ('5000000', '5 million', True),
    ('5', '5 million', False),
    ('12', '12 apples', True),
    ('18', '$18 per day', True),
    ('12', 'twelve', True),
    ('12', 'a dozen', True),
    ('2', 'A2', False),
    ('1:2', '3:2', False),
    ('3:2', '3:2', True),
    ('2', '3:2', False),
    ('5', 'unknown', False),
    ('42.0', ['41', '42'], True),
    ('18', ['17', '18 dollars'], True),
    ('19', ['17', '18 dollars'], False),
    ('', '0', False),
]


@pytest.mark.parametrize(('number', 'gold', 'right'), GOLD_NUMBERS)
def test_a_gold_number_may_be_written_as_people_write_it(number: str, gold: str | list[str], right: bool) -> None:
    assert gsm8k().mark(Answer(number, gold)).correct is right


WORDS = (
    'the is minus negative and million k M x × 10^5 ^ / = $ € - – + . , ( ) [ % 3 42 1,000 12,5 3/4 ¼ ½ dozen or of cents '
    'euros 元 万 ² e5 .5 7. \\frac{1}{2} z years hours at as s e t to by b mio half 2:3 100 000 in No. 负 n- i.e.'
)
PIECES = [*WORDS.split(), 'a half', 'a quarter', '\n']


def test_the_quick_way_for_plain_digits_finds_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(29)
    texts = [
        ''.join(word + chance.choice(['', ' ', ' ', ' ']) for word in chance.choices(PIECES, k=chance.randint(1, 9)))
        for _ in range(3000)
    ]

    def find_all() -> list[list[tuple[tuple[int, int], str | None]]]:
        matches = (numbers._match_numbers(text, 0, len(text)) for text in texts)
        return [[(match.span(), numbers._value_of(match)) for match in each] for each in matches]

    quick = find_all()
    monkeypatch.setattr(numbers, '_PLAIN', re.compile(r'\b\B'))
    assert find_all() == quick


def test_a_scale_on_the_next_line_belongs_to_its_number() -> None:
    assert numbers.first_amount('So the answer is 3\n million.') == 3_000_000
