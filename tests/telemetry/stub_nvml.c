/* A libnvidia-ml.so.1 for tests: 8 GPUs whose values tell which call and GPU they come from.
 *
 * STUB_NVML holds words: count=N, lost=I (GPU I fell off the bus), late=I (that happens after its second
 * utilisation reading), nofields, nopower=I, nomem=I, noinit=CODE, slow (throughput takes 20 ms a direction),
 * mig=I (GPU I is parted into three instances), noecc (as consumer cards), capped=I (its limit was set to 450 W),
 * tenants (each GPU holds a second process), noshares (processes' shares are not told), calls (every call of the
 * driver is a line of standard error). */
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <time.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT = 7, LOST = 15 };
#define GPUS 16
static int ids[GPUS];
static int readings[GPUS];

static int word(const char *name, int fallback) {
    const char *all = getenv("STUB_NVML"), *found = all ? strstr(all, name) : NULL;
    if (!found) return fallback;
    found += strlen(name);
    return *found == '=' ? atoi(found + 1) : 1;
}
static int gone(void *device) {
    int i = *(int *)device;
    return word("lost", -1) == i || (word("late", -1) == i && readings[i] > 2);
}
#define GPU(device) if (word("calls", 0)) fprintf(stderr, "%s\n", __func__); if (gone(device)) return LOST; \
    int i = *(int *)(device); (void)i

int nvmlInitWithFlags(unsigned flags) { (void)flags; return word("noinit", OK); }
int nvmlInit_v2(void) { return word("noinit", OK); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) {
    switch (code) {
    case NOT_SUPPORTED: return "Not Supported";
    case LOST: return "GPU is lost";
    case 9: return "Driver Not Loaded";
    case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}
int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "580.0.0"); return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = word("count", 8); return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (index >= GPUS) return INVALID;
    ids[index] = index;
    *device = &ids[index];
    return OK;
}
int nvmlDeviceGetUUID(void *d, char *text, unsigned size) {
    snprintf(text, size, "GPU-%08d-0000-0000-0000-000000000000", *(int *)d); return OK;
}
int nvmlDeviceGetName(void *d, char *text, unsigned size) { GPU(d); snprintf(text, size, "Stub GPU"); return OK; }
int nvmlDeviceGetEnforcedPowerLimit(void *d, unsigned *mw) {
    GPU(d); *mw = word("capped", -1) == i ? 450000 : 600000; return OK;
}
int nvmlDeviceGetPowerManagementLimit(void *d, unsigned *mw) { return nvmlDeviceGetEnforcedPowerLimit(d, mw); }
int nvmlDeviceGetPowerManagementLimitConstraints(void *d, unsigned *least, unsigned *most) {
    GPU(d); *least = 150000; *most = 600000; return OK;
}
int nvmlDeviceGetPowerManagementDefaultLimit(void *d, unsigned *mw) { GPU(d); *mw = 600000; return OK; }
int nvmlDeviceGetMaxClockInfo(void *d, int kind, unsigned *mhz) { GPU(d); (void)kind; *mhz = 2430; return OK; }
int nvmlDeviceGetCudaComputeCapability(void *d, int *major, int *minor) { GPU(d); *major = 12; *minor = 0; return OK; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *d, unsigned *v) { GPU(d); *v = 5; return OK; }
int nvmlDeviceGetMaxPcieLinkWidth(void *d, unsigned *v) { GPU(d); *v = 16; return OK; }
int nvmlDeviceGetCurrPcieLinkGeneration(void *d, unsigned *v) { GPU(d); *v = 5; return OK; }
int nvmlDeviceGetCurrPcieLinkWidth(void *d, unsigned *v) { GPU(d); *v = i == 5 ? 8 : 16; return OK; }
int nvmlDeviceGetPcieThroughput(void *d, int direction, unsigned *kb_s) {
    GPU(d);
    if (word("slow", 0)) { struct timespec t = {0, 20000000}; nanosleep(&t, NULL); }
    *kb_s = direction ? 2000000 : 1000000;
    return OK;
}
int nvmlDeviceGetTotalEnergyConsumption(void *d, unsigned long long *mj) { GPU(d); *mj = 1000000ull * (i + 1); return OK; }
int nvmlDeviceGetPowerUsage(void *d, unsigned *mw) {
    GPU(d);
    if (word("nopower", -1) == i) return NOT_SUPPORTED;
    *mw = 240000 + i * 1000;
    return OK;
}
int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *c) { GPU(d); (void)sensor; *c = 40 + i; return OK; }
int nvmlDeviceGetClockInfo(void *d, int kind, unsigned *mhz) { GPU(d); *mhz = kind == 2 ? 12481 : 2400 + i; return OK; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *bits) { GPU(d); *bits = i == 2 ? 0x24 : 1; return OK; }

typedef struct { unsigned gpu, memory; } Utilization;
int nvmlDeviceGetUtilizationRates(void *d, Utilization *u) {
    readings[*(int *)d]++;
    GPU(d);
    if (word("mig", -1) == i) return NOT_SUPPORTED;
    u->gpu = i == 7 ? 0 : 100;
    u->memory = 20 + i;
    return OK;
}
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } MemoryV2;
int nvmlDeviceGetMemoryInfo_v2(void *d, MemoryV2 *m) {
    GPU(d);
    if (word("nomem", -1) == i) return NOT_SUPPORTED;
    m->total = 97887ull << 20; m->used = (90000ull + i) << 20; m->reserved = 600ull << 20; m->free = 0;
    return OK;
}
typedef struct { unsigned field, scope; long long when, took; int type, code; union { double d; unsigned u; unsigned long long l; } value; } Field;
int nvmlDeviceGetFieldValues(void *d, int count, Field *fields) {
    GPU(d);
    for (int f = 0; f < count; f++) {
        fields[f].code = word("nofields", 0) || word("nopower", -1) == i ? NOT_SUPPORTED : OK;
        fields[f].type = 1;
        fields[f].value.u = fields[f].field == 186 ? 250000 + i * 1000 : 245000;
    }
    return OK;
}
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } Process;
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *count, Process *processes) {
    GPU(d);
    unsigned held = word("tenants", 0) ? 2 : 1;
    if (*count < held) { *count = held; return INSUFFICIENT; }
    *count = held;
    processes[0].pid = 4000 + i; processes[0].used = 89000ull << 20;
    if (held == 2) { processes[1].pid = 5000 + i; processes[1].used = 900ull << 20; }
    return OK;
}
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
int nvmlDeviceGetPciInfo_v3(void *d, Pci *pci) {
    GPU(d);
    memset(pci, 0, sizeof *pci);
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", 0x11 + i);
    return OK;
}
int nvmlDeviceGetApplicationsClock(void *d, int kind, unsigned *mhz) { GPU(d); (void)kind; *mhz = 2300; return OK; }
int nvmlDeviceGetDefaultApplicationsClock(void *d, int kind, unsigned *mhz) { GPU(d); (void)kind; *mhz = 2430; return OK; }
int nvmlDeviceGetPersistenceMode(void *d, unsigned *on) { GPU(d); *on = i != 6; return OK; }
int nvmlDeviceGetEccMode(void *d, unsigned *now, unsigned *pending) {
    GPU(d);
    if (word("noecc", 0)) return NOT_SUPPORTED;
    *now = *pending = 1;
    return OK;
}
int nvmlDeviceGetPcieReplayCounter(void *d, unsigned *count) { GPU(d); *count = i == 5 ? 1200 : 0; return OK; }
int nvmlDeviceGetMigMode(void *d, unsigned *now, unsigned *pending) {
    GPU(d); *now = *pending = word("mig", -1) == i; return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(void *d, unsigned *count) { GPU(d); *count = 7; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *d, unsigned place, void **part) {
    GPU(d);
    if (place > 4 || place % 2) return NOT_FOUND;  /* instances need not be next to each other */
    *part = d;
    return OK;
}
typedef struct { unsigned pid; unsigned long long when; unsigned sm, memory, encoder, decoder; } Share;
int nvmlDeviceGetProcessUtilization(void *d, Share *shares, unsigned *count, unsigned long long since) {
    GPU(d);
    if (word("noshares", 0)) return NOT_SUPPORTED;
    if (i == 7) return NOT_FOUND;  /* nothing ran */
    if (!shares) { *count = 2; return INSUFFICIENT; }
    *count = 2;
    shares[0] = (Share){4000 + i, since + 1000, 90, 20, 0, 0};
    shares[1] = (Share){5000 + i, since + 1000, 4294967295u, 0, 0, 0};  /* seen of a process that just ended */
    return OK;
}

/* how the GPUs are joined: pairs by one switch, four on a socket; nvlinks=N gives every GPU N links to a switch */
int nvmlSystemGetCudaDriverVersion(int *version) { *version = 13000; return OK; }
int nvmlDeviceGetTopologyCommonAncestor(void *a, void *b, int *level) {
    int one = *(int *)a, other = *(int *)b;
    if (gone(a) || gone(b)) return LOST;
    *level = one / 2 == other / 2 ? 10 : one / 4 == other / 4 ? 40 : 50;
    return OK;
}
int nvmlDeviceGetP2PStatus(void *a, void *b, int index, int *status) {
    if (gone(a) || gone(b)) return LOST;
    *status = index == 2 ? 5 : *(int *)a / 4 == *(int *)b / 4 ? 0 : 1;
    return OK;
}
int nvmlDeviceGetNvLinkState(void *d, unsigned link, int *active) {
    GPU(d);
    if (!word("nvlinks", 0)) return NOT_SUPPORTED;
    *active = (int)link < word("nvlinks", 0);
    return OK;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void *d, unsigned link, int *kind) { GPU(d); (void)link; *kind = 2; return OK; }
int nvmlDeviceGetTotalEccErrors(void *d, int kind, int counter, unsigned long long *count) {
    GPU(d);
    if (word("noecc", 0)) return NOT_SUPPORTED;
    *count = kind * 10 + counter;
    return OK;
}
int nvmlDeviceGetPerformanceState(void *d, int *state) { GPU(d); *state = 0; return OK; }
int nvmlDeviceGetComputeMode(void *d, int *mode) { GPU(d); *mode = 0; return OK; }
int nvmlDeviceGetVbiosVersion(void *d, char *text, unsigned size) { GPU(d); snprintf(text, size, "98.02"); return OK; }
int nvmlDeviceGetGpuMaxPcieLinkGeneration(void *d, unsigned *v) { GPU(d); *v = 5; return OK; }
