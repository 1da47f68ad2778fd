// Native code against the interpreter, bit for bit.
#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/cpu/harness.h"

namespace gm::test {
namespace {

TEST(CpuKernels, RowNorm) {
  for (const int64_t width : {1, 7, 15, 16, 17, 64, 997}) {
    const std::string text = fmt::format(
        R"(kernel @norm {{
  symbol tokens : tokens in [1, 64]
  param %x : bf16[tokens, {0}] read activation
  param %w : f32[{0}] read weight
  param %y : bf16[tokens, {0}] write activation
  part rows grid (t < tokens) {{
    tile %a[k < {0}] : f32 = %x[t, k]
    reduce %s : f32 = dot lanes 16 over k < {0} of %a[k], %a[k]
    reduce %m : f32 = max lanes 16 over k < {0} of %a[k]
    tile %r : f32 = rsqrt(add(div(%s, to_f32(index({0}))), 0.000001))
    store %y[t, k] over (k < {0}) = round_bf16(mul(mul(%a[k], %r), add(%w[k], mul(%m, 0.25))))
  }}
}})",
        width);
    SCOPED_TRACE(width);
    run_everywhere(kernel_of(text), {5},
                   {random_floats(DType::bf16, 5 * width, 1), random_floats(DType::f32, width, 2),
                    Bytes(static_cast<size_t>(10 * width))});
  }
}

TEST(CpuKernels, PanelContraction) {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    for (const int64_t n : {16, 32, 48, 64, 80, 20, 3}) {
      const int64_t depth = n == 48 ? 1 : n == 32 ? 600 : 256;
      const std::string text = fmt::format(
          R"(kernel @panel {{
  symbol tokens : tokens in [1, 8192]
  param %x : bf16[tokens, {0}] read activation
  param %w : {1}[3, {0}, {2}] read weight
  param %y : f32[tokens, {3}] write activation
  part main grid (tb < ceildiv(tokens, 4), nb < 3) {{
    tile %a[m < min(4, tokens - 4*tb), k < {0}] : f32 = %x[4*tb + m, k]
    reduce %acc[m < min(4, tokens - 4*tb), n < {2}] : f32 = dot chain 256 over k < {0} of %a[m, k], %w[nb, k, n]
    store %y[4*tb + m, {2}*nb + n] over (m < min(4, tokens - 4*tb), n < {2}) = %acc[m, n]
  }}
}})",
          depth, to_string(dtype), n, 3 * n);
      const Kernel kernel = kernel_of(text);
      for (const int64_t tokens : {1, 3, 4, 9}) {
        SCOPED_TRACE(fmt::format("{} n {} tokens {}", to_string(dtype), n, tokens));
        run_everywhere(
            kernel, {tokens},
            {random_floats(DType::bf16, tokens * depth, 3), random_floats(dtype, 3 * depth * n, 4),
             Bytes(static_cast<size_t>(tokens * 3 * n * 4))});
      }
    }
  }
}

// What work items of a row have in common is computed once a row, wherever a thread's share begins;
// but a tile that each of them overwrites is new for each.
TEST(CpuKernels, WorkThatIsCommon) {
  const Kernel kernel = kernel_of(R"(kernel @common {
  symbol tokens : tokens in [1, 64]
  param %x : f32[tokens, 24] read activation
  param %y : f32[tokens, 5] write activation
  param %z : f32[tokens, 5] write activation
  part once grid (t < tokens, n < 5) {
    tile %a[k < 24] : f32 = exp(%x[t, k])
    tile %sum : f32 = 0.0
    for k in [0, 24) {
      update %sum = add(%sum, %a[k])
    }
    store %y[t, n] over () = mul(%sum, to_f32(index(n)))
  }
  part each grid (t < tokens, n < 5) {
    tile %a[k < 24] : f32 = %x[t, k]
    update %a[0] = 1.0
    update %a[k] over (k < 24) = add(%a[k], to_f32(index(n)))
    reduce %s : f32 = sum lanes 16 over k < 24 of %a[k]
    store %z[t, n] over () = %s
  }
})");
  run_everywhere(kernel, {7},
                 {random_floats(DType::f32, 7 * 24, 5), Bytes(7 * 5 * 4), Bytes(7 * 5 * 4)});
}

TEST(CpuKernels, Elementwise) {
  const Kernel kernel = kernel_of(R"(kernel @pointwise {
  symbol n : tokens in [0, 4096]
  param %x : f32[n] read activation
  param %h : f16[n] read activation
  param %y : bf16[n] write activation
  param %z : f16[n] write activation
  param %e : f32[n] write activation
  part main grid (one < 1) {
    store %y[i] over (i < n) = div(%x[i], add(1.0, exp(neg(%x[i]))))
    store %z[i] over (i < n) = round_f16(mul(%h[i], %x[i]))
    store %e[i] over (i < n) = select(le(%x[i], 20.0), log1p(exp(min(%x[i], 80.0))), max(sin(%h[i]), floor(%x[i])))
  }
})");
  for (const int64_t n : {0, 1, 15, 16, 17, 997}) {
    SCOPED_TRACE(n);
    const auto size = static_cast<size_t>(n);
    run_everywhere(kernel, {n},
                   {random_floats(DType::f32, n, 5, true), random_floats(DType::f16, n, 6, true),
                    Bytes(2 * size), Bytes(2 * size), Bytes(4 * size)});
  }
}

TEST(CpuKernels, RoundingOfSpecialValues) {
  const Kernel kernel = kernel_of(R"(kernel @round {
  symbol n : tokens in [0, 4096]
  param %x : f32[n] read activation
  param %y : bf16[n] write activation
  param %z : f16[n] write activation
  part main grid (one < 1) {
    store %y[i] over (i < n) = %x[i]
    store %z[i] over (i < n) = %x[i]
  }
})");
  std::vector<float> values;
  for (const uint32_t bits :
       {0x7f800001u, 0xffc12345u, 0x7fffffffu, 0x7f800000u, 0xff800000u, 0x7f7fffffu, 0x3f808000u,
        0x3f818000u, 0x477fefffu, 0x477ff000u, 0x33000000u, 0x33000001u, 0x00000001u, 0x80000000u,
        0x387fffffu, 0x38800000u, 0x7f80ffffu}) {
    values.push_back(std::bit_cast<float>(bits));
  }
  run_everywhere(kernel, {17}, {bytes_of(values), Bytes(34), Bytes(34)});
}

TEST(CpuKernels, DeltaRule) {
  const Kernel kernel = kernel_of(R"(kernel @delta {
  symbol tokens : tokens in [1, 64]
  symbol seqs : seqs in [1, 8]
  symbol slots : slots in [1, 16]
  param %q : bf16[tokens, 2, 32] read activation
  param %k : bf16[tokens, 2, 32] read activation
  param %v : bf16[tokens, 2, 48] read activation
  param %beta : f32[tokens, 2] read activation
  param %start : i32[seqs + 1] read step range [0, tokens + 1)
  param %slot : i32[seqs] read step range [-1, slots) distinct masked
  param %s : f32[slots, 2, 32, 48] read_write state
  param %y : f32[tokens, 2, 48] write activation
  part scan grid (b < seqs, h < 2) {
    if le(index(0), %slot[b]) {
      tile %state[i < 32, j < 48] : f32 = %s[%slot[b], h, i, j]
      for t in [%start[b], %start[b + 1]) {
        tile %g : f32 = exp(neg(%beta[t, h]))
        reduce %old[j < 48] : f32 = dot chain 256 over i < 32 of %k[t, h, i], %state[i, j]
        tile %d[j < 48] : f32 = mul(%beta[t, h], sub(%v[t, h, j], mul(%g, %old[j])))
        update %state[i, j] over (i < 32, j < 48) = fma(%k[t, h, i], %d[j], mul(%g, %state[i, j]))
        reduce %o[j < 48] : f32 = dot chain 256 over i < 32 of %q[t, h, i], %state[i, j]
        store %y[t, h, j] over (j < 48) = %o[j]
      }
      store %s[%slot[b], h, i, j] over (i < 32, j < 48) = %state[i, j]
    }
  }
})");
  run_everywhere(
      kernel, {11, 3, 4},
      {random_floats(DType::bf16, 11 * 64, 7), random_floats(DType::bf16, 11 * 64, 8),
       random_floats(DType::bf16, 11 * 96, 9), random_floats(DType::f32, 22, 10),
       bytes_of(std::vector<int32_t>{0, 4, 4, 11}), bytes_of(std::vector<int32_t>{2, -1, 0}),
       random_floats(DType::f32, 4 * 2 * 32 * 48, 11), Bytes(11 * 2 * 48 * 4)});
}

TEST(CpuKernels, PagedAttention) {
  const Kernel kernel = kernel_of(R"(kernel @attend {
  symbol seqs : seqs in [1, 8]
  symbol maxpages : pages in [1, 16]
  symbol pages : pages in [1, 64]
  param %q : bf16[seqs, 4, 32] read activation
  param %kc : bf16[pages, 16, 2, 32] read state
  param %vc : bf16[pages, 16, 2, 32] read state
  param %table : i32[seqs, maxpages] read step range [-1, pages)
  param %ctx : i32[seqs] read step range [1, 16*maxpages + 1)
  param %y : bf16[seqs, 4, 32] write activation
  part main grid (b < seqs, h < 4) {
    let len in [1, 16*maxpages] = %ctx[b]
    tile %p[t < len] : f32 = 0.0
    reduce %score[t < len] : f32 = dot lanes 16 over d < 32 of %q[b, h, d], %kc[%table[b, floordiv(t, 16)], mod(t, 16), floordiv(h, 2), d]
    reduce %top : f32 = max lanes 16 over t < len of %score[t]
    update %p[t] over (t < len) = exp(mul(sub(%score[t], %top), 0.125))
    reduce %sum : f32 = sum lanes 16 over t < len of %p[t]
    reduce %o[d < 32] : f32 = dot chain 64 over t < len of %p[t], %vc[%table[b, floordiv(t, 16)], mod(t, 16), floordiv(h, 2), d]
    store %y[b, h, d] over (d < 32) = round_bf16(div(%o[d], %sum))
  }
})");
  run_everywhere(
      kernel, {3, 5, 9},
      {random_floats(DType::bf16, 3 * 128, 12), random_floats(DType::bf16, 9 * 1024, 13),
       random_floats(DType::bf16, 9 * 1024, 14),
       bytes_of(std::vector<int32_t>{3, 0, 8, 1, 2, 7, -1, -1, -1, -1, 4, 5, -1, -1, -1}),
       bytes_of(std::vector<int32_t>{80, 1, 21}), Bytes(3 * 4 * 32 * 2)});
}

TEST(CpuKernels, Argmax) {
  const Kernel kernel = kernel_of(R"(kernel @argmax {
  symbol rows : rows in [1, 64]
  symbol n : constant in [1, 4096]
  param %x : f32[rows, n] read activation
  param %y : i32[rows] write step
  part main grid (r < rows) {
    reduce %best : index = argmax lanes 16 over k < n of %x[r, k]
    store %y[r] = %best
  }
})");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (const int64_t n : {1, 15, 16, 17, 33, 997}) {
    SCOPED_TRACE(n);
    const auto size = static_cast<size_t>(n);
    std::vector<float> x = values_of<float>(random_floats(DType::f32, 6 * n, 15));
    for (size_t i = 0; i < size; ++i) {
      x[size + i] = -inf;
      x[2 * size + i] = i % 2 ? 0.0f : -0.0f;
      x[5 * size + i] = static_cast<float>(i % 5);
    }
    x[3 * size + size / 2] = nan;
    x[3 * size + size - 1] = nan;
    x[4 * size + size - 1] = inf;
    const auto after = run_everywhere(kernel, {6, n}, {bytes_of(x), Bytes(24)});
    ASSERT_EQ(after.size(), 2u);
    const auto best = values_of<int32_t>(after[1]);
    EXPECT_EQ(best[1], 0);
    EXPECT_EQ(best[2], 0);
    EXPECT_EQ(best[3], n / 2);
    EXPECT_EQ(best[4], n - 1);
    EXPECT_EQ(best[5], std::min<int64_t>(n - 1, 4));
  }
}

TEST(CpuKernels, PartsShareOneLaunch) {
  const Kernel kernel = kernel_of(R"(kernel @parts {
  symbol n : tokens in [0, 64]
  param %x : f32[n, 20] read activation
  param %y : f32[20, n] write activation
  param %z : i32[n, 3] write activation
  part turned grid (i < n) {
    store %y[j, i] over (j < 20) = mul(%x[i, j], 2.0)
  }
  part none grid (i < 0) {
    store %z[i, 0] = index(1)
  }
  part numbers grid (i < n, j < 3) {
    store %z[i, j] = index(3*i + floordiv(j, 2) - 5)
  }
  part columns grid (one < 0) {
    store %y[0, i] over (i < n) = %x[i, 3]
  }
})");
  for (const int64_t n : {0, 1, 17}) {
    const auto size = static_cast<size_t>(n);
    run_everywhere(kernel, {n},
                   {random_floats(DType::f32, n * 20, 16), Bytes(size * 80), Bytes(size * 12)});
  }
}

// An arm that is not taken may point outside the buffer: with a scalar and with a lane-wise
// condition.
TEST(CpuKernels, SelectGuardsItsLoads) {
  for (const int64_t channels : {16, 19, 1}) {
    const Kernel kernel = kernel_of(fmt::format(
        R"(kernel @conv {{
  symbol n : tokens in [1, 4096]
  param %x : bf16[n, {0}] read activation
  param %pick : i32[n] read step range [-1, n) masked
  param %y : f32[n, {0}] write activation
  param %z : f32[n] write activation
  param %g : f32[n] write activation
  part main grid (t < n) {{
    store %y[t, c] over (c < {0}) = select(le(index(2), index(t)), %x[t - 2, c], -1.0)
  }}
  part shifted grid (one < 1) {{
    store %z[t] over (t < n) = select(le(index(3), index(t)), %x[t - 3, 0], 7.0)
    store %g[t] over (t < n) = select(le(index(0), %pick[t]), %x[%pick[t], {1}], 0.5)
  }}
}})",
        channels, channels / 2));
    for (const int64_t n : {1, 2, 40}) {
      const auto size = static_cast<size_t>(n);
      std::vector<int32_t> pick;
      for (int64_t i = 0; i < n; ++i)
        pick.push_back(i % 3 == 0 ? -1 : static_cast<int32_t>(i * 7 % n));
      run_everywhere(
          kernel, {n},
          {random_floats(DType::bf16, n * channels, 17), bytes_of(pick),
           Bytes(size * static_cast<size_t>(channels) * 4), Bytes(size * 4), Bytes(size * 4)});
    }
  }
}

TEST(CpuKernels, OrdersOfReductions) {
  const Kernel kernel = kernel_of(R"(kernel @orders {
  symbol n : tokens in [0, 4096]
  param %x : f32[n, 5] read activation
  param %y : f32[12] write activation
  param %c : f32[5] write activation
  part main grid (one < 1) {
    reduce %a : f32 = sum chain 7 over k < n of %x[k, 1]
    reduce %b : f32 = dot chain 256 over k < n of %x[k, 1], %x[k, 2]
    reduce %d : f32 = sum lanes 8 over k < n of %x[k, 3]
    reduce %e : f32 = sum lanes 32 over k < n of %x[k, 4]
    reduce %f : f32 = max lanes 4 over k < n of %x[k, 0]
    reduce %g : f32 = max chain 16 over k < n of %x[k, 0]
    reduce %col[j < 5] : f32 = sum chain 16 over k < n of %x[k, j]
    store %y[0] = %a
    store %y[1] = %b
    store %y[2] = %d
    store %y[3] = %e
    store %y[4] = %f
    store %y[5] = %g
    store %c[j] over (j < 5) = %col[j]
  }
})");
  for (const int64_t n : {0, 1, 15, 16, 17, 997}) {
    SCOPED_TRACE(n);
    run_everywhere(kernel, {n}, {random_floats(DType::f32, n * 5, 18, true), Bytes(48), Bytes(20)});
  }
}

TEST(CpuKernels, LoopsOverTilesAndIndices) {
  const Kernel kernel = kernel_of(R"(kernel @loops {
  symbol n : tokens in [1, 64]
  param %ids : i32[n] read step range [0, 32)
  param %e : bf16[32, 24] read weight
  param %y : f32[n, 24] write activation
  param %w : f32[24] write activation
  part main grid (t < n) {
    tile %id : index = %ids[t]
    tile %run[j < 24] : f32 = 0.0
    for i in [0, t) {
      if lt(index(i), %id) {
        update %run[j] over (j < 24) = add(%run[j], %e[%id, j])
      }
    }
    tile %turned[j < 24] : f32 = %run[23 - j]
    store %y[t, j] over (j < 24) = sub(%turned[j], %run[mod(5*j, 24)])
  }
  part bits grid (j < 24) {
    store %w[j] = from_bits(bit_or(bit_and(to_bits(%e[j, j]), to_bits(%e[0, 3])), shl(f32_to_bits(floor(%e[1, 2])), bits(3))))
  }
})");
  std::vector<int32_t> ids;
  for (int i = 0; i < 30; ++i) ids.push_back(i * 11 % 32);
  run_everywhere(
      kernel, {30},
      {bytes_of(ids), random_floats(DType::bf16, 32 * 24, 19), Bytes(30 * 24 * 4), Bytes(96)});
}

}  // namespace
}  // namespace gm::test
