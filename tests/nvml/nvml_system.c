/* NVML as a whole: init and shutdown, versions, error texts. */
#include "devices.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned references;
static int device_node = -1; /* as the driver's library keeps /dev/nvidia0 open while it is initialised */
static void *mapped = MAP_FAILED;

static void open_node(void)
{
    const char *path = machine_text("device_node", NULL);
    device_node = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (device_node >= 0)
        mapped = mmap(NULL, 1, PROT_READ, MAP_SHARED, device_node, 0);
}

static void close_node(void)
{
    if (mapped != MAP_FAILED)
        munmap(mapped, 1);
    if (device_node >= 0)
        close(device_node);
    mapped = MAP_FAILED;
    device_node = -1;
}

bool initialised(void)
{
    pthread_mutex_lock(&lock);
    bool answer = references > 0;
    pthread_mutex_unlock(&lock);
    return answer;
}

/* A step of the machine if no init is outstanding; a failed init counts no reference. */
static int initialise(const char *call)
{
    bool readable = true;
    pthread_mutex_lock(&lock);
    if (references == 0 && (readable = machine_step()))
        load_devices();
    pthread_mutex_unlock(&lock);
    int code = readable ? begin_call(call, NULL, false) : NVML_UNKNOWN;
    pthread_mutex_lock(&lock);
    references += code == NVML_SUCCESS;
    if (code == NVML_SUCCESS && references == 1)
        open_node();
    pthread_mutex_unlock(&lock);
    return code;
}

int nvmlInit(void)
{
    return initialise(__func__);
}

int nvmlInit_v2(void)
{
    return initialise(__func__);
}

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    return initialise(__func__);
}

/* A shutdown that was ordered to fail does nothing. */
int nvmlShutdown(void)
{
    ENTER(library, "");
    pthread_mutex_lock(&lock);
    references--;
    if (references == 0)
        close_node();
    pthread_mutex_unlock(&lock);
    return NVML_SUCCESS;
}

int nvmlSystemGetDriverVersion(char *version, unsigned size)
{
    ENTER(library, version);
    return copy_text(version, size, machine_text("driver", "580.159.04"));
}

static int cuda_version(void)
{
    return (int)machine_number("cuda", 13000);
}

int nvmlSystemGetNVMLVersion(char *version, unsigned size)
{
    char made[80];
    ENTER(library, version);
    snprintf(made, sizeof made, "%d.%s", cuda_version() / 1000, machine_text("driver", "580.159.04"));
    return copy_text(version, size, machine_text("nvml", made));
}

int nvmlSystemGetCudaDriverVersion(int *version)
{
    ENTER(library, version);
    *version = cuda_version();
    return NVML_SUCCESS;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    ENTER(library, version);
    *version = cuda_version();
    return NVML_SUCCESS;
}

/* The texts of driver 580. Works before init. */
const char *nvmlErrorString(int code)
{
    static const char *const texts[] = {
        "Success",
        "Uninitialized",
        "Invalid Argument",
        "Not Supported",
        "Insufficient Permissions",
        "Already Initialized",
        "Not Found",
        "Insufficient Size",
        "Insufficient External Power",
        "Driver Not Loaded",
        "Timeout",
        "Interrupt Request Issue",
        "NVML Shared Library Not Found",
        "Function Not Found",
        "Corrupted infoROM",
        "GPU is lost",
        "GPU requires reset",
        "GPU access blocked by the operating system",
        "Driver/library version mismatch",
        "In use by another client",
        "Insufficient Memory",
        "No data",
        "vGPU ECC not supported",
        "Insufficient Resources",
        "Invalid Frequency",
        "Argument version mismatch",
        "Requested functionality has been deprecated",
        "System is not in ready state",
        "No supported GPUs were found",
        "Resource not in correct state to perform requested operation",
        "Reset type is not supported for given device",
    };
    log_call(__func__, 0);
    return code >= 0 && code < (int)(sizeof texts / sizeof *texts) ? texts[code] : "Unknown Error";
}
