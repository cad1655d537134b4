// pattern: an early exit for trivial shapes, and a table computed from the shape
// task: softmax_rows
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

using Tiles = std::vector<std::pair<int64_t, int64_t>>;

static const Tiles& tiles(int64_t N) {
    static std::map<int64_t, Tiles> known;
    Tiles& found = known[N];
    for (int64_t start = 0; found.empty() || found.back().second < N; start += 512)
        found.emplace_back(start, std::min(start + 512, N));
    return found;
}

extern "C" void softmax(const float* x, float* out, int64_t M, int64_t N) {
    if (N == 1) {
        std::fill(out, out + M, 1.0f);
        return;
    }
    for (int64_t i = 0; i < M; i++) {
        const float top = *std::max_element(x + i * N, x + (i + 1) * N);
        float total = 0.0f;
        for (const auto& [first, last] : tiles(N)) {
            float part = 0.0f;
            for (int64_t j = first; j < last; j++) part += out[i * N + j] = std::exp(x[i * N + j] - top);
            total += part;
        }
        for (int64_t j = 0; j < N; j++) out[i * N + j] /= total;
    }
}
