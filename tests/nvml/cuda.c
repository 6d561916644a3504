/* The part of the CUDA driver library (libcuda.so.1) that tells about devices. Same machine, CUDA's codes. */
#include "machine.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    CUDA_SUCCESS = 0,
    CUDA_INVALID_VALUE = 1,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_DEVICE = 101,
    CUDA_NOT_SUPPORTED = 801,
    CUDA_UNKNOWN = 999,
};

enum { COMPUTE_MAJOR = 75, COMPUTE_MINOR = 76 };

static bool ready;

static const json *facts_of(int device)
{
    const json *facts = device < 0 ? NULL : json_first(machine_get("devices"));
    for (; facts != NULL && device > 0; device--)
        facts = facts->next;
    return facts;
}

/* Start of a call on a device: the code to return at once, 0 to go on with its facts. */
static int enter(const char *call, int device, const void *out, const json **facts)
{
    if (!ready) {
        log_call(call, CUDA_NOT_INITIALIZED);
        return CUDA_NOT_INITIALIZED;
    }
    *facts = facts_of(device);
    int code = begin_call(call, *facts, false);
    if (code != CUDA_SUCCESS)
        return code;
    return out == NULL ? CUDA_INVALID_VALUE : *facts == NULL ? CUDA_INVALID_DEVICE : CUDA_SUCCESS;
}

#define ENTER(device, out) \
    const json *facts; \
    int entered = enter(__func__, device, out, &facts); \
    if (entered != CUDA_SUCCESS) \
        return entered

int cuInit(unsigned flags)
{
    if (flags != 0)
        return CUDA_INVALID_VALUE;
    if (!machine_step())
        return CUDA_UNKNOWN;
    int code = begin_call(__func__, NULL, false);
    if (code == CUDA_SUCCESS && json_count(machine_get("devices")) == 0)
        code = CUDA_NO_DEVICE;
    ready = ready || code == CUDA_SUCCESS;
    return code;
}

/* Works before cuInit. */
int cuDriverGetVersion(int *version)
{
    if (!machine_peek())
        return CUDA_UNKNOWN;
    int code = begin_call(__func__, NULL, false);
    if (code == CUDA_SUCCESS && version == NULL)
        code = CUDA_INVALID_VALUE;
    if (code == CUDA_SUCCESS)
        *version = (int)machine_number("cuda", 13000);
    return code;
}

int cuDeviceGetCount(int *count)
{
    if (!ready) {
        log_call(__func__, CUDA_NOT_INITIALIZED);
        return CUDA_NOT_INITIALIZED;
    }
    int code = begin_call(__func__, NULL, false);
    if (code == CUDA_SUCCESS && count == NULL)
        code = CUDA_INVALID_VALUE;
    if (code == CUDA_SUCCESS)
        *count = (int)json_count(machine_get("devices"));
    return code;
}

int cuDeviceGet(int *device, int ordinal)
{
    ENTER(ordinal, device);
    *device = ordinal;
    return CUDA_SUCCESS;
}

int cuDeviceGetName(char *name, int size, int device)
{
    ENTER(device, name);
    if (size <= 0)
        return CUDA_INVALID_VALUE;
    snprintf(name, (size_t)size, "%s", json_text(facts, "cuda_name", json_text(facts, "name", "")));
    return CUDA_SUCCESS;
}

static bool total_memory(const json *facts, uint64_t *total)
{
    if (json_get(facts, "cuda_memory_bytes") == NULL)
        return memory_bytes(facts, total);
    *total = json_number(facts, "cuda_memory_bytes", 0);
    return true;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    uint64_t total;
    ENTER(device, bytes);
    if (!total_memory(facts, &total))
        return CUDA_NOT_SUPPORTED;
    *bytes = (size_t)total;
    return CUDA_SUCCESS;
}

/* The symbol of CUDA 3.1 and before: 32 bits, and no more than they hold. */
int cuDeviceTotalMem(unsigned *bytes, int device)
{
    uint64_t total;
    ENTER(device, bytes);
    if (!total_memory(facts, &total))
        return CUDA_NOT_SUPPORTED;
    *bytes = total > UINT32_MAX ? UINT32_MAX : (unsigned)total;
    return CUDA_SUCCESS;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    int major, minor;
    ENTER(device, value);
    if (attribute != COMPUTE_MAJOR && attribute != COMPUTE_MINOR)
        return CUDA_INVALID_VALUE;
    if (!compute_capability(facts, &major, &minor))
        return CUDA_NOT_SUPPORTED;
    *value = attribute == COMPUTE_MAJOR ? major : minor;
    return CUDA_SUCCESS;
}

static void uuid_of(const json *facts, int device, unsigned char uuid[16])
{
    char made[64];
    snprintf(made, sizeof made, "GPU-5f6e6664-0000-4000-8000-%012x", (unsigned)device + 1);
    parse_uuid(json_text(facts, "uuid", made), uuid);
}

int cuDeviceGetUuid(unsigned char *uuid, int device)
{
    ENTER(device, uuid);
    uuid_of(facts, device, uuid);
    return CUDA_SUCCESS;
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device)
{
    ENTER(device, uuid);
    uuid_of(facts, device, uuid);
    return CUDA_SUCCESS;
}
