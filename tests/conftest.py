"""Properties are tried on the same examples in every run; `HYPOTHESIS_PROFILE=explore` tries many new ones."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# A busy machine makes no example slow to draw.
settings.register_profile('steady', derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile('explore', max_examples=3000, deadline=None)
settings.load_profile(os.environ.get('HYPOTHESIS_PROFILE', 'steady'))
