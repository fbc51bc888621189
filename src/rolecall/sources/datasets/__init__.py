"""Rows from files, folders, hubs and memory; splits, ranges and columns. Imports nothing heavy."""

from rolecall.sources.datasets.dataset import Dataset, dataset_types, open_dataset
from rolecall.sources.datasets.formats import FileOptions, open_file
from rolecall.sources.datasets.lines import FileRows
from rolecall.sources.datasets.ranges import Range, apply_range, first, limit, parse_range, sample
from rolecall.sources.datasets.reader_cfg import Reader
from rolecall.sources.datasets.rows import EMPTY, ListRows, Row, Rows, count_skipped, select

__all__ = [
    'EMPTY',
    'Dataset',
    'FileOptions',
    'FileRows',
    'ListRows',
    'Range',
    'Reader',
    'Row',
    'Rows',
    'apply_range',
    'count_skipped',
    'dataset_types',
    'first',
    'limit',
    'open_dataset',
    'open_file',
    'parse_range',
    'sample',
    'select',
]
