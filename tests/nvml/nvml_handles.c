/* From a count, an index, a UUID or a bus id to a GPU's handle; and which GPU a handle stands for. */
#include "devices.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

int nvmlDeviceGetCount_v2(unsigned *count)
{
    ENTER(library, count);
    *count = (unsigned)devices()->count;
    return NVML_SUCCESS;
}

int nvmlDeviceGetCount(unsigned *count)
{
    ENTER(library, count);
    *count = (unsigned)devices()->count;
    return NVML_SUCCESS;
}

/* Hand out a handle, or the error that the found device gives for it by any of the ways to get one. */
static int hand_out(const char *call, struct device *found, int not_found, struct device **device)
{
    static const char by_index[] = "nvmlDeviceGetHandleByIndex", mig_by_index[] = "nvmlDeviceGetMigDeviceHandleByIndex";
    ENTER(library, device);
    if (found == NULL)
        return not_found;
    int code = ordered_error(call, found->facts, false);
    if (code == NVML_SUCCESS)
        code = ordered_error(by_index, found->facts, false);
    if (code == NVML_SUCCESS && found->parent != NULL)
        code = ordered_error(mig_by_index, found->facts, false);
    if (code == NVML_SUCCESS)
        *device = found;
    return code;
}

static struct device *at_index(unsigned index)
{
    return index < devices()->count ? &devices()->list[index] : NULL;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **device)
{
    return hand_out(__func__, at_index(index), NVML_INVALID_ARGUMENT, device);
}

int nvmlDeviceGetHandleByIndex(unsigned index, struct device **device)
{
    return hand_out(__func__, at_index(index), NVML_INVALID_ARGUMENT, device);
}

static struct device *with_uuid(struct device *list, size_t count, const char *uuid)
{
    char text[NAME_SIZE];
    for (size_t i = 0; i < count; i++) {
        device_uuid(&list[i], text);
        if (strcasecmp(text, uuid) == 0)
            return &list[i];
        struct device *mig = with_uuid(list[i].mig, list[i].mig_count, uuid);
        if (mig != NULL)
            return mig;
    }
    return NULL;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **device)
{
    struct device *found = uuid == NULL ? NULL : with_uuid(devices()->list, devices()->count, uuid);
    return hand_out(__func__, found, uuid == NULL ? NVML_INVALID_ARGUMENT : NVML_NOT_FOUND, device);
}

struct address {
    unsigned domain, bus, device, function;
};

/* `domain:bus:device.function`, the domain with any number of digits or left out; upper or lower case. */
static bool parse_address(const char *text, struct address *out)
{
    *out = (struct address){0};
    if (sscanf(text, "%x:%x:%x.%x", &out->domain, &out->bus, &out->device, &out->function) >= 3)
        return true;
    *out = (struct address){0};
    return sscanf(text, "%x:%x.%x", &out->bus, &out->device, &out->function) == 3;
}

static struct device *with_address(const struct address *wanted)
{
    struct address address;
    for (size_t i = 0; i < devices()->count; i++) {
        const char *bus_id = json_text(json_get(devices()->list[i].facts, "pci"), "bus_id", NULL);
        if (bus_id != NULL && parse_address(bus_id, &address) && memcmp(&address, wanted, sizeof address) == 0)
            return &devices()->list[i];
    }
    return NULL;
}

static int by_bus_id(const char *call, const char *bus_id, struct device **device)
{
    struct address wanted;
    bool valid = bus_id != NULL && parse_address(bus_id, &wanted);
    return hand_out(call, valid ? with_address(&wanted) : NULL, valid ? NVML_NOT_FOUND : NVML_INVALID_ARGUMENT, device);
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, struct device **device)
{
    return by_bus_id(__func__, bus_id, device);
}

int nvmlDeviceGetHandleByPciBusId(const char *bus_id, struct device **device)
{
    return by_bus_id(__func__, bus_id, device);
}

int nvmlDeviceGetIndex(const struct device *device, unsigned *index)
{
    ENTER(device, device, index);
    *index = device->index;
    return NVML_SUCCESS;
}

int nvmlDeviceGetMinorNumber(const struct device *device, unsigned *minor)
{
    ENTER(device, device, minor);
    if (device->parent != NULL)
        return NVML_NOT_SUPPORTED;
    *minor = (unsigned)json_number(device->facts, "minor", device->index);
    return NVML_SUCCESS;
}

int nvmlDeviceGetUUID(const struct device *device, char *uuid, unsigned size)
{
    char text[NAME_SIZE];
    ENTER(device, device, uuid);
    device_uuid(device, text);
    return copy_text(uuid, size, text);
}

static unsigned pci_id(const json *pci, const char *key)
{
    uint64_t id = json_hex(pci, key, 0);
    return (unsigned)(id > 0xFFFF || json_get(pci, key) == NULL ? id : id << 16 | json_hex(pci, "vendor", 0x10DE));
}

static bool pci_info(const struct device *device, struct pci_info_v3 *info)
{
    const json *pci = json_get(gpu_of(device)->facts, "pci");
    const char *bus_id = json_text(pci, "bus_id", "00000000:00:00.0");
    struct address address = {0};
    if (pci == NULL || !parse_address(bus_id, &address))
        return false;
    memset(info, 0, sizeof *info);
    info->domain = address.domain;
    info->bus = address.bus;
    info->device = address.device;
    info->device_id = pci_id(pci, "device");
    info->subsystem_id = pci_id(pci, "subsystem");
    snprintf(info->bus_id, sizeof info->bus_id, "%s", bus_id);
    snprintf(info->legacy_bus_id, sizeof info->legacy_bus_id, "%04X:%02X:%02X.0", address.domain & 0xFFFF,
             address.bus & 0xFF, address.device & 0xFF);
    return true;
}

int nvmlDeviceGetPciInfo_v3(const struct device *device, struct pci_info_v3 *out)
{
    ENTER(device, device, out);
    return pci_info(device, out) ? NVML_SUCCESS : NVML_NOT_SUPPORTED;
}

static int old_pci_info(const struct device *device, struct pci_info_v2 *out)
{
    struct pci_info_v3 info;
    if (!pci_info(device, &info))
        return NVML_NOT_SUPPORTED;
    *out = (struct pci_info_v2){.domain = info.domain, .bus = info.bus, .device = info.device,
                                .device_id = info.device_id, .subsystem_id = info.subsystem_id};
    memcpy(out->bus_id, info.legacy_bus_id, sizeof out->bus_id);
    return NVML_SUCCESS;
}

int nvmlDeviceGetPciInfo_v2(const struct device *device, struct pci_info_v2 *out)
{
    ENTER(device, device, out);
    return old_pci_info(device, out);
}

int nvmlDeviceGetPciInfo(const struct device *device, struct pci_info_v2 *out)
{
    ENTER(device, device, out);
    return old_pci_info(device, out);
}
