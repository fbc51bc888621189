"""Images, sound and video: as columns, as tags in a row, as paths, addresses and base64."""

from .frozen_models import chat_model

PICTURE = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=='
IMAGE = dict(type='image_url', image_url=dict(url='file://{image}'))
VIDEO = dict(type='video_url', video_url=dict(url='file://{video}'))
SOUND = dict(type='audio_url', audio_url=dict(url='file://{audio}'))


def ask(abbr, rows, **media):
    return dict(
        abbr=abbr,
        type='Rows',
        test=rows,
        reader_cfg=dict(input_columns=['question', *media], output_column='answer'),
        infer_cfg=dict(
            prompt_template=dict(
                type='MMPromptTemplate',
                template=dict(round=[dict(role='HUMAN', prompt_mm=dict(text=dict(type='text', text='{question}'), **media))]),
            ),
            inferencer=dict(type='GenInferencer'),
        ),
        eval_cfg=dict(evaluator=dict(type='AccEvaluator')),
    )


models = [chat_model()]
datasets = [
    ask('pictures', [dict(question='What is it?', image=f'https://example.org/{n}.png', answer='B') for n in range(3)], image=IMAGE),
    ask(
        'tags',
        [
            dict(question='<AIS_IMAGE_START>https://example.org/a.png<AIS_CONTENT_TAG><AIS_TEXT_START>What?', answer='A'),
            dict(question='<AIS_TEXT_START>First <AIS_CONTENT_TAG><AIS_IMAGE_START>https://example.org/b.png', answer='B'),
        ],
        image=IMAGE,
    ),
    ask('base64', [dict(question='Which colour?', image=f'data:image/png;base64,{PICTURE}', answer='A')], image=IMAGE),
    ask('film', [dict(question='And?', video='https://example.org/v.mp4', audio='https://example.org/s.wav', answer='A')], video=VIDEO, audio=SOUND),
]
