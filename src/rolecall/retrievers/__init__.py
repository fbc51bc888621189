"""Choose the training rows that become the shots of each test row.

Every retriever takes the training rows, the test rows and the reader, and yields one `Picked` per test row. A test
row never gets itself, or a training row with the same question, as a shot.
"""

from rolecall.retrievers.bm25 import BM25Retriever
from rolecall.retrievers.build import RETRIEVERS, build_retriever
from rolecall.retrievers.dense import TopkRetriever
from rolecall.retrievers.dpp import DPPRetriever
from rolecall.retrievers.encoders import Encoder, SentenceEncoder
from rolecall.retrievers.mdl import MDLRetriever, Score
from rolecall.retrievers.retriever import ColumnReader, Picked, Progress, Retriever, Row
from rolecall.retrievers.simple import FixKRetriever, RandomRetriever, SlidingWindowRetriever, ZeroRetriever
from rolecall.retrievers.terms import words
from rolecall.retrievers.votek import VotekRetriever

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
