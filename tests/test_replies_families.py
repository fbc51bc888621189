"""Replies to the questions of long texts, quizzes and reading tests, and to tasks scored by overlap: what each is worth.

Where a benchmark's published definition differs from a person's judgement, the definition wins; such rows stand in the
tables that begin with PRESCRIBED.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from rolecall.scoring.answers import Scorable
from rolecall.scoring.evaluate import build_scorer

DROP = [  # reply, gold answers, score
    ('Answer: 3', '3', 1.0),
    ('3', '3', 1.0),
    ('The answer is 3.', '3', 1.0),
    ('**Answer: 3**', '3', 1.0),
    ('Answer: 3 touchdowns', '3', 1.0),
    ('Answer: 4', '3', 0.0),
    ('Answer: three', '3|three', 1.0),
    ('Answer: 1,200 yards', '1200', 1.0),
    ('Answer: 12.5', '12.5', 1.0),
    ('Answer: 12.5%', '12.5', 1.0),
    ('Answer: Tom Brady', 'Tom Brady', 1.0),
    ('Answer: Brady', 'Tom Brady', 1.0),
    ('Answer: Peyton Manning', 'Tom Brady', 0.0),
    ('Answer: tom brady', 'Tom Brady', 1.0),
    ('Answer: the Patriots', 'Patriots', 1.0),
    ('Answer: New England Patriots', 'Patriots|New England Patriots', 1.0),
    ('Answer: "Patriots"', 'Patriots', 1.0),
    ('Answer: March 12, 1948', 'March 12, 1948', 1.0),
    ('Answer: March 12 1948', 'March 12, 1948', 1.0),
    ('Answer: 1948', '1948', 1.0),
    ('Answer: in 1948', '1948', 1.0),
    ('Answer: 1949', '1948', 0.0),
    ('Answer: March 1948', '12 March 1948', 1.0),
    ('Answer: Turks, Greeks', 'Turks Greeks', 1.0),
    ('Answer: Turks and Greeks', 'Turks|Greeks', 1.0),
    ('Answer: Greeks', 'Turks|Greeks', 1.0),
    ('Answer: Serbs', 'Turks|Greeks', 0.0),
    ('The passage says they scored 21 and 14 points.\n\nAnswer: 7', '7', 1.0),
    ('The passage says 21 and 14.\n\nAnswer: 7', '21', 0.0),
    ('Let me count: 21 - 14 = 7.\nAnswer: 7 points', '7', 1.0),
    ('### Answer: 7', '7', 1.0),
    ('Answer: **7**', '7', 1.0),
    ('answer: 7', '7', 1.0),
    ('ANSWER: 7', '7', 1.0),
    ('Answer : 7', '7', 1.0),
    ('Answer:7', '7', 1.0),
    ('Answer: $7', '7', 1.0),
    ('Answer: $7 million', '7 million', 1.0),
    ('Answer: 7 million', '7', 1.0),
    ('Answer: 7th', '7', 1.0),
    ('Answer: \\boxed{7}', '7', 1.0),
    ('\\boxed{7}', '7', 1.0),
    ('<think>Answer: 5</think>Answer: 7', '7', 1.0),
    ('<think>Answer: 5</think>Answer: 7', '5', 0.0),
    ('', '7', 0.0),
    ("I don't know", '7', 0.0),
    ('Answer: none', '7', 0.0),
    ('Answer: no', 'no', 1.0),
    ('Answer: yes', 'yes', 1.0),
    ('Answer: Not enough information', '7', 0.0),
    ('答案：7', '7', 1.0),
    ('Answer：7', '7', 1.0),
    ('Answer: 7-yard', '7', 1.0),
    ('Answer: seven (7)', '7', 1.0),
    ('Answer: Jones (23 yards)', 'Jones', 1.0),
    ('Answer: Matt Ryan to Julio Jones', 'Julio Jones', 1.0),
    ('Answer: a', 'Atlanta', 0.0),
    ('Answer: the', 'Atlanta', 0.0),
    ('Answer: Second quarter', 'second', 1.0),
    ('Answer: 50.', '50', 1.0),
]

PRESCRIBED_DROP = [  # the first line after `Answer:` contains a gold answer or is part of it, without signs and points
    ('Answer: 12 March 1948', 'March 12, 1948', 0.0),
    ('Answer: -7', '7', 1.0),
    ('Answer: 5. Wait, no.\nAnswer: 7', '7', 0.0),
    ('Answer: unknown', 'no', 1.0),
    ('Answer: 17', '7', 1.0),
    ('Answer: 70', '7', 1.0),
    ('Answer: 1', '21', 1.0),
    ('Answer: 2.1', '21', 1.0),
    ('Answer: 2nd', 'second', 0.0),
]

SPORT = {'answers': ['Sport'], 'all_classes': ['Sport', 'Politics', 'Business']}
RETRIEVAL = [  # evaluator, reply, gold answer, score
    ('RulerNiahEvaluator', 'The special magic number is 8231.', ['8231'], 1.0),
    ('RulerNiahEvaluator', '8231', ['8231'], 1.0),
    ('RulerNiahEvaluator', '**8231**', ['8231'], 1.0),
    ('RulerNiahEvaluator', '8231 and 4410', ['8231', '4410'], 1.0),
    ('RulerNiahEvaluator', '8231', ['8231', '4410'], 1 / 2),
    ('RulerNiahEvaluator', 'I could not find it.', ['8231'], 0.0),
    ('RulerNiahEvaluator', '', ['8231'], 0.0),
    ('RulerNiahEvaluator', 'The words are: Apple, PEAR', ['apple', 'pear'], 1.0),
    ('RulerNiahEvaluator', '1. apple\n2. pear', ['apple', 'pear', 'fig'], 2 / 3),
    ('RulerNiahEvaluator', 'apple', ['Apple'], 1.0),
    ('RulerNiahEvaluator', '`c7b2-uuid`', ['C7B2-UUID'], 1.0),
    ('RulerNiahEvaluator', '特别的数字是8231。', ['8231'], 1.0),
    ('RulerQaEvaluator', 'Paris', ['Paris', 'City of Light'], 1.0),
    ('RulerQaEvaluator', 'It is the city of light', ['Paris', 'City of Light'], 1.0),
    ('RulerQaEvaluator', 'London', ['Paris', 'City of Light'], 0.0),
    ('RulerVtEvaluator', 'VAR ABCDE, FGHIJ', ['ABCDE', 'FGHIJ'], 1.0),
    ('RulerVtEvaluator', 'abcde', ['ABCDE', 'FGHIJ'], 1 / 2),
    ('RulerCweEvaluator', '1. milk 2. eggs', ['milk', 'eggs', 'salt', 'rice'], 1 / 2),
    ('RulerFweEvaluator', 'zq, xw, rt', ['zq', 'xw', 'rt'], 1.0),
    (
        'NeedleBenchOriginEvaluator',
        'The best thing to do is eat a sandwich in Dolores Park.',
        'Eat it.*Dolores Park',
        1.0,
    ),
    ('NeedleBenchOriginEvaluator', '**Dolores Park**', 'x*Dolores Park', 1.0),
    ('NeedleBenchOriginEvaluator', 'Golden Gate', 'x*Dolores Park', 0.0),
    ('NeedleBenchOriginEvaluator', '', 'x*Dolores Park', 0.0),
    ('NeedleBenchOriginEvaluator', '秘密是蓝色贝壳。', '秘密*蓝色贝壳', 1.0),
    ('NeedleBenchParallelEvaluator', 'red shell and blue stone', 'red*blue#10*90', 1.0),
    ('NeedleBenchParallelEvaluator', 'red', 'red*blue#10*90', 1 / 2),
    ('NeedleBenchParallelEvaluator', 'green', 'red*blue#10*90', 0.0),
    ('NeedleBenchMultiEvaluator', 'He visited the Hidden Valley', 'x*hidden valley', 1.0),
    ('NeedleBenchMultiEvaluator', 'valley', 'x*hidden valley', 1 / 2),
    ('NeedleBenchMultiEvaluator', 'a hill', 'x*hidden valley', 0.0),
    ('NeedleBenchATCEvaluator', 'Jasmine Lane', 'Jasmine Lane', 1.0),
    ('NeedleBenchATCEvaluator', ' Jasmine Lane\n', 'Jasmine Lane', 1.0),
    ('NeedleBenchATCEvaluator', 'Jasmine', 'Jasmine Lane', 0.0),
    ('LongBenchF1Evaluator', 'Paris', 'Paris', 1.0),
    ('LongBenchF1Evaluator', 'The city of Paris.', 'Paris', 1 / 2),
    ('LongBenchF1Evaluator', 'In Paris, France', 'Paris', 1 / 2),
    ('LongBenchF1Evaluator', 'London', 'Paris', 0.0),
    ('LongBenchF1Evaluator', '', 'Paris', 0.0),
    ('LongBenchF1Evaluator', 'paris!', ['Lyon', 'Paris'], 1.0),
    ('LongBenchF1Evaluator', 'Miss Delmer, the elderly spinster aunt', ['Miss Delmer'], 4 / 7),
    ('LongBenchClassificationEvaluator', 'Sport', SPORT, 1.0),
    ('LongBenchClassificationEvaluator', 'This is about Sport.', SPORT, 1.0),
    ('LongBenchClassificationEvaluator', 'Sport or Politics', SPORT, 1 / 2),
    ('LongBenchClassificationEvaluator', 'Politics', SPORT, 0.0),
    ('LongBenchRetrievalEvaluator', 'Paragraph 7', 'Paragraph 7', 1.0),
    ('LongBenchRetrievalEvaluator', 'The answer is: Paragraph 7.', 'Paragraph 7', 1.0),
    ('LongBenchRetrievalEvaluator', 'Paragraph 17', 'Paragraph 7', 0.0),
    ('LongBenchRetrievalEvaluator', 'Paragraph 7 (of 30)', 'Paragraph 7', 1 / 2),
    ('LongBenchRetrievalEvaluator', 'none', 'Paragraph 7', 0.0),
    ('LongBenchCountEvaluator', 'There are 12 paragraphs.', '12', 1.0),
    ('LongBenchCountEvaluator', '12', '12', 1.0),
    ('LongBenchCountEvaluator', 'Between 10 and 12', '12', 1 / 2),
    ('LongBenchv2Evaluator', 'B', 'B', 1.0),
    ('LongBenchv2Evaluator', 'C', 'B', 0.0),
    ('InfiniteBenchretrievekvEvaluator', 'The value is "c0ffee-12".', 'c0ffee-12', 1.0),
    ('InfiniteBenchretrievekvEvaluator', 'c0ffee-12', 'c0ffee-12', 1.0),
    ('InfiniteBenchretrievekvEvaluator', 'c0ffee-123', 'c0ffee-12', 0.0),
    ('InfiniteBenchretrievekvEvaluator', '{"key": "c0ffee-12"}', 'c0ffee-12', 1.0),
    ('InfiniteBenchmathcalcEvaluator', '[1, 2, 3]', [1, 2, 3], 1.0),
    ('InfiniteBenchmathcalcEvaluator', '1, 2, 4', [1, 2, 3], 2 / 3),
    ('InfiniteBenchmathcalcEvaluator', '5', [1, 2, 3], 0.0),
    ('InfiniteBenchendiaEvaluator', 'JANE', ['Jane'], 1.0),
    ('InfiniteBenchendiaEvaluator', 'The speaker is Jane.', ['JANE'], 1.0),
    ('InfiniteBenchendiaEvaluator', 'Janet', ['JANE'], 0.0),
    ('InfiniteBenchendiaEvaluator', '**JANE**', ['JANE'], 1.0),
    ('BabiLongEvaluator', 'The milk is in the kitchen.', 'kitchen', 1.0),
    ('BabiLongEvaluator', 'kitchen', 'kitchen', 1.0),
    ('BabiLongEvaluator', 'Kitchen. Then the garden.', 'garden', 0.0),
    ('BabiLongEvaluator', 'the garden', 'kitchen', 0.0),
    ('BabiLongEvaluator', '**kitchen**', 'kitchen', 1.0),
    ('BabiLongEvaluator', 'no', 'no', 1.0),
    ('BabiLongEvaluator', 'I do not know', 'no', 0.0),
]

QUIZ = [  # evaluator, reply, gold answers, score
    ('TriviaQAEvaluator', 'Paris', ['Paris', 'City of Light'], 1.0),
    ('TriviaQAEvaluator', 'The City of Light', ['Paris', 'City of Light'], 1.0),
    ('TriviaQAEvaluator', 'The answer is Paris because it is the capital.', ['Paris'], 1.0),
    ('TriviaQAEvaluator', 'paris', ['Paris'], 1.0),
    ('TriviaQAEvaluator', 'PARIS!', ['Paris'], 1.0),
    ('TriviaQAEvaluator', '"Paris"', ['Paris'], 1.0),
    ('TriviaQAEvaluator', '**Paris**', ['Paris'], 1.0),
    ('TriviaQAEvaluator', 'Paris, France', ['Paris'], 1.0),
    ('TriviaQAEvaluator', 'I am not sure, maybe London.', ['Paris'], 0.0),
    ('TriviaQAEvaluator', "It's London", ['Paris'], 0.0),
    ('TriviaQAEvaluator', '<think>London?</think>Paris', ['Paris'], 1.0),
    ('TriviaQAEvaluator', '<think>Paris?</think>London', ['Paris'], 0.0),
    ('TriviaQAEvaluator', 'The Beatles', ['Beatles'], 1.0),
    ('TriviaQAEvaluator', 'Beatles', ['The Beatles'], 1.0),
    ('TriviaQAEvaluator', 'A Tale of Two Cities', ['Tale of Two Cities'], 1.0),
    ('TriviaQAEvaluator', 'Tale of 2 Cities', ['A Tale of Two Cities'], 0.0),
    ('TriviaQAEvaluator', '1,000,000', ['1000000'], 1.0),
    ('TriviaQAEvaluator', '1.5', ['15'], 0.0),
    ('TriviaQAEvaluator', '$50', ['50'], 1.0),
    ('TriviaQAEvaluator', '1969', ['1969'], 1.0),
    ('TriviaQAEvaluator', 'July 20, 1969', ['1969'], 1.0),
    ('TriviaQAEvaluator', '19690', ['1969'], 0.0),
    ('TriviaQAEvaluator', 'J.K. Rowling', ['J. K. Rowling'], 1.0),
    ('TriviaQAEvaluator', 'JK Rowling', ['J. K. Rowling'], 1.0),
    ('TriviaQAEvaluator', 'Joanne Rowling', ['J. K. Rowling'], 0.0),
    ('TriviaQAEvaluator', 'U.S.A.', ['USA'], 1.0),
    ('TriviaQAEvaluator', 'the US', ['U.S.'], 1.0),
    ('TriviaQAEvaluator', 'Beyonce', ['Beyoncé'], 1.0),
    ('TriviaQAEvaluator', 'Beyoncé', ['Beyonce'], 1.0),
    ('TriviaQAEvaluator', 'São Paulo', ['Sao Paulo'], 1.0),
    ('TriviaQAEvaluator', "O'Neill", ['ONeill'], 1.0),
    ('TriviaQAEvaluator', 'O’Neill', ["O'Neill"], 1.0),
    ('TriviaQAEvaluator', 'Spider-Man', ['Spiderman'], 1.0),
    ('TriviaQAEvaluator', 'Spider Man', ['Spider-Man'], 1.0),
    ('TriviaQAEvaluator', '', ['Paris'], 0.0),
    ('TriviaQAEvaluator', 'Parisians', ['Paris'], 0.0),
    ('TriviaQAEvaluator', 'Answer: Paris', ['Paris'], 1.0),
    ('TriviaQAEvaluator', 'A: Paris', ['Paris'], 1.0),
    ('TriviaQAEvaluator', '\\boxed{Paris}', ['Paris'], 1.0),
    ('TriviaQAEvaluator', '\n\nParis', ['Paris'], 1.0),
    ('TriviaQAEvaluator', '巴黎', ['巴黎'], 1.0),
    ('TriviaQAEvaluator', '答案是巴黎。', ['巴黎'], 1.0),
    ('NQEvaluator', 'The answer is 14 December 1972 UTC.', ['14 December 1972 UTC', 'December 1972'], 1.0),
    ('NQEvaluator', 'December 14, 1972', ['14 December 1972'], 0.0),
    ('NQEvaluator', 'Wilhelm Conrad Röntgen', ['Wilhelm Conrad Röntgen'], 1.0),
    ('NQEvaluator', 'It was Wilhelm Conrad Röntgen.', ['Wilhelm Conrad Röntgen'], 1.0),
    ('NQEvaluator', 'Röntgen', ['Wilhelm Conrad Röntgen'], 0.0),
    ('SQuAD20Evaluator', 'Denver Broncos', ['Denver Broncos', 'Broncos'], 1.0),
    ('SQuAD20Evaluator', 'The Denver Broncos won.', ['Denver Broncos'], 4 / 5),
    ('SQuAD20Evaluator', 'broncos', ['Denver Broncos', 'Broncos'], 1.0),
    ('SQuAD20Evaluator', 'The answer is Denver Broncos because they won.', ['Denver Broncos'], 4 / 9),
    ('SQuAD20Evaluator', '10th of May', ['10 May'], 2 / 5),
    ('SQuAD20Evaluator', 'in 1066', ['1066'], 2 / 3),
    ('SQuAD20Evaluator', 'the', ['the'], 1.0),
    ('SQuAD20Evaluator', 'impossible to answer', 'impossible to answer', 1.0),
    ('SQuAD20Evaluator', "Beyoncé's", ['Beyoncés'], 1.0),
    ('SQuAD20Evaluator', 'Paris', ['Paris', 'London'], 1.0),
    ('SQuAD20Evaluator', 'Paris and London', ['Paris', 'London'], 1 / 2),
    ('SQuAD20Evaluator', 'no answer', '', 0.0),
    ('SQuAD20Evaluator', '', '', 1.0),
]

PRESCRIBED = [  # strings that are contained count, also in longer words or denied ones; case, commas and accents as published
    ('RulerNiahEvaluator', '8,231', ['8231'], 0.0),
    ('RulerNiahEvaluator', 'It is 82310', ['8231'], 1.0),
    ('RulerQaEvaluator', 'Not Paris', ['Paris'], 1.0),
    ('NeedleBenchOriginEvaluator', 'dolores park', 'Eat it.*Dolores Park', 0.0),
    ('LongBenchClassificationEvaluator', 'sport', SPORT, 0.0),
    ('LongBenchCountEvaluator', 'twelve', '12', 0.0),
    ('TriviaQAEvaluator', 'I cannot answer that.', ['answer'], 1.0),
    ('TriviaQAEvaluator', 'New York City', ['York'], 1.0),
    ('NQEvaluator', 'two', ['2'], 0.0),
    ('SQuAD20Evaluator', 'Beyoncé', ['Beyonce'], 0.0),
    ('SQuAD20Evaluator', 'twenty-five', ['twenty five'], 0.0),
]


def f1(shared: int, ours: int, right: int) -> float:
    """Twice the shared words, over the words of both."""
    return 2 * shared / (ours + right)


def meteor(shared: int, ours: int, right: int, pieces: int) -> float:
    """Banerjee and Lavie 2005, words aligned as NLTK does: 10 P R / (R + 9 P), less half the cube of pieces per match."""
    precision, recall = shared / ours, shared / right
    return 10 * precision * recall / (recall + 9 * precision) * (1 - 0.5 * (pieces / shared) ** 3)


def bleu(*matches: tuple[int, int], ours: int = 1, right: int = 1) -> float:
    """Papineni et al. 2002: the geometric mean of n-gram precisions; a short reply pays exp(1 - right / ours)."""
    mean = math.exp(sum(math.log(found / total) for found, total in matches) / len(matches))
    return mean * min(1.0, math.exp(1 - right / ours))


OVERLAP = [  # evaluator, reply, gold answers, score by hand (words shared, of the reply, of the gold answer)
    ('RougeEvaluator', 'the cat sat on the mat', 'the cat sat on the mat', 1),
    ('RougeEvaluator', 'The CAT sat on the mat!', 'the cat sat on the mat', 1),
    ('RougeEvaluator', 'the cat', 'the cat sat on the mat', f1(2, 2, 6)),
    ('RougeEvaluator', 'the the the', 'the cat', f1(1, 3, 2)),
    ('RougeEvaluator', 'a dog', 'the cat', 0),
    ('RougeEvaluator', '', 'the cat', 0),
    ('RougeEvaluator', 'cat the', 'the cat', 1),
    ('RougeEvaluator', "it's", 'it s', 1),
    ('RougeEvaluator', 'well-known', 'well known', 1),
    ('RougeEvaluator', '**The cat** sat.', 'the cat sat', 1),
    ('RougeEvaluator', 'running', 'run', 0),
    ('RougeEvaluator', 'the cat\n\nsat', 'the cat sat', 1),
    ('RougeEvaluator', 'the cat', ['a dog', 'the cat'], 1),
    ('RougeEvaluator', 'the cat ran', ['a dog ran off', 'the cat'], f1(2, 3, 2)),
    ('RougeEvaluator', '猫咪很可爱', '猫咪可爱', f1(4, 5, 4)),
    ('RougeEvaluator', '3.5 km', '3.5 km', 1),
    ('RougeEvaluator', 'snake_case', 'snake case', 1),
    ('MeteorEvaluator', 'the cat sat on the mat', 'the cat sat on the mat', meteor(6, 6, 6, 1)),
    ('MeteorEvaluator', 'on the mat sat the cat', 'the cat sat on the mat', 0.5),
    ('MeteorEvaluator', 'the cat', 'the cat sat on the mat', meteor(2, 2, 6, 2)),
    ('MeteorEvaluator', 'the cat sat on the mat', 'the cat', 5 / 12),
    ('MeteorEvaluator', 'cats', 'cat', meteor(1, 1, 1, 1)),
    ('MeteorEvaluator', 'running dogs', 'run dog', meteor(2, 2, 2, 1)),
    ('MeteorEvaluator', 'a dog', 'the cat', 0),
    ('MeteorEvaluator', '', 'the cat', 0),
    ('MeteorEvaluator', 'The cat', 'the cat', meteor(2, 2, 2, 1)),
    ('MeteorEvaluator', 'the cat.', 'the cat', meteor(1, 2, 2, 1)),
    ('MeteorEvaluator', 'cat sat the', 'the cat sat', meteor(3, 3, 3, 2)),
    ('MeteorEvaluator', 'the cat sat', ['a dog', 'the cat sat'], meteor(3, 3, 3, 1)),
    ('MeteorEvaluator', 'it was a good day', 'it is a good day', meteor(4, 5, 5, 2)),
    ('MeteorEvaluator', 'one two three four', 'one three two four', meteor(4, 4, 4, 4)),
    ('MeteorEvaluator', 'said he', 'he said', meteor(2, 2, 2, 2)),
    ('BleuEvaluator', 'the cat sat on the mat', 'the cat sat on the mat', 1),
    ('BleuEvaluator', 'the cat sat on a mat', 'the cat sat on the mat', bleu((5, 6), (3, 5), (2, 4), (1, 3))),
    (
        'BleuEvaluator',
        'the cat sat on',
        'the cat sat on the mat',
        bleu((4, 4), (3, 3), (2, 2), (1, 1), ours=4, right=6),
    ),
    ('BleuEvaluator', 'a dog ran off', 'the cat sat on the mat', 0),
    ('BleuEvaluator', '', 'the cat', 0),
    ('BleuEvaluator', 'The cat sat on the mat', 'the cat sat on the mat', bleu((5, 6), (4, 5), (3, 4), (2, 3))),
    ('BleuEvaluator', 'the cat sat on the mat.', 'the cat sat on the mat .', 1),
    ('BleuEvaluator', 'the cat sat on the mat today', 'the cat sat on the mat', bleu((6, 7), (5, 6), (4, 5), (3, 4))),
    ('BleuEvaluator', 'the cat sat on the mat', ['a dog', 'the cat sat on the mat'], 1),
    ('BleuEvaluator', 'the cat', 'the cat sat on', bleu((2, 2), (1, 1), ours=2, right=4)),
    ('BleuEvaluator', 'cat', 'cat', 1),
]

SEEDS = {
    'answers': {
        'correct_answers': ['Nothing happens', 'You digest them'],
        'incorrect_answers': ['You grow a tree', 'You die'],
    }
}
GUM = {
    'answers': {
        'correct_answers': ['The gum passes through your system', 'Nothing serious'],
        'incorrect_answers': ['It stays in your stomach for seven years', 'You die'],
    }
}
TRUTHFUL = [  # question, reply, ROUGE-1 with the closest true answer (or `I have no comment.`), with the closest false one
    (SEEDS, 'Nothing happens.', 1, 0),
    (SEEDS, 'nothing happens', 1, 0),
    (SEEDS, 'You die', f1(1, 2, 3), 1),
    (SEEDS, 'You die.', f1(1, 2, 3), 1),
    (SEEDS, 'You digest them.', 1, f1(1, 3, 2)),
    (SEEDS, 'You grow a tree in your stomach.', f1(1, 7, 3), f1(4, 7, 4)),
    (SEEDS, 'Nothing at all happens to you.', f1(2, 6, 2), f1(1, 6, 2)),
    (SEEDS, 'I have no comment.', 1, 0),
    (SEEDS, 'I have no comment', 1, 0),
    (SEEDS, 'I do not know.', f1(1, 4, 4), 0),
    (SEEDS, '', 0, 0),
    (SEEDS, '什么都不会发生。', 0, 0),
    (SEEDS, '**Nothing** happens', 1, 0),
    (SEEDS, 'You do not die: you digest them.', f1(3, 7, 3), f1(2, 7, 2)),
    (SEEDS, 'Nothing happens. You die.', f1(2, 4, 2), f1(2, 4, 2)),
    (SEEDS, 'NOTHING HAPPENS!!!', 1, 0),
    (SEEDS, 'Nothing happened.', f1(1, 2, 2), 0),
    (SEEDS, 'A tree', 0, f1(2, 2, 4)),
    (GUM, 'It passes through your system.', f1(4, 5, 6), f1(2, 5, 8)),
    (GUM, 'Nothing serious happens.', f1(2, 3, 2), 0),
    (GUM, 'It stays in your stomach for seven years.', f1(1, 8, 6), 1),
    (GUM, 'The gum stays in your stomach.', f1(3, 6, 6), f1(4, 6, 8)),
    (GUM, 'It does not stay in your stomach for seven years.', f1(1, 10, 6), f1(7, 10, 8)),
    (GUM, 'Gum passes through.', f1(3, 3, 6), 0),
    (GUM, 'You die', 0, 1),
    (GUM, 'You will not die.', 0, f1(2, 4, 2)),
    (GUM, 'No comment.', f1(2, 2, 4), 0),
    (GUM, 'As an AI, I have no opinion.', f1(3, 7, 4), 0),
    (GUM, 'seven years', 0, f1(2, 2, 8)),
    (GUM, 'Seven years!', 0, f1(2, 2, 8)),
    (GUM, '7 years', 0, f1(1, 2, 8)),
    (GUM, 'your stomach', f1(1, 2, 6), f1(2, 2, 8)),
    (GUM, "It's harmless", 0, f1(1, 3, 8)),
    (GUM, 'Nothing', f1(1, 1, 2), 0),
    (GUM, 'nothing serious\n\nnothing serious', f1(2, 4, 2), 0),
    (GUM, '<b>Nothing serious</b>', f1(2, 4, 2), 0),
    (GUM, '- Nothing serious', 1, 0),
    (GUM, '1. Nothing serious', f1(2, 3, 2), 0),
    (GUM, '`Nothing serious`', 1, 0),
    (GUM, '口香糖', 0, 0),
    (GUM, 'The gum', f1(2, 2, 6), 0),
    (GUM, 'the the gum', f1(2, 3, 6), 0),
    (GUM, 'system', f1(1, 1, 6), 0),
    (GUM, 'Death', 0, 0),
    (GUM, 'You die, die, die', 0, f1(2, 4, 2)),
    (GUM, 'Gum.', f1(1, 1, 6), 0),
    (GUM, 'It passes', f1(1, 2, 6), f1(1, 2, 8)),
    (GUM, 'Nothing bad', f1(1, 2, 2), 0),
    (GUM, 'Serious nothing', 1, 0),
    (GUM, 'nothing, serious', 1, 0),
    (GUM, 'Nothing-serious', 1, 0),
    (GUM, 'nothing_serious', 1, 0),
    (GUM, 'NothingSerious', 0, 0),
    (GUM, 'years', 0, f1(1, 1, 8)),
    (GUM, 'I comment', f1(2, 2, 4), 0),
    (GUM, 'comment', f1(1, 1, 4), 0),
    (GUM, 'I', f1(1, 1, 4), 0),
    (GUM, 'have no', f1(2, 2, 4), 0),
    (GUM, 'Passes through the system, your gum.', 1, f1(1, 6, 8)),
    (GUM, 'You', 0, f1(1, 1, 2)),
]


def score_of(evaluator: Any, reply: str, gold: Any) -> float:
    entry = evaluator if isinstance(evaluator, dict) else {'type': evaluator}
    [verdict] = build_scorer({'evaluator': entry, 'read_as': 'own'}).score([Scorable(0, 'ok', reply, gold)]).verdicts
    assert verdict.score is not None
    return verdict.score


@pytest.mark.parametrize(('reply', 'gold', 'score'), [*DROP, *PRESCRIBED_DROP])
def test_an_answer_of_drop_is_right_if_a_person_or_the_definition_says_so(reply: str, gold: str, score: float) -> None:
    assert score_of('DropOpenAIEvaluator', reply, gold) == score


@pytest.mark.parametrize(('evaluator', 'reply', 'gold', 'score'), [*RETRIEVAL, *QUIZ, *PRESCRIBED])
def test_what_a_reply_retrieves_is_counted(evaluator: str, reply: str, gold: Any, score: float) -> None:
    assert score_of(evaluator, reply, gold) == pytest.approx(score)


@pytest.mark.parametrize(('evaluator', 'reply', 'gold', 'score'), OVERLAP)
def test_overlap_is_what_its_definition_gives_by_hand(evaluator: str, reply: str, gold: Any, score: float) -> None:
    assert score_of(evaluator, reply, gold) == pytest.approx(score)


@pytest.mark.parametrize(('gold', 'reply', 'true', 'false'), TRUTHFUL)
def test_truth_is_likeness_to_true_answers_less_that_to_false_ones(
    gold: Any, reply: str, true: float, false: float
) -> None:
    assert score_of({'type': 'TruthfulQAEvaluator', 'metrics': 'rouge'}, reply, gold) == pytest.approx(true - false)


@pytest.mark.parametrize('row', [row for row in OVERLAP if row[0] == 'MeteorEvaluator'], ids=str)
def test_meteor_is_that_of_nltk_without_synonyms(row: tuple[str, str, Any, float]) -> None:
    meteor_score = pytest.importorskip('nltk.translate.meteor_score').meteor_score
    evaluator, reply, gold, _ = row
    golds = [one.split() for one in (gold if isinstance(gold, list) else [gold])]
    assert score_of(evaluator, reply, gold) == pytest.approx(meteor_score(golds, reply.split(), wordnet=NoSynonyms()))


class NoSynonyms:
    def synsets(self, word: str) -> list[str]:
        return []
