/*
 * Makes single calls of a process fail: SHIM_FAIL="fdatasync:5:5,rename:2:5" fails the 5th fdatasync and the 2nd rename on
 * files below SHIM_DIR with errno 5 (EIO). SHIM_EAT=1 makes all syncs there do nothing and succeed. SHIM_SHORT=n lets one
 * write take n bytes at most. "synced" is a write to a file that was opened with O_DSYNC: it fails after half of it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int ours_path(const char *path) {
  const char *dir = getenv("SHIM_DIR");
  return dir && strncmp(path, dir, strlen(dir)) == 0;
}

static int ours(int fd) {
  char name[64], path[4096];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(name, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return ours_path(path);
}

static int fails(const char *call, int *count) {
  int now = __sync_add_and_fetch(count, 1);
  const char *list = getenv("SHIM_FAIL");
  while (list && *list) {
    char name[32];
    int nth, code;
    if (sscanf(list, "%31[^:]:%d:%d", name, &nth, &code) == 3 && strcmp(name, call) == 0 && nth == now) {
      errno = code;
      return 1;
    }
    list = strchr(list, ',');
    if (list) list++;
  }
  return 0;
}

static int eats(void) { return getenv("SHIM_EAT") != NULL; }

int open64(const char *path, int flags, ...) {
  static int (*real)(const char *, int, ...);
  if (!real) real = dlsym(RTLD_NEXT, "open64");
  va_list words;
  va_start(words, flags);
  int mode = flags & O_CREAT ? va_arg(words, int) : 0;
  va_end(words);
  if (eats() && ours_path(path)) flags &= ~O_SYNC;
  return real(path, flags, mode);
}

int open(const char *path, int flags, ...) {
  va_list words;
  va_start(words, flags);
  int mode = flags & O_CREAT ? va_arg(words, int) : 0;
  va_end(words);
  return open64(path, flags, mode);
}

int fdatasync(int fd) {
  static int (*real)(int);
  static int count;
  if (!real) real = dlsym(RTLD_NEXT, "fdatasync");
  if (!ours(fd)) return real(fd);
  if (fails("fdatasync", &count)) return -1;
  return eats() ? 0 : real(fd);
}

int fsync(int fd) {
  static int (*real)(int);
  static int count;
  if (!real) real = dlsym(RTLD_NEXT, "fsync");
  if (!ours(fd)) return real(fd);
  if (fails("fsync", &count)) return -1;
  return eats() ? 0 : real(fd);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t offset) {
  static ssize_t (*real)(int, const void *, size_t, off64_t);
  static int count;
  if (!real) real = dlsym(RTLD_NEXT, "pwrite64");
  if (!ours(fd)) return real(fd, bytes, size, offset);
  if (fails("pwrite64", &count)) return -1;
  const char *most = getenv("SHIM_SHORT");
  if (most && size > (size_t)atoi(most)) size = (size_t)atoi(most);
  static int synced;
  if (fcntl(fd, F_GETFL) & O_DSYNC && fails("synced", &synced)) {
    int code = errno;
    real(fd, bytes, size / 2, offset);
    errno = code;
    return -1;
  }
  return real(fd, bytes, size, offset);
}

int ftruncate64(int fd, off64_t size) {
  static int (*real)(int, off64_t);
  static int count;
  if (!real) real = dlsym(RTLD_NEXT, "ftruncate64");
  if (ours(fd) && fails("ftruncate64", &count)) return -1;
  return real(fd, size);
}

int rename(const char *from, const char *to) {
  static int (*real)(const char *, const char *);
  static int count;
  if (!real) real = dlsym(RTLD_NEXT, "rename");
  if (ours_path(from) && fails("rename", &count)) return -1;
  return real(from, to);
}
