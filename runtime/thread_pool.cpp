#include "runtime/thread_pool.h"

#include <algorithm>

#include <sched.h>

#include "base/diag.h"

namespace gm {
namespace {

// About 20 to 50 microseconds: longer than what lies between two kernels of a step, shorter than
// what a user would see as a busy process.
constexpr int kSpins = 2000;

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

void ThreadPool::share(int thread, int64_t shares) {
  if (thread >= shares) return;
  // n * i without overflow: n = q * k + r.
  const int64_t quotient = items_ / shares, rest = items_ % shares;
  const auto border = [&](int64_t i) { return quotient * i + rest * i / shares; };
  call_(context_, border(thread), border(thread + 1), thread);
}

void ThreadPool::dispatch(int64_t n, void* context, Call call) {
  items_ = n;
  shares_ = std::min<int64_t>(n, size());
  context_ = context;
  call_ = call;
  busy_.store(static_cast<uint32_t>(workers_.size()), std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  share(0, shares_);
  for (uint32_t left = busy_.load(std::memory_order_acquire); left != 0;
       left = busy_.load(std::memory_order_acquire)) {
    await_change(busy_, left);
  }
}

void ThreadPool::work(int thread) {
  uint32_t seen = 0;
  while (true) {
    await_change(epoch_, seen);
    const uint32_t now = epoch_.load(std::memory_order_acquire);
    if (now == seen) continue;  // woken for nothing
    seen = now;
    if (stop_.load(std::memory_order_relaxed)) return;
    share(thread, shares_);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

int available_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace gm
