/* Preloaded into a process: the n-th write, sync or rename below a folder fails, once or from then on.
   FAULT_FOLDER, FAULT_KIND (write, sync, rename), FAULT_NUMBER, FAULT_LASTS; FAULT_MARK is created when it fires. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
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

static int due_at(const char *kind, int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return due(kind, path);
}

#define NEXT(name, result, ...) ((result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))

ssize_t write(int file, const void *data, size_t size) {
    return due_at("write", file) ? -1 : NEXT("write", ssize_t, int, const void *, size_t)(file, data, size);
}
ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
    return due_at("write", file) ? -1 : NEXT("pwrite", ssize_t, int, const void *, size_t, off_t)(file, data, size, at);
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
    return due_at("write", file) ? -1 : NEXT("pwrite64", ssize_t, int, const void *, size_t, off64_t)(file, data, size, at);
}
int fsync(int file) { return due_at("sync", file) ? -1 : NEXT("fsync", int, int)(file); }
int fdatasync(int file) { return due_at("sync", file) ? -1 : NEXT("fdatasync", int, int)(file); }
int rename(const char *from, const char *to) {
    return due("rename", to) ? -1 : NEXT("rename", int, const char *, const char *)(from, to);
}
int ftruncate64(int file, off64_t size) {
    return due_at("write", file) ? -1 : NEXT("ftruncate64", int, int, off64_t)(file, size);
}
