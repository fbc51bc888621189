"""Choose the training rows that become the shots of each test row.

Every retriever takes the training rows, the test rows and the reader, and yields one `Picked` per test row. A test
row never gets itself, or a training row with the same question, as a shot.
"""

from rolecall.lazy_names import attach

__getattr__, __dir__ = attach(__name__, __file__)
