/* Count the system calls of a process on files below one folder (FAULT_FOLDER), or its allocations of at least LARGE
   bytes, and let the k-th one fail. For LD_PRELOAD; `arm` and `calls` are called from the process itself. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum mode { OFF, ONCE, FROM_THEN_ON, SHORT, KILL, MEMORY };
enum { LARGE = 1 << 16 };

static enum mode mode;
static long wanted, count;
static char last[4400];
static unsigned char ours[4096]; /* by file descriptor */

void arm(long k, int how) { count = 0; wanted = k; mode = how; last[0] = 0; }
long calls(void) { return count; }
const char *last_fault(void) { return last; }

static int below(const char *path)
{
    const char *folder = getenv("FAULT_FOLDER");
    return folder && path && !strncmp(path, folder, strlen(folder));
}

/* Return whether this call is the one that fails; a process that is to be killed does not return. */
static int chosen(const char *call, const char *about)
{
    long now = __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
    if (!(now == wanted || (mode == FROM_THEN_ON && now > wanted && wanted)))
        return 0;
    if (!last[0])
        snprintf(last, sizeof last, "%s %s", call, about);
    if (mode == KILL)
        kill(getpid(), SIGKILL);
    return 1;
}

static int fails(const char *call, const char *about)
{
    return mode != OFF && mode != MEMORY && chosen(call, about);
}

static int lacks(size_t size)
{
    if (mode != MEMORY || size < LARGE)
        return 0;
    char about[32];
    snprintf(about, sizeof about, "%zu", size);
    if (!chosen("allocate", about))
        return 0;
    errno = ENOMEM;
    return 1;
}

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define IF_FAILS(call, about, error) if (fails(call, about)) { errno = error; return -1; }
#define OWN(fd) ((fd) >= 0 && (fd) < 4096 && ours[fd])

#define OPEN(name, DIRECTORY, ARGUMENT)                                                              \
    int name(DIRECTORY const char *path, int flags, ...)                                             \
    {                                                                                                \
        REAL(name);                                                                                  \
        va_list more;                                                                                \
        va_start(more, flags);                                                                       \
        int rights = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, int) : 0;                        \
        va_end(more);                                                                                \
        if (below(path))                                                                             \
            IF_FAILS("open", path, flags & O_CREAT ? ENOSPC : EIO);                                  \
        int fd = real(ARGUMENT path, flags, rights);                                                 \
        if (fd >= 0 && fd < 4096)                                                                    \
            ours[fd] = below(path);                                                                  \
        return fd;                                                                                   \
    }

OPEN(open, , )
OPEN(open64, , )
#define COMMA ,
OPEN(openat, int folder COMMA, folder COMMA)
OPEN(openat64, int folder COMMA, folder COMMA)

int close(int fd)
{
    REAL(close);
    if (fd >= 0 && fd < 4096)
        ours[fd] = 0;
    return real(fd);
}

ssize_t write(int fd, const void *data, size_t size)
{
    REAL(write);
    if (OWN(fd) && fails("write", "")) {
        if (mode == SHORT)
            return real(fd, data, size / 2);
        errno = ENOSPC;
        return -1;
    }
    return real(fd, data, size);
}

ssize_t read(int fd, void *data, size_t size)
{
    REAL(read);
    if (OWN(fd) && fails("read", "")) {
        if (mode == SHORT)
            return real(fd, data, size > 1 ? size / 2 : size);
        errno = EIO;
        return -1;
    }
    return real(fd, data, size);
}

#define PLACED(name, KIND, SOURCE, ERROR)                                                            \
    ssize_t name(int fd, SOURCE data, size_t size, off64_t at)                                       \
    {                                                                                                \
        REAL(name);                                                                                  \
        if (OWN(fd) && fails(KIND, "at a place")) {                                                  \
            if (mode == SHORT)                                                                       \
                return real(fd, data, size > 1 ? size / 2 : size, at);                               \
            errno = ERROR;                                                                           \
            return -1;                                                                               \
        }                                                                                            \
        return real(fd, data, size, at);                                                             \
    }

PLACED(pread64, "read", void *, EIO)
PLACED(pwrite64, "write", const void *, ENOSPC)

int fsync(int fd) { REAL(fsync); if (OWN(fd)) IF_FAILS("fsync", "", EIO); return real(fd); }
int fdatasync(int fd) { REAL(fdatasync); if (OWN(fd)) IF_FAILS("fdatasync", "", EIO); return real(fd); }
int ftruncate64(int fd, off64_t to) { REAL(ftruncate64); if (OWN(fd)) IF_FAILS("ftruncate", "", ENOSPC); return real(fd, to); }
int ftruncate(int fd, off_t to) { REAL(ftruncate); if (OWN(fd)) IF_FAILS("ftruncate", "", ENOSPC); return real(fd, to); }
int rename(const char *from, const char *to) { REAL(rename); if (below(to)) IF_FAILS("rename", to, ENOSPC); return real(from, to); }
int link(const char *from, const char *to) { REAL(link); if (below(to)) IF_FAILS("link", to, ENOSPC); return real(from, to); }
int unlink(const char *path) { REAL(unlink); if (below(path)) IF_FAILS("unlink", path, EIO); return real(path); }
int mkdir(const char *path, mode_t rights) { REAL(mkdir); if (below(path)) IF_FAILS("mkdir", path, ENOSPC); return real(path, rights); }

void *mmap64(void *at, size_t size, int rights, int flags, int fd, off64_t from)
{
    REAL(mmap64);
    if (OWN(fd) && fails("mmap", "")) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return real(at, size, rights, flags, fd, from);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*start)(void *), void *of)
{
    REAL(pthread_create);
    return fails("pthread_create", "") ? EAGAIN : real(thread, how, start, of);
}

void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
void *malloc(size_t size) { return lacks(size) ? NULL : __libc_malloc(size); }
void *calloc(size_t n, size_t size) { return lacks(n * size) ? NULL : __libc_calloc(n, size); }
void *realloc(void *of, size_t size) { return lacks(size) ? NULL : __libc_realloc(of, size); }
void *aligned_alloc(size_t to, size_t size) { return lacks(size) ? NULL : __libc_memalign(to, size); }

int posix_memalign(void **at, size_t to, size_t size)
{
    return lacks(size) || !(*at = __libc_memalign(to, size)) ? ENOMEM : 0;
}
