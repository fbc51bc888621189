"""Rows from files, folders, hubs and memory; splits, ranges and columns. Imports nothing heavy."""

from rolecall.datasets.dataset import Dataset, dataset_types, open_dataset
from rolecall.datasets.formats import FileOptions, open_file
from rolecall.datasets.lines import FileRows
from rolecall.datasets.ranges import Range, apply_range, first, limit, parse_range, sample
from rolecall.datasets.reader_cfg import Reader
from rolecall.datasets.rows import EMPTY, ListRows, Row, Rows, count_skipped, select

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
