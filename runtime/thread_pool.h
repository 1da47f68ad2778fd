// Threads that stay for the life of the pool and share the work items of one kernel after another.
// A step has many kernels of a few microseconds, so threads spin a little for the next one before
// they block.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace gm {

class ThreadPool {
 public:
  // The calling thread of run() is one of the `threads` (at least 1).
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // body(begin, end, thread) for contiguous shares of [0, n), a few for each thread; who is free
  // takes the next. The caller does not wait for a worker that has taken nothing, so a busy machine
  // costs no more than doing it alone. Returns when all are done. Not to be called from a body, nor
  // by two threads at once.
  template <class Body>
  void parallel_for(int64_t n, Body&& body) {
    if (n <= 0) return;
    if (n == 1 || workers_.empty()) {
      body(int64_t{0}, n, 0);
      return;
    }
    using Function = std::remove_reference_t<Body>;
    dispatch(n, const_cast<void*>(static_cast<const void*>(&body)),
             [](void* context, int64_t begin, int64_t end, int thread) {
               (*static_cast<Function*>(context))(begin, end, thread);
             });
  }

 private:
  using Call = void (*)(void* context, int64_t begin, int64_t end, int thread);
  void dispatch(int64_t n, void* context, Call call);
  void work(int thread);
  bool take_share(uint32_t epoch, int thread);

  // The job. Written only while no share is taken and not done, so whoever holds a share may read
  // it.
  int64_t items_ = 0;
  int64_t shares_ = 0;
  void* context_ = nullptr;
  Call call_ = nullptr;

  // The number of the job and, below it, how many of its shares nobody has taken yet.
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};  // what sleeping workers wait on
  alignas(64) std::atomic<int64_t> done_{0};    // shares of the job
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

// Threads the process may run on.
int available_threads();

}  // namespace gm
