// Both ends of a timed round, as quick as we can make them. What the runner's end costs is taken off a program's time, so
// a program that answers by itself must not be able to do it for less; and the sooner the judge looks at an output after
// the reply, the less can be done in between. The runner's copy lives in the candidate's process and is believed nothing.
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

struct __attribute__((packed)) Header {  // evaluators/channel.py
    uint8_t kind, failure;
    uint16_t reserved;
    uint32_t slot;
    uint64_t nonce;
};
static_assert(sizeof(Header) == 16);
enum : uint8_t { CALL = 3, DONE = 18 };
constexpr int MOST_ARGUMENTS = 24;

int64_t now_ns() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return int64_t(time.tv_sec) * 1000000000 + time.tv_nsec;
}

// The next packet; for spin_ns without sleeping, then for as long as the socket's own deadline lets it.
ssize_t receive(int channel, void* packet, size_t room, int64_t spin_ns) {
    if (spin_ns > 0) {
        const int64_t until = now_ns() + spin_ns;
        do {
            const ssize_t length = recv(channel, packet, room, MSG_DONTWAIT);
            if (length >= 0 || (errno != EAGAIN && errno != EINTR)) return length;
        } while (now_ns() < until);
    }
    ssize_t length;
    do length = recv(channel, packet, room, 0);
    while (length < 0 && errno == EINTR);
    return length;
}

// Arguments beyond those the entry has are passed to nobody: the caller clears them away.
void invoke(void* entry, const int64_t* a) {
    using I = int64_t;
    using Entry = void(I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I, I);
    reinterpret_cast<Entry*>(entry)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12],
                                    a[13], a[14], a[15], a[16], a[17], a[18], a[19], a[20], a[21], a[22], a[23]);
}

}  // namespace

// In the runner: answer requests for calls. Returns the length of the first packet that is anything else (0: the channel
// is closed, negative: an error), which then lies in `packet`; or -2 where `call` said that it failed.
extern "C" int64_t answer_calls(int32_t channel, uint8_t* packet, int64_t room, int64_t spin_ns, uint32_t slots,
                                void* entry, const int64_t* arguments, int32_t (*call)(uint32_t)) {
    for (;;) {
        const ssize_t length = receive(channel, packet, room, spin_ns);
        Header header;
        if (length != sizeof header) return length < 0 ? -1 : length;
        std::memcpy(&header, packet, sizeof header);
        if (header.kind != CALL || header.slot >= slots) return length;
        if (entry)
            invoke(entry, arguments + int64_t(header.slot) * MOST_ARGUMENTS);
        else if (call(header.slot) != 0)
            return -2;
        header.kind = DONE;
        if (send(channel, &header, sizeof header, MSG_NOSIGNAL) < 0) return -1;
    }
}

struct Round {
    int32_t channel, process, calls, peeks;  // process: a pidfd
    int64_t spin_ns, most_ns, request_bytes;
    const uint8_t* requests;  // calls * request_bytes
    const Header* answers;
    const int64_t* places;   // calls * peeks offsets into the outputs
    const uint8_t* outputs;
    uint8_t* seen;           // what lay at each place when the reply had come
    uint8_t* reply;
    int64_t room;
    int64_t total_ns;        // from here on: what came of it
    int32_t answered;        // calls that were
    int32_t error;           // errno of the call that was not, or 0
    int64_t length;          // of a reply that is no answer
};

void tell(int32_t process, int signal) { syscall(SYS_pidfd_send_signal, process, signal, nullptr, 0); }

// In the judge: ask a stopped runner for the calls of a turn one by one. Returns 1 if each was answered as it must be.
// It goes on when the clock runs and its first request lies there, and is told to stop as soon as its last answer has been
// looked at: what lies outside would be time to work ahead in that nobody counts.
extern "C" int32_t ask_calls(Round* round) {
    const int64_t start = now_ns();
    for (round->answered = 0; round->answered < round->calls; round->answered++) {
        const int32_t i = round->answered;
        if (now_ns() - start > round->most_ns) {
            round->error = ETIMEDOUT;
            return 0;
        }
        const uint8_t* request = round->requests + i * round->request_bytes;
        ssize_t length = send(round->channel, request, round->request_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (i == 0) tell(round->process, SIGCONT);
        if (length >= 0) length = receive(round->channel, round->reply, round->room, round->spin_ns);
        if (length < 0) {
            round->error = errno;
            return 0;
        }
        if (length != sizeof(Header) || std::memcmp(round->reply, round->answers + i, sizeof(Header)) != 0) {
            round->length = length;
            return 0;
        }
        const volatile uint8_t* outputs = round->outputs;
        for (int32_t k = i * round->peeks; k < (i + 1) * round->peeks; k++) round->seen[k] = outputs[round->places[k]];
    }
    round->total_ns = now_ns() - start;
    tell(round->process, SIGSTOP);
    return 1;
}
