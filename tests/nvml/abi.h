/* Return codes and structs of NVML's C interface, as its API reference has them (natural alignment, LP64). */
#ifndef NFD_TEST_NVML_ABI_H
#define NFD_TEST_NVML_ABI_H

#include <stdint.h>

enum {
    NVML_SUCCESS = 0,
    NVML_UNINITIALIZED = 1,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_TIMEOUT = 10,
    NVML_VERSION_MISMATCH = 25,
    NVML_UNKNOWN = 999,
};

/* The first word of a struct with a version: its number in the top byte, its size below. */
#define VERSION_WORD(number, type) ((unsigned)(number) << 24 | (unsigned)sizeof(type))

#define NAME_SIZE 96

struct memory {
    unsigned long long total, free, used;
};

struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

struct pci_info_v2 {
    char bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id, reserved[4];
};

struct pci_info_v3 {
    char legacy_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct addressing_mode {
    unsigned version, value;
};

struct device_attributes {
    unsigned multiprocessors, copy, decoder, encoder, jpeg, ofa, gi_slices, ci_slices;
    unsigned long long memory_mb;
};

struct gi_profile {
    unsigned id, p2p, slices, instances, multiprocessors, copy, decoder, encoder, jpeg, ofa;
    unsigned long long memory_mb;
};

/* Not `version` before a struct gi_profile: that would be aligned to 8. */
struct gi_profile_v2 {
    unsigned version;
    unsigned id, p2p, slices, instances, multiprocessors, copy, decoder, encoder, jpeg, ofa;
    unsigned long long memory_mb;
    char name[NAME_SIZE];
};

struct ci_profile {
    unsigned id, slices, instances, multiprocessors, copy, decoder, encoder, jpeg, ofa;
};

struct ci_profile_v2 {
    unsigned version;
    struct ci_profile profile;
    char name[NAME_SIZE];
};

struct placement {
    unsigned start, size;
};

struct gi_info {
    void *device;
    unsigned id, profile_id;
    struct placement placement;
};

struct ci_info {
    void *device, *gpu_instance;
    unsigned id, profile_id;
};

struct ci_info_v2 {
    struct ci_info info;
    struct placement placement;
};

struct fabric_info {
    unsigned char cluster_uuid[16];
    unsigned status, clique;
    unsigned char state;
};

struct fabric_info_v2 {
    unsigned version;
    unsigned char cluster_uuid[16];
    unsigned status, clique;
    unsigned char state;
    unsigned health_mask;
};

struct fabric_info_v3 {
    unsigned version;
    unsigned char cluster_uuid[16];
    unsigned status, clique;
    unsigned char state;
    unsigned health_mask;
    unsigned char health_summary;
};

struct field_value {
    unsigned id, scope;
    long long timestamp, latency;
    unsigned type, code;
    union {
        double real;
        unsigned number;
        unsigned long long longest;
    } value;
};

struct event_data {
    void *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

struct unrepairable_memory {
    unsigned version, unrepairable;
};

#endif
