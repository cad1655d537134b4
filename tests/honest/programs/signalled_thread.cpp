// pattern: a thread of its own that is woken by a signal and answers with another
#include <cmath>
#include <csignal>
#include <cstdint>
#include <pthread.h>
#include <thread>

struct Helper {
    const float* x = nullptr;
    float* out = nullptr;
    int64_t first = 0, last = 0;
    pthread_t thread, caller;
    sigset_t wake;

    Helper() : caller(pthread_self()) {
        sigemptyset(&wake);
        sigaddset(&wake, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, &wake, nullptr);
        std::thread worker([this] {
            for (;;) {
                wait();
                work(first, last);
                pthread_kill(caller, SIGUSR1);
            }
        });
        thread = worker.native_handle();
        worker.detach();
    }
    void wait() {
        int number;
        sigwait(&wake, &number);
    }
    void work(int64_t from, int64_t to) {
        for (int64_t i = from; i < to; i++) out[i] = 2.0f * std::sqrt(std::fabs(x[i]));
    }
};

extern "C" void double_it(const float* x, float* out, int64_t N) {
    static Helper& helper = *new Helper;
    helper.x = x, helper.out = out, helper.first = N / 2, helper.last = N;
    pthread_kill(helper.thread, SIGUSR1);
    helper.work(0, N / 2);
    helper.wait();
}
