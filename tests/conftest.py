"""Shared set-up: hypothesis without deadlines (this machine's first calls compile), and imports of test helpers."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))
settings.register_profile("muntin", deadline=None, print_blob=True)
settings.load_profile("muntin")
