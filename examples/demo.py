"""The same small model, asked in two ways: with its own chat template, and as plain text.

Five small datasets: two scored by perplexity, two answered in words (one of them with examples), and a judged dialogue.
The judge is a function that looks for the expected words, so the demo needs no second model.

rolecall view examples/demo.py --all        what the models will receive
rolecall run examples/demo.py --out runs/demo
"""

import re

PLAIN = dict(
    round=[
        dict(role='HUMAN', begin='Question: ', end='\n'),
        dict(role='BOT', begin='Answer:', end='\n', generate=True),
    ]
)

models = [
    dict(abbr='chat', type='smollm2', max_seq_len=2048),
    dict(abbr='plain', type='smollm2', meta_template=PLAIN, max_seq_len=2048),
]


def ask(question, answer):
    """A question and its answer as a dialogue of two speeches."""
    return dict(round=[dict(role='HUMAN', prompt=question), dict(role='BOT', prompt=answer)])


def by_perplexity(abbr, path, columns, answer, template):
    """The label whose prompt the model finds likeliest is its answer."""
    return dict(
        abbr=abbr,
        type='File',
        path=path,
        reader_cfg=dict(input_columns=columns, output_column=answer),
        infer_cfg=dict(
            prompt_template=dict(type='PromptTemplate', template=template),
            retriever=dict(type='ZeroRetriever'),
            inferencer=dict(type='PPLInferencer'),
        ),
        eval_cfg=dict(evaluator=dict(type='AccEvaluator')),
    )


reviews = by_perplexity(
    'reviews',
    'data/reviews',
    ['text'],
    'label',
    {label: f'Review: {{text}}\nSentiment: {label}' for label in ('positive', 'negative')},
)

quiz = by_perplexity(
    'quiz',
    'data/quiz',
    ['question', 'A', 'B', 'C', 'D'],
    'answer',
    {label: ask('{question}', f'{{{label}}}') for label in 'ABCD'},
)

TOPIC = ask('Headline: {headline}\nTopic:', '{topic}')
headlines = dict(
    abbr='headlines',
    type='File',
    path='data/headlines',
    reader_cfg=dict(input_columns=['headline'], output_column='topic'),
    infer_cfg=dict(
        ice_template=dict(type='PromptTemplate', template=TOPIC),
        prompt_template=dict(type='PromptTemplate', ice_token='</E>', template=dict(begin=['</E>'], **TOPIC)),
        retriever=dict(type='FixKRetriever', fix_id_list=[0, 1, 2, 3, 4, 5, 6, 7]),
        inferencer=dict(type='GenInferencer', max_out_len=6, stopping_criteria=['\n']),
    ),
    eval_cfg=dict(evaluator=dict(type='AccEvaluator')),
)

reading = dict(
    abbr='reading',
    type='File',
    path='data/reading',
    reader_cfg=dict(input_columns=['passage', 'question'], output_column='answer'),
    infer_cfg=dict(
        prompt_template=dict(type='PromptTemplate', template=ask('{passage}\n\n{question}', '{answer}')),
        retriever=dict(type='ZeroRetriever'),
        inferencer=dict(type='GenInferencer', max_out_len=32, stopping_criteria=['\n', '. ']),
    ),
    eval_cfg=dict(evaluator=dict(type='TriviaQAEvaluator')),
)


def look_for_the_word(prompt):
    """The judge: CORRECT if the reply contains one of the expected words."""
    expected, reply = re.fullmatch(r'Expected: (.*?)\nReply: (.*)', prompt, re.DOTALL).groups()
    words = '|'.join(map(re.escape, expected.split(' / ')))
    return 'CORRECT' if re.search(rf'\b({words})', reply, re.IGNORECASE) else 'INCORRECT'


talk = dict(
    abbr='talk',
    type='File',
    path='data/talk',
    reader_cfg=dict(input_columns=['question'], output_column='answer'),
    infer_cfg=dict(
        prompt_template=dict(type='MultiTurnPromptTemplate', template=ask('{question}', '{answer}')),
        retriever=dict(type='ZeroRetriever'),
        inferencer=dict(
            type='MultiTurnGenInferencer', infer_mode='every', max_out_len=32, stopping_criteria=['\n', '. ']
        ),
    ),
    eval_cfg=dict(
        evaluator=dict(
            type='GenericLLMEvaluator',
            judge_cfg=dict(abbr='word-judge', type='Function', function=look_for_the_word),
            prompt_template=dict(type='PromptTemplate', template='Expected: {answer}\nReply: {prediction}'),
        ),
    ),
)

datasets = [reviews, quiz, headlines, reading, talk]
