"""What holds for every test."""

import pytest
from hypothesis import settings

# Assertions outside test files explain themselves too.
pytest.register_assert_rewrite("tests.client_behaviour", "tests.support")

# No deadline: how long an example takes depends on what else the machine does. A failing example
# is printed in a form that can be pasted back.
settings.register_profile("emberq", deadline=None, print_blob=True)
settings.load_profile("emberq")
