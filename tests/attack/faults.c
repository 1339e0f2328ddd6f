/* Loaded before the C library: lets the n-th change of a file below a folder fail, as a full disk, a broken one, or a
 * kill would. fault_arm() counts anew. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNT, FULL, BROKEN, KILL };

static char folder[PATH_MAX];
static int mode = COUNT;
static long place = 0, changes = 0;

void fault_arm(const char* below, int how, long when) {
    snprintf(folder, sizeof folder, "%s", below);
    mode = how, place = when, changes = 0;
}

long fault_count(void) { return changes; }

/* 0, or the error that this change ends with. A full disk stays full. */
static int fault(const char* path) {
    if (!folder[0] || !path || strncmp(path, folder, strlen(folder)) != 0) return 0;
    long now = ++changes;
    if (mode == KILL && now == place) raise(SIGKILL);
    if (mode == BROKEN && now == place) return EIO;
    if (mode == FULL && now >= place && place > 0) return ENOSPC;
    return 0;
}

static int fault_of(int descriptor) {
    if (!folder[0]) return 0;
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return fault(path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAIL(error) do { int found = (error); if (found) { errno = found; return -1; } } while (0)

ssize_t write(int d, const void* bytes, size_t size) { FAIL(fault_of(d)); return REAL(write)(d, bytes, size); }
ssize_t pwrite(int d, const void* b, size_t n, off_t at) { FAIL(fault_of(d)); return REAL(pwrite)(d, b, n, at); }
ssize_t pwrite64(int d, const void* b, size_t n, off64_t at) { FAIL(fault_of(d)); return REAL(pwrite64)(d, b, n, at); }
ssize_t writev(int d, const struct iovec* parts, int count) { FAIL(fault_of(d)); return REAL(writev)(d, parts, count); }
int fsync(int d) { FAIL(fault_of(d)); return REAL(fsync)(d); }
int ftruncate(int d, off_t size) { FAIL(fault_of(d)); return REAL(ftruncate)(d, size); }
int ftruncate64(int d, off64_t size) { FAIL(fault_of(d)); return REAL(ftruncate64)(d, size); }
int truncate(const char* path, off_t size) { FAIL(fault(path)); return REAL(truncate)(path, size); }
int truncate64(const char* path, off64_t size) { FAIL(fault(path)); return REAL(truncate64)(path, size); }
int rename(const char* from, const char* to) { FAIL(fault(to)); return REAL(rename)(from, to); }
int mkdir(const char* path, mode_t bits) { FAIL(fault(path)); return REAL(mkdir)(path, bits); }

#define OPEN(name)                                                                  \
    int name(const char* path, int flags, ...) {                                    \
        va_list rest;                                                               \
        va_start(rest, flags);                                                      \
        mode_t bits = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(rest, mode_t) : 0;   \
        va_end(rest);                                                               \
        if (flags & (O_CREAT | O_TRUNC)) FAIL(fault(path));                         \
        return REAL(name)(path, flags, bits);                                       \
    }
OPEN(open)
OPEN(open64)
