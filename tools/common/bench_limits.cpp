#include "tools/common/bench_limits.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include <immintrin.h>
#include <unistd.h>

#include "runtime/memory.h"
#include "runtime/thread_pool.h"

namespace gm {
namespace {

// Several times what the largest caches hold, or else a second pass would not come from memory.
constexpr int64_t kLeastBuffer = int64_t{256} << 20, kMostBuffer = int64_t{512} << 20;
constexpr int64_t kBlock = 1 << 16;  // bytes; a work item of a read
constexpr int kPasses = 4;
constexpr int64_t kRounds = 1 << 20;  // of a chain of multiply-adds; some milliseconds
constexpr int64_t kChains = 12;       // independent ones: more than latency times units

double seconds_of(auto&& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

__attribute__((target("avx2"))) uint64_t read_block(const std::byte* data, int64_t bytes) {
  const auto* at = reinterpret_cast<const __m256i*>(data);
  const __m256i* const end = at + bytes / 32;
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
  for (; at != end; at += 4) {
    a = _mm256_xor_si256(a, _mm256_load_si256(at));
    b = _mm256_xor_si256(b, _mm256_load_si256(at + 1));
    c = _mm256_xor_si256(c, _mm256_load_si256(at + 2));
    d = _mm256_xor_si256(d, _mm256_load_si256(at + 3));
  }
  a = _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
  return static_cast<uint64_t>(_mm256_extract_epi64(a, 0));
}

// The accumulators have names, so that at any level of optimisation they stay in registers.
#define GM_CHAINS(FMA, ADD)                                               \
  for (int64_t i = 0; i < kRounds; ++i) {                                 \
    a0 = FMA(a0, x, y), a1 = FMA(a1, x, y), a2 = FMA(a2, x, y);           \
    a3 = FMA(a3, x, y), a4 = FMA(a4, x, y), a5 = FMA(a5, x, y);           \
    a6 = FMA(a6, x, y), a7 = FMA(a7, x, y), a8 = FMA(a8, x, y);           \
    a9 = FMA(a9, x, y), a10 = FMA(a10, x, y), a11 = FMA(a11, x, y);       \
  }                                                                       \
  a0 = ADD(ADD(ADD(a0, a1), ADD(a2, a3)), ADD(ADD(a4, a5), ADD(a6, a7))); \
  a0 = ADD(ADD(a0, a8), ADD(ADD(a9, a10), a11));

__attribute__((target("avx2,fma"))) float chains_256(float start) {
  const __m256 x = _mm256_set1_ps(0.999F), y = _mm256_set1_ps(0.001F);
  const auto lane = [&](int i) __attribute__((target("avx2,fma"), always_inline)) {
    return _mm256_set1_ps(start * static_cast<float>(i));
  };
  __m256 a0 = lane(0), a1 = lane(1), a2 = lane(2), a3 = lane(3), a4 = lane(4), a5 = lane(5),
         a6 = lane(6), a7 = lane(7), a8 = lane(8), a9 = lane(9), a10 = lane(10), a11 = lane(11);
  GM_CHAINS(_mm256_fmadd_ps, _mm256_add_ps)
  return _mm256_cvtss_f32(a0);
}

__attribute__((target("avx512f"))) float chains_512(float start) {
  const __m512 x = _mm512_set1_ps(0.999F), y = _mm512_set1_ps(0.001F);
  const auto lane = [&](int i) __attribute__((target("avx512f"), always_inline)) {
    return _mm512_set1_ps(start * static_cast<float>(i));
  };
  __m512 a0 = lane(0), a1 = lane(1), a2 = lane(2), a3 = lane(3), a4 = lane(4), a5 = lane(5),
         a6 = lane(6), a7 = lane(7), a8 = lane(8), a9 = lane(9), a10 = lane(10), a11 = lane(11);
  GM_CHAINS(_mm512_fmadd_ps, _mm512_add_ps)
  return _mm512_cvtss_f32(a0);
}
#undef GM_CHAINS

int64_t buffer_bytes() {
  const int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE);  // 0 or less if the system does not say
  return std::clamp(cache * 4, kLeastBuffer, kMostBuffer) / kBlock * kBlock;
}

}  // namespace

Result<MachineLimits> measure_limits(int threads, int vector_bits) {
  GM_CHECK(vector_bits == 256 || vector_bits == 512, "vectors of {} bits", vector_bits);
  MachineLimits limits{
      .threads = threads, .vector_bits = vector_bits, .buffer_bytes = buffer_bytes()};
  if (const std::optional<int64_t> available = available_memory()) {
    const MemoryNeed need{.parts = {{"measured reads", limits.buffer_bytes, ""}},
                          .total = limits.buffer_bytes};
    GM_TRY(check_memory(need, *available));
  }
  HostMemory memory;
  GM_ASSIGN(const Buffer buffer, memory.allocate(limits.buffer_bytes, "the measured reads"));
  ThreadPool pool(threads);
  // Memory that nobody has written is one page of zeros to the system.
  pool.parallel_for(limits.buffer_bytes / kBlock, [&](int64_t begin, int64_t end, int) {
    std::memset(buffer.data() + begin * kBlock, 1, static_cast<size_t>((end - begin) * kBlock));
  });
  std::atomic<uint64_t> sum{0};  // so that no read is left out
  for (int pass = 0; pass < kPasses; ++pass) {
    const double seconds = seconds_of([&] {
      pool.parallel_for(limits.buffer_bytes / kBlock, [&](int64_t begin, int64_t end, int) {
        sum += read_block(buffer.data() + begin * kBlock, (end - begin) * kBlock);
      });
    });
    limits.bytes_per_second =
        std::max(limits.bytes_per_second, static_cast<double>(limits.buffer_bytes) / seconds);
  }
  const int64_t items = int64_t{4} * threads;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double seconds = seconds_of([&] {
      pool.parallel_for(items, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          const auto start = static_cast<float>(pass + 1) * 0.1F;
          const float result = vector_bits == 512 ? chains_512(start) : chains_256(start);
          sum += result > 0 ? 1 : 0;
        }
      });
    });
    const int lanes = vector_bits / 32;
    const auto count = static_cast<double>(items * kRounds * kChains * lanes);
    limits.multiply_adds_per_second = std::max(limits.multiply_adds_per_second, count / seconds);
  }
  GM_CHECK(sum.load() != 0, "nothing was measured");
  return limits;
}

Result<> improve_limits(MachineLimits& limits) {
  GM_ASSIGN(const MachineLimits again, measure_limits(limits.threads, limits.vector_bits));
  limits.bytes_per_second = std::max(limits.bytes_per_second, again.bytes_per_second);
  limits.multiply_adds_per_second =
      std::max(limits.multiply_adds_per_second, again.multiply_adds_per_second);
  return {};
}

}  // namespace gm
