/* MIG: the devices on a GPU, the instances they consist of, and the profiles these were made from. */
#include "devices.h"
#include "mig.h"

static bool mig_enabled(const struct device *device)
{
    return json_number(json_get(device->facts, "mig"), "current", 0) == 1;
}

int nvmlDeviceGetMigMode(const struct device *device, unsigned *current, unsigned *pending)
{
    ENTER(device, device, current);
    const json *mig = json_get(device->facts, "mig");
    if (mig == NULL)
        return NVML_NOT_SUPPORTED;
    *current = number(mig, "current", 0);
    if (pending != NULL)
        *pending = number(mig, "pending", *current);
    return NVML_SUCCESS;
}

static unsigned mig_max(const struct device *device)
{
    return mig_enabled(device) ? number(json_get(device->facts, "mig"), "max", 7) : 0;
}

int nvmlDeviceGetMaxMigDeviceCount(const struct device *device, unsigned *count)
{
    ENTER(device, device, count);
    *count = mig_max(device);
    return NVML_SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(const struct device *device, unsigned index, struct device **mig)
{
    ENTER(device, device, mig);
    if (json_get(device->facts, "mig") == NULL)
        return NVML_NOT_SUPPORTED;
    if (!mig_enabled(device))
        return NVML_NOT_FOUND;
    if (index >= mig_max(device))
        return NVML_INVALID_ARGUMENT;
    for (size_t i = 0; i < device->mig_count; i++) {
        struct device *found = &device->mig[i];
        if (number(found->facts, "index", i) != index)
            continue;
        int code = ordered_error(__func__, found->facts, false);
        if (code == NVML_SUCCESS)
            code = ordered_error("nvmlDeviceGetHandleByIndex", found->facts, false);
        if (code == NVML_SUCCESS)
            *mig = found;
        return code;
    }
    return NVML_NOT_FOUND;
}

int nvmlDeviceIsMigDeviceHandle(const struct device *device, unsigned *is_mig)
{
    ENTER(device, device, is_mig);
    *is_mig = device->parent != NULL;
    return NVML_SUCCESS;
}

int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(const struct device *mig, struct device **device)
{
    ENTER(device, mig, device);
    if (mig->parent == NULL)
        return NVML_INVALID_ARGUMENT;
    *device = mig->parent;
    return NVML_SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(const struct device *mig, unsigned *id)
{
    ENTER(device, mig, id);
    if (mig->parent == NULL)
        return NVML_NOT_SUPPORTED;
    *id = gi_id(mig->facts);
    return NVML_SUCCESS;
}

int nvmlDeviceGetComputeInstanceId(const struct device *mig, unsigned *id)
{
    ENTER(device, mig, id);
    if (mig->parent == NULL)
        return NVML_NOT_SUPPORTED;
    *id = number(mig->facts, "ci", 0);
    return NVML_SUCCESS;
}

int nvmlDeviceGetAttributes_v2(const struct device *mig, struct device_attributes *out)
{
    ENTER(device, mig, out);
    if (mig->parent == NULL)
        return NVML_NOT_SUPPORTED;
    const json *engines = json_get(mig->facts, "engines");
    *out = (struct device_attributes){
        .multiprocessors = number(mig->facts, "multiprocessors", 0),
        .copy = number(engines, "copy", 0),
        .decoder = number(engines, "decoder", 0),
        .encoder = number(engines, "encoder", 0),
        .jpeg = number(engines, "jpeg", 0),
        .ofa = number(engines, "ofa", 0),
        .gi_slices = gi_slices(mig->facts),
        .ci_slices = ci_slices(mig->facts),
        .memory_mb = json_number(mig->facts, "memory_mb", 0),
    };
    return NVML_SUCCESS;
}

int nvmlDeviceGetAttributes(const struct device *mig, struct device_attributes *out)
{
    return nvmlDeviceGetAttributes_v2(mig, out);
}

int nvmlDeviceGetGpuInstanceById(const struct device *device, unsigned id, struct instance **out)
{
    ENTER(device, device, out);
    if (!mig_enabled(device))
        return NVML_NOT_SUPPORTED;
    for (size_t i = 0; i < device->mig_count; i++) {
        struct device *mig = &device->mig[i];
        if (gi_id(mig->facts) != id)
            continue;
        *out = &mig->gpu_instance;
        return ordered_error(__func__, mig->facts, false);
    }
    return NVML_NOT_FOUND;
}

int nvmlGpuInstanceGetComputeInstanceById(const struct instance *instance, unsigned id, struct instance **out)
{
    ENTER(instance, instance, out);
    const struct device *gpu = instance->mig->parent;
    unsigned gi = gi_id(instance->mig->facts);
    for (size_t i = 0; i < gpu->mig_count; i++) {
        struct device *mig = &gpu->mig[i];
        if (gi_id(mig->facts) != gi || number(mig->facts, "ci", 0) != id)
            continue;
        *out = &mig->compute_instance;
        return ordered_error(__func__, mig->facts, false);
    }
    return NVML_NOT_FOUND;
}

int nvmlGpuInstanceGetInfo(const struct instance *instance, struct gi_info *info)
{
    ENTER(instance, instance, info);
    const json *facts = instance->mig->facts;
    *info = (struct gi_info){
        .device = instance->mig->parent,
        .id = gi_id(facts),
        .profile_id = number(facts, "gi_profile_id", 0),
        .placement = {.start = 0, .size = gi_slices(facts)},
    };
    return NVML_SUCCESS;
}

static void describe_compute_instance(const struct instance *instance, struct ci_info *info)
{
    const struct device *mig = instance->mig, *gpu = mig->parent;
    *info = (struct ci_info){
        .device = mig->parent,
        .id = number(mig->facts, "ci", 0),
        .profile_id = ci_profile_id(mig->facts),
    };
    for (size_t i = gpu->mig_count; i-- > 0;)
        if (gi_id(gpu->mig[i].facts) == gi_id(mig->facts))
            info->gpu_instance = &gpu->mig[i].gpu_instance;
}

int nvmlComputeInstanceGetInfo_v2(const struct instance *instance, struct ci_info_v2 *out)
{
    ENTER(instance, instance, out);
    describe_compute_instance(instance, &out->info);
    out->placement = (struct placement){.start = 0, .size = ci_slices(instance->mig->facts)};
    return NVML_SUCCESS;
}

int nvmlComputeInstanceGetInfo(const struct instance *instance, struct ci_info *out)
{
    ENTER(instance, instance, out);
    describe_compute_instance(instance, out);
    return NVML_SUCCESS;
}
