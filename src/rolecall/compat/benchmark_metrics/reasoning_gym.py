"""Generated tasks of reasoning-gym: each task's own verifier says how good an answer is, from 0 to 1."""

from __future__ import annotations

from rolecall.errors import import_extra
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.metrics.metric import Answer, Mark, Metric


def verified() -> Metric:
    """The score of the task's own verifier for the answer; 1.0 is right."""

    def mark(answer: Answer) -> Mark:
        facts = answer.values.get('metadata')
        task = facts.get('source_dataset') if isinstance(facts, dict) else None
        if task is None:
            raise ScoringError("needs rows of reasoning-gym, with 'metadata' that names their task.")
        library = import_extra('reasoning_gym', extra='generate', purpose='to verify answers')
        try:
            score = float(library.get_score_answer_fn(task)(str(answer.prediction), dict(answer.values)))
        except Exception as error:  # a verifier of the package may raise anything
            raise ScoringError(f'the verifier of {task} failed: {error}') from error
        return Mark(score, correct=score == 1.0)

    return Metric('verified', mark)
