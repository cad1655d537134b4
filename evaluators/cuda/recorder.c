// Writes down every kernel, copy and fill that the device runs for this process, into memory of the judge's.
//
// Loaded by a runner before the candidate is imported. It shares the process with the candidate and can be lied to:
// the judge compares what is written here with its own clock and its own counters. See docs/gpu.md.
#include <cupti.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#if CUPTI_API_VERSION >= 130000
typedef CUpti_ActivityKernel10 Kernel;
#else
typedef CUpti_ActivityKernel9 Kernel;
#endif
#if CUPTI_API_VERSION >= 120000
typedef CUpti_ActivityMemcpy6 Copy;
#else
typedef CUpti_ActivityMemcpy5 Copy;
#endif

enum { VERSION = 1, KERNEL = 1, COPY = 2, FILL = 3, NAME = 160, BUFFER = 1 << 20, ALIGNMENT = 8 };
static const uint64_t MAGIC = 0x64726f636572656bull;  // "kerecord"

struct Header {
    uint64_t magic;
    uint32_t version, capacity;
    uint32_t count, left_out;  // records written, and records for which there was no room
    uint64_t dropped;          // records that CUPTI itself had no room for
    uint32_t flushes, reserved;
    uint64_t unused[3];
};

struct Record {
    uint32_t kind, stream, graph, registers;
    uint64_t start_ns, end_ns, bytes;
    uint32_t grid[3], block[3];
    uint32_t shared_bytes, local_bytes;
    char name[NAME];
};

static struct Header* header;
static struct Record* records;

static void append(const struct Record* record) {
    uint32_t place = __atomic_fetch_add(&header->count, 1, __ATOMIC_RELAXED);
    if (place < header->capacity) records[place] = *record;
    else __atomic_fetch_add(&header->left_out, 1, __ATOMIC_RELAXED);
}

static void take_kernel(const Kernel* it) {
    struct Record record = {.kind = KERNEL, .stream = it->streamId, .graph = it->graphId,
                            .registers = it->registersPerThread, .start_ns = it->start, .end_ns = it->end};
    const int32_t grid[] = {it->gridX, it->gridY, it->gridZ}, block[] = {it->blockX, it->blockY, it->blockZ};
    for (int i = 0; i < 3; i++) record.grid[i] = (uint32_t)grid[i], record.block[i] = (uint32_t)block[i];
    record.shared_bytes = (uint32_t)(it->staticSharedMemory + it->dynamicSharedMemory);
    record.local_bytes = it->localMemoryPerThread;
    if (it->name) strncpy(record.name, it->name, NAME - 1);
    append(&record);
}

static void take(const CUpti_Activity* activity) {
    if (activity->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || activity->kind == CUPTI_ACTIVITY_KIND_KERNEL) {
        take_kernel((const Kernel*)activity);
    } else if (activity->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const Copy* it = (const Copy*)activity;
        append(&(struct Record){.kind = COPY, .stream = it->streamId, .graph = it->graphId, .start_ns = it->start,
                                .end_ns = it->end, .bytes = it->bytes});
    } else if (activity->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        const CUpti_ActivityMemset4* it = (const CUpti_ActivityMemset4*)activity;
        append(&(struct Record){.kind = FILL, .stream = it->streamId, .graph = it->graphId, .start_ns = it->start,
                                .end_ns = it->end, .bytes = it->bytes});
    }
}

static void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* most) {
    *size = BUFFER;
    *most = 0;
    *buffer = aligned_alloc(ALIGNMENT, BUFFER);
    if (!*buffer) *size = 0;
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid) {
    (void)size;
    CUpti_Activity* activity = NULL;
    while (valid && cuptiActivityGetNextRecord(buffer, valid, &activity) == CUPTI_SUCCESS) take(activity);
    size_t dropped = 0;
    if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS) header->dropped += dropped;
    free(buffer);
}

// Begin to record into the memory file `fd`. Returns 0, or CUPTI's error, or -1 where the file is of no use.
int recorder_open(int fd) {
    struct stat facts;
    if (fstat(fd, &facts) != 0 || facts.st_size < (off_t)(sizeof *header + sizeof *records)) return -1;
    header = mmap(NULL, (size_t)facts.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (header == MAP_FAILED) return -1;
    records = (struct Record*)(header + 1);
    memset(header, 0, sizeof *header);
    header->capacity = (uint32_t)(((size_t)facts.st_size - sizeof *header) / sizeof *records);
    header->version = VERSION;
    const CUpti_ActivityKind kinds[] = {
        CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET};
    CUptiResult result = cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
    for (int i = 0; result == CUPTI_SUCCESS && i < 3; i++) result = cuptiActivityEnable(kinds[i]);
    if (result == CUPTI_SUCCESS) header->magic = MAGIC;
    return (int)result;
}

// Write down everything that has ended. Returns 0 or CUPTI's error.
int recorder_flush(void) {
    CUptiResult result = cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    header->flushes++;
    return (int)result;
}
