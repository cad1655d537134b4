// pattern: a table whose pages are filled when they are first touched, by a handler of page faults on a stack of its own
#include <cmath>
#include <csignal>
#include <cstdint>
#include <sys/mman.h>

static const uintptr_t PAGE = 4096;
static const int64_t PAGES = 16, ENTRIES = PAGES * PAGE / sizeof(float);
static float* table;

static void on_fault(int number, siginfo_t* fault, void*) {
    const uintptr_t page = reinterpret_cast<uintptr_t>(fault->si_addr) & ~(PAGE - 1);
    const uintptr_t first = reinterpret_cast<uintptr_t>(table);
    if (page < first || page >= first + PAGES * PAGE) {
        signal(number, SIG_DFL);
        return;
    }
    mprotect(reinterpret_cast<void*>(page), PAGE, PROT_READ | PROT_WRITE);
    for (float* entry = reinterpret_cast<float*>(page); entry < reinterpret_cast<float*>(page + PAGE); entry++) *entry = 2.0f;
}

static bool set_up() {
    static char stack[64 << 10];
    stack_t alternate = {};
    alternate.ss_sp = stack, alternate.ss_size = sizeof stack;
    struct sigaction action = {};
    action.sa_sigaction = on_fault, action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    table = static_cast<float*>(mmap(nullptr, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    return sigaltstack(&alternate, nullptr) == 0 && sigaction(SIGSEGV, &action, nullptr) == 0;
}

extern "C" void double_it(const float* x, float* out, int64_t N) {
    static const bool ready = set_up();
    for (int64_t i = 0; ready && i < N; i++) out[i] = table[i % ENTRIES] * std::sqrt(std::fabs(x[i]));
}
