#define _GNU_SOURCE
#include "machine.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const json *around; /* the machine as the file gives it */
static const json *state;  /* what replaces keys of it now, or NULL */
static uint64_t steps;

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;
    if (file == NULL)
        return NULL;
    if (getdelim(&text, &size, '\0', file) < 0) {
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

static const json *state_at(const json *machine, uint64_t step)
{
    const json *found = NULL;
    for (const json *next = json_first(json_get(machine, "states")); next != NULL; next = next->next) {
        uint64_t inits = json_number(next, "inits", 1);
        found = next;
        if (step < inits)
            break;
        step -= inits;
    }
    return found;
}

static bool read_machine(uint64_t step)
{
    const char *path = getenv("NFD_TEST_NVML_MACHINE");
    char *text = path == NULL ? NULL : read_file(path);
    json *machine = text == NULL ? NULL : json_parse(text);
    free(text);
    if (machine == NULL || machine->kind != JSON_OBJECT) {
        fprintf(stderr, "NFD_TEST_NVML_MACHINE: %s: no machine there\n", path == NULL ? "not set" : path);
        return false;
    }
    state = state_at(machine, step);
    around = machine;
    return true;
}

bool machine_step(void)
{
    return read_machine(steps++);
}

bool machine_peek(void)
{
    return around != NULL || read_machine(steps);
}

const json *machine_get(const char *key)
{
    const json *value = json_get(state, key);
    return value != NULL ? value : json_get(around, key);
}

/* The file is parsed again only if another one is in its place: trees are never freed. */
const json *machine_now(const char *key)
{
    static struct stat parsed;
    static const json *machine;
    const char *path = getenv("NFD_TEST_NVML_MACHINE");
    struct stat there;
    if (path == NULL || stat(path, &there) != 0)
        return NULL;
    if (machine == NULL || there.st_ino != parsed.st_ino || there.st_mtim.tv_nsec != parsed.st_mtim.tv_nsec) {
        char *text = read_file(path);
        machine = text == NULL ? NULL : json_parse(text);
        free(text);
        parsed = there;
    }
    return json_get(machine, key);
}

const char *machine_text(const char *key, const char *fallback)
{
    const json *value = machine_get(key);
    return value == NULL || value->text == NULL ? fallback : value->text;
}

uint64_t machine_number(const char *key, uint64_t fallback)
{
    return json_as_number(machine_get(key), fallback);
}

/* Length of a call's name without its version: `_v2`, the V of the forms with a version word, `WithFlags`. */
static size_t stem(const char *call)
{
    static const char flags[] = "WithFlags";
    size_t length = strlen(call), end = length;
    while (end > 0 && isdigit((unsigned char)call[end - 1]))
        end--;
    if (end < length && end > 2 && strncmp(call + end - 2, "_v", 2) == 0)
        length = end - 2;
    if (length > sizeof flags && strncmp(call + length - (sizeof flags - 1), flags, sizeof flags - 1) == 0)
        length -= sizeof flags - 1;
    if (length > 1 && call[length - 1] == 'V' && islower((unsigned char)call[length - 2]))
        length--;
    return length;
}

static const json *find_order(const json *orders, const char *call, bool own)
{
    const json *every = NULL;
    size_t length = stem(call);
    for (const json *order = json_first(orders); order != NULL; order = order->next) {
        if (stem(order->key) == length && strncmp(order->key, call, length) == 0)
            return order;
        if (own && strcmp(order->key, "*") == 0)
            every = order;
    }
    return every;
}

static const json *ordered(const char *kind, const char *call, const json *device, bool own)
{
    const json *order = find_order(json_get(device, kind), call, own);
    return order != NULL ? order : find_order(machine_get(kind), call, own);
}

int ordered_error(const char *call, const json *device, bool own)
{
    return (int)json_as_number(ordered("errors", call, device, own), 0);
}

void log_call(const char *call, int code)
{
    const char *path = getenv("NFD_TEST_NVML_LOG");
    char line[128];
    int file = path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0)
        return;
    int length = snprintf(line, sizeof line, "%s %d\n", call, code);
    if (write(file, line, (size_t)length) != length)
        fprintf(stderr, "NFD_TEST_NVML_LOG: %s: %s\n", path, strerror(errno));
    close(file);
}

static void hang(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds};
    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

int begin_call(const char *call, const json *device, bool own)
{
    int code = ordered_error(call, device, own);
    double seconds = json_as_seconds(ordered("hang", call, device, own));
    log_call(call, code);
    if (seconds > 0)
        hang(seconds);
    return code;
}

bool compute_capability(const json *device, int *major, int *minor)
{
    const char *text = json_text(device, "compute", NULL);
    *minor = 0;
    return text != NULL && sscanf(text, "%d.%d", major, minor) >= 1;
}

bool memory_bytes(const json *device, uint64_t *total)
{
    if (json_get(device, "memory_bytes") == NULL && json_get(device, "memory_mib") == NULL)
        return false;
    *total = json_number(device, "memory_bytes", json_number(device, "memory_mib", 0) << 20);
    return true;
}

void parse_uuid(const char *text, unsigned char bytes[16])
{
    char digits[3] = "";
    size_t count = 0;
    memset(bytes, 0, 16);
    if (strncmp(text, "GPU-", 4) == 0 || strncmp(text, "MIG-", 4) == 0)
        text += 4;
    for (; *text != '\0' && count < 32; text++) {
        if (!isxdigit((unsigned char)*text))
            continue;
        digits[count % 2] = *text;
        if (count++ % 2 == 1)
            bytes[count / 2 - 1] = (unsigned char)strtoul(digits, NULL, 16);
    }
}
