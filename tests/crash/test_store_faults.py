"""Writes, creations and syncs fail: what was acknowledged is true, what comes after is refused."""

from pathlib import Path
from random import Random

import pytest

from emberq.testing.faulty_disk import Fault
from tests.support.store_faults import (
    FAULTS,
    check_cleaning_fault,
    check_fault,
    operations_of_a_run,
    operations_of_cleaning,
)

pytestmark = pytest.mark.crash

# All of them: python -m tests.crash.store_rounds
QUICK_NUMBERS = 25


@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
def test_a_failed_call_never_leads_to_a_false_acknowledgement(fault: Fault, tmp_path: Path) -> None:
    numbers = range(operations_of_a_run(tmp_path))

    for number in Random(0).sample(numbers, min(QUICK_NUMBERS, len(numbers))):
        check_fault(fault, number, tmp_path)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
def test_a_failed_call_of_cleaning_leaves_a_store_that_is_whole(
    fault: Fault, tmp_path: Path
) -> None:
    numbers = range(operations_of_cleaning(tmp_path))
    assert len(numbers) > QUICK_NUMBERS

    for number in Random(1).sample(numbers, QUICK_NUMBERS):
        check_cleaning_fault(fault, number, tmp_path)
