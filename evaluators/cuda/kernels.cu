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

// One argument of one slot that is filled: blockIdx.y says which.
struct Filling { u64 source, target, shift, key; };  // two addresses, the rotation in elements, the slot's own key

// Rows rotated, the fraction of every float XORed with its row's key; zeros, denormals, Inf and NaN have no fraction
// that may change, and what is no float has a fraction of 0. 16 bytes at a time where rows are multiples of that.
template <typename T>
__device__ void turned(const Filling* fillings, u64 size, u64 row, u64 fraction, u64 exponent) {
    constexpr int LANES = 16 / sizeof(T);
    struct alignas(16) Pack { T lane[LANES]; };
    const Filling f = fillings[blockIdx.y];
    const T mask = (T)fraction, special = (T)exponent;
    if (row % LANES == 0 && size % LANES == 0 && f.shift % LANES == 0) {
        const u32 count = size / LANES, shift = f.shift / LANES, width = row / LANES;
        for (u64 i = thread(); i < count; i += threads()) {
            Pack pack = ((const Pack*)f.source)[i + shift < count ? i + shift : i + shift - count];
            const T key = (T)mix(f.key + (u32)i / width) & mask;
            for (int j = 0; j < LANES; j++) {
                const T bits = pack.lane[j] & special;
                if (bits != 0 && bits != special) pack.lane[j] ^= key;
            }
            ((Pack*)f.target)[i] = pack;
        }
        return;
    }
    for (u64 i = thread(); i < size; i += threads()) {
        T value = ((const T*)f.source)[i + f.shift < size ? i + f.shift : i + f.shift - size];
        const T bits = value & special;
        if (bits != 0 && bits != special) value ^= (T)mix(f.key + i / row) & mask;
        ((T*)f.target)[i] = value;
    }
}

extern "C" __global__ void turn_1(const Filling* f, u64 size, u64 row, u64 fraction, u64 exponent) {
    turned<u8>(f, size, row, fraction, exponent);
}
extern "C" __global__ void turn_2(const Filling* f, u64 size, u64 row, u64 fraction, u64 exponent) {
    turned<unsigned short>(f, size, row, fraction, exponent);
}
extern "C" __global__ void turn_4(const Filling* f, u64 size, u64 row, u64 fraction, u64 exponent) {
    turned<u32>(f, size, row, fraction, exponent);
}
extern "C" __global__ void turn_8(const Filling* f, u64 size, u64 row, u64 fraction, u64 exponent) {
    turned<u64>(f, size, row, fraction, exponent);
}

// Replace one element of every row by another of the same array, both drawn from the key.
extern "C" __global__ void late(const Filling* fillings, u64 rows, u64 columns, u64 element) {
    const Filling f = fillings[blockIdx.y];
    const u64 key = mix(~f.key);  // another than that of the fractions, which can be read off a row that is known
    for (u64 row = thread(); row < rows; row += threads()) {
        u64 column = mix(key + 2 * row) % columns, other = mix(key + 2 * row + 1) % (rows * columns);
        u8* to = (u8*)f.target + (row * columns + column) * element;
        const u8* from = (const u8*)f.source + other * element;
        for (u32 b = 0; b < element; b++) to[b] = from[b];
    }
}

// Every 8-byte word XORed with a key of its row's own; 8 bytes at a time where rows are multiples of that.
extern "C" __global__ void exclusive_or(const Filling* fillings, u64 size, u64 row_bytes) {
    const Filling f = fillings[blockIdx.y];
    if (row_bytes % 8 == 0) {
        const u32 count = size / 8, width = row_bytes / 8;
        for (u64 i = thread(); i < count; i += threads())
            ((u64*)f.target)[i] = ((const u64*)f.source)[i] ^ mix(f.key + (u32)i / width);
        return;
    }
    for (u64 i = thread(); i < size; i += threads())
        ((u8*)f.target)[i] = ((const u8*)f.source)[i] ^ (u8)(mix(f.key + i / row_bytes) >> 8 * (i % row_bytes % 8));
}

// Change one byte of every row to another value.
extern "C" __global__ void change_bytes(const Filling* fillings, u64 rows, u64 row_bytes) {
    const Filling f = fillings[blockIdx.y];
    const u64 key = mix(~f.key);
    for (u64 row = thread(); row < rows; row += threads())
        ((u8*)f.target)[row * row_bytes + mix(key + 2 * row) % row_bytes] ^= (u8)(1 + mix(key + 2 * row + 1) % 255);
}

// A pattern of `period` bytes over [start, stop) of every slot (blockIdx.y).
extern "C" __global__ void paint(u8* base, u64 stride, u64 start, u64 stop, const u8* pattern, u64 period) {
    u8* to = base + blockIdx.y * stride + start;
    for (u64 i = thread(); i < stop - start; i += threads()) to[i] = pattern[i % period];
}

// As paint, 8 bytes at a time: start, stop and stride are multiples of 8, the period is 8.
extern "C" __global__ void paint_words(u8* base, u64 stride, u64 start, u64 stop, u64 word) {
    u64* to = (u64*)(base + blockIdx.y * stride + start);
    for (u64 i = thread(); i < (stop - start) / 8; i += threads()) to[i] = word;
}

// Count bytes of [start, stop) of the listed slots (blockIdx.y) that differ from the pattern.
extern "C" __global__ void differing(const u8* base, u64 stride, const u64* slots, u64 start, u64 stop,
                                     const u8* pattern, u64 period, u64* found) {
    const u8* at = base + slots[blockIdx.y] * stride + start;
    u64 mine = 0;
    for (u64 i = thread(); i < stop - start; i += threads()) mine += at[i] != pattern[i % period];
    if (mine) atomicAdd(found, mine);
}

// As differing, 8 bytes at a time, and counting words: see paint_words.
extern "C" __global__ void differing_words(const u8* base, u64 stride, const u64* slots, u64 start, u64 stop,
                                           u64 word, u64* found) {
    const u64* at = (const u64*)(base + slots[blockIdx.y] * stride + start);
    u64 mine = 0;
    for (u64 i = thread(); i < (stop - start) / 8; i += threads()) mine += at[i] != word;
    if (mine) atomicAdd(found, mine);
}

// A keyed checksum of [0, size): for 16 bytes at a time the sum of products of 32-bit words, each with its place's key
// added (NH of UMAC: Black, Halevi, Krawczyk, Krovetz, Rogaway 1999). Keys must not depend on each other: with keys in
// arithmetic progression, changes whose second differences vanish went unseen.
extern "C" __global__ void checksum(const u8* base, u64 size, u64 key, u64* sum) {
    u64 mine = 0, packs = size / 16;
    for (u64 i = thread(); i < packs; i += threads()) {
        const uint4 pack = ((const uint4*)base)[i];
        const u64 one = mix(key + 2 * i), two = mix(key + 2 * i + 1);
        mine += (u64)(pack.x + (u32)one) * (pack.y + (u32)(one >> 32));
        mine += (u64)(pack.z + (u32)two) * (pack.w + (u32)(two >> 32));
    }
    for (u64 i = 16 * packs + thread(); i < size; i += threads()) mine += mix(base[i] ^ mix(key + i));
    for (int offset = 16; offset > 0; offset /= 2) mine += __shfl_down_sync(0xffffffffu, mine, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, mine);
}

// As checksum, of the same stretch of every listed slot (blockIdx.y): start and stride are multiples of 8.
extern "C" __global__ void checksum_slots(const u8* base, u64 stride, const u64* slots, u64 start, u64 stop, u64 key,
                                          u64* sum) {
    const u8* at = base + slots[blockIdx.y] * stride + start;
    const u64 own = mix(key + slots[blockIdx.y]);
    u64 mine = 0, words = (stop - start) / 8;
    for (u64 i = thread(); i < words; i += threads()) {
        const u64 word = ((const u64*)at)[i], one = mix(own + i);
        mine += (u64)((u32)word + (u32)one) * ((u32)(word >> 32) + (u32)(one >> 32));
    }
    for (u64 i = 8 * words + thread(); i < stop - start; i += threads()) mine += mix(at[i] ^ mix(own + i));
    if (mine) atomicAdd(sum, mine);
}

// The same stretch of the listed slots (blockIdx.y), from one buffer to another: start and stride are multiples of 16.
extern "C" __global__ void copy_slots(const u8* from, u8* to, u64 stride, const u64* slots, u64 start, u64 stop) {
    const u64 at = slots[blockIdx.y] * stride + start, size = stop - start, packs = size / 16;
    for (u64 i = thread(); i < packs; i += threads()) ((uint4*)(to + at))[i] = ((const uint4*)(from + at))[i];
    for (u64 i = 16 * packs + thread(); i < size; i += threads()) to[at + i] = from[at + i];
}

// Count words of 8 bytes, and bytes of the rest, in which two buffers differ: as copy_slots.
extern "C" __global__ void differing_slots(const u8* one, const u8* other, u64 stride, const u64* slots, u64 start,
                                           u64 stop, u64* found) {
    const u64 at = slots[blockIdx.y] * stride + start, size = stop - start, words = size / 8;
    u64 mine = 0;
    for (u64 i = thread(); i < words; i += threads()) mine += ((const u64*)(one + at))[i] != ((const u64*)(other + at))[i];
    for (u64 i = 8 * words + thread(); i < size; i += threads()) mine += one[at + i] != other[at + i];
    if (mine) atomicAdd(found, mine);
}

// Whether two buffers hold the same `width` bytes at each of these places.
extern "C" __global__ void same_places(const u8* one, const u8* other, const u64* places, u64 count, u64 width,
                                       u8* out) {
    for (u64 i = thread(); i < count; i += threads()) {
        u8 same = 1;
        for (u64 b = 0; b < width; b++) same &= one[places[i] + b] == other[places[i] + b];
        out[i] = same;
    }
}

// The same word at arbitrary places, which are multiples of 8.
extern "C" __global__ void mark(u8* base, const u64* places, u64 count, u64 word) {
    for (u64 i = thread(); i < count; i += threads()) *(u64*)(base + places[i]) = word;
}

// Whether the word at each of these places, multiples of 8, is this one.
extern "C" __global__ void same_words(const u8* base, const u64* places, u64 count, u64 word, u8* out) {
    for (u64 i = thread(); i < count; i += threads()) out[i] = *(const u64*)(base + places[i]) == word;
}

// Bytes at arbitrary places.
extern "C" __global__ void gather(const u8* base, const u64* places, u64 count, u8* out) {
    for (u64 i = thread(); i < count; i += threads()) out[i] = base[places[i]];
}

// Rows of a matrix (blockIdx.y), one after the other.
extern "C" __global__ void gather_rows(const u8* base, u64 row_bytes, const u64* rows, u8* out) {
    const u8* from = base + rows[blockIdx.y] * row_bytes;
    u8* to = out + blockIdx.y * row_bytes;
    for (u64 i = thread(); i < row_bytes; i += threads()) to[i] = from[i];
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
