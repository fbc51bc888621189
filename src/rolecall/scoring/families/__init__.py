"""Benchmarks with comparisons of their own: one module per family, functions of one shape, found by configs' names."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ['FAMILY_METRICS', 'FAMILY_POSTPROCESSORS']


def _locate(module: str, names: Mapping[str, str]) -> dict[str, str]:
    return {name: f'rolecall.scoring.families.{module}:{function}' for name, function in names.items()}


FAMILY_METRICS: Mapping[str, str] = {
    **_locate('reasoning_gym', {'ReasoningGymEvaluator': 'verified'}),
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
            'GaokaoBenchEvaluator_cloze': 'gaokao_cloze',
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
            'PMMEvalFloresEvaluator': 'best_lines_bleu',
            'PMMEvalMGSMEvaluator': 'final_number',
            'MGSM_Evaluator': 'final_number',
        },
    ),
    **_locate(
        'ifeval',
        {'IFEvaluator': 'instruction_accuracy', 'PMMEvalMIFEvalEvaluator': 'multilingual_instruction_accuracy'},
    ),
    **_locate(
        'short_answers',
        {
            'GPQAEvaluator': 'exact_answer',
            'CharmReasonEvaluator': 'exact_answer',
            'CharmMemoryEvaluator': 'recall_answer',
            'DropOpenAIEvaluator': 'overlapping_answer',
            'LambadaEvaluator': 'first_word',
            'LEvalEMEvaluator': 'contain_answer',
            'MusrEvaluator': 'labelled_number',
            'ELBenchChoiceEvaluator': 'choice_set',
            'SuperGPQAEvaluator': 'option_or_its_text',
            'AccDropEvaluator': 'accuracy_drop',
            'AccContaminationEvaluator': 'accuracy_by_contamination',
            'ARCPrizeEvaluator': 'grids',
        },
    ),
    **_locate(
        'mathematics',
        {
            'LiveMathBenchEvaluator': 'live_expressions',
            'DAPOMathEvaluator': 'final_answer',
            'DAPOMathEvaluatorV2': 'final_answer',
            'TheoremQAEvaluatorV3': 'theorem_answers',
            'korbenchEvaluator': 'rule_answers',
            'OlympiadBenchEvaluator': 'olympiad_answers',
        },
    ),
    **_locate(
        'measurements',
        {
            'RMSEEvaluator': 'root_mean_square',
            'MAEEvaluator': 'absolute_error',
            'MeteorEvaluator': 'meteor',
            'AUCROCEvaluator': 'auc_roc',
            'NCExactMatchEvaluator': 'exact_formula',
            'NCElementMatchEvaluator': 'same_elements',
        },
    ),
    **_locate(
        'pictures',
        {
            'BBoxIoUEvaluator': 'boxes',
            'MMMUProEvaluator': 'options_by_category',
            'MMMUProCotEvaluator': 'reasoned_options',
            'MMStarEvaluator': 'options_by_category',
            'RealworldQAEvaluator': 'stated_answer',
            'VideoBenchEvaluator': 'video_options',
            'VocalSoundEvaluator': 'sounds',
            'TEXTEvaluator': 'vqa_accuracy',
            'EDAccEvaluator': 'nearest_candidate',
        },
    ),
    **_locate('truthfulqa', {'TruthfulQAEvaluator': 'more_true_than_false'}),
    **_locate(
        'function_calls',
        {'BFCLSingleTurnEvaluator': 'single_turn_calls', 'BFCLRelevanceEvaluator': 'call_relevance'},
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
