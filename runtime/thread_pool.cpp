#include "runtime/thread_pool.h"

#include <algorithm>

#include <sched.h>

#include "base/diag.h"

namespace gm {
namespace {

// About 20 to 50 microseconds: longer than what lies between two kernels of a step, shorter than
// what a user would see as a busy process.
constexpr int kSpins = 2000;

// More shares than threads, so that one that is late leaves work to the others.
constexpr int64_t kSharesPerThread = 4;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits until `value` is no longer `old`.
void await_change(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  GM_CHECK(threads >= 1, "a pool of {} threads", threads);
  workers_.reserve(static_cast<size_t>(threads - 1));
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

bool ThreadPool::take_share(uint32_t epoch, int thread) {
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  do {
    if (static_cast<uint32_t>(ticket >> 32) != epoch || (ticket & UINT32_MAX) == 0) return false;
  } while (!ticket_.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel,
                                          std::memory_order_acquire));
  const int64_t shares = shares_;
  const int64_t share = shares - static_cast<int64_t>(ticket & UINT32_MAX);
  // n * i / k without overflow: n = q * k + r.
  const int64_t quotient = items_ / shares, rest = items_ % shares;
  const auto border = [&](int64_t i) { return quotient * i + rest * i / shares; };
  call_(context_, border(share), border(share + 1), thread);
  done_.fetch_add(1, std::memory_order_release);
  return true;
}

void ThreadPool::dispatch(int64_t n, void* context, Call call) {
  items_ = n;
  shares_ = std::min<int64_t>(n, static_cast<int64_t>(size()) * kSharesPerThread);
  context_ = context;
  call_ = call;
  done_.store(0, std::memory_order_relaxed);
  const uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
  ticket_.store(uint64_t{epoch} << 32 | static_cast<uint64_t>(shares_), std::memory_order_release);
  epoch_.store(epoch, std::memory_order_release);
  epoch_.notify_all();
  while (take_share(epoch, 0)) {
  }
  // Others hold what is left; give way if one of them lost its processor meanwhile.
  for (int spins = 0; done_.load(std::memory_order_acquire) != shares_; ++spins) {
    if (spins < kSpins) {
      pause();
    } else {
      sched_yield();
    }
  }
}

void ThreadPool::work(int thread) {
  uint32_t seen = 0;
  while (true) {
    await_change(epoch_, seen);
    const uint32_t now = epoch_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (now == seen) continue;  // woken for nothing
    seen = now;
    while (take_share(now, thread)) {
    }
  }
}

int available_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace gm
