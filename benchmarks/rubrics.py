"""Calibrate a ready rubric with a judge on replies that people labelled.

    python benchmarks/rubrics.py RUBRIC [--judge MODEL] [--rows N]
    python benchmarks/rubrics.py RUBRIC --labels FILE … [--judge MODEL] [--rows N]

Without --labels, the public labels that are at hand: EVOUNA (correctness), PandaLM (preference), LLMBar (instructions). A file has
the columns question, reply and label (correct or wrong; preference: other, and win, tie or loss), and what the rubric needs: answer,
context. These are read as they are published:

    refusal        model_completions/*.csv of XSTest            github.com/paul-rottger/exaggerated-safety
    faithfulness   data/mturk_cnndm.jsonl, mturk_xsum.jsonl     github.com/W4ngatang/qags
    toxicity       data/labeled_data.csv                        github.com/t-davidson/hate-speech-and-offensive-language
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from real_replies import SHARED, rows_of
from rolecall import run_config
from rolecall.experiment.opening.judge_config import RUBRICS
from rolecall.insight.calibration import calibrate
from rolecall.insight.label_files import join_labels, read_label_table
from rolecall.runs.store.run_reader import RunReader
from rolecall.ui.report.calibration_text import describe_calibration

Record = dict[str, Any]
PREFERRED = {'1': 'win', '2': 'loss', '0': 'tie'}
REFUSALS = {'1_full_compliance': 'wrong', '2_full_refusal': 'correct'}


def labelled_rows(rubric: str) -> Iterator[Record]:
    """Public labels that fit a rubric."""
    if rubric == 'correctness':
        for row in rows_of('openqa_evouna_human'):
            answer = ' or '.join(row['gold'][:3])
            label = 'correct' if row['verdict'] else 'wrong'
            yield {'question': row['question'], 'reply': row['reply'], 'answer': answer, 'label': label}
    elif rubric == 'preference':
        for row in rows_of('preference_pandalm_human'):
            (vote, most), *_ = Counter(map(str, row['votes'])).most_common()
            if most > 1 and row['response1'] and row['response2']:
                answers = {'reply': str(row['response1']), 'other': str(row['response2'])}
                yield {'question': row['question'], **answers, 'label': PREFERRED[vote]}
    elif rubric == 'instructions':
        pairs = {(row['question'], row['output_1'], row['output_2']): row for row in rows_of('judge_llmbar')}
        for (question, *outputs), row in pairs.items():
            for place, output in enumerate(outputs, 1):
                label = 'correct' if row['human_label'] == place else 'wrong'
                yield {'question': question, 'reply': output, 'label': label}


def read_labels(file: Path) -> Iterator[Record]:
    """The records of a file; of published labels, those on which most people agree."""
    for record in map(dict, read_label_table(file)):
        if 'final_label' in record:
            if record['final_label'] in REFUSALS:
                label = REFUSALS[record['final_label']]
                yield {'question': record['prompt'], 'reply': record['completion'], 'label': label}
        elif 'summary_sentences' in record:
            for summary in record['summary_sentences']:
                votes = [vote['response'] for vote in summary['responses']]
                label = 'correct' if votes.count('yes') > len(votes) / 2 else 'wrong'
                texts = {'question': 'Summarise the context.', 'context': record['article']}
                yield {**texts, 'reply': summary['sentence'], 'label': label}
        elif 'tweet' in record:
            label = 'correct' if str(record['class']) == '2' else 'wrong'
            yield {'question': 'Write a tweet.', 'reply': record['tweet'], 'label': label}
        else:
            yield record


def build_config(rubric: str, records: list[Record], judge: str) -> dict[str, Any]:
    """A run in which a function repeats the replies, so that only the judge is asked."""
    columns = [name for name in ('question', 'context') if name in records[0]]
    evaluator: Record = {'rubric': rubric, 'judge_cfg': judge}
    if rubric == 'preference':
        evaluator |= {'against': {'column': 'other'}, 'order': 'both'}
    reader = {'input_columns': columns} | ({'output_column': 'answer'} if 'answer' in records[0] else {})
    dataset = {
        'abbr': rubric,
        'type': 'Rows',
        'test': [{**record, 'id': number} for number, record in enumerate(records)],
        'reader_cfg': reader,
        'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': '{reply}'}},
        'eval_cfg': {'evaluator': evaluator},
    }
    return {'models': [{'abbr': 'replies', 'type': lambda prompt: prompt}], 'datasets': [dataset]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('rubric', choices=tuple(RUBRICS))
    parser.add_argument('--judge', default='smollm2')
    parser.add_argument('--rows', type=int, default=100)
    parser.add_argument('--labels', type=Path, nargs='+', metavar='FILE', default=[])
    arguments = parser.parse_args()
    if not arguments.labels and not (SHARED / 'logs').is_dir():
        print(f'{SHARED / "logs"}: not here; name a file with --labels.')
        return 0
    records = [record for file in arguments.labels for record in read_labels(file)]
    records = records or [*labelled_rows(arguments.rubric)]
    if not records:
        print(f'No public labels for {arguments.rubric} are at hand: name a file with --labels.')
        return 0
    drawn = random.Random(0).sample(records, min(arguments.rows, len(records)))
    with tempfile.TemporaryDirectory() as folder:
        run_config(build_config(arguments.rubric, drawn, arguments.judge), out=Path(folder, 'run'))
        join_labels(Path(folder, 'run'), [{'row': at, 'label': row['label']} for at, row in enumerate(drawn)])
        with RunReader(Path(folder, 'run')) as run:
            print(*(f'{card.scored} of {card.total} rows judged' for card in run.scorecards()))
            for calibration in calibrate(run):
                print(*describe_calibration(calibration), sep='\n')
    return 0


if __name__ == '__main__':
    sys.exit(main())
