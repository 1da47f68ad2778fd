// What a machine can do at best, measured: how fast its threads read memory, and how many
// multiply-adds of f32 they do. `bench` sets its times beside these, from the same run, since a
// rate says little without what was possible.
#pragma once

#include <cstdint>

#include "base/diag.h"

namespace gm {

struct MachineLimits {
  int threads = 0;
  int vector_bits = 0;          // of the multiply-adds
  int64_t buffer_bytes = 0;     // that was read
  double bytes_per_second = 0;  // the best of a few passes
  double multiply_adds_per_second = 0;
};

// `vector_bits` is 256 or 512, which the CPU must have. The buffer is gone afterwards.
Result<MachineLimits> measure_limits(int threads, int vector_bits);
// Measures once more and keeps what is better: other programs may have disturbed the first time.
Result<> improve_limits(MachineLimits& limits);

}  // namespace gm
