"""Words that the configs here share: rows, speeches, and a dataset around a template."""

TRAIN = [dict(q=f'train {n} ' + 'word ' * n, a='AB'[n % 2], choices=['x', 'y']) for n in range(8)]
ROWS = [
    dict(q='short?', a='A', choices=['alpha', 'be ta']),
    dict(q='a longer question, with several “words” and {a}?', a='B', choices=['alpha', 'gamma', 'delta']),
    dict(q='the longest question of all ' * 3, a='7', choices=['one', 'two']),
    dict(q='最后一个 </E> <|im_end|>\n', a='yes', choices=['是', '否']),
]
ROUND = [dict(role='HUMAN', prompt='Q: {q}'), dict(role='BOT', prompt='A: {a}')]
TEXT = 'Q: {q}\nA: {a}'


def template(wording, **more):
    """A prompt template."""
    return dict(type='PromptTemplate', template=wording, **more)


def dataset(abbr, wording, *, shots=(), train=TRAIN, test=ROWS, metric='AccEvaluator', eval_cfg=None, **infer):
    """A dataset of questions `q` with answers `a`; with shots, the wording has a place for them."""
    few = dict(
        ice_template=template(dict(round=ROUND) if 'round' in wording else TEXT),
        retriever=dict(type='FixKRetriever', fix_id_list=list(shots)),
    )
    return dict(
        abbr=abbr,
        type='Rows',
        train=train,
        test=test,
        reader_cfg=dict(input_columns=['q'], output_column='a'),
        infer_cfg=dict(
            prompt_template=template(wording, **(dict(ice_token='</E>') if shots else {})),
            **((few if shots else dict(retriever=dict(type='ZeroRetriever'))) | dict(inferencer=dict(type='GenInferencer')) | infer),
        ),
        eval_cfg=eval_cfg or dict(evaluator=dict(type=metric)),
    )
