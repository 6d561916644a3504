/* What a GPU is: name, memory, compute capability, fabric, and the modes it is in. */
#include "devices.h"

#include <stdio.h>
#include <string.h>

int nvmlDeviceGetName(const struct device *device, char *name, unsigned size)
{
    char mig_name[2 * NAME_SIZE];
    ENTER(device, device, name);
    const char *text = json_text(gpu_of(device)->facts, "name", NULL);
    if (text == NULL)
        return NVML_NOT_SUPPORTED;
    snprintf(mig_name, sizeof mig_name, "%s MIG %s", text, json_text(device->facts, "profile", ""));
    return copy_text(name, size, device->parent == NULL ? text : mig_name);
}

/* Of a MIG device: the memory of its GPU instance. */
static bool total_memory(const struct device *device, uint64_t *total)
{
    if (device->parent == NULL)
        return memory_bytes(device->facts, total);
    *total = json_number(device->facts, "memory_mb", 0) << 20;
    return true;
}

/* Here the reserved part counts as used, as it does for the driver. */
int nvmlDeviceGetMemoryInfo(const struct device *device, struct memory *memory)
{
    uint64_t total, reserved;
    ENTER(device, device, memory);
    if (!total_memory(device, &total))
        return NVML_NOT_SUPPORTED;
    reserved = json_number(device->facts, "reserved_bytes", 0);
    *memory = (struct memory){.total = total, .free = total - reserved, .used = reserved};
    return NVML_SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(const struct device *device, struct memory_v2 *memory)
{
    uint64_t total, reserved;
    ENTER(device, device, memory);
    if (memory->version != VERSION_WORD(2, struct memory_v2))
        return NVML_VERSION_MISMATCH;
    if (!total_memory(device, &total))
        return NVML_NOT_SUPPORTED;
    reserved = json_number(device->facts, "reserved_bytes", 0);
    memory->total = total;
    memory->reserved = reserved;
    memory->free = total - reserved;
    memory->used = 0;
    return NVML_SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(const struct device *device, int *major, int *minor)
{
    ENTER(device, device, major);
    if (minor == NULL)
        return NVML_INVALID_ARGUMENT;
    return compute_capability(gpu_of(device)->facts, major, minor) ? NVML_SUCCESS : NVML_NOT_SUPPORTED;
}

int nvmlDeviceGetBrand(const struct device *device, unsigned *brand)
{
    ENTER(device, device, brand);
    *brand = (unsigned)json_number(gpu_of(device)->facts, "brand", 14);
    return NVML_SUCCESS;
}

static unsigned architecture_of(int major, int minor)
{
    static const struct {
        int major, minor;
        unsigned architecture;
    } since[] = {{13, 0, 13}, {10, 0, 10}, {9, 0, 9}, {8, 9, 8}, {8, 0, 7}, {7, 5, 6}, {7, 0, 5}, {6, 0, 4},
                 {5, 0, 3},   {3, 0, 2}};
    for (size_t i = 0; i < sizeof since / sizeof *since; i++)
        if (major > since[i].major || (major == since[i].major && minor >= since[i].minor))
            return since[i].architecture;
    return 0xFFFFFFFF;
}

int nvmlDeviceGetArchitecture(const struct device *device, unsigned *architecture)
{
    int major = 0, minor = 0;
    ENTER(device, device, architecture);
    const json *facts = gpu_of(device)->facts;
    compute_capability(facts, &major, &minor);
    *architecture = (unsigned)json_number(facts, "architecture", architecture_of(major, minor));
    return NVML_SUCCESS;
}

int nvmlDeviceGetAddressingMode(const struct device *device, struct addressing_mode *mode)
{
    ENTER(device, device, mode);
    if (mode->version != VERSION_WORD(1, struct addressing_mode))
        return NVML_VERSION_MISMATCH;
    mode->value = 0;
    return NVML_SUCCESS;
}

int nvmlDeviceGetVirtualizationMode(const struct device *device, unsigned *mode)
{
    ENTER(device, device, mode);
    *mode = 0;
    return NVML_SUCCESS;
}

/* Fabric of a GPU; false if it is on none. */
static bool fabric_of(const struct device *device, struct fabric_info *info)
{
    const json *fabric = json_get(device->facts, "fabric");
    if (fabric == NULL)
        return false;
    parse_uuid(json_text(fabric, "cluster_uuid", ""), info->cluster_uuid);
    info->status = (unsigned)json_number(fabric, "status", 0);
    info->clique = (unsigned)json_number(fabric, "clique", 0);
    info->state = (unsigned char)json_number(fabric, "state", 3);
    return true;
}

/* `state` is one byte in these structs: the three after it are the caller's and stay as they are. */
int nvmlDeviceGetGpuFabricInfo(const struct device *device, struct fabric_info *info)
{
    ENTER(device, device, info);
    return fabric_of(device, info) ? NVML_SUCCESS : NVML_NOT_SUPPORTED;
}

int nvmlDeviceGetGpuFabricInfoV(const struct device *device, struct fabric_info_v2 *info)
{
    struct fabric_info fabric;
    ENTER(device, device, info);
    bool third = info->version == VERSION_WORD(3, struct fabric_info_v3);
    const json *facts = json_get(device->facts, "fabric");
    if (!third && info->version != VERSION_WORD(2, struct fabric_info_v2))
        return NVML_VERSION_MISMATCH;
    if (third && json_number(facts, "newest", 3) < 3) /* a driver that knows version 2 alone */
        return NVML_VERSION_MISMATCH;
    if (!fabric_of(device, &fabric))
        return NVML_NOT_SUPPORTED;
    memcpy(info->cluster_uuid, fabric.cluster_uuid, sizeof fabric.cluster_uuid);
    info->status = fabric.status;
    info->clique = fabric.clique;
    info->state = fabric.state;
    info->health_mask = (unsigned)json_number(facts, "health_mask", 0);
    if (third)
        ((struct fabric_info_v3 *)info)->health_summary = (unsigned char)json_number(facts, "health", 0);
    return NVML_SUCCESS;
}

/* Calls that no GPU of these machines supports. Further arguments are the caller's and are not looked at. */
#define UNSUPPORTED(name) \
    int name(const struct device *device) \
    { \
        ENTER(device, device, ""); \
        return NVML_NOT_SUPPORTED; \
    }

UNSUPPORTED(nvmlDeviceGetHostVgpuMode)
UNSUPPORTED(nvmlDeviceGetSerial)
UNSUPPORTED(nvmlDeviceGetBoardId)
UNSUPPORTED(nvmlDeviceGetBoardPartNumber)
UNSUPPORTED(nvmlDeviceGetComputeMode)
UNSUPPORTED(nvmlDeviceGetPersistenceMode)
UNSUPPORTED(nvmlDeviceGetDisplayMode)
UNSUPPORTED(nvmlDeviceGetDisplayActive)
UNSUPPORTED(nvmlDeviceGetEccMode)
UNSUPPORTED(nvmlDeviceGetNumaNodeId)
UNSUPPORTED(nvmlDeviceGetNumGpuCores)
UNSUPPORTED(nvmlDeviceGetMemoryBusWidth)
UNSUPPORTED(nvmlDeviceGetBAR1MemoryInfo)
UNSUPPORTED(nvmlDeviceGetModuleId)
UNSUPPORTED(nvmlDeviceGetPlatformInfo)
