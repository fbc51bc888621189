"""Linting a config: its datasets and models are built and opened, and every rule looks at them and at their rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from rolecall.errors import ConfigError, DataError, MissingExtraError, Problem, RenderError, did_you_mean
from rolecall.experiment.experiment import Experiment, Files
from rolecall.experiment.lint.entry_subjects import describe_dataset, describe_model, describe_pair
from rolecall.experiment.lint.rules import collect_rules
from rolecall.experiment.lint.subject import (
    SEVERITIES,
    CheckedRow,
    CheckedRows,
    Finding,
    Rule,
    Subject,
    Violation,
)
from rolecall.experiment.opening.judges import JudgeEntry, find_judge
from rolecall.experiment.opening.loading import SourceLike
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.opening.tasks import TaskEntry
from rolecall.experiment.pairs.judge_pair import JudgePair
from rolecall.experiment.pairs.pair import Pair
from rolecall.sources.datasets import Dataset
from rolecall.sources.datasets.rows import count_skipped
from rolecall.sources.retrievers import Picked

if TYPE_CHECKING:
    from rolecall.models.model_names import ModelName


_SAME = 4
"""From this many on, findings of one kind are one finding, with their number."""

Progress = Callable[[int, 'int | None'], None]
"""Told how many rows have been looked at, of how many (None while that is not known)."""


def lint_config(
    source: Experiment | SourceLike,
    *,
    dataset: str | None = None,
    model: ModelName | Sequence[ModelName] | None = None,
    limit: int | None = 200,
    silence: Collection[str] = (),
    data: Files | None = None,
    progress: Progress | None = None,
) -> list[Finding]:
    """Everything the rules have to say about a config, worst first.

    `dataset` and `model` pick by abbr (patterns work), `limit` bounds the rows looked at in each dataset, `silence`
    names rules to leave out. A config, dataset or model can leave rules out itself: `lint=dict(silence=['bos'])`.
    `data` gives files for datasets whose rows are not at hand: `{'train': path, 'test': path}`, or such a mapping for
    each dataset: `{abbr or pattern: {…}}`.

    >>> config = dict(datasets=[dict(abbr='demo', type='Rows', test=[{'question': '1+1=?', 'answer': '2'}],
    ...     reader_cfg=dict(input_columns=['question'], output_column='answer'),
    ...     infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='Q: {qestion}')))])
    >>> for finding in lint_config(config):
    ...     print(finding.severity, finding.rule, finding.where, finding.remedy[:28])
    error unfilled-field demo Did you mean {question}? Nam
    """
    experiment = Experiment.choose(source, dataset=dataset, model=model, data=data)
    tasks, model_entries = experiment.tasks, experiment.models
    rules = ChosenRules.read(
        experiment.config, tasks, model_entries, {silence} if isinstance(silence, str) else silence
    )
    models = [describe_model(model_entry, experiment.all_models) for model_entry in model_entries]
    findings: list[Finding] = []
    for model_entry, subject in zip(model_entries, models, strict=True):
        counter = FindingCounter.of(subject, rules.for_entries(model_entry))
        counter.look()
        findings += counter.findings()
    done = count(1)
    for task in tasks:
        opened = _open(experiment, task)
        judge, missing = _find_judge(task, experiment.all_models)
        subject = describe_dataset(task, opened, experiment.all_tasks, judge=judge, judge_missing=missing)
        counter = FindingCounter.of(subject, rules.for_entries(task))
        pairs = [
            FindingCounter.of(describe_pair(subject, on, task, model_entry), rules.for_entries(task, model_entry))
            for model_entry, on in zip(model_entries, models, strict=True)
        ]
        for each in (counter, *pairs):
            each.look()
        if isinstance(opened, Dataset):
            size = len(opened.test) if progress is not None and len(tasks) == 1 else None
            total = size if size is None or limit is None else min(size, limit)
            spoken = experiment.pair(task, None)
            judged = None if judge is None else JudgePair(spoken, judge)
            sent = [experiment.pair(task, model_entry) for model_entry in model_entries]
            counter.look_back(
                _look_at_rows(counter, pairs, spoken, judged, sent, limit, partial(_tell, progress, done, total))
            )
        for each in (counter, *pairs):
            findings += each.findings()
    return sorted(_merge_same(findings), key=lambda finding: SEVERITIES.index(finding.severity))


def _merge_same(findings: Sequence[Finding]) -> list[Finding]:
    """One finding for what holds of many datasets for the same reason."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.rule, finding.message, finding.remedy), []).append(finding)
    merged = []
    for same in groups.values():
        if len(same) < _SAME:
            merged += same
        else:
            merged.append(replace(same[0], where=f'{same[0].where} and {len(same) - 1:,} more, to {same[-1].where}'))
    return merged


def _look_at_rows(
    counter: FindingCounter,
    pairs: Sequence[FindingCounter],
    spoken: Pair,
    judged: JudgePair | None,
    sent: Sequence[Pair],
    limit: int | None,
    tell: Callable[[], None],
) -> CheckedRows:
    """Every row once: as the dataset words it, and as each model receives it. Rows end where one cannot be read."""
    columns: dict[str, None] = {}
    prompts: set[str] = set()
    first: Mapping[str, Any] | None = None
    rows_differ = False
    unpicked = ''
    try:
        for number, row, picked in spoken.rows(limit):
            columns |= dict.fromkeys(row)
            shots = tuple(spoken.data.train[i] for i in picked.ids)
            checked = _with_prompts(CheckedRow(row, shots, picked.ids, picked.skipped), spoken, number, picked)
            if judged is not None and not checked.failed:
                checked = _with_prompts(checked, judged, number, picked)
            first = row if first is None else first
            rows_differ = rows_differ or row != first
            if len(prompts) < 2:
                prompts.add('\n'.join(prompt.text for prompt in checked.spoken))
            counter.look_at(number, checked)
            for each, pair in zip(pairs, sent, strict=True) if not checked.failed else ():
                each.look_at(number, _with_prompts(checked, pair, number, picked))
            tell()
    except DataError as error:
        counter.look_at(counter.seen, CheckedRow({}, failed=str(error)))
    except (ConfigError, MissingExtraError) as error:
        unpicked = str(error)
    empty = limit != 0 and not counter.seen and not unpicked
    return CheckedRows(
        empty=empty,
        columns=tuple(columns),
        same_prompt=prompts.pop() if len(prompts) == 1 and rows_differ else '',
        unpicked=unpicked,
        left_out=_left_out(spoken.task, spoken.data),
    )


def _left_out(task: TaskEntry, data: Dataset) -> dict[str, int]:
    """How many malformed lines were passed over, among the rows asked about and those that examples come from."""
    sources = {'test': data.test}
    if task.retriever.ice_num and data.train is not data.test:
        sources['training'] = data.train
    try:
        return {which: count_skipped(rows) for which, rows in sources.items()}
    except DataError:  # a file that cannot be read is a finding already
        return {}


def _with_prompts(checked: CheckedRow, pair: Pair, number: int, picked: Picked) -> CheckedRow:
    """The row with its prompts: those of the dataset, or those for a model."""

    try:
        prompts = tuple(pair.previews(number, checked.values, picked))
    except (ConfigError, DataError, RenderError) as error:
        return replace(checked, failed=str(error))
    if isinstance(pair, JudgePair):
        return replace(checked, judged=prompts)
    if pair.model_entry is None:
        return replace(checked, spoken=prompts)
    return replace(checked, sent=prompts)


def _find_judge(task: TaskEntry, model_entries: Sequence[ModelEntry]) -> tuple[JudgeEntry | None, str]:
    """The dataset's judge, or why it cannot be asked."""
    if not model_entries:  # the judge may be named where the models are
        return None, ''
    try:
        return find_judge(task, model_entries), ''
    except (ConfigError, DataError) as error:
        return None, str(error)


def _tell(progress: Progress | None, done: Iterator[int], total: int | None) -> None:
    """One more row has been looked at."""
    if progress is not None:
        progress(next(done), total)


def _open(experiment: Experiment, task: TaskEntry) -> Dataset | str:
    """The dataset, or why it cannot be opened."""
    try:
        return experiment.dataset(task)
    except (ConfigError, DataError, MissingExtraError) as error:
        return str(error)


@dataclass(frozen=True, slots=True)
class ChosenRules:
    """Every rule, and the names of those that are silenced: everywhere, and by entry."""

    rules: Mapping[str, Rule]
    silenced: frozenset[str]
    silenced_by_place: Mapping[str, frozenset[str]]

    @classmethod
    def read(
        cls,
        config: Mapping[str, Any],
        tasks: Sequence[TaskEntry],
        model_entries: Sequence[ModelEntry],
        silence: Collection[str],
    ) -> ChosenRules:
        """The rules for these entries; `silence` names more of them to leave out."""
        rules = _collect_rules(config)
        problems: list[Problem] = []
        silenced = _check_rule_names(silence, 'silence', problems, rules)
        silenced |= _find_silenced_rules(config, 'lint', problems, rules, ('silence', 'rules'))
        entries: list[TaskEntry | ModelEntry] = [*tasks, *model_entries]
        by_place = {
            entry.where: _find_silenced_rules(entry.entry, f'{entry.where}.lint', problems, rules) for entry in entries
        }
        if problems:
            raise ConfigError(problems)
        return cls(rules, silenced, by_place)

    def for_entries(self, *entries: TaskEntry | ModelEntry) -> list[Rule]:
        """The rules that none of these entries silences."""
        silenced = self.silenced.union(*(self.silenced_by_place[entry.where] for entry in entries))
        return [rule for rule in self.rules.values() if rule.name not in silenced]


def _collect_rules(config: Mapping[str, Any]) -> dict[str, Rule]:
    """Every rule to apply, with those that the config's `lint=dict(rules=[…])` adds."""
    lint = config.get('lint')
    named = lint.get('rules', ()) if isinstance(lint, Mapping) else ()
    if not isinstance(named, (list, tuple)):
        what = f'expected a list of lint rules, got {named!r:.60}.'
        raise ConfigError(Problem('lint.rules', what, "Write lint=dict(rules=['mytools.my_rule'])."))
    return collect_rules(named)


def _find_silenced_rules(
    entry: Mapping[str, Any],
    where: str,
    problems: list[Problem],
    rules: Mapping[str, Rule],
    keys: Sequence[str] = ('silence',),
) -> frozenset[str]:
    """The rules that `lint=dict(silence=[…])` names."""
    lint = entry.get('lint')
    if lint is None:
        return frozenset()
    if not isinstance(lint, Mapping):
        problems.append(
            Problem(where, f'expected a dict, got {lint!r:.60}.', "Write lint=dict(silence=['rule-name']).")
        )
        return frozenset()
    problems += [Problem(where, f'unknown key {key!r}.', did_you_mean(key, keys)) for key in lint if key not in keys]
    named = lint.get('silence', ())
    if isinstance(named, str) or not isinstance(named, Collection):
        problems.append(Problem(f'{where}.silence', f'expected a list of rule names, got {named!r:.60}.'))
        return frozenset()
    return _check_rule_names(named, f'{where}.silence', problems, rules)


def _check_rule_names(
    named: Collection[str], where: str, problems: list[Problem], rules: Mapping[str, Rule]
) -> frozenset[str]:
    problems += [
        Problem(where, f'unknown rule {name!r}.', did_you_mean(name, rules)) for name in named if name not in rules
    ]
    return frozenset(named)


@dataclass(slots=True)
class _Entry:
    """All violations of one rule about one thing: their number, and the one to show."""

    rule: Rule
    violation: Violation
    row: int | None
    count: int = 0


@dataclass(slots=True)
class FindingCounter:
    """What the rules have found about one subject so far."""

    subject: Subject
    rules: tuple[Rule, ...]
    seen: int = 0
    _entries: dict[tuple[str, str], _Entry] = field(default_factory=dict)

    @classmethod
    def of(cls, subject: Subject, rules: Iterable[Rule]) -> FindingCounter:
        """A counter with those rules that concern the subject."""
        return cls(subject, tuple(rule for rule in rules if subject.level in rule.levels))

    def look(self) -> None:
        """Apply the rules that need no rows."""
        for rule in self.rules:
            for violation in rule.once(self.subject) if rule.once else ():
                self._take(rule, violation, None)

    def look_at(self, number: int, row: CheckedRow) -> None:
        """Apply the rules to one row."""
        self.seen += 1
        for rule in self.rules:
            counted: set[str] = set()
            for violation in rule.each(self.subject, row) if rule.each else ():
                entry = self._take(rule, violation, number)
                entry.count += violation.about not in counted
                counted.add(violation.about)

    def look_back(self, looked: CheckedRows) -> None:
        """Apply the rules about the rows as a whole."""
        for rule in self.rules:
            for violation in rule.after(self.subject, looked) if rule.after else ():
                self._take(rule, violation, None)

    def findings(self) -> Iterator[Finding]:
        """What there is to report."""
        for entry in self._entries.values():
            rule, violation = entry.rule, entry.violation
            if violation.if_all_of and not (entry.count == self.seen >= violation.if_all_of):
                continue
            yield Finding(
                rule=rule.name,
                severity=violation.severity or rule.severity,
                where=self.subject.where,
                message=violation.message,
                remedy=f'{violation.remedy} {rule.remedy}'.strip(),
                row=entry.row,
                example=violation.example,
                count=entry.count,
                seen=self.seen if entry.count else 0,
            )

    def _take(self, rule: Rule, violation: Violation, row: int | None) -> _Entry:
        entry = self._entries.get((rule.name, violation.about))
        if entry is None:
            entry = self._entries[rule.name, violation.about] = _Entry(rule, violation, row)
        elif violation.weight > entry.violation.weight:
            entry.violation, entry.row = violation, row
        return entry
