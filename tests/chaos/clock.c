/*
 * A wall clock that can be stepped while a program runs: `LD_PRELOAD` it, and let CHAOS_CLOCK name a file of eight
 * bytes, the offset in nanoseconds, which may be rewritten at any time. Only CLOCK_REALTIME is moved, as settimeofday(2)
 * would: monotonic and boot time go on. Waits until a wall-clock time (futex(2), FUTEX_CLOCK_REALTIME) are moved along.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static volatile int64_t *offset;
static int (*real_gettime)(clockid_t, struct timespec *);
static long (*real_syscall)(long, ...);

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("CHAOS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *place = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);

    real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    real_syscall = dlsym(RTLD_NEXT, "syscall");
    if (place != MAP_FAILED)
        offset = place;
    if (file >= 0)
        close(file);
}

static void move(struct timespec *moment, int64_t by)
{
    int64_t all = moment->tv_sec * SECOND + moment->tv_nsec + by;

    all = all < 0 ? 0 : all;
    moment->tv_sec = all / SECOND;
    moment->tv_nsec = all % SECOND;
}

int clock_gettime(clockid_t clock, struct timespec *moment)
{
    int failed;

    if (!real_gettime)
        begin();
    failed = real_gettime(clock, moment);
    if (!failed && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        move(moment, *offset);
    return failed;
}

int gettimeofday(struct timeval *restrict moment, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return -1;
    moment->tv_sec = now.tv_sec;
    moment->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *seconds)
{
    struct timespec now;

    if (clock_gettime(CLOCK_REALTIME, &now))
        return -1;
    if (seconds)
        *seconds = now.tv_sec;
    return now.tv_sec;
}

long syscall(long number, ...)
{
    long word[6];
    struct timespec until;
    va_list words;

    va_start(words, number);
    for (int index = 0; index < 6; index++)
        word[index] = va_arg(words, long);
    va_end(words);
    if (!real_syscall)
        begin();
    if (number == SYS_futex && offset && word[3] && (word[1] & FUTEX_CLOCK_REALTIME)
        && (word[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET) {
        until = *(struct timespec *)word[3];
        move(&until, -*offset);
        word[3] = (long)&until;
    }
    return real_syscall(number, word[0], word[1], word[2], word[3], word[4], word[5]);
}
