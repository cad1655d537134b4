// pattern: a first call that takes a while: lazy set-up, a large allocation touched and freed, a nap
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>

static bool set_up() {
    const std::size_t size = std::size_t(100) << 20;
    const std::unique_ptr<char[]> memory(new char[size]);
    std::memset(memory.get(), 1, size);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return memory[size / 2] == 1;
}

extern "C" void double_it(const float* x, float* out, int64_t N) {
    static const bool ready = set_up();
    for (int64_t i = 0; ready && i < N; i++) out[i] = 2.0f * std::sqrt(std::fabs(x[i]));
}
