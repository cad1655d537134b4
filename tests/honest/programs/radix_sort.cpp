// pattern: in place where the task says so, with a buffer of its own
// task: sort_rows
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

extern "C" void sort_rows(int32_t* keys, int64_t M, int64_t N) {
    static std::vector<uint32_t> from, to;
    from.resize(N), to.resize(N);
    for (int64_t i = 0; i < M; i++) {
        std::memcpy(from.data(), keys + i * N, N * sizeof(int32_t));
        for (uint32_t& key : from) key ^= 0x80000000u;
        for (int shift = 0; shift < 32; shift += 8) {
            std::array<int64_t, 257> starts{};
            for (uint32_t key : from) starts[((key >> shift) & 255) + 1]++;
            for (int digit = 0; digit < 256; digit++) starts[digit + 1] += starts[digit];
            for (uint32_t key : from) to[starts[(key >> shift) & 255]++] = key;
            from.swap(to);
        }
        for (uint32_t& key : from) key ^= 0x80000000u;
        std::memcpy(keys + i * N, from.data(), N * sizeof(int32_t));
    }
}
