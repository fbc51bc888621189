"""`group` files: which numbers of their tasks are averaged, and whether by size, as groups of our configs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rolecall.checking import expected
from rolecall.compat.lm_eval.task_file import TaskFile
from rolecall.errors import ConfigError, Problem

GROUP_KEYS = ('task', 'group', 'group_alias', 'aggregate_metric_list')
"""The keys of a group that are its own; others are laid over its tasks."""
_NO_FILTER = 'none'


def read_aggregates(
    file: TaskFile, members: Sequence[str], entries: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """One group of ours for each number that a group file aggregates; the first has the group's name.

    A group without `aggregate_metric_list` has no number, as in lm-eval: it only names its tasks. Tasks whose
    `metric_list` lacks a metric do not count for it.
    """
    listed = file.values.get('aggregate_metric_list')
    where = f'{file.places.get("aggregate_metric_list", file.path.name)}: aggregate_metric_list'
    wanted = [listed] if isinstance(listed, Mapping) else listed or []
    if not isinstance(wanted, list) or not all(isinstance(one, Mapping) and one.get('metric') for one in wanted):
        raise ConfigError(expected(where, 'a list of entries with metric', listed))
    own = [entry for entry in entries if entry['abbr'] in members]
    name = str(file.values['group'])
    taken = False
    for one in wanted:
        if one.get('aggregation', 'mean') != 'mean':
            what = f'a group is averaged; aggregation {one["aggregation"]!r:.60} is not supported.'
            raise ConfigError(Problem(where, what))
        for key in _keys(one, own):
            yield {
                'name': f'{name} ({key})' if taken else name,
                'datasets': _with_metric(str(one['metric']), members, own),
                'metric': key,
                **({'weights': 'rows'} if one.get('weight_by_size', True) else {}),
            }
            taken = True


def _with_metric(metric: str, members: Sequence[str], entries: Sequence[Mapping[str, Any]]) -> list[str]:
    listed = {entry['abbr']: entry['type'].task.get('metric_list') for entry in entries}
    without = {
        name
        for name, metrics in listed.items()
        if isinstance(metrics, list)
        and all(isinstance(one, Mapping) and one.get('metric') != metric for one in metrics)
    }
    return [name for name in members if name not in without] or list(members)


def _keys(wanted: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """The numbers as they are called here: `acc`, or `exact_match,strict-match` for each pipeline that is meant."""
    metric, given = str(wanted['metric']), wanted.get('filter_list')
    if given is None:
        names = dict.fromkeys(name for entry in entries for name in entry['type'].task.pipeline_names)
    else:
        names = dict.fromkeys([given] if isinstance(given, str) else map(str, given))
    return [metric if name == _NO_FILTER else f'{metric},{name}' for name in names or (_NO_FILTER,)]
