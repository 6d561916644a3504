/* Preloaded: while the file $KFD_DENIED exists, read() fails with EPERM for files of GPU nodes in KFD's topology, as the
   kernel does for a process whose device cgroup lacks the GPU's render device. Node 0 is the processor. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char nodes[] = "/topology/nodes/";

static int is_gpu_node(int descriptor)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0)
        return 0;
    path[length] = 0;
    const char *found = strstr(path, nodes);
    return found && strncmp(found + strlen(nodes), "0/", 2) != 0;
}

ssize_t read(int descriptor, void *buffer, size_t size)
{
    static ssize_t (*real)(int, void *, size_t);
    const char *denied = getenv("KFD_DENIED");
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "read");
    if (denied && access(denied, F_OK) == 0 && is_gpu_node(descriptor)) {
        errno = EPERM;
        return -1;
    }
    return real(descriptor, buffer, size);
}
