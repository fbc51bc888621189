from opencompass.openicl.icl_evaluator import AccEvaluator
from opencompass.openicl.icl_inferencer import GenInferencer
from opencompass.openicl.icl_prompt_template import PromptTemplate
from opencompass.openicl.icl_retriever import ZeroRetriever
from opencompass.utils.text_postprocessors import first_capital_postprocess

sums_reader_cfg = dict(input_columns='question', output_column='answer')
sums_infer_cfg = dict(
    prompt_template=dict(type=PromptTemplate, template=dict(round=[dict(role='HUMAN', prompt='Sum: {question}')])),
    retriever=dict(type=ZeroRetriever),
    inferencer=dict(type=GenInferencer, max_out_len=16),
)
sums_eval_cfg = dict(evaluator=dict(type=AccEvaluator), pred_role='BOT', pred_postprocessor=dict(type=first_capital_postprocess))
sums_datasets = [
    dict(type='File', abbr='sums-gen', path='rows/sums.jsonl', reader_cfg=sums_reader_cfg, infer_cfg=sums_infer_cfg, eval_cfg=sums_eval_cfg)
]
