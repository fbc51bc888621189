"""A file of rows as a dataset: its columns, a template for them, and how answers are read and scored."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from rolecall.checking import Problems
from rolecall.errors import DataError, did_you_mean
from rolecall.experiment.opening.judge_config import parse_judge
from rolecall.experiment.opening.source_options import RowsOptions
from rolecall.experiment.opening.templates import as_dialogue, unescape
from rolecall.registry import LocalPath
from rolecall.sources.datasets.columns import (
    LETTERS,
    OPTION_LINES,
    OPTION_LISTS,
    PASSAGES,
    find_option_columns,
    flatten,
    options_of,
    read_options,
    spread_choices,
)
from rolecall.sources.datasets.formats import FileOptions, open_file
from rolecall.strings import count_noun

METRIC_NAMES = ('exact', 'accuracy', 'contains', 'number', 'math', 'f1', 'rouge', 'bleu')
"""Our own metrics."""

_QUESTIONS = (
    *('question', 'prompt', 'input', 'query', 'instruction', 'problem', 'text', 'sentence', 'review', 'passage'),
    *('content', 'utterance', 'stem', '问题', '题目', 'frage', 'pregunta', 'q'),
)
_ANSWERS = (
    *('answer', 'label', 'target', 'gold', 'output', 'expected', 'response', 'solution', 'class', 'category'),
    *('answers', 'answerkey', 'answer_key', 'answer_idx', 'correct_answer', 'correct', 'sentiment', 'intent', '答案'),
    *('antwort', 'respuesta', 'réponse'),
)
_ANSWERS_INSIDE = ('answers.text', 'answer.text', 'answer.value')
"""SQuAD's and TriviaQA's."""
_FIELD = re.compile(r'\{([^{}]+)\}')
_LOOKED_AT = 100
_MAX_OUT_LEN = 512


def columns_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The columns of the first rows, each with its first value that is not empty."""
    columns: dict[str, Any] = {}
    for row in islice(rows, _LOOKED_AT):
        for name, value in row.items():
            if columns.get(name) in (None, ''):
                columns[name] = value
    return columns


def find_question(columns: Iterable[str]) -> str | None:
    """The column that holds the question, by its name."""
    named = {last_part(name): name for name in columns}
    return next((named[name] for name in _QUESTIONS if name in named), None)


def find_answer(columns: Iterable[str]) -> str | None:
    """The column that holds the answer, by its name."""
    columns = list(columns)
    named = next((name for names in _ANSWERS for name in columns if last_part(name) == names), None)
    inside = next((name for name in columns if name.lower() in _ANSWERS_INSIDE), None)
    return named or inside or ('a' if {'q', 'a'} <= {*columns} else None)


def single_columns(columns: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns that hold one value each: no objects, and none of the options."""
    inside = f'{find_option_list(columns)}.'
    return tuple(name for name, value in columns.items() if not isinstance(value, Mapping) and inside not in name)


def last_part(name: str) -> str:
    """A column's name in small letters, without the objects that it stands in.

    >>> last_part('input.Question')
    'question'
    """
    return name.lower().rpartition('.')[2]


def dataset_for_rows(
    rows: Path | Sequence[Mapping[str, Any]],
    options: RowsOptions,
    *,
    dialogue: bool,
    perplexity: bool,
    notes: list[str] | None = None,
) -> dict[str, Any]:
    """The dataset entry of a file of rows, or of rows themselves.

    `dialogue` writes the prompt in turns (for chat models), `perplexity` weighs the choices by log-probabilities.
    Columns that the usual prompt leaves out are named in `notes`.

    >>> rows = [{'question': '1+1=?', 'answer': '2'}]
    >>> entry = dataset_for_rows(rows, RowsOptions(answer='answer'), dialogue=False, perplexity=False)
    >>> entry['infer_cfg']['prompt_template']['template'], entry['eval_cfg']['pred_postprocessor']
    ('{question}\\n{answer}', 'stated_number_postprocess')
    """
    first_rows = read_first_rows(rows, options)
    columns = columns_of(first_rows)
    nested = any(isinstance(value, Mapping) for value in columns.values())
    if nested:
        first_rows = list(map(flatten, first_rows))
        columns = columns_of(first_rows)
    option_list = _find_options(first_rows, columns, options)
    if option_list is not None:
        first_rows = [spread_choices(row, option_list, options.answer) for row in first_rows]
    columns = columns_of(first_rows)
    name = options.name or (rows.name.split('.')[0] if isinstance(rows, Path) else 'rows')
    where = str(rows) if isinstance(rows, Path) else name
    if not first_rows:
        what = 'the file is empty or has only a header' if isinstance(rows, Path) else 'the list is empty'
        raise DataError(f'{where}: no rows: {what}.')
    problems = Problems()
    if options.answer is not None and columns and options.answer not in columns:
        what = f'no row has the column {options.answer!r}.'
        problems.add('--answer', what, did_you_mean(options.answer, columns))
    if not problems.items:
        _check_choices(first_rows, options, problems)
    template = _template(options, columns, problems, where, dialogue=dialogue, perplexity=perplexity)
    answer = options.answer or ''
    golds = [row[answer] for row in first_rows if row.get(answer) not in (None, '')]
    evaluation = _evaluation(options, perplexity, problems, golds, [] if notes is None else notes)
    problems.raise_all()
    used = [*_FIELD.findall(str(template)), template.get('messages', [{}])[0].get('expand_column')]
    if options.judge is not None:  # it reads the question, whether or not the template shows it
        used.append(options.question or find_question(name for name in columns if name != options.answer))
    fields = [column for column in columns if column in used and column != options.answer]
    if notes is not None and options.template is None:
        listed = (option_list,) if isinstance(option_list, str) else option_list or ()
        used_columns = (*fields, options.answer, *listed, *(LETTERS if listed else ()))
        left = [
            name
            for name, value in columns.items()
            if name not in used_columns and not isinstance(value, Mapping) and not name.startswith(f'{option_list}.')
        ]
        notes += [f'not in the prompt: {", ".join(left)} (a template of your own can name them).'] if left else []
    source = (
        {'type': 'File', 'path': str(rows.absolute())} if isinstance(rows, Path) else {'type': 'Rows', 'test': rows}
    )
    inferencer: dict[str, Any] = {'type': 'GenInferencer', 'max_out_len': _MAX_OUT_LEN}
    if perplexity:
        inferencer = {'type': 'PPLInferencer', 'labels': list(options.choices)}
    return {
        'abbr': name,
        **source,
        **options.file,
        **({'flatten': True} if nested and '.' in f'{fields} {options.answer} {option_list}' else {}),
        **({'choices_from': option_list} if option_list is not None else {}),
        'reader_cfg': {'input_columns': fields, 'output_column': options.answer},
        'infer_cfg': {'prompt_template': template, 'inferencer': inferencer},
        **({'eval_cfg': evaluation} if evaluation else {}),
    }


def read_first_rows(
    rows: Path | Sequence[Mapping[str, Any]], options: RowsOptions, count: int = _LOOKED_AT
) -> list[Mapping[str, Any]]:
    """The rows that stand for all where columns are looked at."""
    return list(islice(open_file(rows, FileOptions(**options.file)) if isinstance(rows, Path) else rows, count))


def find_beside(value: Any) -> Any:
    """`module:function` as a path into the current folder, where there is such a module; anything else as it is."""
    if not isinstance(value, str) or ':' not in value:
        return value
    package, here = value.replace(':', '.').partition('.')[0], Path.cwd()
    local = (here / f'{package}.py').is_file() or (here / package).is_dir()
    return LocalPath(value, here) if local else value


def _find_options(
    rows: Sequence[Mapping[str, Any]], columns: Mapping[str, Any], options: RowsOptions
) -> str | list[str] | None:
    """Where each row lists its options, if the choices are letters that stand for them and no columns of their own."""
    choices = options.choices
    if not choices or choices != tuple(LETTERS[: len(choices)]):
        return None
    if all(row.get(choice) not in (None, '') for row in rows for choice in choices):
        return None
    return find_option_list(columns)


def find_option_list(columns: Mapping[str, Any]) -> str | list[str] | None:
    """The column that lists the options of each row, in any of the usual forms, or the columns that hold one each."""
    listed = (name for name in columns if last_part(name) in OPTION_LISTS and read_options(columns[name]))
    return next(listed, None) or list(find_option_columns(columns)) or None


def find_letters(rows: Sequence[Mapping[str, Any]], answer: str | None) -> tuple[str, ...]:
    """The letters of the options that every row lists, if every answer is one of them.

    >>> find_letters([{'q': 'Which?', 'options': {'A': 'x', 'B': 'y'}, 'answer': 'y'}], 'answer')
    ('A', 'B')
    >>> find_letters([{'q': 'Which?', 'opa': 'x', 'opb': 'y', 'answer': 'B'}], 'answer')
    ('A', 'B')
    """
    rows = list(map(flatten, rows))
    option_list = find_option_list(columns_of(rows))
    if option_list is None or answer is None:
        return ()
    options = [list((options_of(row, option_list) or {}).values()) for row in rows]
    letters = tuple(LETTERS[: max(map(len, options))])
    golds = [row.get(answer) for row in rows]
    counted = (str(gold).isdecimal() and gold not in texts for gold, texts in zip(golds, options, strict=True))
    if min(map(len, options)) < 2 or (not isinstance(option_list, str) and any(counted)):
        return ()  # numbers of columns may count from 0 or from 1
    spread = [spread_choices(row, option_list, answer).get(answer) for row in rows]
    return letters if all(gold in (*letters, None, '') for gold in spread) else ()


def _template(
    options: RowsOptions,
    columns: Mapping[str, Any],
    problems: Problems,
    where: str,
    *,
    dialogue: bool,
    perplexity: bool,
) -> dict[str, Any]:
    """The entry of the template that was given, or of the usual one for these columns."""
    candidates = [name for name, value in columns.items() if name != options.answer and not isinstance(value, Mapping)]
    question = options.question or find_question(candidates)
    messages = next((name for name in (question, 'messages') if name and is_conversation(columns.get(name))), None)
    if options.template is None and messages is not None:
        return {'type': 'RawPromptTemplate', 'messages': [{'expand_column': messages}]}
    # Tokenizers join a space at the end of a prompt to the word that follows.
    gap = ' ' if dialogue or perplexity else '\n'
    if options.template is not None:
        text = _given_text(options, gap)
    elif question is not None:
        text = _usual_text(question, options, columns, gap)
    else:
        text, answer = '', options.answer or find_answer(single_columns(columns))
        fields = ' '.join(f'{{{name}}}' for name in columns if name != answer)
        example = '\\n'.join((fields or 'Q: {question}', *([f'{{{answer}}}'] if options.answer else [])))
        what = 'this is a file of rows, not a config, and none of its columns is called question.'
        remedy = f' --answer {answer}' if answer and not options.answer else ''
        problems.add(where, what, f"Give a template for the rows: --template '{example}'{remedy}.")
    return {'type': 'PromptTemplate', 'template': as_dialogue(text, options.answer) if dialogue else text}


def is_conversation(value: Any) -> bool:
    """Whether a value is a list of messages that a model is to answer."""
    return (
        isinstance(value, list | tuple)
        and bool(value)
        and all(isinstance(message, Mapping) and {'role', 'content'} <= message.keys() for message in value)
        and value[-1]['role'] != 'assistant'
    )


def _given_text(options: RowsOptions, gap: str) -> str:
    """The template that was given; the answer is added at its end where it asks for one."""
    text = unescape(options.template or '')
    answer = f'{{{options.answer}}}'
    if options.answer and answer not in text and (options.choices or text.rstrip().endswith(':')):
        return f'{text.rstrip()}{gap}{answer}' if text.rstrip().endswith(':') else f'{text}\n{answer}'
    return text


def _usual_text(question: str, options: RowsOptions, columns: Mapping[str, Any], gap: str) -> str:
    """What a question is about, the question, its options, and the answer."""
    others = [
        name for name, value in columns.items() if isinstance(value, str) and name not in (question, options.answer)
    ]
    contexts = [name for name in others if last_part(name) in PASSAGES]
    parts = [f'{{{name}}}' for name in (*contexts, question)]
    if OPTION_LINES in columns:
        parts.append(f'{{{OPTION_LINES}}}')
    elif options.choices and all(choice in columns for choice in options.choices):
        parts += [f'{choice}. {{{choice}}}' for choice in options.choices]
    elif option_list := next((name for name in OPTION_LISTS if options.choices and name in columns), None):
        parts.append(f'{{{option_list}}}')
    if options.choices:
        parts += [f'Answer with one of: {", ".join(options.choices)}.', f'Answer:{gap}{{{options.answer}}}']
    elif options.answer:
        parts.append(f'{{{options.answer}}}')
    return '\n'.join(parts)


def _check_choices(rows: Sequence[Mapping[str, Any]], options: RowsOptions, problems: Problems) -> None:
    """Answers that are none of the choices would all be wrong."""
    if not options.choices:
        if options.ask == 'perplexity':
            problems.add('--ask', 'perplexity compares choices, and none are given.', 'Give them: --choices A,B,C,D.')
        return
    if options.answer is None:
        problems.add('--choices', 'the column of the answer is not given.', 'Name it: --answer COLUMN.')
        return
    golds = [row[options.answer] for row in rows if row.get(options.answer) not in (None, '')]
    strange = list(dict.fromkeys(str(gold) for gold in golds if str(gold) not in options.choices))
    if strange:
        quoted = ', '.join(map(repr, strange[:5]))
        share = f'{count_noun(sum(str(gold) in strange for gold in golds), "row")} of the first {len(rows)}'
        what = f'the column {options.answer!r} has answers that are not among the choices: {quoted} ({share}).'
        distinct = sorted({str(gold) for gold in golds})
        remedy = f'Did you mean --choices {",".join(distinct)}?' if len(distinct) <= len(options.choices) + 2 else ''
        problems.add('--choices', what, remedy)


def _evaluation(
    options: RowsOptions, perplexity: bool, problems: Problems, golds: Sequence[Any], notes: list[str]
) -> dict[str, Any]:
    """How replies are read and compared: as asked for, or as suits the answers of the first rows."""
    judging: dict[str, Any] = {}
    if options.judge is not None:
        with problems.inside(''):
            judge = parse_judge(options.judge) if isinstance(options.judge, str) else options.judge
            judging = {**judge, 'judge_cfg': find_beside(judge.get('judge_cfg'))}
        if options.metric is None:
            return {'evaluator': judging, **({'pred_postprocessor': options.extract} if options.extract else {})}
    if options.answer is None:
        if options.metric is not None:
            problems.add('--metric', 'the column of the answer is not given.', 'Name it: --answer COLUMN.')
        return {}
    from rolecall.scoring.evaluate import READERS
    from rolecall.scoring.evaluators import METRICS  # only here: it brings every metric
    from rolecall.scoring.readers.golds import kind_of_golds

    metric, choices, several = options.metric, options.choices, False
    if metric is None and golds and all(isinstance(gold, Mapping) for gold in golds):
        inside = ', '.join(f'--answer {options.answer}.{name}' for name in golds[0])
        problems.add('--answer', f'the column {options.answer!r} holds objects.', f'Name a value inside: {inside}.')
        return {}
    if metric is None and options.extract is None and not choices:
        kind = kind_of_golds(golds)
        metric, choices, several = kind.metric, kind.choices, kind.several
        among = f', read as {"any" if several else "one"} of {", ".join(choices)}' if choices else ''
        notes.append(f'the answers are {kind.name}: scored by --metric {metric}{among}.')
    metric = metric or ('accuracy' if choices else 'exact')
    evaluator: Any = metric
    extract: Any = options.extract
    if isinstance(metric, str) and metric in METRIC_NAMES:
        extract = extract or READERS.get(metric)
    elif isinstance(metric, str) and METRICS.builtin_name(metric) is None and '.' not in metric and ':' not in metric:
        names = [*METRIC_NAMES, *METRICS, *(plugin.name for plugin in METRICS.plugins())]
        if metric not in names:
            close = did_you_mean(metric, names)
            remedy = (
                close
                if close.startswith('Did')
                else f'Known: {", ".join(METRIC_NAMES)}; `rolecall config list metrics`.'
            )
            problems.add('--metric', f'unknown metric {metric!r}.', remedy)
    if choices and not perplexity and extract is None:
        extract = {'type': 'choice_postprocess', 'choices': list(choices), **({'several': True} if several else {})}
    evaluator, extract = find_beside(evaluator), find_beside(extract)
    eval_cfg = {'evaluator': evaluator if isinstance(evaluator, Mapping) else {'type': evaluator}}
    if judging:
        if extract is None:
            what = f'--metric {metric} reads no answer from a reply, so there is none that it could leave to the judge.'
            problems.add('--judge', what, 'Name how it is read (--extract NAME), or leave --metric out.')
        rule = {**eval_cfg['evaluator'], 'pred_postprocessor': extract}
        cascade = {'type': 'CascadeEvaluator', 'asks_about': 'undecided', 'rule_evaluator': rule}
        return {'evaluator': {**cascade, 'llm_evaluator': judging}}
    if several:
        eval_cfg['dataset_postprocessor'] = {'type': 'multiple_select_postprocess'}
    return eval_cfg if extract is None else {**eval_cfg, 'pred_postprocessor': extract}
