/* MIG profiles: what instances of each kind are like. Known are those that the machine lists (`mig.profiles`) and those
 * that its MIG devices were made from. */
#include "devices.h"
#include "mig.h"

#include <stdio.h>
#include <string.h>

#define GI_NUMBERS 17 /* for a number from here on that nothing has, driver 580 says "invalid" */
#define CI_NUMBERS 9

/* The name as the driver has it, "MIG 1g.18gb". A GPU instance's has no "1c." before it. */
static void profile_name(const char *name, bool compute, char out[NAME_SIZE])
{
    memset(out, 0, NAME_SIZE);
    if (strncmp(name, "MIG ", 4) == 0)
        name += 4;
    size_t digits = strspn(name, "0123456789");
    if (!compute && strncmp(name + digits, "c.", 2) == 0)
        name += digits + 2;
    snprintf(out, NAME_SIZE, "%s%s", *name == '\0' ? "" : "MIG ", name);
}

static struct gi_profile_v2 describe_gi_profile(const json *facts, unsigned id, unsigned slices, unsigned instances)
{
    const json *engines = json_get(facts, "engines");
    struct gi_profile_v2 profile = {
        .id = id,
        .slices = slices,
        .instances = instances,
        .multiprocessors = number(facts, "multiprocessors", 0),
        .copy = number(engines, "copy", 0),
        .decoder = number(engines, "decoder", 0),
        .encoder = number(engines, "encoder", 0),
        .jpeg = number(engines, "jpeg", 0),
        .ofa = number(engines, "ofa", 0),
        .memory_mb = json_number(facts, "memory_mb", 0),
    };
    profile_name(json_text(facts, "name", json_text(facts, "profile", "")), false, profile.name);
    return profile;
}

/* The profile whose number (or id, as `by_id` has it) is wanted; what the machine lists comes first. */
static int find_gi_profile(const struct device *device, unsigned wanted, bool by_id, struct gi_profile_v2 *found)
{
    const json *mig = json_get(device->facts, "mig");
    if (mig == NULL)
        return NVML_NOT_SUPPORTED;
    const json *listed = json_first(json_get(mig, "profiles"));
    for (; listed != NULL; listed = listed->next) {
        if (number(listed, by_id ? "id" : "enum", 0) != wanted)
            continue;
        unsigned slices = number(listed, "slices", 1);
        *found = describe_gi_profile(listed, number(listed, "id", 0), slices, number(listed, "max", 1));
        return NVML_SUCCESS;
    }
    for (size_t i = 0; i < device->mig_count; i++) {
        const json *facts = device->mig[i].facts;
        if (number(facts, by_id ? "gi_profile_id" : "gi_enum", 0) != wanted)
            continue;
        unsigned slices = gi_slices(facts), most = slices == 0 ? 1 : number(mig, "max", 7) / slices;
        *found = describe_gi_profile(facts, number(facts, "gi_profile_id", 0), slices, most == 0 ? 1 : most);
        return NVML_SUCCESS;
    }
    return !by_id && wanted >= GI_NUMBERS ? NVML_INVALID_ARGUMENT : NVML_NOT_SUPPORTED;
}

int nvmlDeviceGetGpuInstanceProfileInfo(const struct device *device, unsigned profile, struct gi_profile *info)
{
    struct gi_profile_v2 found;
    ENTER(device, device, info);
    int code = find_gi_profile(device, profile, false, &found);
    if (code == NVML_SUCCESS)
        *info = (struct gi_profile){found.id,     found.p2p,     found.slices,  found.instances, found.multiprocessors,
                                    found.copy,   found.decoder, found.encoder, found.jpeg,      found.ofa,
                                    found.memory_mb};
    return code;
}

static int tell_gi_profile(const struct device *device, unsigned wanted, bool by_id, struct gi_profile_v2 *info)
{
    struct gi_profile_v2 found;
    unsigned version = info->version;
    if (version != VERSION_WORD(2, struct gi_profile_v2))
        return NVML_VERSION_MISMATCH;
    int code = find_gi_profile(device, wanted, by_id, &found);
    if (code == NVML_SUCCESS) {
        *info = found;
        info->version = version;
    }
    return code;
}

int nvmlDeviceGetGpuInstanceProfileInfoV(const struct device *device, unsigned profile, struct gi_profile_v2 *info)
{
    ENTER(device, device, info);
    return tell_gi_profile(device, profile, false, info);
}

int nvmlDeviceGetGpuInstanceProfileInfoByIdV(const struct device *device, unsigned id, struct gi_profile_v2 *info)
{
    ENTER(device, device, info);
    return tell_gi_profile(device, id, true, info);
}

/* The MIG device with that compute-instance profile: in this GPU instance if there is one, else on this GPU. */
static const json *find_ci_profile(const struct instance *instance, unsigned wanted)
{
    const struct device *gpu = instance->mig->parent;
    unsigned gi = gi_id(instance->mig->facts);
    const json *found = NULL;
    for (size_t i = gpu->mig_count; i-- > 0;) {
        const json *facts = gpu->mig[i].facts;
        bool here = gi_id(facts) == gi;
        if (ci_enum(facts) == wanted && (here || found == NULL || gi_id(found) != gi))
            found = facts;
    }
    return found;
}

static int tell_ci_profile(const struct instance *instance, unsigned wanted, unsigned engine, struct ci_profile_v2 *info)
{
    if (wanted >= CI_NUMBERS || engine != 0)
        return NVML_INVALID_ARGUMENT;
    const json *facts = find_ci_profile(instance, wanted), *engines = json_get(facts, "engines");
    if (facts == NULL)
        return NVML_NOT_SUPPORTED;
    unsigned whole = gi_slices(facts), slices = ci_slices(facts);
    info->profile = (struct ci_profile){
        .id = ci_profile_id(facts),
        .slices = slices,
        .instances = slices == 0 || whole < slices ? 1 : whole / slices,
        .multiprocessors = number(facts, "multiprocessors", 0),
        .copy = number(engines, "copy", 0),
        .decoder = number(engines, "decoder", 0),
        .encoder = number(engines, "encoder", 0),
        .jpeg = number(engines, "jpeg", 0),
        .ofa = number(engines, "ofa", 0),
    };
    profile_name(json_text(facts, "profile", ""), true, info->name);
    return NVML_SUCCESS;
}

int nvmlGpuInstanceGetComputeInstanceProfileInfo(const struct instance *instance, unsigned profile, unsigned engine,
                                                 struct ci_profile *info)
{
    struct ci_profile_v2 found;
    ENTER(instance, instance, info);
    int code = tell_ci_profile(instance, profile, engine, &found);
    if (code == NVML_SUCCESS)
        *info = found.profile;
    return code;
}

int nvmlGpuInstanceGetComputeInstanceProfileInfoV(const struct instance *instance, unsigned profile, unsigned engine,
                                                  struct ci_profile_v2 *info)
{
    ENTER(instance, instance, info);
    if (info->version != VERSION_WORD(2, struct ci_profile_v2))
        return NVML_VERSION_MISMATCH;
    return tell_ci_profile(instance, profile, engine, info);
}
