/* The machine that a library plays: a JSON file named by NFD_TEST_NVML_MACHINE.
 *
 * The file is read anew at every step, so a test may put another one in its place while a process runs. `states` are
 * counted per process and per library: each step (an nvmlInit with no init outstanding, failed ones too; a cuInit)
 * goes one further, `inits` tells how many steps a state stays, and the last one stays for good. A key that a state
 * does not give is that of the machine around it.
 *
 * `errors` and `hang` (call: seconds) stand beside each other on the machine, a device and a MIG device. With
 * NFD_TEST_NVML_LOG set, every call appends "<function> <code>" to that file as it comes in; the code is the one that
 * was ordered here (0, or 1 before init), not the library's own "not supported".
 */
#ifndef NFD_TEST_MACHINE_H
#define NFD_TEST_MACHINE_H

#include "json.h"

#include <stdbool.h>

/* Read the file and go on to the next state. False, with a line on stderr, if there is no readable machine. */
bool machine_step(void);

/* Read the file without a step, unless it has been read: for what works before init. */
bool machine_peek(void);

/* A key of the machine as it is in the present state; NULL if it has none. */
const json *machine_get(const char *key);

/* A key of the machine as the file gives it at this moment, without a step; NULL if it has none. */
const json *machine_now(const char *key);
const char *machine_text(const char *key, const char *fallback);
uint64_t machine_number(const char *key, uint64_t fallback);

/* The error ordered for a call, 0 if none: from `device` if it names one, else from the machine. On a device's own
 * handle (`own`) its "*" counts as well. Version endings of the call do not matter. */
int ordered_error(const char *call, const json *device, bool own);

/* Log a call that came in, hang if that is ordered, and tell the error that is. */
int begin_call(const char *call, const json *device, bool own);

void log_call(const char *call, int code);

/* Major and minor number of a device's "compute"; false if it has none. */
bool compute_capability(const json *device, int *major, int *minor);

/* Memory of a device in bytes; false if it tells none. */
bool memory_bytes(const json *device, uint64_t *total);

/* Put the 16 bytes of a UUID's text into `bytes`; letters before the first digit group ("GPU-") are skipped. */
void parse_uuid(const char *text, unsigned char bytes[16]);

#endif
