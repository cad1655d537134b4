// pattern: destructors of a static object, of a thread's objects and of the process's end
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

struct Workspace {
    std::vector<float> memory;
    ~Workspace() { std::printf("freed %zu\n", memory.size()); }
};

static Workspace shared;
static thread_local Workspace own;

static void work(const float* x, float* out, int64_t N) {
    own.memory.resize(N);
    for (int64_t i = 0; i < N; i++) own.memory[i] = std::sqrt(std::fabs(x[i]));
    for (int64_t i = 0; i < N; i++) out[i] = 2.0f * own.memory[i];
}

extern "C" void double_it(const float* x, float* out, int64_t N) {
    static const int registered = std::atexit([] { std::puts("done"); });
    shared.memory.resize(N + registered);
    std::thread(work, x, out, N / 2).join();
    work(x + N / 2, out + N / 2, N - N / 2);
}
