#include "runtime/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>

namespace gm {
namespace {

TEST(ThreadPool, EachItemOnceByOneThread) {
  for (const int size : {1, 2, 3, 7}) {
    ThreadPool pool(size);
    ASSERT_EQ(pool.size(), size);
    for (const int64_t n : {0, 1, 2, 3, 6, 7, 8, 100, 1001}) {
      std::vector<std::atomic<int>> taken(static_cast<size_t>(n));
      std::atomic<bool> known_thread = true;
      pool.parallel_for(n, [&](int64_t begin, int64_t end, int thread) {
        if (thread < 0 || thread >= size) known_thread = false;
        for (int64_t i = begin; i < end; ++i) ++taken[static_cast<size_t>(i)];
      });
      EXPECT_TRUE(known_thread);
      for (const std::atomic<int>& times : taken) EXPECT_EQ(times, 1);
    }
  }
}

TEST(ThreadPool, TheCallerDoesNotWaitForWhoDidNotStart) {
  // One worker is kept in the first job's share while the caller runs all the others.
  ThreadPool pool(2);
  std::atomic<bool> release = false;
  std::atomic<int> by_caller = 0;
  pool.parallel_for(8, [&](int64_t, int64_t, int thread) {
    if (thread == 0) {
      if (++by_caller == 7) release = true;
    } else {
      while (!release && by_caller < 7) std::this_thread::yield();
      release = true;
    }
    if (by_caller == 8) release = true;
  });
  EXPECT_GE(by_caller, 7);
}

TEST(ThreadPool, WhatOneJobWritesTheNextReads) {
  ThreadPool pool(3);
  std::vector<int64_t> a(64, 1), b(64, 0);
  for (int round = 0; round < 2000; ++round) {
    pool.parallel_for(64, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        b[static_cast<size_t>(i)] = a[static_cast<size_t>(63 - i)] + 1;
    });
    std::swap(a, b);
  }
  EXPECT_EQ(std::accumulate(a.begin(), a.end(), int64_t{0}), 64 * 2001);
}

TEST(ThreadPool, SleepersWakeAndPoolsComeAndGo) {
  for (int round = 0; round < 20; ++round) {
    ThreadPool pool(4);
    std::this_thread::sleep_for(
        std::chrono::milliseconds(2));  // long enough for the workers to block
    std::atomic<int64_t> sum = 0;
    pool.parallel_for(100, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
    EXPECT_EQ(sum, 100);
  }
}

}  // namespace
}  // namespace gm
