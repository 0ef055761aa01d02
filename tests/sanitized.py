"""What a core with sanitizers can't be asked."""

import pytest

from sweephand import _core

unmeasured = pytest.mark.skipif(
    _core.testing.sanitizers() != "", reason="sanitizers keep freed memory and take their time"
)
no_other_handler = pytest.mark.skipif(
    _core.testing.sanitizers() != "", reason="sanitizers have a handler of SIGBUS of their own"
)
