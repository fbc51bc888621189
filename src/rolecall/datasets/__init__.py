"""Rows in: files, folders, hubs and memory; splits, ranges and columns. Nothing heavy is imported here."""

from rolecall.datasets.dataset import Dataset, dataset_types, open_dataset
from rolecall.datasets.files import FileOptions, open_file
from rolecall.datasets.lines import FileRows
from rolecall.datasets.ranges import Range, apply_range, first, limit, parse_range, sample
from rolecall.datasets.reader import Reader
from rolecall.datasets.rows import EMPTY, ListRows, Row, Rows, select, skipped

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
    'dataset_types',
    'first',
    'limit',
    'open_dataset',
    'open_file',
    'parse_range',
    'sample',
    'select',
    'skipped',
]
