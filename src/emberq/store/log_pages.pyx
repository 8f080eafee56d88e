# cython: language_level=3
"""What the system is told about pages of the mapped log. Nothing here changes what they hold.

Without the interpreter: bringing in megabytes takes milliseconds, and `mmap.madvise` would hold up
the loop meanwhile.
"""

import os

from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <errno.h>
    #include <fcntl.h>
    #include <stdint.h>
    #include <sys/mman.h>

    #define EMBERQ_POPULATE_WRITE 23 /* Linux 5.14; older ones say that they do not know it */
    /* The address space is locked meanwhile, so that no allocation of a thread waits long. */
    #define EMBERQ_PAGES_STEP (128 * 1024)

    static int emberq_bring_in(char *start, int64_t size) {
        while (size > 0) {
            int64_t step = size < EMBERQ_PAGES_STEP ? size : EMBERQ_PAGES_STEP;
            if (madvise(start, step, EMBERQ_POPULATE_WRITE) != 0) return errno;
            start += step;
            size -= step;
        }
        return 0;
    }

    static int emberq_take_singly(char *start, int64_t size, int descriptor, int64_t position) {
    #if defined(POSIX_FADV_DONTNEED)
        int failure = posix_fadvise(descriptor, position, 0, POSIX_FADV_DONTNEED);
        if (failure) return failure;
    #endif
        return madvise(start, size, MADV_RANDOM) == 0 ? 0 : errno;
    }
    """
    int emberq_bring_in(char *start, int64_t size) noexcept nogil
    int emberq_take_singly(
        char *start, int64_t size, int descriptor, int64_t position
    ) noexcept nogil


def bring_in(object view, int64_t position, int64_t size):
    """Have whole pages of a mapping in memory, ready to be written to. Raises OSError."""
    cdef Py_buffer buffer
    cdef int failure
    PyObject_GetBuffer(view, &buffer, PyBUF_WRITABLE)
    try:
        if position < 0 or size < 0 or position + size > buffer.len:
            raise IndexError(f"no {size} bytes at {position} of {buffer.len}")
        with nogil:
            failure = emberq_bring_in(<char *>buffer.buf + position, size)
    finally:
        PyBuffer_Release(&buffer)
    if failure:
        raise OSError(failure, os.strerror(failure))


def take_singly(object view, int descriptor, int64_t position):
    """Have pages of a mapped file brought in one by one from now on; those from a position on
    that are in memory, unchanged and unused are let go. Raises OSError."""
    cdef Py_buffer buffer
    cdef int failure
    PyObject_GetBuffer(view, &buffer, PyBUF_WRITABLE)
    try:
        with nogil:
            failure = emberq_take_singly(<char *>buffer.buf, buffer.len, descriptor, position)
    finally:
        PyBuffer_Release(&buffer)
    if failure:
        raise OSError(failure, os.strerror(failure))
