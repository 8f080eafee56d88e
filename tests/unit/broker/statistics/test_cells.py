from emberq.broker.statistics.cells import ROWS_PER_STEP, CellTable, Figures, Window

MINUTE = Window.MINUTE
PERIOD_MS = MINUTE.period_ms


def sample(table: CellTable[str], at_ms: int, window: Window = MINUTE) -> int:
    return sum(1 for _ in table.sampling(window, at_ms))


def figures(table: CellTable[str], key: str, window: Window = MINUTE) -> Figures:
    return table.figures(window, [table.places[key]], 1, 0)


def count(table: CellTable[str], key: str, value: int) -> None:
    cell = table.cells.get(key) or table.new(key)
    cell[0] += 1
    cell[1] += value


def test_a_key_without_samples_counts_nothing_yet() -> None:
    table: CellTable[str] = CellTable(2)
    count(table, "a", 5)

    assert figures(table, "a") == Figures(0, 0.0, 0.0)


def test_a_history_begins_with_zero_one_period_before_the_first_sample() -> None:
    table: CellTable[str] = CellTable(2)
    count(table, "a", 20)
    count(table, "a", 10)
    sample(table, 100_000)

    assert figures(table, "a") == Figures(30, 3.0, 15.0)


def test_a_window_looks_back_over_its_samples_only() -> None:
    table: CellTable[str] = CellTable(2)
    count(table, "a", 1000)
    for number in range(MINUTE.samples_max):
        sample(table, number * PERIOD_MS)
        count(table, "a", 60)

    assert figures(table, "a") == Figures(360, 6.0, 60.0)
    assert figures(table, "a", Window.HOUR) == Figures()

    sample(table, 1_000_000, Window.HOUR)
    assert figures(table, "a", Window.HOUR).sum == 1420


def test_a_key_in_the_row_of_a_removed_one_has_its_own_history() -> None:
    table: CellTable[str] = CellTable(2)
    count(table, "a", 1000)
    for number in range(MINUTE.samples_max):
        sample(table, number * PERIOD_MS)
    table.remove(["a"])
    count(table, "b", 10)

    assert table.places["b"].row == 0
    assert figures(table, "b") == Figures()
    sample(table, MINUTE.samples_max * PERIOD_MS)
    assert figures(table, "b") == Figures(10, 1.0, 10.0)
    assert table.total(1) == 10


def test_a_key_that_comes_while_a_sample_is_taken_is_not_in_it() -> None:
    table: CellTable[str] = CellTable(2)
    count(table, "a", 1)
    sampling = table.sampling(MINUTE, 0)
    next(sampling)
    count(table, "b", 7)
    assert list(sampling) == []

    assert figures(table, "a").sum == 1
    assert figures(table, "b") == Figures()
    sample(table, PERIOD_MS)
    assert figures(table, "b").sum == 7


def test_a_sample_of_many_keys_is_taken_in_steps() -> None:
    table: CellTable[str] = CellTable(2)
    for number in range(2 * ROWS_PER_STEP + 1):
        count(table, str(number), number)

    assert sample(table, 0) == 3
    last = str(2 * ROWS_PER_STEP)
    assert figures(table, last).sum == 2 * ROWS_PER_STEP


def test_cells_of_different_age_add_up() -> None:
    table: CellTable[str] = CellTable(2)
    count(table, "a", 10)
    sample(table, 0)
    count(table, "b", 30)
    sample(table, PERIOD_MS)
    places = [table.places["a"], table.places["b"]]

    assert table.figures(MINUTE, places, 1, 0) == Figures(40, 2.0, 20.0)


def test_time_that_stands_still_gives_no_rate() -> None:
    table: CellTable[str] = CellTable(2)
    count(table, "a", 10)
    for _ in range(MINUTE.samples_max):
        sample(table, 5)
    count(table, "a", 10)
    sample(table, 5)

    assert figures(table, "a") == Figures(10, 0.0, 10.0)
