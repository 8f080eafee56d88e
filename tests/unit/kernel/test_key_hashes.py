from emberq.kernel import key_hashes
from emberq.kernel.key_hashes import KEY_LENGTH_MAX, KEYS_AT_ONCE_MAX, index_hashes
from emberq.record.string_hash import index_hash


def one_at_a_time(topics: list[str], keys: list[str]) -> list[int]:
    return [index_hash(f"{topic}#{key}") for topic, key in zip(topics, keys, strict=True)]


def test_nothing_hashes_to_nothing() -> None:
    assert index_hashes([], []) == []


def test_keys_of_one_length_hash_as_one_at_a_time() -> None:
    for length in range(KEY_LENGTH_MAX + 1):
        keys = [f"{number:0{length}d}"[:length] for number in range(40)]

        assert index_hashes(["TopicA"] * 40, keys) == one_at_a_time(["TopicA"] * 40, keys)


def test_keys_of_many_lengths_and_topics_hash_as_one_at_a_time() -> None:
    for count in range(1, KEYS_AT_ONCE_MAX + 1):
        keys = ["x" * (number * 7 % (KEY_LENGTH_MAX + 1)) for number in range(count)]
        topics = [f"topic-{number % 3}" for number in range(count)]

        assert index_hashes(topics, keys) == one_at_a_time(topics, keys)


def test_long_keys_and_other_alphabets_hash_as_one_at_a_time() -> None:
    keys = ["plain", "größe", "x" * (KEY_LENGTH_MAX + 1), "世界", "😀", "", "\0", "\x7f"]
    topics = ["%RETRY%group", "主题", "TopicA", "TopicA", "TopicA", "", "TopicA", "TopicA"]

    assert index_hashes(topics, keys) == one_at_a_time(topics, keys)


def test_the_hash_without_a_positive_twin_becomes_0() -> None:
    start = ord("#") * pow(31, 7, 1 << 32)  # of a topic without a name
    key = key_with_hash(((1 << 31) - start) & 0xFFFF_FFFF, length=7)

    assert index_hashes([""] * 4, [key] * 4) == [0] * 4
    assert index_hash(f"#{key}") == 0


def key_with_hash(wanted: int, length: int) -> str:
    """A printable key with this hash modulo 2^32: its digits to base 31, above `!`."""
    low = "!" * length
    rest = (wanted - plain_hash(low)) & 0xFFFF_FFFF
    digits = []
    for _ in range(length):
        rest, digit = divmod(rest, 31)
        digits.append(digit)
    assert rest == 0, "choose a longer key"
    return "".join(chr(ord("!") + digit) for digit in reversed(digits))


def plain_hash(text: str) -> int:
    number = 0
    for character in text:
        number = number * 31 + ord(character) & 0xFFFF_FFFF
    return number


def test_the_cache_of_topics_is_bounded() -> None:
    key_hashes._starts.clear()
    limit = key_hashes.STARTS_CACHED_MAX

    for number in range(0, limit + 64, 8):
        topics = [f"topic-{number + index}" for index in range(8)]
        assert index_hashes(topics, ["key"] * 8) == one_at_a_time(topics, ["key"] * 8)

    assert len(key_hashes._starts) <= limit
