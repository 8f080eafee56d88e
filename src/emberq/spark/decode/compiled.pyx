# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The loops of the compiled decoder: from record to record, from property to property, and the
filling of Arrow's buffers.

What comes out are plain buffers; `compiled_at` lays numpy and Arrow arrays over them. Positions
that come in were made here and lie inside the content. tests/property/test_spark_decoders.py
holds this decoder to the reference.
"""

from cpython.bytearray cimport (
    PyByteArray_AS_STRING,
    PyByteArray_FromStringAndSize,
    PyByteArray_Resize,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>

    #define EMBERQ_MAGIC_V1 0xDAA320A7u
    #define EMBERQ_MAGIC_V2 0xDAA320ABu
    #define EMBERQ_RECORD_SIZE_MIN 91
    #define EMBERQ_BORN_HOST_IPV6 0x10
    #define EMBERQ_STORE_HOST_IPV6 0x20
    #define EMBERQ_CONTENT_SIZE_MAX 0x7FFFFFFF
    #define EMBERQ_ITEMS_PER_ROW_MAX 64
    #define EMBERQ_TIME_MAX_MS 253402300799999LL

    static int32_t emberq_int32(const uint8_t *p) {
        return (int32_t)((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3]);
    }

    static int64_t emberq_int64(const uint8_t *p) {
        return (int64_t)((uint64_t)(uint32_t)emberq_int32(p) << 32 | (uint32_t)emberq_int32(p + 4));
    }

    static int32_t emberq_int16(const uint8_t *p) {
        return (int16_t)((uint16_t)p[0] << 8 | p[1]);
    }

    static int emberq_is_ascii(const uint8_t *p, int64_t size) {
        uint64_t word, all = 0;
        while (size >= 8) {
            memcpy(&word, p, 8);
            all |= word;
            p += 8;
            size -= 8;
        }
        while (size-- > 0) all |= *p++;
        return (all & 0x8080808080808080ull) == 0;
    }

    /* As strict as Python: no overlong forms, no surrogates, nothing above U+10FFFF. */
    static int emberq_is_utf8(const uint8_t *p, int64_t size) {
        const uint8_t *end = p + size;
        if (emberq_is_ascii(p, size)) return 1;
        while (p < end) {
            uint8_t lead = *p++;
            uint8_t low = 0x80, high = 0xBF;
            int more;
            if (lead < 0x80) continue;
            if (lead >= 0xC2 && lead <= 0xDF) more = 1;
            else if (lead >= 0xE0 && lead <= 0xEF) {
                more = 2;
                if (lead == 0xE0) low = 0xA0;
                if (lead == 0xED) high = 0x9F;
            } else if (lead >= 0xF0 && lead <= 0xF4) {
                more = 3;
                if (lead == 0xF0) low = 0x90;
                if (lead == 0xF4) high = 0x8F;
            } else return 0;
            while (more--) {
                if (p == end || *p < low || *p > high) return 0;
                low = 0x80;
                high = 0xBF;
                p++;
            }
        }
        return 1;
    }

    /* Records come from a socket and are larger than the nearest caches: what will be looked at
       is asked for ahead. An address beyond the content does no harm. */
    #if defined(__GNUC__)
    #define emberq_prefetch(p) __builtin_prefetch(p)
    #else
    #define emberq_prefetch(p) ((void)(p))
    #endif

    /* The first byte that is 1 or 2, the marks between names and values, or `end`. Names and values
       are short: sixteen or eight bytes at a time, as far as the content goes, and no call. */
    #if defined(__GNUC__) && defined(__SSE2__)
    #include <emmintrin.h>

    static const uint8_t *emberq_next_mark(
        const uint8_t *p, const uint8_t *end, const uint8_t *content_end
    ) {
        const __m128i one = _mm_set1_epi8(1), two = _mm_set1_epi8(2);
        while (p < end && content_end - p >= 16) {
            __m128i bytes = _mm_loadu_si128((const __m128i *)p);
            int marks = _mm_movemask_epi8(
                _mm_or_si128(_mm_cmpeq_epi8(bytes, one), _mm_cmpeq_epi8(bytes, two))
            );
            if (marks) {
                p += __builtin_ctz((unsigned)marks);
                return p < end ? p : end;
            }
            p += 16;
        }
        while (p < end && *p != 1 && *p != 2) p++;
        return p < end ? p : end;
    }
    #elif defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    static uint64_t emberq_zeros(uint64_t word) {
        const uint64_t low = 0x7F7F7F7F7F7F7F7Full;
        return ~(((word & low) + low) | word | low);
    }

    static const uint8_t *emberq_next_mark(
        const uint8_t *p, const uint8_t *end, const uint8_t *content_end
    ) {
        while (p < end && content_end - p >= 8) {
            uint64_t word, marks;
            memcpy(&word, p, 8);
            marks = emberq_zeros(word ^ 0x0101010101010101ull)
                | emberq_zeros(word ^ 0x0202020202020202ull);
            if (marks) {
                p += __builtin_ctzll(marks) >> 3;
                return p < end ? p : end;
            }
            p += 8;
        }
        while (p < end && *p != 1 && *p != 2) p++;
        return p < end ? p : end;
    }
    #else
    static const uint8_t *emberq_next_mark(
        const uint8_t *p, const uint8_t *end, const uint8_t *content_end
    ) {
        (void)content_end;
        while (p < end && *p != 1 && *p != 2) p++;
        return p;
    }
    #endif

    /* Names and values are short: a call per copy costs more than the copy. The caller has seen
       to it that sixteen bytes behind either end may be touched. */
    static void emberq_copy(uint8_t *to, const uint8_t *from, int64_t size) {
        if (size <= 16) memcpy(to, from, 16);
        else memcpy(to, from, size);
    }
    """
    const uint32_t EMBERQ_MAGIC_V1
    const uint32_t EMBERQ_MAGIC_V2
    const int64_t EMBERQ_RECORD_SIZE_MIN
    const int32_t EMBERQ_BORN_HOST_IPV6
    const int32_t EMBERQ_STORE_HOST_IPV6
    const int64_t EMBERQ_CONTENT_SIZE_MAX
    const int64_t EMBERQ_ITEMS_PER_ROW_MAX
    const int64_t EMBERQ_TIME_MAX_MS
    int32_t emberq_int32(const uint8_t *p) noexcept nogil
    int64_t emberq_int64(const uint8_t *p) noexcept nogil
    int32_t emberq_int16(const uint8_t *p) noexcept nogil
    int emberq_is_utf8(const uint8_t *p, int64_t size) noexcept nogil
    void emberq_prefetch(const uint8_t *p) noexcept nogil
    const uint8_t *emberq_next_mark(
        const uint8_t *p, const uint8_t *end, const uint8_t *content_end
    ) noexcept nogil
    void emberq_copy(uint8_t *to, const uint8_t *from_, int64_t size) noexcept nogil

INTERFACE = 2
# Room behind a buffer of texts, so that short ones are copied in one step.
cdef int64_t PAD = 16

cdef enum:
    STARTS, SIZES, FLAGS, QUEUE_OFFSETS, STORE_TIME, STORE_HOST, BODY, BODY_END, PROPERTIES
    PARTS


def find_parts(const uint8_t[::1] content not None):
    """Where the parts of records lie: nine rows of 64-bit numbers, in the order of `Frames`.

    None: these bytes are not plainly records one after the other.
    """
    cdef int64_t end = content.shape[0], count
    if end > EMBERQ_CONTENT_SIZE_MAX:
        return None
    if end == 0:
        return 0, bytearray()
    cdef const uint8_t *data = &content[0]
    with nogil:
        count = _count_records(data, end)
    if count < 0:
        return None
    cdef object parts = PyByteArray_FromStringAndSize(NULL, count * PARTS * sizeof(int64_t))
    cdef int64_t *filled = <int64_t *>PyByteArray_AS_STRING(parts)
    cdef bint is_plain
    with nogil:
        is_plain = _fill_parts(data, count, filled)
    return (count, parts) if is_plain else None


cdef int64_t _count_records(const uint8_t *data, int64_t end) noexcept nogil:
    cdef int64_t position = 0, count = 0, size
    while position < end:
        if end - position < EMBERQ_RECORD_SIZE_MIN:
            return -1
        size = emberq_int32(data + position)
        if size < EMBERQ_RECORD_SIZE_MIN:
            return -1
        # Neighbours are often of one size.
        emberq_prefetch(data + position + 4 * size)
        position += size
        count += 1
    return count if position == end else -1


cdef bint _fill_parts(const uint8_t *data, int64_t count, int64_t *parts) noexcept nogil:
    cdef int64_t number, start = 0, end, size, at, body_size, topic_size
    cdef const uint8_t *topic = NULL
    cdef int64_t known_size = -1
    cdef uint32_t magic
    cdef int32_t flags
    cdef bint is_v1
    for number in range(count):
        size = emberq_int32(data + start)
        end = start + size
        magic = <uint32_t>emberq_int32(data + start + 4)
        is_v1 = magic == EMBERQ_MAGIC_V1
        if not is_v1 and magic != EMBERQ_MAGIC_V2:
            return False
        flags = emberq_int32(data + start + 36)
        parts[STARTS * count + number] = start
        parts[SIZES * count + number] = size
        parts[FLAGS * count + number] = flags
        parts[QUEUE_OFFSETS * count + number] = emberq_int64(data + start + 20)
        at = start + 56 + (12 if flags & EMBERQ_BORN_HOST_IPV6 else 0)
        parts[STORE_TIME * count + number] = at
        at += 8
        parts[STORE_HOST * count + number] = at
        # Behind the host: reconsume times, prepared offset, body length.
        at += 24 + (12 if flags & EMBERQ_STORE_HOST_IPV6 else 0)
        if at + 3 > end:
            return False
        parts[BODY * count + number] = at
        body_size = emberq_int32(data + at - 4)
        if body_size < 0:
            return False
        at += body_size
        parts[BODY_END * count + number] = at
        if at + (3 if is_v1 else 4) > end:
            return False
        if is_v1:
            topic_size = data[at]
            if topic_size > 127:
                return False
            at += 1
        else:
            topic_size = emberq_int16(data + at)
            if topic_size < 0:
                return False
            at += 2
        if at + topic_size + 2 > end:
            return False
        # Most records have the topic of the one before.
        if topic_size != known_size or memcmp(data + at, topic, topic_size) != 0:
            if not emberq_is_utf8(data + at, topic_size):
                return False
            topic, known_size = data + at, topic_size
        at += topic_size + 2
        if emberq_int16(data + at - 2) != end - at:
            return False
        parts[PROPERTIES * count + number] = at
        emberq_prefetch(data + end + size + 64)
        emberq_prefetch(data + end + size + (at - start))
        start = end
    return True


def numbers(const uint8_t[::1] content not None, const int64_t[::1] positions not None, int width):
    """Big-endian numbers of four or eight bytes, in the machine's order."""
    cdef int64_t count = positions.shape[0], number
    cdef object found = PyByteArray_FromStringAndSize(NULL, count * width)
    cdef char *filled = PyByteArray_AS_STRING(found)
    if count == 0:
        return found
    cdef const uint8_t *data = &content[0]
    with nogil:
        if width == 4:
            for number in range(count):
                (<int32_t *>filled)[number] = emberq_int32(data + positions[number])
        else:
            for number in range(count):
                (<int64_t *>filled)[number] = emberq_int64(data + positions[number])
    return found


def times(const uint8_t[::1] content not None, const int64_t[::1] positions not None):
    """Milliseconds as microseconds, and which of them are times; None: all are."""
    cdef int64_t count = positions.shape[0], number, time_ms
    cdef object found = PyByteArray_FromStringAndSize(NULL, count * 8)
    cdef int64_t *filled = <int64_t *>PyByteArray_AS_STRING(found)
    if count == 0:
        return found, None
    cdef const uint8_t *data = &content[0]
    cdef object validity = PyByteArray_FromStringAndSize(NULL, (count + 7) // 8)
    cdef uint8_t *bits = <uint8_t *>PyByteArray_AS_STRING(validity)
    cdef bint has_none = False
    with nogil:
        memset(bits, 0xFF, (count + 7) // 8)
        for number in range(count):
            time_ms = emberq_int64(data + positions[number])
            if time_ms < 0 or time_ms > EMBERQ_TIME_MAX_MS:
                has_none, time_ms = True, 0
                bits[number >> 3] &= ~(1 << (number & 7))
            filled[number] = time_ms * 1000
    return found, validity if has_none else None


def slices(
    const uint8_t[::1] content not None, const int64_t[::1] starts not None,
    const int64_t[::1] ends not None,
):
    """Offsets and bytes of a column whose elements lie between starts and ends."""
    cdef int64_t count = starts.shape[0], number, total = 0, size
    cdef int64_t safe_end = content.shape[0] - PAD
    cdef object offsets = PyByteArray_FromStringAndSize(NULL, (count + 1) * 4)
    cdef int32_t *offset = <int32_t *>PyByteArray_AS_STRING(offsets)
    with nogil:
        offset[0] = 0
        for number in range(count):
            total += ends[number] - starts[number]
            offset[number + 1] = <int32_t>total
    # The pieces lie side by side in the content, so that their sum is no larger than it.
    cdef object texts = PyByteArray_FromStringAndSize(NULL, total + PAD)
    cdef uint8_t *target = <uint8_t *>PyByteArray_AS_STRING(texts)
    cdef const uint8_t *data = &content[0] if content.shape[0] else NULL
    with nogil:
        for number in range(count):
            size = ends[number] - starts[number]
            if starts[number] <= safe_end:
                emberq_copy(target + offset[number], data + starts[number], size)
            else:
                memcpy(target + offset[number], data + starts[number], size)
    PyByteArray_Resize(texts, total)
    return offsets, texts


def split_items(
    const uint8_t[::1] content not None, const int64_t[::1] starts not None,
    const int64_t[::1] ends not None,
):
    """The items of properties: how many there are before each row (one number more than rows);
    where names begin, names end and values end, three rows of numbers with the given room, of
    which so many are used; which rows are irregular: those have no items."""
    cdef int64_t count = starts.shape[0], number, total = 0, room = 0, made
    for number in range(count):  # an item has at least four bytes, the last one three
        room += (ends[number] - starts[number] + 1) // 4
    cdef object firsts = PyByteArray_FromStringAndSize(NULL, (count + 1) * 4)
    cdef int32_t *first = <int32_t *>PyByteArray_AS_STRING(firsts)
    cdef object is_odd = PyByteArray_FromStringAndSize(NULL, count)
    cdef char *odd_row = PyByteArray_AS_STRING(is_odd)
    cdef object places = PyByteArray_FromStringAndSize(NULL, room * 3 * sizeof(int64_t))
    cdef int64_t *place = <int64_t *>PyByteArray_AS_STRING(places)
    first[0] = 0
    cdef const uint8_t *data = &content[0] if content.shape[0] else NULL
    with nogil:
        for number in range(count):
            if number + 2 < count:
                emberq_prefetch(data + starts[number + 2])
                emberq_prefetch(data + starts[number + 2] + 64)
            made = _split_row(
                data, starts[number], ends[number], content.shape[0],
                place + total, place + room + total, place + 2 * room + total,
            )
            odd_row[number] = made < 0
            if made > 0:
                total += made
            first[number + 1] = <int32_t>total
    return firsts, places, room, total, is_odd


cdef int64_t _split_row(
    const uint8_t *data, int64_t start, int64_t end, int64_t content_end,
    int64_t *name_starts, int64_t *name_ends, int64_t *value_ends,
) noexcept nogil:
    """How many items there are; -1: the text is irregular."""
    cdef int64_t at = start, made = 0, earlier
    cdef int64_t name_end, value_end
    cdef uint64_t buckets = 0, bucket
    if not emberq_is_utf8(data + start, end - start):
        return -1
    while at < end:
        if made == EMBERQ_ITEMS_PER_ROW_MAX:
            return -1
        name_end = emberq_next_mark(data + at, data + end, data + content_end) - data
        if name_end == end or name_end == at or data[name_end] != 1:
            return -1
        value_end = emberq_next_mark(data + name_end + 1, data + end, data + content_end) - data
        if value_end == name_end + 1 or (value_end < end and data[value_end] != 2):
            return -1
        name_starts[made] = at
        name_ends[made] = name_end
        value_ends[made] = value_end
        # Names that share a bucket are compared: it seldom happens.
        bucket = <uint64_t>1 << (
            (data[at] * 7 + data[name_end - 1] * 5 + data[(at + name_end) >> 1] * 3
             + (name_end - at)) & 63
        )
        if buckets & bucket:
            for earlier in range(made):
                if (
                    name_ends[earlier] - name_starts[earlier] == name_end - at
                    and memcmp(data + name_starts[earlier], data + at, name_end - at) == 0
                ):
                    return -1
        buckets |= bucket
        made += 1
        at = value_end + 1
    return made


def find_values(
    const uint8_t[::1] content not None, const int32_t[::1] firsts not None,
    const int64_t[::1] name_starts not None, const int64_t[::1] name_ends not None,
    const int64_t[::1] value_ends not None, bytes name not None,
):
    """A column of one property: validity (None: every row has it), offsets and bytes."""
    cdef int64_t count = firsts.shape[0] - 1, number, item, size = len(name), total = 0, missing = 0
    cdef int64_t safe_end = content.shape[0] - PAD
    cdef const char *wanted = name
    cdef uint8_t first = <uint8_t>wanted[0]
    cdef object validity = PyByteArray_FromStringAndSize(NULL, (count + 7) // 8)
    cdef uint8_t *bits = <uint8_t *>PyByteArray_AS_STRING(validity)
    cdef object offsets = PyByteArray_FromStringAndSize(NULL, (count + 1) * 4)
    cdef int32_t *offset = <int32_t *>PyByteArray_AS_STRING(offsets)
    cdef object rows = PyByteArray_FromStringAndSize(NULL, count * 4)
    cdef int32_t *item_of = <int32_t *>PyByteArray_AS_STRING(rows)
    cdef const uint8_t *data = &content[0] if content.shape[0] else NULL
    with nogil:
        memset(bits, 0xFF, (count + 7) // 8)
        offset[0] = 0
        for number in range(count):
            item_of[number] = -1
            for item in range(firsts[number], firsts[number + 1]):
                if (
                    name_ends[item] - name_starts[item] == size
                    and data[name_starts[item]] == first
                    and memcmp(data + name_starts[item], wanted, size) == 0
                ):
                    item_of[number] = <int32_t>item
                    total += value_ends[item] - name_ends[item] - 1
                    break
            else:
                bits[number >> 3] &= ~(1 << (number & 7))
                missing += 1
            offset[number + 1] = <int32_t>total
    cdef object texts = PyByteArray_FromStringAndSize(NULL, total + PAD)
    cdef uint8_t *target = <uint8_t *>PyByteArray_AS_STRING(texts)
    with nogil:
        for number in range(count):
            item = item_of[number]
            if item < 0:
                continue
            if name_ends[item] + 1 <= safe_end:
                emberq_copy(
                    target + offset[number], data + name_ends[item] + 1,
                    offset[number + 1] - offset[number],
                )
            else:
                memcpy(
                    target + offset[number], data + name_ends[item] + 1,
                    offset[number + 1] - offset[number],
                )
    PyByteArray_Resize(texts, total)
    return (validity if missing else None), offsets, texts


# Rows as they usually are, in one pass

cdef enum:
    NUMBERS_MAX = 12
    NAMES_MAX = 4
    USUAL_ITEMS = 16  # for each row, on average
    USUAL_ITEMS_MAX = 64


cdef struct Texts:
    int32_t *offsets
    uint8_t *texts
    int64_t total


cdef struct PropertyTexts:
    const char *name
    int64_t size
    uint8_t *validity
    int64_t missing
    bint is_found
    Texts found


cdef struct Rows:
    # What is wanted: numbers by position and width, times by position.
    int number_count
    int64_t number_at[NUMBERS_MAX]
    int number_width[NUMBERS_MAX]
    uint8_t *number[NUMBERS_MAX]
    int time_count
    int64_t time_at[NUMBERS_MAX]
    int64_t *time[NUMBERS_MAX]
    bint has_body
    Texts body
    bint has_items
    bint has_map
    int32_t *first_items
    int64_t item_count
    int64_t item_max
    Texts name
    Texts value
    int name_count
    PropertyTexts property[NAMES_MAX]


def usual_rows(
    bytes content not None, int64_t first, int64_t stop, int32_t refused_flags,
    tuple numbers not None, tuple times not None, bint has_body, bint has_map,
    tuple names not None,
):
    """Columns of records that are all as they usually are, made in one pass; None if one is not.

    Usual are records of the first version with IPv4 hosts, none of the refused system flags, an
    offset in the range, times that are times, and regular properties, of which there are not too
    many. What comes back: their count, the numbers, the times, the bodies, the map (how many items
    there are before each row, names, values) and the properties of these names; texts as offsets
    and bytes, properties with their validity before (None: every row has it).
    """
    cdef int64_t end = PyBytes_GET_SIZE(content), count
    cdef const uint8_t *data = <const uint8_t *>PyBytes_AS_STRING(content)
    if end > EMBERQ_CONTENT_SIZE_MAX or len(numbers) > NUMBERS_MAX or len(times) > NUMBERS_MAX:
        return None
    if len(names) > NAMES_MAX:
        return None
    with nogil:
        count = _count_usual(data, end, refused_flags)
    if count <= 0:
        return None
    cdef Rows rows
    cdef int number
    cdef bint is_usual
    cdef list made_numbers = [], made_times = [], made_names = []
    memset(&rows, 0, sizeof(Rows))
    rows.number_count, rows.time_count, rows.name_count = len(numbers), len(times), len(names)
    for number in range(rows.number_count):
        rows.number_at[number], rows.number_width[number] = numbers[number]
        made_numbers.append(PyByteArray_FromStringAndSize(NULL, count * rows.number_width[number]))
        rows.number[number] = <uint8_t *>PyByteArray_AS_STRING(made_numbers[number])
    for number in range(rows.time_count):
        rows.time_at[number] = times[number]
        made_times.append(PyByteArray_FromStringAndSize(NULL, count * 8))
        rows.time[number] = <int64_t *>PyByteArray_AS_STRING(made_times[number])
    # No more bytes than there are behind the heads of records.
    cdef int64_t text_max = end - count * EMBERQ_RECORD_SIZE_MIN
    cdef object made_body = _room(&rows.body, count, text_max) if has_body else None
    cdef object first_items = None, made_map_names = None, made_map_values = None
    rows.has_body, rows.has_map, rows.has_items = has_body, has_map, has_map or len(names) > 0
    rows.item_max = count * USUAL_ITEMS
    if has_map:
        first_items = PyByteArray_FromStringAndSize(NULL, (count + 1) * 4)
        rows.first_items = <int32_t *>PyByteArray_AS_STRING(first_items)
        rows.first_items[0] = 0
        made_map_names = _room(&rows.name, rows.item_max, text_max)
        made_map_values = _room(&rows.value, rows.item_max, text_max)
    cdef object validity
    for number in range(rows.name_count):
        rows.property[number].name = names[number]
        rows.property[number].size = len(names[number])
        validity = PyByteArray_FromStringAndSize(NULL, (count + 7) // 8)
        rows.property[number].validity = <uint8_t *>PyByteArray_AS_STRING(validity)
        memset(rows.property[number].validity, 0xFF, (count + 7) // 8)
        made_names.append((validity, _room(&rows.property[number].found, count, text_max)))
    with nogil:
        is_usual = _fill_rows(data, end, count, first, stop, &rows)
    if not is_usual:
        return None
    if has_body:
        _cut(made_body, &rows.body, count)
    if has_map:
        _cut(made_map_names, &rows.name, rows.item_count)
        _cut(made_map_values, &rows.value, rows.item_count)
    for number in range(rows.name_count):
        validity, (offsets, texts) = made_names[number]
        _cut((offsets, texts), &rows.property[number].found, count)
        made_names[number] = (
            validity if rows.property[number].missing else None, offsets, texts
        )
    made_map = (first_items, made_map_names, made_map_values) if has_map else None
    return count, made_numbers, made_times, made_body, made_map, made_names


cdef int64_t _count_usual(const uint8_t *data, int64_t end, int32_t refused_flags) noexcept nogil:
    """What most often is unusual is found before any work is done; -1: it was."""
    cdef int64_t position = 0, count = 0, size
    while position < end:
        if end - position < EMBERQ_RECORD_SIZE_MIN:
            return -1
        size = emberq_int32(data + position)
        if (
            size < EMBERQ_RECORD_SIZE_MIN
            or <uint32_t>emberq_int32(data + position + 4) != EMBERQ_MAGIC_V1
            or emberq_int32(data + position + 36) & refused_flags
        ):
            return -1
        # Neighbours are often of one size.
        emberq_prefetch(data + position + 4 * size)
        position += size
        count += 1
    return count if position == end else -1


cdef object _room(Texts *texts, int64_t count, int64_t size_max):
    cdef object offsets = PyByteArray_FromStringAndSize(NULL, (count + 1) * 4)
    cdef object content = PyByteArray_FromStringAndSize(NULL, size_max + PAD)
    texts.offsets = <int32_t *>PyByteArray_AS_STRING(offsets)
    texts.texts = <uint8_t *>PyByteArray_AS_STRING(content)
    texts.offsets[0] = 0
    return offsets, content


cdef int _cut(object made, Texts *texts, int64_t count) except -1:
    PyByteArray_Resize(made[0], (count + 1) * 4)
    PyByteArray_Resize(made[1], texts.total)
    return 0


cdef bint _fill_rows(
    const uint8_t *data, int64_t end, int64_t count, int64_t first, int64_t stop, Rows *rows
) noexcept nogil:
    cdef int64_t row, start = 0, size, stop_at, at, body_size, topic_size, offset, time_ms
    cdef const uint8_t *topic = NULL
    cdef int64_t known_size = -1
    cdef int number
    for row in range(count):
        size = emberq_int32(data + start)
        stop_at = start + size
        offset = emberq_int64(data + start + 20)
        if offset < first or offset >= stop:
            return False
        body_size = emberq_int32(data + start + 84)
        at = start + 88 + body_size
        if body_size < 0 or at + 3 > stop_at:
            return False
        topic_size = data[at]
        at += 1
        if topic_size > 127 or at + topic_size + 2 > stop_at:
            return False
        # Most records have the topic of the one before.
        if topic_size != known_size or memcmp(data + at, topic, topic_size) != 0:
            if not emberq_is_utf8(data + at, topic_size):
                return False
            topic, known_size = data + at, topic_size
        at += topic_size + 2
        if emberq_int16(data + at - 2) != stop_at - at:
            return False
        emberq_prefetch(data + stop_at + 64)
        emberq_prefetch(data + stop_at + (at - start))
        for number in range(rows.number_count):
            if rows.number_width[number] == 4:
                (<int32_t *>rows.number[number])[row] = emberq_int32(
                    data + start + rows.number_at[number]
                )
            else:
                (<int64_t *>rows.number[number])[row] = emberq_int64(
                    data + start + rows.number_at[number]
                )
        for number in range(rows.time_count):
            time_ms = emberq_int64(data + start + rows.time_at[number])
            if time_ms < 0 or time_ms > EMBERQ_TIME_MAX_MS:
                return False
            rows.time[number][row] = time_ms * 1000
        if rows.has_body:
            _put(&rows.body, row, data + start + 88, body_size, data + end)
        if rows.has_items and not _put_items(data, at, stop_at, end, row, rows):
            return False
        start = stop_at
    return True


cdef bint _put_items(
    const uint8_t *data, int64_t at, int64_t stop_at, int64_t end, int64_t row, Rows *rows
) noexcept nogil:
    cdef int64_t starts[USUAL_ITEMS_MAX]
    cdef int64_t sizes[USUAL_ITEMS_MAX]
    cdef int64_t name_end, value_end, made = 0, earlier, size
    cdef uint64_t buckets = 0, bucket
    cdef PropertyTexts *wanted
    cdef int number
    if not emberq_is_utf8(data + at, stop_at - at):
        return False
    for number in range(rows.name_count):
        rows.property[number].is_found = False
    while at < stop_at:
        if made == USUAL_ITEMS_MAX or rows.item_count == rows.item_max:
            return False
        name_end = emberq_next_mark(data + at, data + stop_at, data + end) - data
        if name_end == stop_at or name_end == at or data[name_end] != 1:
            return False
        value_end = emberq_next_mark(data + name_end + 1, data + stop_at, data + end) - data
        if value_end == name_end + 1 or (value_end < stop_at and data[value_end] != 2):
            return False
        size = name_end - at
        bucket = <uint64_t>1 << (
            (data[at] * 7 + data[name_end - 1] * 5 + data[(at + name_end) >> 1] * 3 + size) & 63
        )
        if buckets & bucket:
            for earlier in range(made):
                if (
                    sizes[earlier] == size
                    and memcmp(data + starts[earlier], data + at, size) == 0
                ):
                    return False
        buckets |= bucket
        starts[made], sizes[made] = at, size
        made += 1
        if rows.has_map:
            _put(&rows.name, rows.item_count, data + at, size, data + end)
            _put(
                &rows.value, rows.item_count, data + name_end + 1, value_end - name_end - 1,
                data + end,
            )
        rows.item_count += 1
        for number in range(rows.name_count):
            wanted = &rows.property[number]
            if (
                wanted.size == size
                and data[at] == <uint8_t>wanted.name[0]
                and memcmp(data + at, wanted.name, size) == 0
            ):
                wanted.is_found = True
                _put(
                    &wanted.found, row, data + name_end + 1, value_end - name_end - 1, data + end
                )
        at = value_end + 1
    for number in range(rows.name_count):
        wanted = &rows.property[number]
        if not wanted.is_found:
            wanted.validity[row >> 3] &= ~(1 << (row & 7))
            wanted.missing += 1
            wanted.found.offsets[row + 1] = <int32_t>wanted.found.total
    if rows.has_map:
        rows.first_items[row + 1] = <int32_t>rows.item_count
    return True


cdef inline void _put(
    Texts *texts, int64_t number, const uint8_t *text, int64_t size, const uint8_t *end
) noexcept nogil:
    if end - text >= PAD:
        emberq_copy(texts.texts + texts.total, text, size)
    else:
        memcpy(texts.texts + texts.total, text, size)
    texts.total += size
    texts.offsets[number + 1] = <int32_t>texts.total
