/* How a GPU is: recovery action, row remapping, NVLinks, PCIe link, firmware. What a machine does not say is code 3. */
#include "devices.h"

#include <stdio.h>
#include <string.h>

enum { RECOVERY_ACTION = 230, REMAP_PENDING = 144, REMAP_FAILURE = 145, TYPE_UNSIGNED = 1, MAX_LINKS = 36 };

/* A field that is ordered to fail (`field_errors`: id → code) says so in its own return code. */
static int field_value(const json *facts, struct field_value *field)
{
    const json *remap = json_get(facts, "remap");
    const json *value = NULL;
    char id[16];
    snprintf(id, sizeof id, "%u", field->id);
    int code = (int)json_number(json_get(facts, "field_errors"), id, 0);
    if (code != NVML_SUCCESS)
        return code;
    if (field->id == RECOVERY_ACTION)
        value = json_get(facts, "recovery");
    if (field->id == REMAP_PENDING)
        value = json_get(remap, "pending");
    if (field->id == REMAP_FAILURE)
        value = json_get(remap, "failed");
    if (value == NULL)
        return NVML_NOT_SUPPORTED;
    field->type = TYPE_UNSIGNED;
    field->value.number = (unsigned)json_as_number(value, 0);
    return NVML_SUCCESS;
}

int nvmlDeviceGetFieldValues(const struct device *device, int count, struct field_value *values)
{
    ENTER(device, device, values);
    for (int i = 0; i < count; i++)
        values[i].code = (unsigned)field_value(device->facts, &values[i]);
    return NVML_SUCCESS;
}

int nvmlDeviceGetUnrepairableMemoryFlag_v1(const struct device *device, struct unrepairable_memory *memory)
{
    ENTER(device, device, memory);
    if (memory->version != VERSION_WORD(1, struct unrepairable_memory))
        return NVML_VERSION_MISMATCH;
    if (json_get(device->facts, "unrepairable") == NULL)
        return NVML_NOT_SUPPORTED;
    memory->unrepairable = (unsigned)json_number(device->facts, "unrepairable", 0);
    return NVML_SUCCESS;
}

/* `nvlinks` is a list with an object for each link: `up`, `version`, `peer` (0 GPU, 1 NPU, 2 switch), `bus_id`. */
static int find_link(const struct device *device, unsigned link, const json **found)
{
    const json *links = json_get(device->facts, "nvlinks");
    if (links == NULL)
        return NVML_NOT_SUPPORTED;
    *found = json_first(links);
    for (unsigned i = 0; i < link && *found != NULL; i++)
        *found = (*found)->next;
    return *found == NULL || link >= MAX_LINKS ? NVML_INVALID_ARGUMENT : NVML_SUCCESS;
}

static int link_number(const struct device *device, unsigned link, const char *key, unsigned fallback, unsigned *value)
{
    const json *found;
    int code = find_link(device, link, &found);
    if (code == NVML_SUCCESS)
        *value = (unsigned)json_number(found, key, fallback);
    return code;
}

int nvmlDeviceGetNvLinkState(const struct device *device, unsigned link, unsigned *active)
{
    ENTER(device, device, active);
    return link_number(device, link, "up", 1, active);
}

int nvmlDeviceGetNvLinkVersion(const struct device *device, unsigned link, unsigned *version)
{
    ENTER(device, device, version);
    return link_number(device, link, "version", 6, version);
}

int nvmlDeviceGetNvLinkRemoteDeviceType(const struct device *device, unsigned link, unsigned *type)
{
    ENTER(device, device, type);
    return link_number(device, link, "peer", 2, type);
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(const struct device *device, unsigned link, struct pci_info_v3 *info)
{
    const json *found;
    ENTER(device, device, info);
    int code = find_link(device, link, &found);
    if (code != NVML_SUCCESS)
        return code;
    memset(info, 0, sizeof *info);
    snprintf(info->bus_id, sizeof info->bus_id, "%s", json_text(found, "bus_id", "00000000:05:00.0"));
    return NVML_SUCCESS;
}

static int pcie_number(const struct device *device, const char *key, unsigned *value)
{
    const json *pcie = json_get(device->facts, "pcie");
    if (pcie == NULL)
        return NVML_NOT_SUPPORTED;
    *value = (unsigned)json_number(pcie, key, 16);
    return NVML_SUCCESS;
}

int nvmlDeviceGetCurrPcieLinkWidth(const struct device *device, unsigned *width)
{
    ENTER(device, device, width);
    return pcie_number(device, "width", width);
}

int nvmlDeviceGetMaxPcieLinkWidth(const struct device *device, unsigned *width)
{
    ENTER(device, device, width);
    return pcie_number(device, "max", width);
}

static int firmware(const struct device *device, const char *key, char *version, unsigned size)
{
    const char *text = json_text(device->facts, key, NULL);
    return text == NULL ? NVML_NOT_SUPPORTED : copy_text(version, size, text);
}

int nvmlDeviceGetVbiosVersion(const struct device *device, char *version, unsigned size)
{
    ENTER(device, device, version);
    return firmware(device, "vbios", version, size);
}

/* The caller's buffer has 64 bytes (NVML_GSP_FIRMWARE_VERSION_BUF_SIZE). */
int nvmlDeviceGetGspFirmwareVersion(const struct device *device, char *version)
{
    ENTER(device, device, version);
    return firmware(device, "gsp", version, 64);
}
