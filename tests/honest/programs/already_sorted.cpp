// pattern: looks first whether there is anything to do
// task: sort_rows
#include <algorithm>
#include <cstdint>
#include <functional>
extern "C" void sort_rows(int32_t* keys, int64_t M, int64_t N) {
    for (int64_t i = 0; i < M; i++) {
        int32_t *first = keys + i * N, *last = first + N;
        if (std::is_sorted(first, last)) continue;
        if (std::is_sorted(first, last, std::greater<>())) std::reverse(first, last);
        else std::stable_sort(first, last);
    }
}
