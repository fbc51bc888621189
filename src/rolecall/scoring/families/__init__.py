"""Benchmarks with comparisons of their own: one module per family, functions of one shape, found by configs' names."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ['FAMILY_METRICS', 'FAMILY_POSTPROCESSORS']


def _locate(module: str, names: Mapping[str, str]) -> dict[str, str]:
    return {name: f'rolecall.scoring.families.{module}:{function}' for name, function in names.items()}


FAMILY_METRICS: Mapping[str, str] = {
    **_locate(
        'needlebench',
        {
            'NeedleBenchOriginEvaluator': 'find_needle',
            'NeedleBenchParallelEvaluator': 'find_needles',
            'NeedleBenchMultiEvaluator': 'find_needle_words',
            'NeedleBenchATCEvaluator': 'ancestor',
        },
    ),
    **_locate(
        'ruler',
        {
            'RulerCweEvaluator': 'contain_share',
            'RulerFweEvaluator': 'contain_share',
            'RulerNiahEvaluator': 'contain_share',
            'RulerVtEvaluator': 'contain_share',
            'RulerQaEvaluator': 'contain_any',
        },
    ),
    **_locate(
        'longbench',
        {
            'LongBenchF1Evaluator': 'words_f1',
            'LongBenchRougeEvaluator': 'rouge_l',
            'LongBenchCodeSimEvaluator': 'code_similarity',
            'LongBenchClassificationEvaluator': 'classes',
            'LongBenchCountEvaluator': 'counts',
            'LongBenchRetrievalEvaluator': 'paragraphs',
            'LongBenchv2Evaluator': 'v2_accuracy',
        },
    ),
    **_locate(
        'lveval',
        {
            'LVEvalF1Evaluator': 'plain_f1',
            'LVEvalOPTF1Evaluator': 'keyword_f1',
            'LVEvalOPTRougeEvaluator': 'plain_rouge_l',
        },
    ),
    **_locate(
        'long_context',
        {
            'InfiniteBenchendiaEvaluator': 'speakers',
            'InfiniteBenchmathcalcEvaluator': 'running_numbers',
            'InfiniteBenchretrievekvEvaluator': 'key_values',
            'BabiLongEvaluator': 'facts',
            'MRCREvaluator': 'recall_turn',
        },
    ),
    **_locate(
        'exams',
        {
            'GaokaoBenchEvaluator_single_choice': 'gaokao_single_choice',
            'GaokaoBenchEvaluator_multi_choice': 'gaokao_multi_choice',
            'GaokaoBenchEvaluator_multi_question_choice': 'gaokao_questions',
            'GaokaoBenchEvaluator_five_out_of_seven': 'gaokao_five_of_seven',
            'GaokaoBenchEvaluator_cloze': 'gaokao_unscored',
            'GaokaoBenchEvaluator_subjective': 'gaokao_unscored',
            'GaokaoBenchEvaluator_correction': 'gaokao_unscored',
            'AGIEvalEvaluator': 'cloze_answers',
            'AGIEvalEvaluator_mcq': 'letter_sets',
        },
    ),
    **_locate(
        'multilingual',
        {
            'PMMEvalMHellaswagEvaluator': 'choice_or_index',
            'PMMEvalMLogiQAEvaluator': 'choice_or_index',
            'PMMEvalMMMLUEvaluator': 'choice_or_index',
            'PMMEvalXNLIEvaluator': 'choice_or_index',
            'PMMEvalMGSMEvaluator': 'final_number',
            'MGSM_Evaluator': 'final_number',
        },
    ),
}
"""Evaluators that belong to one benchmark."""

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
            'mgsm_postprocess': 'read_final_number',
        },
    ),
}
"""Postprocessors that belong to one benchmark."""
