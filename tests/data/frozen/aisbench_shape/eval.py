from ais_bench.benchmark.models import VLLMCustomAPIChat
from ais_bench.benchmark.openicl.icl_evaluator import AccEvaluator
from ais_bench.benchmark.openicl.icl_inferencer import GenInferencer, MultiTurnGenInferencer
from ais_bench.benchmark.openicl.icl_prompt_template import MMPromptTemplate, MultiTurnPromptTemplate, PromptTemplate
from ais_bench.benchmark.openicl.icl_retriever import ZeroRetriever

models = [
    dict(
        attr='service',
        type=VLLMCustomAPIChat,
        abbr='vllm-chat',
        path='',
        model='qwen',
        request_rate=0,
        retry=2,
        host_ip='127.0.0.1',
        host_port=9,
        max_out_len=64,
        batch_size=1,
        generation_kwargs=dict(temperature=0.5, top_k=10, top_p=0.95, seed=None, repetition_penalty=1.03),
    )
]
datasets = [
    dict(
        abbr='turns',
        type='Rows',
        test=[dict(question=['Hello', 'And now?'], answer=['Hi.', 'Now we talk.']), dict(question=['Bye'], answer=['Bye.'])],
        reader_cfg=dict(input_columns=['question'], output_column='answer'),
        infer_cfg=dict(
            prompt_template=dict(
                type=MultiTurnPromptTemplate,
                template=dict(round=[dict(role='HUMAN', prompt='{question}'), dict(role='BOT', prompt='{answer}')]),
            ),
            retriever=dict(type=ZeroRetriever),
            inferencer=dict(type=MultiTurnGenInferencer, infer_mode='every_with_gt'),
        ),
        eval_cfg=dict(evaluator=dict(type='MultiTurnEvaluator')),
    ),
    dict(
        abbr='pictures',
        type='Rows',
        test=[dict(content='<AIS_IMAGE_START>https://example.org/a.png<AIS_CONTENT_TAG><AIS_TEXT_START>What is it?', answer='B')],
        reader_cfg=dict(input_columns=['content'], output_column='answer'),
        infer_cfg=dict(
            prompt_template=dict(
                type=MMPromptTemplate,
                template=dict(
                    round=[
                        dict(
                            role='HUMAN',
                            prompt_mm=dict(
                                text=dict(type='text', text='{question}'),
                                image=dict(type='image_url', image_url=dict(url='{image}')),
                            ),
                        )
                    ]
                ),
            ),
            retriever=dict(type=ZeroRetriever),
            inferencer=dict(type=GenInferencer),
        ),
        eval_cfg=dict(evaluator=dict(type=AccEvaluator)),
    ),
    dict(
        abbr='sums',
        type='File',
        path='rows/sums.jsonl',
        reader_cfg=dict(input_columns=['question'], output_column='answer'),
        infer_cfg=dict(
            prompt_template=dict(
                type=PromptTemplate,
                template=dict(
                    begin=[dict(role='SYSTEM', fallback_role='HUMAN', prompt='Calculate.')],
                    round=[dict(role='HUMAN', prompt='{question}\nPut the number into \\boxed{{}}.'), dict(role='BOT', prompt='')],
                ),
            ),
            retriever=dict(type=ZeroRetriever),
            inferencer=dict(type=GenInferencer),
        ),
        eval_cfg=dict(evaluator=dict(type='MATHEvaluator', version='v2'), pred_postprocessor=dict(type='math_postprocess_v2')),
    ),
]
