#include "runtime/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>

namespace gm {
namespace {

TEST(ThreadPool, EachItemOnceInSharesThatFollowEachOther) {
  for (const int size : {1, 2, 3, 7}) {
    ThreadPool pool(size);
    ASSERT_EQ(pool.size(), size);
    for (const int64_t n : {0, 1, 2, 3, 6, 7, 8, 100, 1001}) {
      std::vector<int> owner(static_cast<size_t>(n), -1);
      pool.parallel_for(n, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t i = begin; i < end; ++i) {
          EXPECT_EQ(owner[static_cast<size_t>(i)], -1);
          owner[static_cast<size_t>(i)] = thread;
        }
      });
      EXPECT_TRUE(std::is_sorted(owner.begin(), owner.end()));
      for (int t = 0; t < size && n >= size; ++t) {
        const auto share = std::count(owner.begin(), owner.end(), t);
        EXPECT_GE(share, n / size) << n << " items, thread " << t;
        EXPECT_LE(share, n / size + 1);
      }
      EXPECT_EQ(std::count(owner.begin(), owner.end(), -1), 0);
    }
  }
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
