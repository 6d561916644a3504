/* Event sets: what the machine's `events` list beyond its length at the time a set was made, in their order.
 *
 * An event is {"device": index, "xid": number}; also `type`, `gi` and `ci`. A device supports what its `event_types` say
 * (Xids if it says nothing). The file is looked at again while a wait lasts, so that a test adds events at run time. As
 * NVML's, a wait that a signal interrupts ends as after its time.
 */
#include "devices.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

enum { XID_CRITICAL_ERROR = 8, STEP_MS = 10 };

#define WHOLE_DEVICE 0xFFFFFFFFu

struct event_set {
    size_t taken;            /* events of the file that are over */
    unsigned long long *mask; /* of each device, what is registered */
};

int nvmlEventSetCreate(struct event_set **set)
{
    ENTER(library, set);
    *set = calloc(1, sizeof **set);
    (*set)->mask = calloc(devices()->count + 1, sizeof *(*set)->mask);
    (*set)->taken = json_count(machine_now("events"));
    return NVML_SUCCESS;
}

int nvmlEventSetFree(struct event_set *set)
{
    ENTER(library, set);
    free(set->mask);
    free(set);
    return NVML_SUCCESS;
}

int nvmlDeviceGetSupportedEventTypes(const struct device *device, unsigned long long *types)
{
    ENTER(device, device, types);
    *types = json_number(device->facts, "event_types", XID_CRITICAL_ERROR);
    return NVML_SUCCESS;
}

int nvmlDeviceRegisterEvents(const struct device *device, unsigned long long types, struct event_set *set)
{
    ENTER(device, device, set);
    if ((types & ~json_number(device->facts, "event_types", XID_CRITICAL_ERROR)) != 0)
        return NVML_NOT_SUPPORTED;
    set->mask[device->index] |= types;
    return NVML_SUCCESS;
}

/* The next event that the set is registered for. */
static bool take_event(struct event_set *set, struct event_data *data)
{
    const json *event = json_first(machine_now("events"));
    for (size_t i = 0; event != NULL; event = event->next, i++) {
        uint64_t device = json_number(event, "device", 0);
        unsigned long long type = json_number(event, "type", XID_CRITICAL_ERROR);
        if (i < set->taken)
            continue;
        set->taken++;
        if (device >= devices()->count || (set->mask[device] & type) == 0)
            continue;
        *data = (struct event_data){
            .device = &devices()->list[device],
            .type = type,
            .data = json_number(event, "xid", 0),
            .gpu_instance = (unsigned)json_number(event, "gi", WHOLE_DEVICE),
            .compute_instance = (unsigned)json_number(event, "ci", WHOLE_DEVICE),
        };
        return true;
    }
    return false;
}

int nvmlEventSetWait_v2(struct event_set *set, struct event_data *data, unsigned milliseconds)
{
    ENTER(library, data);
    struct timespec step = {.tv_nsec = STEP_MS * 1000000L};
    for (unsigned waited = 0; !take_event(set, data); waited += STEP_MS)
        if (waited >= milliseconds || (nanosleep(&step, NULL) != 0 && errno == EINTR))
            return NVML_TIMEOUT;
    return NVML_SUCCESS;
}
