// pattern: an allocator of its own in the place of new, a new handler, memory aligned to 2 MiB, variable arrays on the stack
#include <alloca.h>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

static char* reserve;

static void give_up_reserve() {
    if (reserve == nullptr) throw std::bad_alloc();
    std::free(reserve);
    reserve = nullptr;
}

void* operator new(std::size_t size) {
    for (;;) {
        if (void* memory = std::malloc(size)) return memory;
        give_up_reserve();
    }
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

struct alignas(2 << 20) Wide {
    float values[1 << 19];
};

extern "C" void double_it(const float* x, float* out, int64_t N) {
    static const std::new_handler before = std::set_new_handler(give_up_reserve);
    static Wide* const wide = static_cast<Wide*>(std::aligned_alloc(alignof(Wide), sizeof(Wide)));
    if (reserve == nullptr) reserve = static_cast<char*>(std::malloc(1 << 20));
    std::vector<float> roots(N);
    for (int64_t first = 0; first < N; first += 1024) {
        const int64_t length = N - first < 1024 ? N - first : 1024;
        float* row = static_cast<float*>(alloca(64 * sizeof(float)));
        for (int64_t i = 0; i < length; i += 64) {
            const int64_t part = length - i < 64 ? length - i : 64;
            std::memcpy(row, x + first + i, part * sizeof(float));
            for (int64_t j = 0; j < part; j++) wide->values[i + j] = std::sqrt(std::fabs(row[j]));
        }
        std::memcpy(&roots[first], wide->values, length * sizeof(float));
    }
    for (int64_t i = 0; i < N; i++) out[i] = 2.0f * roots[i];
    (void)before;
}
