/* Handles of the NVML library: GPUs, their MIG devices, and the instances these consist of. */
#ifndef NFD_TEST_DEVICES_H
#define NFD_TEST_DEVICES_H

#include "abi.h"
#include "machine.h"

/* A GPU instance is known by the first MIG device in it, a compute instance by its MIG device. */
struct instance {
    struct device *mig;
};

struct device {
    const json *facts;
    unsigned index;
    struct device *parent; /* the GPU, of a MIG device */
    struct device *mig;    /* MIG devices, of a GPU */
    size_t mig_count;
    struct instance gpu_instance, compute_instance;
};

struct devices {
    struct device *list;
    size_t count;
};

/* The devices of the present state; handles of an earlier one are no longer valid. */
const struct devices *devices(void);
void load_devices(void);

/* NVML is initialised now. */
bool initialised(void);

/* Start of a call: the code to return at once, 0 to go on. One for the library as a whole, one on a device's handle,
 * one on an instance's (with its MIG device's own orders), each with a pointer that must not be NULL. */
int enter_library(const char *call, const void *out);
int enter_device(const char *call, const struct device *device, const void *out);
int enter_instance(const char *call, const struct instance *instance, const void *out);

#define ENTER(kind, ...) \
    do { \
        int entered = enter_##kind(__func__, __VA_ARGS__); \
        if (entered != NVML_SUCCESS) \
            return entered; \
    } while (0)

/* The GPU of a MIG device; a GPU itself. */
const struct device *gpu_of(const struct device *device);

/* UUID as text, made from the index where the machine gives none. */
void device_uuid(const struct device *device, char text[NAME_SIZE]);

int copy_text(char *buffer, unsigned size, const char *text);

#endif
