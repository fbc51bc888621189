"""Evaluators and postprocessors of OpenCompass and AISBench by name, and which of ours each of them is."""

from __future__ import annotations

from collections.abc import Mapping


def locate_parts(table: str) -> dict[str, str]:
    """Parts by name, as a registry declares them, from lines of `module:` and `Name=function …`.

    >>> locate_parts('scoring.metrics.matching:\\n  AccEvaluator=accuracy')
    {'AccEvaluator': 'rolecall.scoring.metrics.matching:accuracy'}
    """
    parts, module = {}, ''
    for word in table.split():
        name, _, function = word.partition('=')
        if function:
            parts[name] = f'rolecall.{module}:{function}'
        else:
            module = name.removesuffix(':')
    return parts


METRICS: Mapping[str, str] = locate_parts("""
scoring.metrics.matching:
  exact=whole_match accuracy=accuracy contains=contains_an_answer number=gsm8k
scoring.metrics.symbolic:
  math=same_expression
scoring.metrics.overlap:
  f1=word_f1 rouge=rouge bleu=bleu
scoring.metrics.matching:
  AccEvaluator=accuracy AccwithDetailsEvaluator=accuracy EMEvaluator=exact_match WholeMatchEvaluator=whole_match
  Gsm8kEvaluator=gsm8k
scoring.metrics.symbolic:
  MATHEvaluator=same_expression MATHVerifyEvaluator=same_expression
scoring.metrics.matching:
  BBHEvaluator=bbh_freeform BBHEvaluator_mcq=bbh_multiple_choice
scoring.metrics.several:
  CircularEvaluator=circular
scoring.metrics.matching:
  TriviaQAEvaluator=contains_an_answer NQEvaluator=contains_an_answer
scoring.metrics.overlap:
  SquadEvaluator=word_f1 SQuAD20Evaluator=word_f1 RougeEvaluator=rouge JiebaRougeEvaluator=jieba_rouge
  BleuEvaluator=bleu
scoring.metrics.several:
  MultiTurnEvaluator=turn_mean AveragePPLEvaluator=average_ppl AverageInferencePPLEvaluator=average_inference_ppl
  BPCEvaluator=bits_per_character
scoring.metrics.judging:
  GenericLLMEvaluator=judge_accuracy LMEvaluator=judge_rating PairwiseEvaluator=judge_preference
  CascadeEvaluator=cascade
scoring.metrics.assertions:
  AssertEvaluator=assertions
compat.benchmark_metrics.reasoning_gym:
  ReasoningGymEvaluator=verified
compat.benchmark_metrics.needlebench:
  NeedleBenchOriginEvaluator=find_needle NeedleBenchParallelEvaluator=find_needles
  NeedleBenchMultiEvaluator=find_needle_words NeedleBenchATCEvaluator=ancestor
compat.benchmark_metrics.ruler:
  RulerCweEvaluator=contain_share RulerFweEvaluator=contain_share RulerNiahEvaluator=contain_share
  RulerVtEvaluator=contain_share RulerQaEvaluator=contain_any
compat.benchmark_metrics.longbench:
  LongBenchF1Evaluator=words_f1 LongBenchRougeEvaluator=rouge_l LongBenchCodeSimEvaluator=code_similarity
  LongBenchClassificationEvaluator=classes LongBenchCountEvaluator=counts LongBenchRetrievalEvaluator=paragraphs
  LongBenchv2Evaluator=v2_accuracy
compat.benchmark_metrics.lveval:
  LVEvalF1Evaluator=plain_f1 LVEvalOPTF1Evaluator=keyword_f1 LVEvalOPTRougeEvaluator=plain_rouge_l
compat.benchmark_metrics.long_context:
  InfiniteBenchendiaEvaluator=speakers InfiniteBenchmathcalcEvaluator=running_numbers
  InfiniteBenchretrievekvEvaluator=key_values BabiLongEvaluator=facts MRCREvaluator=recall_turn
compat.benchmark_metrics.exams:
  GaokaoBenchEvaluator_single_choice=gaokao_single_choice GaokaoBenchEvaluator_multi_choice=gaokao_multi_choice
  GaokaoBenchEvaluator_multi_question_choice=gaokao_questions
  GaokaoBenchEvaluator_five_out_of_seven=gaokao_five_of_seven GaokaoBenchEvaluator_cloze=gaokao_cloze
  GaokaoBenchEvaluator_subjective=gaokao_unscored GaokaoBenchEvaluator_correction=gaokao_unscored
  AGIEvalEvaluator=cloze_answers AGIEvalEvaluator_mcq=letter_sets
compat.benchmark_metrics.multilingual:
  PMMEvalMHellaswagEvaluator=choice_or_index PMMEvalMLogiQAEvaluator=choice_or_index
  PMMEvalMMMLUEvaluator=choice_or_index PMMEvalXNLIEvaluator=choice_or_index
  PMMEvalFloresEvaluator=best_lines_bleu PMMEvalMGSMEvaluator=final_number MGSM_Evaluator=final_number
compat.benchmark_metrics.ifeval:
  IFEvaluator=instruction_accuracy PMMEvalMIFEvalEvaluator=multilingual_instruction_accuracy
compat.benchmark_metrics.short_answers:
  GPQAEvaluator=exact_answer CharmReasonEvaluator=exact_answer CharmMemoryEvaluator=recall_answer
  DropOpenAIEvaluator=overlapping_answer LambadaEvaluator=first_word LEvalEMEvaluator=contain_answer
  MusrEvaluator=labelled_number ELBenchChoiceEvaluator=choice_set SuperGPQAEvaluator=option_or_its_text
  AccDropEvaluator=accuracy_drop AccContaminationEvaluator=accuracy_by_contamination ARCPrizeEvaluator=grids
compat.benchmark_metrics.mathematics:
  LiveMathBenchEvaluator=live_expressions DAPOMathEvaluator=final_answer DAPOMathEvaluatorV2=final_answer
  TheoremQAEvaluatorV3=theorem_answers korbenchEvaluator=rule_answers OlympiadBenchEvaluator=olympiad_answers
compat.benchmark_metrics.measurements:
  RMSEEvaluator=root_mean_square MAEEvaluator=absolute_error MeteorEvaluator=meteor AUCROCEvaluator=auc_roc
  NCExactMatchEvaluator=exact_formula NCElementMatchEvaluator=same_elements
compat.benchmark_metrics.pictures:
  BBoxIoUEvaluator=boxes MMMUProEvaluator=options_by_category MMMUProCotEvaluator=reasoned_options
  MMStarEvaluator=options_by_category RealworldQAEvaluator=stated_answer VideoBenchEvaluator=video_options
  VocalSoundEvaluator=sounds TEXTEvaluator=vqa_accuracy EDAccEvaluator=nearest_candidate
compat.benchmark_metrics.truthfulqa:
  TruthfulQAEvaluator=more_true_than_false
compat.benchmark_metrics.function_calls:
  BFCLSingleTurnEvaluator=single_turn_calls BFCLRelevanceEvaluator=call_relevance
scoring.code.code_metrics:
  HumanEvalEvaluator=humaneval HumanEvalPlusEvaluator=humaneval_plus HumanevalXEvaluator=humaneval_x
  HumanevalProEvaluator=with_test_code MBPPProEvaluator=with_test_code MBPPEvaluator=mbpp MBPPEvaluator2=mbpp
  MBPPPassKEvaluator=mbpp_pass_k LCPassKEvaluator=leetcode LCEvaluator=leetcode
  LCBCodeGenerationEvaluator=code_generation LCBCodeExecutionEvaluator=code_execution
  LCBTestOutputEvaluator=output_prediction BigCodeBenchEvaluator=bigcodebench TACOEvaluator=contest
  APPSEvaluator=contest DS1000Evaluator=ds1000 MultiplEEvaluator=multipl_e
""")

POSTPROCESSORS: Mapping[str, str] = locate_parts("""
scoring.readers.native:
  first_option_postprocess=read_option last_option_postprocess=read_option choice_postprocess=read_choice
scoring.postprocess.freeform:
  first_capital_postprocess=first_capital_postprocess last_capital_postprocess=last_capital_postprocess
  first_capital_postprocess_multi=first_capital_postprocess_multi
  multiple_select_postprocess=multiple_select_postprocess
scoring.readers.native:
  bbh_mcq_postprocess=read_lettered
scoring.postprocess.freeform:
  bbh_freeform_postprocess=bbh_freeform_postprocess
scoring.readers.native:
  first_number_postprocess=first_number gsm8k_postprocess=read_last_number
  gsm8k_dataset_postprocess=read_gold_solution stated_number_postprocess=read_number
  stated_text_postprocess=read_text stated_expression_postprocess=read_expression
  math_postprocess=read_expression math_postprocess_v2=read_expression
scoring.postprocess.freeform:
  general_postprocess=general_postprocess general_cn_postprocess=general_cn_postprocess
compat.benchmark_metrics.short_answers:
  triviaqa_postprocess=read_first_line
scoring.postprocess.freeform:
  match_answer_pattern=match_answer_pattern xml_tag_postprocessor=xml_tag_postprocessor
  think_pred_postprocess=think_pred_postprocess extract_non_reasoning_content=extract_non_reasoning_content
scoring.code.extraction:
  humaneval_postprocess_v2=humaneval_postprocess_v2 humaneval_postprocess=humaneval_postprocess
  humaneval_internal_v2_postprocess=humaneval_internal_v2_postprocess ds1000_postprocess=ds1000_postprocess
  ds1000_completion_postprocess=ds1000_completion_postprocess
  ds1000_matplotlib_postprocess=ds1000_matplotlib_postprocess humaneval_postprocess_v3=humaneval_postprocess_v3
compat.benchmark_metrics.needlebench:
  needlebench_postprocess=keep_reply needlebench_dataset_postprocess=keep_reply
  needlebench_atc_postprocess_v2=read_ancestor
compat.benchmark_metrics.longbench:
  trec_postprocess=first_line lsht_postprocess=first_line samsum_postprocess=first_line
compat.benchmark_metrics.long_context:
  InfiniteBench_first_number_postprocess=bare_number
compat.benchmark_metrics.multilingual:
  pmmeval_mhellaswag_postprocess=read_choice pmmeval_mlogiqa_postprocess=read_choice
  pmmeval_mmmlu_postprocess=read_choice pmmeval_xnli_postprocess=read_choice
  pmmeval_flores_postprocess=read_translation pmmeval_mifeval_postprocess=read_translation
  mgsm_postprocess=read_final_number
compat.benchmark_metrics.short_answers:
  cmrc_postprocess=read_after_answer drcd_postprocess=read_after_answer Xsum_postprocess=read_first_line
  flores_postprocess=read_first_line lcsts_postprocess=read_headline ReCoRD_postprocess=read_span
  strategyqa_pred_postprocess=read_yes_or_no strategyqa_dataset_postprocess=read_truth
  charm_reason_postprocess=read_bracketed_letter GPQA_Simple_Eval_postprocess=read_labelled_letter
compat.benchmark_metrics.mathematics:
  mathbench_postprocess=read_number_after_statement gsm100_postprocess=read_number_after_statement
  TheoremQA_postprocess=read_after_statement TheoremQA_postprocess_v3=read_theorem_answer
  TheoremQA_postprocess_v4=read_theorem_answer dapo_math_postprocess=read_minerva
  olympiadbench_postprocess_v2=read_final_statement dapo_math_postprocess_v2=read_boxed_tail
compat.benchmark_metrics.measurements:
  smolinstruct_acc_0shot_postprocess=read_boolean smolinstruct_acc_postprocess=read_boolean
compat.benchmark_metrics.pictures:
  refcoco_bbox_postprocess=read_box
""")

_THEIRS = locate_parts("""
compat.opencompass.their_metrics:
  AccEvaluator=same_text AccwithDetailsEvaluator=same_text EMEvaluator=same_phrase Gsm8kEvaluator=same_value
  BBHEvaluator=same_statement BBHEvaluator_mcq=same_text NQEvaluator=contain_phrase TriviaQAEvaluator=contain_trivia
  MATHEvaluator=same_formula MATHVerifyEvaluator=same_boxed_value GPQAEvaluator=same_text
  CharmReasonEvaluator=same_text MGSM_Evaluator=same_text
compat.opencompass.their_options:
  first_option_postprocess=read_first_option last_option_postprocess=read_last_option
compat.opencompass.their_answers:
  first_number_postprocess=read_first_figures gsm8k_postprocess=read_last_figures bbh_mcq_postprocess=read_letter
  bbh_freeform_postprocess=read_statement general_postprocess=read_phrase charm_reason_postprocess=read_letter
compat.opencompass.their_benchmarks:
  triviaqa_postprocess=read_top_line strategyqa_pred_postprocess=read_yes_or_no gsm100_postprocess=read_digits
  smolinstruct_acc_postprocess=read_yes_before_no
  GPQA_Simple_Eval_postprocess=read_labelled mathbench_postprocess=read_amount mgsm_postprocess=read_after_label
  SQuAD20Evaluator=equal_phrase LambadaEvaluator=same_first_word BabiLongEvaluator=contain_facts
  InfiniteBenchretrievekvEvaluator=named_word InfiniteBenchendiaEvaluator=named_speaker
  LongBenchCodeSimEvaluator=rounded_similarity
compat.opencompass.their_mathematics:
  math_postprocess=read_final_sentence math_postprocess_v2=read_boxed_or_sentence
""")

_AISBENCH = locate_parts("""
compat.opencompass.their_metrics:
  BBHEvaluator=same_plain_statement
compat.opencompass.their_answers:
  bbh_freeform_postprocess=read_plain_statement
""")

MEANINGS: Mapping[str, Mapping[str, str]] = {'opencompass': _THEIRS, 'aisbench': {**_THEIRS, **_AISBENCH}}
"""By system, the names whose own reading is another than ours, and what reads as that system does."""

CODE_METRICS = frozenset(name for name, path in METRICS.items() if path.startswith('rolecall.scoring.code.'))

ALWAYS_OURS = CODE_METRICS | {
    *('GenericLLMEvaluator', 'LMEvaluator', 'PairwiseEvaluator', 'CascadeEvaluator'),
    *('MultiTurnEvaluator', 'CharmMemoryEvaluator'),
}
"""Judges and metrics that run code: ours even if another system's class is installed."""

UNSUPPORTED: Mapping[str, str] = {
    'SciCodeEvaluator': 'it runs model-written code',
    'CIBenchEvaluator': 'it runs model-written code',
    'TEvalEvaluator': 'it belongs to one benchmark',
}
"""Evaluators that configs name but rolecall does not implement, with the reason."""
