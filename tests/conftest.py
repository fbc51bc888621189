"""Properties are tried on the same examples in every run; `HYPOTHESIS_PROFILE=explore` tries many new ones."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile('steady', derandomize=True, deadline=None)
settings.register_profile('explore', max_examples=3000, deadline=None)
settings.load_profile(os.environ.get('HYPOTHESIS_PROFILE', 'steady'))
