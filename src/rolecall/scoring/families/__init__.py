"""Benchmarks with comparisons of their own: one module per family, functions of one shape, found by configs' names."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ['FAMILY_METRICS', 'FAMILY_POSTPROCESSORS']


def _locate(module: str, names: Mapping[str, str]) -> dict[str, str]:
    return {name: f'rolecall.scoring.families.{module}:{function}' for name, function in names.items()}


FAMILY_POSTPROCESSORS: Mapping[str, str] = {
    **_locate(
        'needlebench',
        {
            'needlebench_postprocess': 'keep_reply',
            'needlebench_dataset_postprocess': 'keep_reply',
            'needlebench_atc_postprocess_v2': 'read_ancestor',
        },
    ),
    **_locate(
        'longbench',
        {'trec_postprocess': 'first_line', 'lsht_postprocess': 'first_line', 'samsum_postprocess': 'first_line'},
    ),
    **_locate('long_context', {'InfiniteBench_first_number_postprocess': 'bare_number'}),
    **_locate(
        'multilingual',
        {
            'pmmeval_mhellaswag_postprocess': 'read_choice',
            'pmmeval_mlogiqa_postprocess': 'read_choice',
            'pmmeval_mmmlu_postprocess': 'read_choice',
            'pmmeval_xnli_postprocess': 'read_choice',
            'pmmeval_flores_postprocess': 'read_translation',
            'pmmeval_mifeval_postprocess': 'read_translation',
            'mgsm_postprocess': 'read_final_number',
        },
    ),
    **_locate(
        'short_answers',
        {
            'cmrc_postprocess': 'read_after_answer',
            'drcd_postprocess': 'read_after_answer',
            'Xsum_postprocess': 'read_first_line',
            'flores_postprocess': 'read_first_line',
            'lcsts_postprocess': 'read_headline',
            'ReCoRD_postprocess': 'read_span',
            'strategyqa_pred_postprocess': 'read_yes_or_no',
            'strategyqa_dataset_postprocess': 'read_truth',
            'charm_reason_postprocess': 'read_bracketed_letter',
            'GPQA_Simple_Eval_postprocess': 'read_labelled_letter',
        },
    ),
    **_locate(
        'mathematics',
        {
            'mathbench_postprocess': 'read_number_after_statement',
            'gsm100_postprocess': 'read_number_after_statement',
            'TheoremQA_postprocess': 'read_after_statement',
            'TheoremQA_postprocess_v3': 'read_theorem_answer',
            'TheoremQA_postprocess_v4': 'read_theorem_answer',
            'dapo_math_postprocess': 'read_minerva',
            'olympiadbench_postprocess_v2': 'read_final_statement',
            'dapo_math_postprocess_v2': 'read_boxed_tail',
        },
    ),
    **_locate(
        'measurements',
        {'smolinstruct_acc_0shot_postprocess': 'read_boolean', 'smolinstruct_acc_postprocess': 'read_boolean'},
    ),
    **_locate('pictures', {'refcoco_bbox_postprocess': 'read_box'}),
}
"""Postprocessors that belong to one benchmark."""
