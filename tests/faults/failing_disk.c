/* Preloaded into a process: the n-th write, sync or rename below a folder fails, once or from then on.
   FAULT_FOLDER, FAULT_KIND (write, sync, rename), FAULT_NUMBER, FAULT_LASTS; FAULT_MARK is created when it fires.
   FAULT_LOG records the writes, syncs, truncations and deletions below the folder, with what is written. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int count;

static int below(const char *path) {
    const char *folder = getenv("FAULT_FOLDER");
    return folder && strncmp(path, folder, strlen(folder)) == 0;
}

static int due(const char *kind, const char *path) {
    const char *wanted = getenv("FAULT_KIND"), *number = getenv("FAULT_NUMBER"), *mark = getenv("FAULT_MARK");
    if (!wanted || !number || !mark || strcmp(kind, wanted) || !below(path)) return 0;
    int at = __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST), first = atoi(number);
    if (at != first && !(getenv("FAULT_LASTS") && at > first)) return 0;
    int file = open(mark, O_CREAT | O_WRONLY, 0600);
    if (file >= 0) close(file);
    errno = EIO;
    return 1;
}

#define NEXT(name, result, ...) ((result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))

static void record(char kind, const char *path, int64_t at, const void *data, size_t size) {
    static int file = -2;
    const char *log = getenv("FAULT_LOG");
    if (!log || !below(path)) return;
    if (file == -2) file = open(log, O_CREAT | O_WRONLY | O_APPEND, 0600);
    struct { int64_t kind, at, size, path; } head = {kind, at, (int64_t)size, (int64_t)strlen(path)};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)path, strlen(path)}, {(void *)data, size}};
    if (writev(file, parts, 3) < 0) abort();
}

static int name_of(int file, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, size - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return 1;
}

static int due_at(const char *kind, int file) {
    char path[4096];
    return name_of(file, path, sizeof path) && due(kind, path);
}

static void record_at(char kind, int file, int64_t at, const void *data, size_t size) {
    char path[4096];
    if (getenv("FAULT_LOG") && name_of(file, path, sizeof path)) record(kind, path, at, data, size);
}

ssize_t write(int file, const void *data, size_t size) {
    if (due_at("write", file)) return -1;
    record_at('w', file, lseek(file, 0, SEEK_CUR), data, size);
    return NEXT("write", ssize_t, int, const void *, size_t)(file, data, size);
}
ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
    if (due_at("write", file)) return -1;
    record_at('w', file, at, data, size);
    return NEXT("pwrite", ssize_t, int, const void *, size_t, off_t)(file, data, size, at);
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) { return pwrite(file, data, size, at); }
static int sync_as(const char *name, int file) {
    if (due_at("sync", file)) return -1;
    int result = NEXT(name, int, int)(file);
    if (!result) record_at('s', file, 0, "", 0);
    return result;
}
int fsync(int file) { return sync_as("fsync", file); }
int fdatasync(int file) { return sync_as("fdatasync", file); }
int rename(const char *from, const char *to) {
    return due("rename", to) ? -1 : NEXT("rename", int, const char *, const char *)(from, to);
}
int unlink(const char *path) {
    record('u', path, 0, "", 0);
    return NEXT("unlink", int, const char *)(path);
}
int ftruncate(int file, off_t size) {
    if (due_at("write", file)) return -1;
    record_at('t', file, size, "", 0);
    return NEXT("ftruncate", int, int, off_t)(file, size);
}
int ftruncate64(int file, off64_t size) { return ftruncate(file, size); }
