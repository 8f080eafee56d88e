# cython: language_level=3
"""A thread that syncs a file without ever needing the interpreter.

Python's own threads share the interpreter with the event loop: one that wants to start the next
sync, or to tell of the last, waits for a loop that is busy with the messages between them.
"""

import os

from libc.stdint cimport int64_t

cdef extern from *:
    """
    #include <errno.h>
    #include <pthread.h>
    #include <stdint.h>
    #include <stdlib.h>
    #include <time.h>
    #include <unistd.h>

    typedef struct {
        pthread_mutex_t mutex;   /* guards the fields below */
        pthread_mutex_t syncing; /* held during a sync: a failure is told to one caller only */
        pthread_cond_t changed;
        pthread_t thread;
        int descriptor;
        int event_descriptor;
        int64_t wanted;
        int64_t synced;
        int64_t cuts;
        int64_t mean_ns; /* of the last few syncs */
        int64_t waiting; /* messages that the next sync is for */
        int64_t released; /* messages of the sync before */
        int64_t released_at_ns; /* 0: their writers have come back */
        int64_t returned; /* messages since then */
        int64_t return_ns; /* how long the last few groups took to come back */
        int failure; /* the first error, for ever */
        int is_idle;
        int is_stopped;
    } emberq_syncer;

    static int emberq_sync_now(emberq_syncer *self, int descriptor) {
        pthread_mutex_lock(&self->syncing);
        pthread_mutex_lock(&self->mutex);
        int failure = self->failure;
        pthread_mutex_unlock(&self->mutex);
        if (!failure) {
            int result;
            do {
    #if defined(__APPLE__)
                result = fsync(descriptor);
    #else
                result = fdatasync(descriptor);
    #endif
            } while (result != 0 && errno == EINTR);
            if (result != 0) {
                failure = errno;
                pthread_mutex_lock(&self->mutex);
                self->failure = failure;
                pthread_mutex_unlock(&self->mutex);
            }
        }
        pthread_mutex_unlock(&self->syncing);
        return failure;
    }

    static int64_t emberq_now_ns(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * (int64_t)1000000000 + now.tv_nsec;
    }

    /* Writers that wait for their last message put the next when it is durable. Where they come
       back sooner than a sync takes, it pays to wait for them: all share the next one. Otherwise
       they are better off as two groups, one being synced while the other puts its messages. */
    #define EMBERQ_PATIENCE_MIN_NS 50000 /* shorter waits are not kept by the system */

    static void emberq_note_return(emberq_syncer *self, int64_t took_ns) {
        self->return_ns += (took_ns - self->return_ns) / 4;
        self->released_at_ns = 0;
    }

    static int emberq_wait_for_others(emberq_syncer *self) {
        if (!self->released_at_ns || self->return_ns >= self->mean_ns) return 0;
        int64_t until_ns = self->released_at_ns + self->return_ns * 3 / 2;
        if (until_ns - emberq_now_ns() < EMBERQ_PATIENCE_MIN_NS) return 0;
        struct timespec until;
        until.tv_sec = until_ns / 1000000000;
        until.tv_nsec = until_ns % 1000000000;
        self->is_idle = 1;
        pthread_cond_timedwait(&self->changed, &self->mutex, &until);
        self->is_idle = 0;
        return 1;
    }

    static void *emberq_sync_run(void *argument) {
        emberq_syncer *self = argument;
        const uint64_t one = 1;
        pthread_mutex_lock(&self->mutex);
        while (!self->is_stopped) {
            if (self->failure || self->wanted <= self->synced) {
                self->is_idle = 1;
                pthread_cond_wait(&self->changed, &self->mutex);
                self->is_idle = 0;
                continue;
            }
            if (emberq_wait_for_others(self)) continue;
            int64_t target = self->wanted, cuts = self->cuts, group = self->waiting;
            int descriptor = self->descriptor;
            self->waiting = 0;
            pthread_mutex_unlock(&self->mutex);
            int64_t began_ns = emberq_now_ns();
            int failure = emberq_sync_now(self, descriptor);
            int64_t ended_ns = emberq_now_ns();
            pthread_mutex_lock(&self->mutex);
            self->mean_ns += (ended_ns - began_ns - self->mean_ns) / 8;
            if (self->released_at_ns) { /* not all are back: as if the rest came at the same pace */
                int64_t returned = self->returned ? self->returned : 1;
                int64_t took_ns = ended_ns - self->released_at_ns;
                emberq_note_return(self, took_ns * self->released / returned);
            }
            self->released = group;
            self->released_at_ns = group ? ended_ns : 0;
            self->returned = 0;
            if (!failure && cuts == self->cuts && target > self->synced) self->synced = target;
            if (write(self->event_descriptor, &one, sizeof one) < 0) { /* told already */ }
        }
        pthread_mutex_unlock(&self->mutex);
        return NULL;
    }

    static emberq_syncer *emberq_syncer_start(int event_descriptor, int64_t synced) {
        emberq_syncer *self = calloc(1, sizeof *self);
        if (!self) return NULL;
        pthread_mutex_init(&self->mutex, NULL);
        pthread_mutex_init(&self->syncing, NULL);
        pthread_condattr_t attributes;
        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(&self->changed, &attributes);
        pthread_condattr_destroy(&attributes);
        self->descriptor = -1;
        self->event_descriptor = event_descriptor;
        self->synced = self->wanted = synced;
        self->mean_ns = 1000000; /* until some are measured */
        if (pthread_create(&self->thread, NULL, emberq_sync_run, self)) {
            free(self);
            return NULL;
        }
        return self;
    }

    static void emberq_syncer_stop(emberq_syncer *self) {
        pthread_mutex_lock(&self->mutex);
        self->is_stopped = 1;
        pthread_cond_signal(&self->changed);
        pthread_mutex_unlock(&self->mutex);
        pthread_join(self->thread, NULL);
        free(self);
    }

    static int emberq_syncer_request(
        emberq_syncer *self, int descriptor, int64_t offset, int64_t count
    ) {
        pthread_mutex_lock(&self->mutex);
        int is_taken = descriptor == self->descriptor || self->wanted <= self->synced;
        if (is_taken) {
            self->descriptor = descriptor;
            if (offset > self->wanted) self->wanted = offset;
            self->waiting += count;
            self->returned += count;
            if (self->released_at_ns && self->returned >= self->released)
                emberq_note_return(self, emberq_now_ns() - self->released_at_ns);
            if (self->is_idle) pthread_cond_signal(&self->changed);
        }
        pthread_mutex_unlock(&self->mutex);
        return is_taken;
    }

    static void emberq_syncer_cut(emberq_syncer *self, int64_t offset) {
        pthread_mutex_lock(&self->mutex);
        self->cuts++;
        if (self->wanted > offset) self->wanted = offset;
        if (self->synced > offset) self->synced = offset;
        pthread_mutex_unlock(&self->mutex);
    }

    static void emberq_syncer_note(emberq_syncer *self, int64_t offset) {
        pthread_mutex_lock(&self->mutex);
        if (self->synced < offset) self->synced = offset;
        pthread_mutex_unlock(&self->mutex);
    }

    static int64_t emberq_syncer_mean_ns(emberq_syncer *self) {
        pthread_mutex_lock(&self->mutex);
        int64_t mean_ns = self->mean_ns;
        pthread_mutex_unlock(&self->mutex);
        return mean_ns;
    }

    static int emberq_syncer_outcome(emberq_syncer *self, int64_t *synced) {
        pthread_mutex_lock(&self->mutex);
        int failure = self->failure;
        *synced = self->synced;
        pthread_mutex_unlock(&self->mutex);
        return failure;
    }
    """
    ctypedef struct emberq_syncer:
        pass
    emberq_syncer *emberq_syncer_start(int event_descriptor, int64_t synced) noexcept nogil
    void emberq_syncer_stop(emberq_syncer *self) noexcept nogil
    int emberq_syncer_request(
        emberq_syncer *self, int descriptor, int64_t offset, int64_t count
    ) noexcept nogil
    void emberq_syncer_cut(emberq_syncer *self, int64_t offset) noexcept nogil
    void emberq_syncer_note(emberq_syncer *self, int64_t offset) noexcept nogil
    int64_t emberq_syncer_mean_ns(emberq_syncer *self) noexcept nogil
    int emberq_syncer_outcome(emberq_syncer *self, int64_t *synced) noexcept nogil
    int emberq_sync_now(emberq_syncer *self, int descriptor) noexcept nogil


cdef class SyncThread:
    """Syncs up to the last offset asked for, again and again while there is something to sync."""

    cdef emberq_syncer *_syncer

    def __cinit__(self, int event_descriptor, int64_t synced_offset):
        self._syncer = emberq_syncer_start(event_descriptor, synced_offset)
        if self._syncer == NULL:
            raise MemoryError("no thread for syncing")

    def __dealloc__(self):
        self.stop()

    def request(self, int descriptor, int64_t offset, int64_t count):
        """Ask for a sync of a file up to a log offset, for so many messages more.

        False while another file is being synced."""
        return bool(emberq_syncer_request(self._running(), descriptor, offset, count))

    def cut_back(self, int64_t offset):
        """What is written behind an offset from now on is not synced, whatever is under way."""
        emberq_syncer_cut(self._running(), offset)

    def note_synced(self, int64_t offset):
        """Somebody else has synced up to an offset."""
        emberq_syncer_note(self._running(), offset)

    def synced_offset(self):
        """Up to where everything asked for is durable. Raises OSError after any failure."""
        cdef int64_t synced = 0
        cdef int failure = emberq_syncer_outcome(self._running(), &synced)
        if failure:
            raise OSError(failure, os.strerror(failure))
        return synced

    def mean_s(self):
        """How long one of the last few syncs took, on average."""
        return emberq_syncer_mean_ns(self._running()) / 1e9

    def sync_now(self, int descriptor):
        """Sync a file and wait for it. Raises OSError, and after a failure always."""
        cdef emberq_syncer *syncer = self._running()
        cdef int failure
        with nogil:
            failure = emberq_sync_now(syncer, descriptor)
        if failure:
            raise OSError(failure, os.strerror(failure))

    def stop(self):
        """End the thread; a sync that is under way is waited for."""
        cdef emberq_syncer *syncer = self._syncer
        if syncer != NULL:
            self._syncer = NULL
            with nogil:
                emberq_syncer_stop(syncer)

    cdef emberq_syncer *_running(self) except NULL:
        if self._syncer == NULL:
            raise ValueError("the thread for syncing has ended")
        return self._syncer
