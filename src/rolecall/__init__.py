"""Write the exact prompt every model receives, and prove where each character came from.

The stub beside this file lists the public names; they are imported when they are first used. Further names belong to
`rolecall.core` (programs, templates, renderers), `rolecall.models`, `rolecall.apps.chat`, `rolecall.sources` and
`rolecall.sources.retrievers`, `rolecall.experiment.inferencers`, `rolecall.runs` and `rolecall.errors`.
"""

from rolecall._version import __version__ as __version__
from rolecall.lazy_names import attach

__getattr__, __dir__ = attach(__name__, __file__)
