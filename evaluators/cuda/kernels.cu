// The judge's own kernels: they fill inputs, poison outputs and look at what a runner left. All strides are in bytes.
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

__device__ u64 mix(u64 x) {  // the finalizer of SplitMix64 (Steele, Lea, Flood 2014)
    x ^= x >> 30; x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27; x *= 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

__device__ u64 thread() { return blockIdx.x * (u64)blockDim.x + threadIdx.x; }
__device__ u64 threads() { return gridDim.x * (u64)blockDim.x; }

// Copy rows from `source`, rotated by `shift` rows. 16 bytes at a time where size and addresses allow it.
extern "C" __global__ void rotate(u8* target, const u8* source, u64 size, u64 shift_bytes, u32 vector) {
    if (vector) {
        const uint4* from = (const uint4*)source;
        uint4* to = (uint4*)target;
        u64 count = size / 16, shift = shift_bytes / 16;
        for (u64 i = thread(); i < count; i += threads()) to[i] = from[i + shift < count ? i + shift : i + shift - count];
    } else {
        for (u64 i = thread(); i < size; i += threads())
            target[i] = source[i + shift_bytes < size ? i + shift_bytes : i + shift_bytes - size];
    }
}

// Replace one element of every row by another of the same array, both drawn from the key.
extern "C" __global__ void late(u8* target, const u8* source, u64 rows, u64 columns, u32 element, u64 key) {
    for (u64 row = thread(); row < rows; row += threads()) {
        u64 column = mix(key + 2 * row) % columns, other = mix(key + 2 * row + 1) % (rows * columns);
        u8* to = target + (row * columns + column) * element;
        const u8* from = source + other * element;
        for (u32 b = 0; b < element; b++) to[b] = from[b];
    }
}

// Every 8-byte word XORed with a key of its row's own.
extern "C" __global__ void exclusive_or(u8* target, const u8* source, u64 size, u64 row_bytes, u64 key) {
    for (u64 i = thread(); i < size; i += threads()) {
        u64 word = mix(key + i / row_bytes);
        target[i] = source[i] ^ (u8)(word >> 8 * (i % 8));
    }
}

// A pattern of `period` bytes over [start, stop) of every slot.
extern "C" __global__ void paint(u8* base, u64 stride, u64 slots, u64 start, u64 stop, const u8* pattern, u64 period) {
    u64 length = stop - start;
    for (u64 i = thread(); i < length * slots; i += threads())
        base[i / length * stride + start + i % length] = pattern[i % length % period];
}

// As paint, 8 bytes at a time: start, stop and stride are multiples of 8, the period is 8.
extern "C" __global__ void paint_words(u8* base, u64 stride, u64 slots, u64 start, u64 stop, u64 word) {
    u64 length = (stop - start) / 8;
    for (u64 i = thread(); i < length * slots; i += threads())
        *(u64*)(base + i / length * stride + start + 8 * (i % length)) = word;
}

// Count bytes of [start, stop) of the listed slots that differ from the pattern.
extern "C" __global__ void differing(const u8* base, u64 stride, const u64* slots, u64 count, u64 start, u64 stop,
                                     const u8* pattern, u64 period, u64* found) {
    u64 length = stop - start, mine = 0;
    for (u64 i = thread(); i < length * count; i += threads())
        mine += base[slots[i / length] * stride + start + i % length] != pattern[i % length % period];
    if (mine) atomicAdd(found, mine);
}

// An order-dependent checksum of [0, size): the sum of mixed (word, place) pairs.
extern "C" __global__ void checksum(const u8* base, u64 size, u64 key, u64* sum) {
    u64 mine = 0, words = size / 8;
    for (u64 i = thread(); i < words; i += threads()) mine += mix(((const u64*)base)[i] ^ mix(key + i));
    for (u64 i = 8 * words + thread(); i < size; i += threads()) mine += mix(base[i] ^ mix(key + i));
    for (int offset = 16; offset > 0; offset /= 2) mine += __shfl_down_sync(0xffffffffu, mine, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}

// Bytes at arbitrary places.
extern "C" __global__ void gather(const u8* base, const u64* places, u64 count, u8* out) {
    for (u64 i = thread(); i < count; i += threads()) out[i] = base[places[i]];
}

// Rows of a matrix, one after the other.
extern "C" __global__ void gather_rows(const u8* base, u64 row_bytes, const u64* rows, u64 count, u8* out) {
    for (u64 i = thread(); i < row_bytes * count; i += threads())
        out[i] = base[rows[i / row_bytes] * row_bytes + i % row_bytes];
}

// Programs of our own that measure what the device can do.
extern "C" __global__ void read_sum(const float4* x, float* out, u64 count) {
    float sum = 0;
    for (u64 i = thread(); i < count; i += threads()) { float4 v = x[i]; sum += v.x + v.y + v.z + v.w; }
    if (sum == 12345.678f) out[0] = sum;
}

extern "C" __global__ void copy(const uint4* x, uint4* out, u64 count) {
    for (u64 i = thread(); i < count; i += threads()) out[i] = x[i];
}

extern "C" __global__ void multiply_add(float* out, u64 iterations) {
    float a[16];
    for (int j = 0; j < 16; j++) a[j] = threadIdx.x * 1e-3f + j;
    for (u64 i = 0; i < iterations; i++)
        for (int j = 0; j < 16; j++) a[j] = a[j] * 0.999f + 1e-3f;
    float sum = 0;
    for (int j = 0; j < 16; j++) sum += a[j];
    if (sum == 12345.678f) out[0] = sum;
}
