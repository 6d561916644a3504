#include "devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct devices current;

const struct devices *devices(void)
{
    return &current;
}

static struct device *load_list(const json *list, struct device *parent)
{
    struct device *loaded = calloc(json_count(list) + 1, sizeof *loaded);
    unsigned index = 0;
    for (const json *facts = json_first(list); facts != NULL && loaded != NULL; facts = facts->next, index++) {
        struct device *device = &loaded[index];
        const json *mig = parent == NULL ? json_get(json_get(facts, "mig"), "devices") : NULL;
        *device = (struct device){.facts = facts, .index = index, .parent = parent};
        device->gpu_instance.mig = device->compute_instance.mig = device;
        device->mig_count = json_count(mig);
        device->mig = load_list(mig, device);
    }
    return loaded;
}

void load_devices(void)
{
    const json *list = machine_get("devices");
    current = (struct devices){.list = load_list(list, NULL), .count = json_count(list)};
}

static bool is_instance_of(const struct device *mig, const struct instance *instance)
{
    return &mig->gpu_instance == instance || &mig->compute_instance == instance;
}

static bool is_known(const struct device *wanted, const struct instance *instance)
{
    for (size_t i = 0; i < current.count; i++) {
        const struct device *gpu = &current.list[i];
        if (gpu == wanted)
            return true;
        for (size_t j = 0; j < gpu->mig_count; j++)
            if (&gpu->mig[j] == wanted || (instance != NULL && is_instance_of(&gpu->mig[j], instance)))
                return true;
    }
    return false;
}

int enter_library(const char *call, const void *out)
{
    if (!initialised()) {
        log_call(call, NVML_UNINITIALIZED);
        return NVML_UNINITIALIZED;
    }
    int code = begin_call(call, NULL, false);
    return code == NVML_SUCCESS && out == NULL ? NVML_INVALID_ARGUMENT : code;
}

int enter_device(const char *call, const struct device *device, const void *out)
{
    if (!initialised() || device == NULL || !is_known(device, NULL)) {
        log_call(call, initialised() ? NVML_INVALID_ARGUMENT : NVML_UNINITIALIZED);
        return initialised() ? NVML_INVALID_ARGUMENT : NVML_UNINITIALIZED;
    }
    int code = begin_call(call, device->facts, true);
    return code == NVML_SUCCESS && out == NULL ? NVML_INVALID_ARGUMENT : code;
}

int enter_instance(const char *call, const struct instance *instance, const void *out)
{
    if (!initialised() || instance == NULL || !is_known(NULL, instance)) {
        log_call(call, initialised() ? NVML_INVALID_ARGUMENT : NVML_UNINITIALIZED);
        return initialised() ? NVML_INVALID_ARGUMENT : NVML_UNINITIALIZED;
    }
    int code = begin_call(call, instance->mig->parent->facts, false);
    if (code == NVML_SUCCESS)
        code = ordered_error(call, instance->mig->facts, false);
    return code == NVML_SUCCESS && out == NULL ? NVML_INVALID_ARGUMENT : code;
}

const struct device *gpu_of(const struct device *device)
{
    return device->parent != NULL ? device->parent : device;
}

void device_uuid(const struct device *device, char text[NAME_SIZE])
{
    const char *given = json_text(device->facts, "uuid", NULL);
    if (given != NULL)
        snprintf(text, NAME_SIZE, "%s", given);
    else if (device->parent != NULL)
        snprintf(text, NAME_SIZE, "MIG-5f6e6664-0000-4000-8000-%06x%06x", device->parent->index + 1, device->index + 1);
    else
        snprintf(text, NAME_SIZE, "GPU-5f6e6664-0000-4000-8000-%012x", device->index + 1);
}

int copy_text(char *buffer, unsigned size, const char *text)
{
    if (buffer == NULL)
        return NVML_INVALID_ARGUMENT;
    if (strlen(text) >= size)
        return NVML_INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return NVML_SUCCESS;
}
