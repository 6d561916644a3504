/* Numbers of a MIG device that both its handle and its profiles tell. */
#ifndef NFD_TEST_MIG_H
#define NFD_TEST_MIG_H

#include "json.h"

static inline unsigned number(const json *facts, const char *key, uint64_t fallback)
{
    return (unsigned)json_number(facts, key, fallback);
}

static inline unsigned gi_id(const json *mig)
{
    return number(mig, "gi", 1);
}

static inline unsigned gi_slices(const json *mig)
{
    return number(mig, "gi_slices", 1);
}

static inline unsigned ci_slices(const json *mig)
{
    return number(mig, "ci_slices", gi_slices(mig));
}

/* The number a compute-instance profile is queried by; by default the plain one with so many slices. */
static inline unsigned ci_enum(const json *mig)
{
    static const unsigned char plain[] = {0, 0, 1, 2, 3, 0, 6, 4, 5};
    unsigned slices = ci_slices(mig);
    return number(mig, "ci_enum", slices < sizeof plain ? plain[slices] : 0);
}

static inline unsigned ci_profile_id(const json *mig)
{
    return number(mig, "ci_profile_id", ci_enum(mig));
}

#endif
