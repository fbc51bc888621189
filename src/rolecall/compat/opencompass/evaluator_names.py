"""The evaluators of OpenCompass and AISBench by name, and which metric of ours each of them is."""

from __future__ import annotations

from collections.abc import Mapping


def locate_parts(table: str) -> dict[str, str]:
    """Parts by name, as a registry declares them, from lines of `module:` and `Name=function …`.

    >>> locate_parts('metrics.matching:\\n  AccEvaluator=accuracy')
    {'AccEvaluator': 'rolecall.scoring.metrics.matching:accuracy'}
    """
    parts, module = {}, ''
    for word in table.split():
        name, _, function = word.partition('=')
        if function:
            parts[name] = f'rolecall.scoring.{module}:{function}'
        else:
            module = name.removesuffix(':')
    return parts


METRICS: Mapping[str, str] = locate_parts("""
metrics.matching:
  AccEvaluator=accuracy AccwithDetailsEvaluator=accuracy EMEvaluator=exact_match WholeMatchEvaluator=whole_match
  Gsm8kEvaluator=gsm8k
metrics.symbolic:
  MATHEvaluator=same_expression MATHVerifyEvaluator=same_expression
metrics.matching:
  BBHEvaluator=bbh_freeform BBHEvaluator_mcq=bbh_multiple_choice
metrics.several:
  CircularEvaluator=circular
metrics.matching:
  TriviaQAEvaluator=contains_an_answer NQEvaluator=contains_an_answer
metrics.overlap:
  SquadEvaluator=word_f1 SQuAD20Evaluator=word_f1 RougeEvaluator=rouge JiebaRougeEvaluator=jieba_rouge
  BleuEvaluator=bleu
metrics.several:
  MultiTurnEvaluator=turn_mean AveragePPLEvaluator=average_ppl AverageInferencePPLEvaluator=average_inference_ppl
  BPCEvaluator=bits_per_character
metrics.judging:
  GenericLLMEvaluator=judge_accuracy LMEvaluator=judge_rating PairwiseEvaluator=judge_preference
  CascadeEvaluator=cascade
families.reasoning_gym:
  ReasoningGymEvaluator=verified
families.needlebench:
  NeedleBenchOriginEvaluator=find_needle NeedleBenchParallelEvaluator=find_needles
  NeedleBenchMultiEvaluator=find_needle_words NeedleBenchATCEvaluator=ancestor
families.ruler:
  RulerCweEvaluator=contain_share RulerFweEvaluator=contain_share RulerNiahEvaluator=contain_share
  RulerVtEvaluator=contain_share RulerQaEvaluator=contain_any
families.longbench:
  LongBenchF1Evaluator=words_f1 LongBenchRougeEvaluator=rouge_l LongBenchCodeSimEvaluator=code_similarity
  LongBenchClassificationEvaluator=classes LongBenchCountEvaluator=counts LongBenchRetrievalEvaluator=paragraphs
  LongBenchv2Evaluator=v2_accuracy
families.lveval:
  LVEvalF1Evaluator=plain_f1 LVEvalOPTF1Evaluator=keyword_f1 LVEvalOPTRougeEvaluator=plain_rouge_l
families.long_context:
  InfiniteBenchendiaEvaluator=speakers InfiniteBenchmathcalcEvaluator=running_numbers
  InfiniteBenchretrievekvEvaluator=key_values BabiLongEvaluator=facts MRCREvaluator=recall_turn
families.exams:
  GaokaoBenchEvaluator_single_choice=gaokao_single_choice GaokaoBenchEvaluator_multi_choice=gaokao_multi_choice
  GaokaoBenchEvaluator_multi_question_choice=gaokao_questions
  GaokaoBenchEvaluator_five_out_of_seven=gaokao_five_of_seven GaokaoBenchEvaluator_cloze=gaokao_cloze
  GaokaoBenchEvaluator_subjective=gaokao_unscored GaokaoBenchEvaluator_correction=gaokao_unscored
  AGIEvalEvaluator=cloze_answers AGIEvalEvaluator_mcq=letter_sets
families.multilingual:
  PMMEvalMHellaswagEvaluator=choice_or_index PMMEvalMLogiQAEvaluator=choice_or_index
  PMMEvalMMMLUEvaluator=choice_or_index PMMEvalXNLIEvaluator=choice_or_index
  PMMEvalFloresEvaluator=best_lines_bleu PMMEvalMGSMEvaluator=final_number MGSM_Evaluator=final_number
families.ifeval:
  IFEvaluator=instruction_accuracy PMMEvalMIFEvalEvaluator=multilingual_instruction_accuracy
families.short_answers:
  GPQAEvaluator=exact_answer CharmReasonEvaluator=exact_answer CharmMemoryEvaluator=recall_answer
  DropOpenAIEvaluator=overlapping_answer LambadaEvaluator=first_word LEvalEMEvaluator=contain_answer
  MusrEvaluator=labelled_number ELBenchChoiceEvaluator=choice_set SuperGPQAEvaluator=option_or_its_text
  AccDropEvaluator=accuracy_drop AccContaminationEvaluator=accuracy_by_contamination ARCPrizeEvaluator=grids
families.mathematics:
  LiveMathBenchEvaluator=live_expressions DAPOMathEvaluator=final_answer DAPOMathEvaluatorV2=final_answer
  TheoremQAEvaluatorV3=theorem_answers korbenchEvaluator=rule_answers OlympiadBenchEvaluator=olympiad_answers
families.measurements:
  RMSEEvaluator=root_mean_square MAEEvaluator=absolute_error MeteorEvaluator=meteor AUCROCEvaluator=auc_roc
  NCExactMatchEvaluator=exact_formula NCElementMatchEvaluator=same_elements
families.pictures:
  BBoxIoUEvaluator=boxes MMMUProEvaluator=options_by_category MMMUProCotEvaluator=reasoned_options
  MMStarEvaluator=options_by_category RealworldQAEvaluator=stated_answer VideoBenchEvaluator=video_options
  VocalSoundEvaluator=sounds TEXTEvaluator=vqa_accuracy EDAccEvaluator=nearest_candidate
families.truthfulqa:
  TruthfulQAEvaluator=more_true_than_false
families.function_calls:
  BFCLSingleTurnEvaluator=single_turn_calls BFCLRelevanceEvaluator=call_relevance
code.code_metrics:
  HumanEvalEvaluator=humaneval HumanEvalPlusEvaluator=humaneval_plus HumanevalXEvaluator=humaneval_x
  HumanevalProEvaluator=with_test_code MBPPProEvaluator=with_test_code MBPPEvaluator=mbpp MBPPEvaluator2=mbpp
  MBPPPassKEvaluator=mbpp_pass_k LCPassKEvaluator=leetcode LCEvaluator=leetcode
  LCBCodeGenerationEvaluator=code_generation LCBCodeExecutionEvaluator=code_execution
  LCBTestOutputEvaluator=output_prediction BigCodeBenchEvaluator=bigcodebench TACOEvaluator=contest
  APPSEvaluator=contest DS1000Evaluator=ds1000 MultiplEEvaluator=multipl_e
""")

CODE_METRICS = frozenset(name for name, path in METRICS.items() if path.startswith('rolecall.scoring.code.'))

ALWAYS_OURS = CODE_METRICS | {
    *('GenericLLMEvaluator', 'LMEvaluator', 'PairwiseEvaluator', 'CascadeEvaluator'),
    *('MultiTurnEvaluator', 'CharmMemoryEvaluator'),
}
"""Judges and what runs code: ours even where the class of another system is at hand."""

UNSUPPORTED: Mapping[str, str] = {
    'SciCodeEvaluator': 'it runs model-written code',
    'CIBenchEvaluator': 'it runs model-written code',
    'TEvalEvaluator': 'it belongs to one benchmark',
}
"""Evaluators that configs name but rolecall does not implement, with the reason."""
