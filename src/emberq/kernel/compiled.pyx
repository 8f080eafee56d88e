# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin. Each function does what its plain twin in this folder does, byte for byte.

tests/unit/kernel and tests/property/test_kernel_twins.py hold both to that.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.buffer cimport (
    PyBUF_SIMPLE,
    PyBUF_WRITABLE,
    PyBuffer_FillInfo,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from zlib import crc32 as zlib_crc32

from emberq.errors import RecordError
from emberq.kernel.scan import ScannedRecord

cdef extern from *:
    """
    #include <stdint.h>
    #include <stddef.h>

    /* Where the processor cannot fold (see below) larger bodies are summed by zlib: faster there,
       by more than calling it costs. */
    #define EMBERQ_ZLIB_FROM_SIZE 1536
    #define EMBERQ_PREFIX_SIZE 88
    #define EMBERQ_BATCH_PREFIX_SIZE 20
    #define EMBERQ_MAGIC_V1 0xDAA320A7u
    #define EMBERQ_MAGIC_V2 0xDAA320ABu
    #define EMBERQ_HOSTS_IPV6_MASK 0x30
    #define EMBERQ_RARE_FLAGS 0x3C /* hosts of IPv6, halves of transactions */
    #define EMBERQ_BORN_HOST_IPV6 0x10
    #define EMBERQ_STORE_HOST_IPV6 0x20
    #define EMBERQ_RECORD_SIZE_MAX 0x7FFFFFFF
    #define EMBERQ_PROPERTIES_SIZE_MAX 0x7FFF
    #define EMBERQ_QUEUE_ENTRY_SIZE 20
    #define EMBERQ_INDEX_ENTRY_SIZE 20
    #define EMBERQ_FILLER_RECORD_SIZE 0x7FFFFFFF

    static uint32_t emberq_crc_table[16][256];

    static void emberq_crc_prepare(void) {
        for (uint32_t n = 0; n < 256; n++) {
            uint32_t c = n;
            for (int k = 0; k < 8; k++) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
            emberq_crc_table[0][n] = c;
        }
        for (int t = 1; t < 16; t++)
            for (uint32_t n = 0; n < 256; n++) {
                uint32_t c = emberq_crc_table[t - 1][n];
                emberq_crc_table[t][n] = emberq_crc_table[0][c & 0xFF] ^ (c >> 8);
            }
    }

    static uint32_t emberq_load_little(const uint8_t *p) {
        return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    }

    /* Processors with carry-less multiplication sum 64 bytes per step: what has been read is
       multiplied by a power of x so that it counts as if it stood where the next bytes are. The
       factors are x^n mod P for the distances n: 512 +- 32, 128 +- 32 and 64 bits. */
    #if defined(__GNUC__) && defined(__x86_64__)
    #include <immintrin.h>
    #define EMBERQ_FOLDS __attribute__((target("pclmul,sse4.1")))
    static int emberq_can_fold = 0;
    static void emberq_fold_prepare(void) {
        __builtin_cpu_init();
        emberq_can_fold = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    }

    EMBERQ_FOLDS static inline __m128i emberq_moved(__m128i sum, __m128i by, __m128i onto) {
        __m128i low = _mm_clmulepi64_si128(sum, by, 0x00);
        __m128i high = _mm_clmulepi64_si128(sum, by, 0x11);
        return _mm_xor_si128(_mm_xor_si128(low, high), onto);
    }

    /* At least 64 bytes, and a multiple of 16. */
    EMBERQ_FOLDS static uint32_t emberq_crc_folded(uint32_t c, const uint8_t *p, size_t size) {
        const __m128i by_512 = _mm_set_epi64x(0x1C6E41596, 0x154442BD4);
        const __m128i by_128 = _mm_set_epi64x(0x0CCAA009E, 0x1751997D0);
        const __m128i by_64 = _mm_set_epi64x(0, 0x163CD6124);
        const __m128i divisor = _mm_set_epi64x(0x1F7011641, 0x1DB710641);  /* 2^64 / P, and P */
        const __m128i words = _mm_setr_epi32(-1, 0, -1, 0);
        const __m128i *at = (const __m128i *)p;
        __m128i a = _mm_xor_si128(_mm_loadu_si128(at), _mm_cvtsi32_si128((int)c));
        __m128i b = _mm_loadu_si128(at + 1), d = _mm_loadu_si128(at + 2);
        __m128i e = _mm_loadu_si128(at + 3), rest;
        for (at += 4, size -= 64; size >= 64; at += 4, size -= 64) {
            a = emberq_moved(a, by_512, _mm_loadu_si128(at));
            b = emberq_moved(b, by_512, _mm_loadu_si128(at + 1));
            d = emberq_moved(d, by_512, _mm_loadu_si128(at + 2));
            e = emberq_moved(e, by_512, _mm_loadu_si128(at + 3));
        }
        a = emberq_moved(a, by_128, b);
        a = emberq_moved(a, by_128, d);
        a = emberq_moved(a, by_128, e);
        for (; size >= 16; at++, size -= 16) a = emberq_moved(a, by_128, _mm_loadu_si128(at));
        /* 128 bits to 64, to 32 and a remainder, which Barrett's division takes away. */
        a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_128, 0x10));
        rest = _mm_clmulepi64_si128(_mm_and_si128(a, words), by_64, 0x00);
        a = _mm_xor_si128(_mm_srli_si128(a, 4), rest);
        rest = _mm_clmulepi64_si128(_mm_and_si128(a, words), divisor, 0x10);
        rest = _mm_clmulepi64_si128(_mm_and_si128(rest, words), divisor, 0x00);
        return (uint32_t)_mm_extract_epi32(_mm_xor_si128(a, rest), 1);
    }
    #else
    #define emberq_can_fold 0
    static void emberq_fold_prepare(void) {}
    static uint32_t emberq_crc_folded(uint32_t c, const uint8_t *p, size_t size) { return c; }
    #endif

    /* Else sixteen bytes per step, each looked up in a table of its own. */
    static uint32_t emberq_crc(const uint8_t *p, size_t size) {
        uint32_t (*t)[256] = emberq_crc_table;
        uint32_t c = 0xFFFFFFFFu;
        if (size >= 64 && emberq_can_fold) {
            size_t folded = size & ~(size_t)15;
            c = emberq_crc_folded(c, p, folded);
            p += folded;
            size -= folded;
        }
        while (size >= 16) {
            uint32_t a = emberq_load_little(p) ^ c, b = emberq_load_little(p + 4);
            uint32_t d = emberq_load_little(p + 8), e = emberq_load_little(p + 12);
            c = t[15][a & 0xFF] ^ t[14][a >> 8 & 0xFF] ^ t[13][a >> 16 & 0xFF] ^ t[12][a >> 24]
              ^ t[11][b & 0xFF] ^ t[10][b >> 8 & 0xFF] ^ t[9][b >> 16 & 0xFF] ^ t[8][b >> 24]
              ^ t[7][d & 0xFF] ^ t[6][d >> 8 & 0xFF] ^ t[5][d >> 16 & 0xFF] ^ t[4][d >> 24]
              ^ t[3][e & 0xFF] ^ t[2][e >> 8 & 0xFF] ^ t[1][e >> 16 & 0xFF] ^ t[0][e >> 24];
            p += 16;
            size -= 16;
        }
        while (size--) c = t[0][(c ^ *p++) & 0xFF] ^ (c >> 8);
        return c ^ 0xFFFFFFFFu;
    }

    /* A slot of the index is somewhere in 20 MB: ask for all of them before the first is used. */
    #if defined(__GNUC__)
    #define EMBERQ_FETCH(address) __builtin_prefetch((address), 1)
    #else
    #define EMBERQ_FETCH(address) ((void)0)
    #endif

    static void emberq_put16(uint8_t *p, uint16_t v) { p[0] = v >> 8; p[1] = v; }
    static void emberq_put32(uint8_t *p, uint32_t v) {
        p[0] = v >> 24; p[1] = v >> 16; p[2] = v >> 8; p[3] = v;
    }
    static void emberq_put64(uint8_t *p, uint64_t v) {
        emberq_put32(p, v >> 32); emberq_put32(p + 4, (uint32_t)v);
    }
    static uint16_t emberq_get16(const uint8_t *p) { return (uint16_t)(p[0] << 8 | p[1]); }
    static uint32_t emberq_get32(const uint8_t *p) {
        return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    }
    static uint64_t emberq_get64(const uint8_t *p) {
        return (uint64_t)emberq_get32(p) << 32 | emberq_get32(p + 4);
    }
    """
    const int32_t ZLIB_FROM_SIZE "EMBERQ_ZLIB_FROM_SIZE"
    const int32_t PREFIX_SIZE "EMBERQ_PREFIX_SIZE"
    const int32_t BATCH_PREFIX_SIZE "EMBERQ_BATCH_PREFIX_SIZE"
    const uint32_t MAGIC_V1 "EMBERQ_MAGIC_V1"
    const uint32_t MAGIC_V2 "EMBERQ_MAGIC_V2"
    const int32_t HOSTS_IPV6_MASK "EMBERQ_HOSTS_IPV6_MASK"
    const int32_t RARE_FLAGS "EMBERQ_RARE_FLAGS"
    const int32_t BORN_HOST_IPV6 "EMBERQ_BORN_HOST_IPV6"
    const int32_t STORE_HOST_IPV6 "EMBERQ_STORE_HOST_IPV6"
    const int32_t RECORD_SIZE_MAX "EMBERQ_RECORD_SIZE_MAX"
    const int32_t PROPERTIES_SIZE_MAX "EMBERQ_PROPERTIES_SIZE_MAX"
    const int32_t QUEUE_ENTRY_SIZE "EMBERQ_QUEUE_ENTRY_SIZE"
    const int32_t INDEX_ENTRY_SIZE "EMBERQ_INDEX_ENTRY_SIZE"
    const int32_t FILLER_RECORD_SIZE "EMBERQ_FILLER_RECORD_SIZE"
    void emberq_crc_prepare() noexcept nogil
    void emberq_fold_prepare() noexcept nogil
    const bint can_fold "emberq_can_fold"
    void emberq_fetch "EMBERQ_FETCH"(const void *address) noexcept nogil
    uint32_t emberq_crc(const uint8_t *p, size_t size) noexcept nogil
    void emberq_put16(uint8_t *p, uint16_t v) noexcept nogil
    void emberq_put32(uint8_t *p, uint32_t v) noexcept nogil
    void emberq_put64(uint8_t *p, uint64_t v) noexcept nogil
    uint16_t emberq_get16(const uint8_t *p) noexcept nogil
    uint32_t emberq_get32(const uint8_t *p) noexcept nogil
    uint64_t emberq_get64(const uint8_t *p) noexcept nogil

cdef extern from "Python.h":
    int PyUnicode_KIND(object text)
    void *PyUnicode_DATA(object text)
    object PyUnicode_New(Py_ssize_t size, uint32_t point_max)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    uint32_t PyUnicode_READ(int kind, void *data, Py_ssize_t index)

emberq_crc_prepare()
emberq_fold_prepare()

INTERFACE = 8  # as in `emberq.kernel`


# Records

cdef uint32_t _crc31(object owner, const uint8_t *start, Py_ssize_t size) except? 0xFFFFFFFF:
    """`owner` is the object whose bytes are summed, where all of them are."""
    if size >= ZLIB_FROM_SIZE and owner is not None and not can_fold:
        return <uint32_t>zlib_crc32(owner) & 0x7FFFFFFF
    return emberq_crc(start, size) & 0x7FFFFFFF


cdef uint32_t _crc31_within(
    object whole, const uint8_t *start, Py_ssize_t position, Py_ssize_t size
) except? 0xFFFFFFFF:
    """The same for a part of an object whose bytes begin at `start`."""
    if size >= ZLIB_FROM_SIZE and not can_fold:
        return <uint32_t>zlib_crc32(memoryview(whole)[position : position + size]) & 0x7FFFFFFF
    return emberq_crc(start + position, size) & 0x7FFFFFFF


cdef inline void _put_head(
    uint8_t *at, uint32_t size, uint32_t crc, int32_t queue_id, int32_t flag, int64_t queue_offset,
    int64_t log_offset, int32_t system_flag, int64_t born_at_ms, const uint8_t *born_host,
    int64_t stored_at_ms, const uint8_t *store_host, int32_t reconsume_times,
    int64_t prepared_offset, uint32_t body_size,
) noexcept:
    emberq_put32(at, size)
    emberq_put32(at + 4, MAGIC_V1)
    emberq_put32(at + 8, crc)
    emberq_put32(at + 12, <uint32_t>queue_id)
    emberq_put32(at + 16, <uint32_t>flag)
    emberq_put64(at + 20, <uint64_t>queue_offset)
    emberq_put64(at + 28, <uint64_t>log_offset)
    emberq_put32(at + 36, <uint32_t>system_flag)
    emberq_put64(at + 40, <uint64_t>born_at_ms)
    memcpy(at + 48, born_host, 8)
    emberq_put64(at + 56, <uint64_t>stored_at_ms)
    memcpy(at + 64, store_host, 8)
    emberq_put32(at + 72, <uint32_t>reconsume_times)
    emberq_put64(at + 76, <uint64_t>prepared_offset)
    emberq_put32(at + 84, body_size)


def encode_common_record(
    bytes topic not None, object body, bytes properties not None, object queue_id, object flag,
    object queue_offset, object log_offset, object system_flag, object born_at_ms,
    bytes born_host not None, object stored_at_ms, bytes store_host not None,
    object reconsume_times, object prepared_offset,
):
    cdef Py_buffer view
    cdef Py_ssize_t topic_size = PyBytes_GET_SIZE(topic)
    cdef Py_ssize_t properties_size = PyBytes_GET_SIZE(properties)
    cdef Py_ssize_t size
    cdef bytes record
    cdef uint8_t *at
    cdef uint32_t crc
    assert PyBytes_GET_SIZE(born_host) == 8 and PyBytes_GET_SIZE(store_host) == 8
    PyObject_GetBuffer(body, &view, PyBUF_SIMPLE)
    try:
        size = PREFIX_SIZE + 2 + view.len + topic_size + properties_size
        if size > RECORD_SIZE_MAX or properties_size > PROPERTIES_SIZE_MAX:
            raise RecordError(
                f"a value does not fit its record field: {size} bytes, properties of "
                f"{properties_size}"
            )
        crc = _crc31(body, <const uint8_t *>view.buf, view.len)
        record = PyBytes_FromStringAndSize(NULL, size)
        at = <uint8_t *>PyBytes_AS_STRING(record)
        try:
            _put_head(
                at, <uint32_t>size, crc, queue_id, flag, queue_offset, log_offset,
                _without_host_bits(system_flag), born_at_ms,
                <const uint8_t *>PyBytes_AS_STRING(born_host), stored_at_ms,
                <const uint8_t *>PyBytes_AS_STRING(store_host), reconsume_times, prepared_offset,
                <uint32_t>view.len,
            )
        except OverflowError as error:
            raise RecordError(f"a value does not fit its record field: {error}") from error
        at += PREFIX_SIZE
        memcpy(at, view.buf, view.len)
        at += view.len
        memcpy(at, PyBytes_AS_STRING(topic), topic_size)
        at += topic_size
        emberq_put16(at, <uint16_t>properties_size)
        memcpy(at + 2, PyBytes_AS_STRING(properties), properties_size)
        return record
    finally:
        PyBuffer_Release(&view)


cdef int32_t _without_host_bits(object system_flag) except? -1:
    cdef int32_t flag = system_flag
    return flag & ~HOSTS_IPV6_MASK


# Java's string hash

cdef uint32_t _hash_text(uint32_t number, object text) except? 0xFFFFFFFF:
    """Continue a hash with the UTF-16 units of a text."""
    cdef int kind = PyUnicode_KIND(text)
    cdef void *data = PyUnicode_DATA(text)
    cdef Py_ssize_t length = PyUnicode_GET_LENGTH(text)
    cdef Py_ssize_t index
    cdef uint32_t point
    if kind == 1:
        for index in range(length):
            number = 31 * number + (<uint8_t *>data)[index]
    else:
        for index in range(length):
            point = PyUnicode_READ(kind, data, index)
            if point >= 0x10000:
                point -= 0x10000
                number = 31 * number + (0xD800 | point >> 10)
                point = 0xDC00 | (point & 0x3FF)
            number = 31 * number + point
    return number


cdef uint32_t _hash_utf8(uint32_t number, const uint8_t *start, Py_ssize_t size) except? 0xFFFFFFFF:
    """The same for the bytes of a text; those that are no UTF-8 count as replaced."""
    cdef Py_ssize_t index
    cdef uint32_t ascii_number = number
    for index in range(size):
        if start[index] >= 0x80:
            return _hash_text(number, (<const char *>start)[:size].decode("utf-8", "replace"))
        ascii_number = 31 * ascii_number + start[index]
    return ascii_number


cdef inline int64_t _index_hash(uint32_t number) noexcept:
    """Java's absolute value; the number without a positive twin becomes 0."""
    if number == 0x80000000u:
        return 0
    return number if number < 0x80000000u else <int64_t>(<uint32_t>(-<int32_t>number))


cdef inline uint32_t _hash_topic(object topic) except? 0xFFFFFFFF:
    return 31 * _hash_text(0, topic) + 35  # the `#` between topic and key


def index_hashes(object topics, object keys):
    cdef list hashes = [0] * len(keys)
    _hash_each(hashes, range(len(hashes)), topics, keys)
    return hashes


def hash_into(list hashes not None, object places, object topics, object keys):
    _hash_each(hashes, places, topics, keys)


cdef int _hash_each(list hashes, object places, object topics, object keys) except -1:
    cdef object last_topic = None
    cdef uint32_t topic_hash = 0
    for place, topic, key in zip(places, topics, keys, strict=True):
        if topic is not last_topic:
            topic_hash = _hash_topic(topic)
            last_topic = topic
        hashes[place] = _index_hash(_hash_text(topic_hash, key))
    return 0


def hash_record_keys(object records):
    cdef list hashes = [], log_offsets = [], times_ms = []
    cdef object last_topic = None, topic, text, log_offset, time_ms
    cdef uint32_t topic_hash = 0, tag_hash = 0
    cdef Py_ssize_t first, index
    for record in records:
        if not record.is_indexed:
            continue
        first = len(hashes)
        topic = record.topic
        if topic is not last_topic:
            topic_hash = _hash_topic(topic)
            tag_hash = 31 * (31 * topic_hash + 84) + 35  # `T#`
            last_topic = topic
        text = record.unique_key
        if text is not None:
            hashes.append(_index_hash(_hash_text(topic_hash, text)))
        text = record.keys
        if text:
            for word in (<str>text).split(" "):
                if word:
                    hashes.append(_index_hash(_hash_text(topic_hash, word)))
        text = record.tags
        if text:
            hashes.append(_index_hash(_hash_text(tag_hash, text)))
        log_offset = record.log_offset
        time_ms = record.stored_at_ms
        for index in range(len(hashes) - first):
            log_offsets.append(log_offset)
            times_ms.append(time_ms)
    return hashes, log_offsets, times_ms


# Properties

cdef struct Found:
    const uint8_t *start
    Py_ssize_t size  # 0: there is none


cdef struct Properties:
    Found tags
    Found keys
    Found unique_key


cdef Properties _find_properties(const uint8_t *start, Py_ssize_t size) noexcept:
    """Of several equal names the last counts; empty values never do."""
    cdef Properties found
    found.tags.size = found.keys.size = found.unique_key.size = 0
    found.tags.start = found.keys.start = found.unique_key.start = start
    cdef const uint8_t *end = start + size
    cdef const uint8_t *stop
    cdef Py_ssize_t item_size
    while start < end:
        stop = <const uint8_t *>memchr(start, 2, end - start)
        if stop == NULL:
            stop = end
        item_size = stop - start
        if item_size > 5:
            if memcmp(start, b"TAGS\x01", 5) == 0:
                found.tags.start = start + 5
                found.tags.size = item_size - 5
            elif memcmp(start, b"KEYS\x01", 5) == 0:
                found.keys.start = start + 5
                found.keys.size = item_size - 5
            elif item_size > 9 and memcmp(start, b"UNIQ_KEY\x01", 9) == 0:
                found.unique_key.start = start + 9
                found.unique_key.size = item_size - 9
        start = stop + 1
    return found


cdef object _text_of(Found found):
    if found.size == 0:
        return None
    return (<const char *>found.start)[:found.size].decode("utf-8", "replace")


def indexed_properties(object view, Py_ssize_t start, Py_ssize_t end):
    cdef Py_buffer buffer
    cdef Properties found
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        if not 0 <= start <= end <= buffer.len:
            raise IndexError(f"no properties from {start} to {end} of {buffer.len}")
        found = _find_properties(<const uint8_t *>buffer.buf + start, end - start)
        return _text_of(found.unique_key), _text_of(found.keys), _text_of(found.tags)
    finally:
        PyBuffer_Release(&buffer)


cdef class KeyCollector:
    cdef list _hashes
    cdef list _owners
    cdef list _times_ms
    cdef object _topic
    cdef uint32_t _topic_hash

    def __init__(self):
        self._hashes = []
        self._owners = []
        self._times_ms = []
        self._topic = None

    def note(
        self, str topic not None, object view, Py_ssize_t start, Py_ssize_t end,
        object log_offset, object stored_at_ms,
    ):
        cdef Py_buffer buffer
        cdef Properties found
        if topic is not self._topic:
            self._topic_hash = _hash_topic(topic)
            self._topic = topic
        PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
        try:
            if not 0 <= start <= end <= buffer.len:
                raise IndexError(f"no properties from {start} to {end} of {buffer.len}")
            found = _find_properties(<const uint8_t *>buffer.buf + start, end - start)
            return self.add(log_offset, stored_at_ms, self._topic_hash, found)
        finally:
            PyBuffer_Release(&buffer)

    cdef int32_t add(
        self, object log_offset, object stored_at_ms, uint32_t topic_hash, Properties found
    ) except? -1:
        """The same for properties that are found already."""
        cdef Py_ssize_t first = len(self._hashes), index
        cdef int32_t code = _add_keys(self._hashes, self._owners, log_offset, topic_hash, found)
        for index in range(len(self._hashes) - first):
            self._times_ms.append(stored_at_ms)
        return code

    def take(self):
        collected = self._hashes, self._owners, self._times_ms
        self._hashes, self._owners, self._times_ms = [], [], []
        return collected


cdef int32_t _add_keys(
    list hashes, list owners, object owner, uint32_t topic_hash, Properties found
) except? -1:
    """Add the hashes of keys in the order of the index; returns the code of the tags."""
    cdef uint32_t tag_hash
    if found.unique_key.size:
        hashes.append(
            _index_hash(_hash_utf8(topic_hash, found.unique_key.start, found.unique_key.size))
        )
        owners.append(owner)
    if found.keys.size:
        _add_words(hashes, owners, owner, topic_hash, found.keys)
    if not found.tags.size:
        return 0
    tag_hash = 31 * (31 * topic_hash + 84) + 35  # `T#`
    hashes.append(_index_hash(_hash_utf8(tag_hash, found.tags.start, found.tags.size)))
    owners.append(owner)
    return <int32_t>_hash_utf8(0, found.tags.start, found.tags.size)


# Batches

def explode_batch(
    bytes content not None, str topic not None, bytes topic_part not None, object queue_id,
    object first_queue_offset, object first_log_offset, object system_flag, object born_at_ms,
    bytes born_host not None, object stored_at_ms, bytes store_host not None,
    object reconsume_times,
):
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(content)
    cdef Py_ssize_t content_size = PyBytes_GET_SIZE(content)
    cdef Py_ssize_t topic_size = PyBytes_GET_SIZE(topic_part)
    cdef Py_ssize_t count = 0, total = 0, position = 0, body_size, properties_size, size
    cdef int32_t queue, flags, reconsumed
    cdef int64_t queue_offset, log_offset, born_at, stored_at
    cdef const uint8_t *born = <const uint8_t *>PyBytes_AS_STRING(born_host)
    cdef const uint8_t *store = <const uint8_t *>PyBytes_AS_STRING(store_host)
    cdef const uint8_t *body
    cdef const uint8_t *topic_start = <const uint8_t *>PyBytes_AS_STRING(topic_part)
    cdef uint8_t *at
    cdef uint8_t *entry
    cdef bytes records, entries
    cdef list log_offsets = [], hashes = [], owners = []
    cdef uint32_t topic_hash
    cdef int32_t code
    cdef Properties found
    assert PyBytes_GET_SIZE(born_host) == 8 and PyBytes_GET_SIZE(store_host) == 8
    while position < content_size:
        size = _element_size(start, content_size, position, &body_size, &properties_size)
        total += PREFIX_SIZE + body_size + topic_size + 2 + properties_size
        position += size
        count += 1
    if total > RECORD_SIZE_MAX:
        raise RecordError(f"a batch of {total} bytes")
    try:
        queue = queue_id
        flags = system_flag
        reconsumed = reconsume_times
        queue_offset = first_queue_offset
        log_offset = first_log_offset
        born_at = born_at_ms
        stored_at = stored_at_ms
    except OverflowError as error:
        raise RecordError(f"a value does not fit its record field: {error}") from error
    flags &= ~HOSTS_IPV6_MASK
    topic_hash = _hash_topic(topic)
    records = PyBytes_FromStringAndSize(NULL, total)
    entries = PyBytes_FromStringAndSize(NULL, count * QUEUE_ENTRY_SIZE)
    at = <uint8_t *>PyBytes_AS_STRING(records)
    entry = <uint8_t *>PyBytes_AS_STRING(entries)
    position = 0
    while position < content_size:
        size = _element_size(start, content_size, position, &body_size, &properties_size)
        body = start + position + BATCH_PREFIX_SIZE
        _put_head(
            at, <uint32_t>(PREFIX_SIZE + body_size + topic_size + 2 + properties_size),
            _crc31_within(content, start, position + BATCH_PREFIX_SIZE, body_size), queue,
            <int32_t>emberq_get32(start + position + 12), queue_offset, log_offset, flags, born_at,
            born, stored_at, store, reconsumed, 0, <uint32_t>body_size,
        )
        at += PREFIX_SIZE
        memcpy(at, body, body_size)
        at += body_size
        memcpy(at, topic_start, topic_size)
        at += topic_size
        memcpy(at, body + body_size, 2 + properties_size)
        found = _find_properties(at + 2, properties_size)
        at += 2 + properties_size
        owner = log_offset
        log_offsets.append(owner)
        code = _add_keys(hashes, owners, owner, topic_hash, found)
        emberq_put64(entry, <uint64_t>log_offset)
        size = PREFIX_SIZE + body_size + topic_size + 2 + properties_size
        emberq_put32(entry + 8, <uint32_t>size)
        emberq_put64(entry + 12, <uint64_t><int64_t>code)
        entry += QUEUE_ENTRY_SIZE
        queue_offset += 1
        log_offset += size
        position += BATCH_PREFIX_SIZE + body_size + 2 + properties_size
    return records, log_offsets, entries, hashes, owners


cdef Py_ssize_t _element_size(
    const uint8_t *start, Py_ssize_t content_size, Py_ssize_t position, Py_ssize_t *body_size,
    Py_ssize_t *properties_size,
) except -1:
    cdef Py_ssize_t left = content_size - position - BATCH_PREFIX_SIZE - 2
    if left < 0:
        raise RecordError(f"the batch message at {position} is cut off")
    start += position
    body_size[0] = <int32_t>emberq_get32(start + 16)
    if body_size[0] < 0 or body_size[0] > left:
        raise RecordError(f"the batch message at {position} has a body of {body_size[0]} bytes")
    left -= body_size[0]
    properties_size[0] = <Py_ssize_t><short>emberq_get16(start + BATCH_PREFIX_SIZE + body_size[0])
    if properties_size[0] < 0 or properties_size[0] > left:
        raise RecordError(
            f"the batch message at {position} has properties of {properties_size[0]} bytes"
        )
    return BATCH_PREFIX_SIZE + body_size[0] + 2 + properties_size[0]


cdef int _add_words(
    list hashes, list owners, object owner, uint32_t topic_hash, Found text
) except -1:
    cdef const uint8_t *start = text.start
    cdef const uint8_t *end = text.start + text.size
    cdef const uint8_t *stop
    while start < end:
        stop = <const uint8_t *>memchr(start, 32, end - start)
        if stop == NULL:
            stop = end
        if stop > start:
            hashes.append(_index_hash(_hash_utf8(topic_hash, start, stop - start)))
            owners.append(owner)
        start = stop + 1
    return 0


# Index entries

def chain_entries(
    object slots, int64_t number, object hashes, object log_offsets, object seconds
):
    cdef Py_buffer buffer
    cdef int32_t *values
    cdef int64_t slot_count, slot, key_hash
    cdef Py_ssize_t fresh = 0
    cdef bytes entries = PyBytes_FromStringAndSize(NULL, len(hashes) * INDEX_ENTRY_SIZE)
    cdef uint8_t *at = <uint8_t *>PyBytes_AS_STRING(entries)
    cdef int64_t log_offset
    cdef int32_t second, previous
    PyObject_GetBuffer(slots, &buffer, PyBUF_WRITABLE)
    try:
        values = <int32_t *>buffer.buf
        slot_count = buffer.len // 4
        for hash_object in hashes:
            key_hash = hash_object
            emberq_fetch(values + key_hash % slot_count)
        for hash_object, log_offset, second in zip(hashes, log_offsets, seconds, strict=True):
            key_hash = hash_object
            slot = key_hash % slot_count
            previous = values[slot]
            values[slot] = <int32_t>number
            number += 1
            fresh += previous == 0
            emberq_put32(at, <uint32_t>key_hash)
            emberq_put64(at + 4, <uint64_t>log_offset)
            emberq_put32(at + 12, <uint32_t>second)
            emberq_put32(at + 16, <uint32_t>previous)
            at += INDEX_ENTRY_SIZE
    finally:
        PyBuffer_Release(&buffer)
    return entries, fresh


# Message ids

cdef uint8_t *_put_hex(uint8_t *at, const uint8_t *start, Py_ssize_t size) noexcept:
    cdef const char *digits = "0123456789ABCDEF"
    cdef Py_ssize_t index
    for index in range(size):
        at[0] = digits[start[index] >> 4]
        at[1] = digits[start[index] & 15]
        at += 2
    return at


def joined_ids(bytes host not None, object log_offsets):
    cdef Py_ssize_t host_size = PyBytes_GET_SIZE(host)
    cdef const uint8_t *host_start = <const uint8_t *>PyBytes_AS_STRING(host)
    cdef Py_ssize_t count = len(log_offsets), index
    cdef uint8_t packed[8]
    cdef uint8_t *at
    cdef uint64_t offset
    cdef object ids
    if count == 0:
        return ""
    ids = PyUnicode_New(count * (2 * (host_size + 8) + 1) - 1, 127)
    at = <uint8_t *>PyUnicode_DATA(ids)
    for index in range(count):
        offset = log_offsets[index]
        if index:
            at[0] = 44  # a comma
            at += 1
        emberq_put64(packed, offset)
        at = _put_hex(_put_hex(at, host_start, host_size), packed, 8)
    return ids


# Queue entries

def choose_entries(
    bytes content not None, int64_t offset, int64_t count_max, int64_t size_max, int64_t log_min,
    int64_t log_end, int64_t segment_size, object accepts,
):
    cdef const uint8_t *at = <const uint8_t *>PyBytes_AS_STRING(content)
    cdef const uint8_t *end = at + PyBytes_GET_SIZE(content)
    cdef list wanted = []
    cdef int64_t next_offset = offset, log_offset, size, tag_code, last = -1, size_left = size_max
    cdef Py_ssize_t count = 0
    cdef bint was_removed = False
    while at + QUEUE_ENTRY_SIZE <= end:
        log_offset = <int64_t>emberq_get64(at)
        size = <int32_t>emberq_get32(at + 8)
        if log_offset < log_min or size == FILLER_RECORD_SIZE:
            was_removed = True
            next_offset += 1
        elif log_offset == last:
            wanted[count - 1] = (next_offset, log_offset, size)
            next_offset += 1
        elif count and (count >= count_max or size > size_left):
            break
        else:
            next_offset += 1
            if (
                (accepts is None or accepts(<int64_t>emberq_get64(at + 12)))
                and size > 0
                and log_offset + size <= log_end
                and log_offset % segment_size + size <= segment_size
            ):
                wanted.append((next_offset - 1, log_offset, size))
                count += 1
                last = log_offset
                size_left -= size
        at += QUEUE_ENTRY_SIZE
    return wanted, next_offset, was_removed


def choose_ranges(
    object content, Py_ssize_t start, Py_ssize_t stop, int64_t count_max, int64_t size_max,
    int64_t log_min, int64_t log_end, int64_t segment_size,
):
    cdef Py_buffer buffer
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef list ranges = []
    cdef int64_t log_offset, size, last = -1, size_taken = 0, range_start = -1, range_end = -1
    cdef Py_ssize_t count = 0, passed = 0
    PyObject_GetBuffer(content, &buffer, PyBUF_SIMPLE)
    try:
        if start < 0:
            raise ValueError("a position before the first entry")
        at = <const uint8_t *>buffer.buf + min(start, buffer.len)
        end = <const uint8_t *>buffer.buf + min(stop, buffer.len)
        while at + QUEUE_ENTRY_SIZE <= end:
            log_offset = <int64_t>emberq_get64(at)
            size = <int32_t>emberq_get32(at + 8)
            if log_offset >= log_min and size != FILLER_RECORD_SIZE and log_offset != last:
                if count and (count >= count_max or size > size_max - size_taken):
                    break
                if (
                    size > 0
                    and log_offset + size <= log_end
                    and log_offset % segment_size + size <= segment_size
                ):
                    if log_offset != range_end:
                        if range_start >= 0:
                            ranges.append((range_start, range_end - range_start))
                        range_start = log_offset
                    range_end = log_offset + size
                    last = log_offset
                    count += 1
                    size_taken += size
            passed += 1
            at += QUEUE_ENTRY_SIZE
    finally:
        PyBuffer_Release(&buffer)
    if range_start >= 0:
        ranges.append((range_start, range_end - range_start))
    return ranges, count, size_taken, passed


cdef bint _is_record_at(
    object content, const uint8_t *start, const uint8_t *at, const uint8_t *stop,
    int64_t queue_offset, int64_t log_offset, int64_t size, int32_t queue_id, bytes topic,
    bint is_crc_checked,
) except -1:
    cdef const uint8_t *end
    cdef const uint8_t *topic_at
    cdef Py_ssize_t name_size = PyBytes_GET_SIZE(topic)
    cdef int64_t body_size
    if size < PREFIX_SIZE or size > stop - at:
        return False
    end = at + size
    if (
        <int32_t>emberq_get32(at) != size
        or emberq_get32(at + 4) != MAGIC_V1
        or <int32_t>emberq_get32(at + 12) != queue_id
        or <int64_t>emberq_get64(at + 20) != queue_offset
        or <int64_t>emberq_get64(at + 28) != log_offset
        or <int32_t>emberq_get32(at + 36) & HOSTS_IPV6_MASK
    ):
        return False
    body_size = <int32_t>emberq_get32(at + 84)
    if body_size < 0 or PREFIX_SIZE + body_size + name_size + 2 > size:
        return False
    topic_at = at + PREFIX_SIZE + body_size
    if memcmp(topic_at, PyBytes_AS_STRING(topic), name_size) != 0:
        return False
    if emberq_get16(topic_at + name_size) != end - topic_at - name_size - 2:
        return False
    if is_crc_checked and body_size:
        return _crc31_within(content, start, at - start + PREFIX_SIZE, body_size) == emberq_get32(
            at + 8
        )
    return True


def are_records_of(
    object content, list run not None, int32_t queue_id, bytes topic not None, bint is_crc_checked
):
    cdef Py_buffer buffer
    cdef const uint8_t *start
    cdef const uint8_t *at
    cdef int64_t queue_offset, log_offset, size
    PyObject_GetBuffer(content, &buffer, PyBUF_SIMPLE)
    try:
        start = at = <const uint8_t *>buffer.buf
        for queue_offset, log_offset, size in run:
            if not _is_record_at(
                content, start, at, start + buffer.len, queue_offset, log_offset, size, queue_id,
                topic, is_crc_checked,
            ):
                return False
            at += size
    finally:
        PyBuffer_Release(&buffer)
    return True


def count_records_of(
    object content, bytes entries not None, Py_ssize_t first, int64_t queue_offset,
    int32_t queue_id, bytes topic not None, bint is_crc_checked,
):
    cdef Py_buffer buffer
    cdef const uint8_t *start
    cdef const uint8_t *at
    cdef const uint8_t *stop
    cdef const uint8_t *entry
    cdef Py_ssize_t count = 0, count_max = PyBytes_GET_SIZE(entries) // QUEUE_ENTRY_SIZE - first
    cdef int64_t size
    if first < 0:
        raise ValueError("before the first entry")
    PyObject_GetBuffer(content, &buffer, PyBUF_SIMPLE)
    try:
        start = at = <const uint8_t *>buffer.buf
        stop = start + buffer.len
        while at < stop:
            if count >= count_max:
                return 0
            entry = <const uint8_t *>PyBytes_AS_STRING(entries) + (first + count) * QUEUE_ENTRY_SIZE
            size = <int32_t>emberq_get32(entry + 8)
            if not _is_record_at(
                content, start, at, stop, queue_offset + count, <int64_t>emberq_get64(entry), size,
                queue_id, topic, is_crc_checked,
            ):
                return 0
            at += size
            count += 1
    finally:
        PyBuffer_Release(&buffer)
    return count


# Bytes that are made in place

cdef class BytesInMaking:
    cdef bytes _content

    def __cinit__(self, Py_ssize_t size):
        # Shared objects, of no byte and of one, are not made by this call if no bytes are given,
        # but for the empty one, into which nothing can be written.
        self._content = PyBytes_FromStringAndSize(NULL, size)

    def __len__(self):
        return PyBytes_GET_SIZE(self._content)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(
            buffer, self, PyBytes_AS_STRING(self._content), PyBytes_GET_SIZE(self._content), 0,
            flags,
        )

    def finished(self):
        return self._content


# Walking the log

def scan_records(
    object view, Py_ssize_t position, int64_t base, Py_ssize_t room, bint is_crc_checked,
    Py_ssize_t count_max,
):
    cdef Py_buffer buffer
    cdef const uint8_t *start
    cdef const uint8_t *at
    cdef list records = []
    cdef Py_ssize_t size, end, body_at, body_end, topic_at, topic_end
    cdef int32_t system_flag, body_size
    cdef uint32_t magic
    cdef Py_ssize_t born_size, store_size
    cdef object topic = None, last_topic = None
    cdef const uint8_t *last_topic_start = NULL
    cdef Py_ssize_t last_topic_size = -1
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        start = <const uint8_t *>buffer.buf
        if position < 0 or room > buffer.len:
            raise IndexError(f"no records from {position} to {room} of {buffer.len}")
        while position <= room - PREFIX_SIZE and len(records) < count_max:
            at = start + position
            size = <int32_t>emberq_get32(at)
            magic = emberq_get32(at + 4)
            end = position + size
            if (
                <int64_t>emberq_get64(at + 28) != base + position
                or end > room
                or (magic != MAGIC_V1 and magic != MAGIC_V2)
            ):
                return records, position, True, None
            system_flag = <int32_t>emberq_get32(at + 36)
            born_size = 20 if system_flag & BORN_HOST_IPV6 else 8
            store_size = 20 if system_flag & STORE_HOST_IPV6 else 8
            body_at = position + PREFIX_SIZE - 16 + born_size + store_size
            if body_at > room:
                return records, position, True, None
            body_size = <int32_t>emberq_get32(start + body_at - 4)
            body_end = body_at + body_size
            if body_size < 0 or body_end + 3 > end:
                return records, position, True, f"a body of {body_size} bytes does not fit"
            if (
                is_crc_checked
                and body_size
                and _crc31_within(view, start, body_at, body_size) != emberq_get32(at + 8)
            ):
                return records, position, True, "the checksum of the body is wrong"
            if magic == MAGIC_V1:
                topic_at = body_end + 1
                topic_end = topic_at + start[body_end]
            else:
                topic_at = body_end + 2
                topic_end = topic_at + emberq_get16(start + body_end)
            if topic_end + 2 > end or topic_end + 2 + emberq_get16(start + topic_end) != end:
                return records, position, True, f"its lengths do not add up to {size}"
            if (
                topic_end - topic_at != last_topic_size
                or memcmp(start + topic_at, last_topic_start, last_topic_size) != 0
            ):
                last_topic_start = start + topic_at
                last_topic_size = topic_end - topic_at
                last_topic = PyBytes_FromStringAndSize(<const char *>last_topic_start, last_topic_size)
            records.append(
                ScannedRecord(
                    base + position,
                    size,
                    last_topic,
                    <int32_t>emberq_get32(at + 12),
                    <int64_t>emberq_get64(at + 20),
                    system_flag,
                    <int64_t>emberq_get64(at + 48 + born_size),
                    view,
                    topic_end + 2,
                    end,
                )
            )
            position = end
        return records, position, position > room - PREFIX_SIZE, None
    finally:
        PyBuffer_Release(&buffer)


cdef class _Run:
    """Entries of one queue, while records are collected."""

    cdef object queue
    cdef bytearray entries
    cdef int64_t first
    cdef int64_t next
    cdef int64_t log_end
    cdef uint32_t topic_hash


cdef _Run _begun(dict runs, dict known, bytes topic, object queue_id, bytes unusual_topic):
    cdef tuple key = (topic, queue_id)
    cdef _Run run = runs.get(key)
    if run is not None:
        return run
    queue = known.get(key)
    if queue is None or topic == unusual_topic:
        return None
    run = _Run.__new__(_Run)
    run.queue = queue
    run.entries = bytearray()
    run.first = run.next = queue.end_offset
    run.log_end = queue.log_end_offset
    run.topic_hash = _hash_topic(queue.topic)
    runs[key] = run
    return run


cdef int _add_entry(_Run run, int64_t log_offset, Py_ssize_t size, int32_t code) except -1:
    cdef Py_ssize_t before = PyByteArray_GET_SIZE(run.entries)
    cdef uint8_t *at
    PyByteArray_Resize(run.entries, before + QUEUE_ENTRY_SIZE)
    at = <uint8_t *>PyByteArray_AS_STRING(run.entries) + before
    emberq_put64(at, <uint64_t>log_offset)
    emberq_put32(at + 8, <uint32_t>size)
    emberq_put64(at + 12, <uint64_t><int64_t>code)
    run.next += 1
    run.log_end = log_offset + size
    return 0


def collect_records(
    object view, Py_ssize_t position, int64_t base, Py_ssize_t room, bint is_crc_checked,
    Py_ssize_t count_max, dict known not None, KeyCollector keys not None, int64_t indexed_until,
    bytes unusual_topic not None,
):
    cdef Py_buffer buffer
    cdef const uint8_t *start
    cdef const uint8_t *at
    cdef const uint8_t *name = NULL
    cdef Py_ssize_t name_size = -1
    cdef dict runs = {}, near = {}  # by topic and queue id, and by queue id of the last topic
    cdef bytes topic = b""
    cdef _Run run
    cdef Py_ssize_t size, end, body_at, body_end, topic_end, count = 0, unindexed = 0
    cdef int32_t body_size, code
    cdef int64_t log_offset, stored_at_ms = 0
    cdef bint is_new, is_unindexed
    cdef Properties found
    PyObject_GetBuffer(view, &buffer, PyBUF_SIMPLE)
    try:
        start = <const uint8_t *>buffer.buf
        if position < 0 or room > buffer.len:
            raise IndexError(f"no records from {position} to {room} of {buffer.len}")
        while position <= room - PREFIX_SIZE and count < count_max:
            at = start + position
            size = <int32_t>emberq_get32(at)
            end = position + size
            log_offset = <int64_t>emberq_get64(at + 28)
            body_size = <int32_t>emberq_get32(at + 84)
            body_at = position + PREFIX_SIZE
            body_end = body_at + body_size
            if (
                log_offset != base + position
                or end > room
                or emberq_get32(at + 4) != MAGIC_V1
                or <int32_t>emberq_get32(at + 36) & RARE_FLAGS
                or body_size < 0
                or body_end + 3 > end
            ):
                break
            topic_end = body_end + 1 + start[body_end]
            if topic_end + 2 > end or topic_end + 2 + emberq_get16(start + topic_end) != end:
                break
            if (
                topic_end - body_end - 1 != name_size
                or memcmp(start + body_end + 1, name, name_size) != 0
            ):
                name = start + body_end + 1
                name_size = topic_end - body_end - 1
                topic = PyBytes_FromStringAndSize(<const char *>name, name_size)
                near = {}
            queue_id = <int32_t>emberq_get32(at + 12)
            run = near.get(queue_id)
            if run is None:
                run = _begun(runs, known, topic, queue_id, unusual_topic)
                if run is None:
                    break
                near[queue_id] = run
            is_new = log_offset >= run.log_end
            if is_new and <int64_t>emberq_get64(at + 20) != run.next:
                break
            if (
                is_crc_checked
                and body_size
                and _crc31_within(view, start, body_at, body_size) != emberq_get32(at + 8)
            ):
                break
            stored_at_ms = <int64_t>emberq_get64(at + 56)
            is_unindexed = log_offset >= indexed_until
            if is_new or is_unindexed:
                found = _find_properties(start + topic_end + 2, end - topic_end - 2)
                if is_unindexed:
                    code = keys.add(log_offset, stored_at_ms, run.topic_hash, found)
                else:
                    code = <int32_t>_hash_utf8(0, found.tags.start, found.tags.size)
                if is_new:
                    _add_entry(run, log_offset, size, code)
            unindexed += is_unindexed
            count += 1
            position = end
    finally:
        PyBuffer_Release(&buffer)
    grown = []
    for run in runs.values():
        if run.entries:
            grown.append((run.queue, run.first, bytes(run.entries), run.log_end))
    return position, count, unindexed, stored_at_ms, grown
