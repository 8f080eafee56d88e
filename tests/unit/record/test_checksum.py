from emberq.record.checksum import crc31


def test_the_checksum_of_hello_is_that_of_the_official_software() -> None:
    assert crc31(b"hello") == 907060870


def test_the_top_bit_is_always_clear() -> None:
    assert crc31(b"") == 0
    assert crc31(b"a") == 0x68B7BE43  # plain CRC-32 is 0xE8B7BE43
