"""Which training rows become the shots of which test row.

Every retriever takes the training rows, the test rows and the reader, and hands out one `Picked` per test row. No
test row is ever shown itself, or a training row that asks the same.
"""

from rolecall.retrievers.base import Picked, Progress, Reader, Retriever, Row
from rolecall.retrievers.bm25 import BM25Retriever
from rolecall.retrievers.build import RETRIEVERS, build_retriever
from rolecall.retrievers.dense import TopkRetriever
from rolecall.retrievers.dpp import DPPRetriever
from rolecall.retrievers.encoders import Encoder, SentenceEncoder
from rolecall.retrievers.mdl import MDLRetriever, Score
from rolecall.retrievers.plain import FixKRetriever, RandomRetriever, SlidingWindowRetriever, ZeroRetriever
from rolecall.retrievers.votek import VotekRetriever
from rolecall.retrievers.words import words

__all__ = [
    'RETRIEVERS',
    'BM25Retriever',
    'DPPRetriever',
    'Encoder',
    'FixKRetriever',
    'MDLRetriever',
    'Picked',
    'Progress',
    'RandomRetriever',
    'Reader',
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
