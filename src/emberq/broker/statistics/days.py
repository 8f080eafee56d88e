"""Messages since this morning and yesterday's, as tools show them."""

from msgspec import Struct


class DayTotals(Struct):
    """What the totals were at the last two midnights."""

    put_yesterday_morning: int = 0
    put_today_morning: int = 0
    get_yesterday_morning: int = 0
    get_today_morning: int = 0

    def begin_day(self, put_count: int, get_count: int) -> None:
        self.put_yesterday_morning = self.put_today_morning
        self.get_yesterday_morning = self.get_today_morning
        self.put_today_morning = put_count
        self.get_today_morning = get_count
