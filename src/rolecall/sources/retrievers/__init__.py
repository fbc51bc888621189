"""Choose the training rows that become the shots of each test row.

Every retriever takes the training rows, the test rows and the reader, and yields one `Picked` per test row. A test
row never gets itself, or a training row with the same question, as a shot.
"""

from rolecall.sources.datasets.rows import Row
from rolecall.sources.retrievers.bm25 import BM25Retriever
from rolecall.sources.retrievers.build import RETRIEVERS, build_retriever
from rolecall.sources.retrievers.dense import DPPRetriever, MDLRetriever, Score, TopkRetriever, VotekRetriever
from rolecall.sources.retrievers.encoders import Encoder, SentenceEncoder
from rolecall.sources.retrievers.retriever import ColumnReader, Picked, Progress, Retriever
from rolecall.sources.retrievers.simple import FixKRetriever, RandomRetriever, SlidingWindowRetriever, ZeroRetriever
from rolecall.sources.retrievers.terms import words

__all__ = [
    'RETRIEVERS',
    'BM25Retriever',
    'ColumnReader',
    'DPPRetriever',
    'Encoder',
    'FixKRetriever',
    'MDLRetriever',
    'Picked',
    'Progress',
    'RandomRetriever',
    'Retriever',
    'Row',
    'Score',
    'SentenceEncoder',
    'SlidingWindowRetriever',
    'TopkRetriever',
    'VotekRetriever',
    'ZeroRetriever',
    'build_retriever',
    'words',
]
