// Kernels of the forms that lowering makes; the verifier must accept them as they are.
#include <gtest/gtest.h>

#include "ir/tile.h"

namespace gm {
namespace {

void accept(std::string_view text) {
  const auto kernel = parse_kernel(text, "k.gm");
  ASSERT_TRUE(kernel) << kernel.error().to_string();
  const auto result = verify_kernel(*kernel);
  EXPECT_TRUE(result) << result.error().to_string();
}

TEST(TileAccept, RowNorm) {
  accept(R"(kernel @norm {
    symbol tokens : tokens in [1, 8192]
    param %x : bf16[tokens, 1024] read activation
    param %w : bf16[1024] read weight
    param %y : bf16[tokens, 1024] write activation
    part rows grid (t < tokens) {
      reduce %ss : f32 = sum lanes 16 over k < 1024 of mul(%x[t, k], %x[t, k])
      tile %scale : f32 = rsqrt(add(mul(%ss, 0.0009765625), 1e-06))
      store %y[t, d] over (d < 1024) = mul(mul(%x[t, d], %scale), add(%w[d], 1.0))
    }
  })");
}

TEST(TileAccept, ContractionWithRaggedTokensAndTail) {
  accept(R"(kernel @mlp {
    symbol tokens : tokens in [1, 8192]
    param %x : bf16[tokens, 256] read activation
    param %w : bf16[3, 256, 32] read weight
    param %y : bf16[tokens, 70] write activation
    part p grid (tb < ceildiv(tokens, 4), nb < 3) {
      tile %a[m < min(4, tokens - 4*tb), k < 256] : f32 = %x[4*tb + m, k]
      reduce %acc[m < min(4, tokens - 4*tb), n < min(32, 70 - 32*nb)] : f32 = dot chain 256 over k < 256 of %a[m, k], %w[nb, k, n]
      store %y[4*tb + m, 32*nb + n] over (m < min(4, tokens - 4*tb), n < min(32, 70 - 32*nb)) = %acc[m, n]
    }
  })");
}

TEST(TileAccept, SiblingsAndRangesOfOneOutput) {
  accept(R"(kernel @rope {
    symbol tokens : tokens in [1, 64]
    param %x : bf16[tokens, 8, 64] read activation
    param %y : bf16[tokens, 8, 64] write activation
    param %z : f32[tokens, 512] write activation
    part p grid (t < tokens, h < 8) {
      store %y[t, h, i] over (i < 8) = neg(%x[t, h, i + 8])
      store %y[t, h, i + 8] over (i < 8) = %x[t, h, i]
      store %y[t, h, i + 16] over (i < 48) = %x[t, h, i + 16]
    }
    part q grid (t < tokens) {
      store %z[t, kk] over (kk < 512) = select(lt(index(mod(kk, 64)), index(16)), %x[t, floordiv(kk, 64), mod(kk, 64) + 48], 0.0)
    }
  })");
}

TEST(TileAccept, HeadsByDivision) {
  accept(R"(kernel @heads {
    symbol tokens : tokens in [1, 64]
    param %x : bf16[tokens, 512] read activation
    param %y : bf16[tokens, 8, 64] write activation
    part p grid (t < tokens) {
      store %y[t, floordiv(kk, 64), mod(kk, 64)] over (kk < 512) = %x[t, kk]
    }
  })");
}

constexpr const char* kDelta = R"(kernel @delta {
    symbol tokens : tokens in [1, 8192]
    symbol seqs : seqs in [1, 64]
    symbol slots : slots in [1, inf]
    param %start : i32[seqs + 1] read step range [0, tokens + 1) monotone total tokens
    param %slot : i32[seqs] read step range [-1, slots) distinct masked
    param %k : f32[tokens, 4, 128] read activation
    param %v : f32[tokens, 4, 128] read activation
    param %state : f32[slots, 4, 128, 128] read_write state
    param %y : bf16[tokens, 4, 128] write activation
    part p grid (s < seqs, h < 4, vb < 8) {
      if le(index(0), %slot[s]) {
        tile %st[i < 16, j < 128] : f32 = %state[%slot[s], h, 16*vb + i, j]
        for t in [%start[s], %start[s + 1]) {
          reduce %kv[i < 16] : f32 = dot lanes 16 over j < 128 of %st[i, j], %k[t, h, j]
          update %st[i, j] over (i < 16, j < 128) = fma(%k[t, h, j], sub(%v[t, h, 16*vb + i], %kv[i]), %st[i, j])
          reduce %o[i < 16] : f32 = dot lanes 16 over j < 128 of %st[i, j], %k[t, h, j]
          store %y[t, h, 16*vb + i] over (i < 16) = %o[i]
        }
        store %state[%slot[s], h, 16*vb + i, j] over (i < 16, j < 128) = %st[i, j]
      }
    }
  })";

TEST(TileAccept, DeltaRule) { accept(kDelta); }

TEST(TileAccept, ResidentBytesCountTheTilesInScope) {
  const auto kernel = parse_kernel(kDelta, "k.gm");
  ASSERT_TRUE(kernel);
  // 16 x 128 state, two rows of 16.
  EXPECT_TRUE(verify_kernel(*kernel, 4 * (16 * 128 + 16 + 16)));
  const auto over = verify_kernel(*kernel, 4 * (16 * 128 + 16 + 16) - 1);
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Code::tile_resident);
  EXPECT_EQ(over.error().message, "with %o the tiles take 8320 bytes, over the limit of 8319");
  EXPECT_EQ(over.error().location.path, "@delta/p/stmt 1 (if)/stmt 2 (for t)/stmt 3 (reduce %o)");
}

TEST(TileAccept, PagedAppend) {
  accept(R"(kernel @append {
    symbol tokens : tokens in [1, 8192]
    symbol seqs : seqs in [1, 64]
    symbol context : context in [1, 32768]
    symbol pages : pages in [1, inf]
    param %start : i32[seqs + 1] read step range [0, tokens + 1) monotone total tokens
    param %slot : i32[seqs] read step range [-1, seqs) distinct masked
    param %pos : i32[tokens] read step range [0, context) consecutive
    param %pages : i32[seqs, ceildiv(context, 16)] read step range [0, pages) distinct
    param %k : bf16[tokens, 2, 64] read activation
    param %cache : bf16[pages, 16, 2, 64] write state
    part p grid (s < seqs, h < 2) {
      if le(index(0), %slot[s]) {
        for t in [%start[s], %start[s + 1]) {
          let p in [0, context - 1] = %pos[t]
          store %cache[%pages[s, floordiv(p, 16)], mod(p, 16), h, d] over (d < 64) = %k[t, h, d]
        }
      }
    }
    part q grid (s < seqs) {
    }
  })");
  accept(R"(kernel @append {
    symbol seqs : seqs in [1, 64]
    symbol context : context in [1, 32768]
    symbol pages : pages in [1, inf]
    param %pos : i32[seqs] read step range [0, context)
    param %pages : i32[seqs, ceildiv(context, 16)] read step range [-1, pages) distinct masked
    param %k : bf16[seqs, 2, 64] read activation
    param %cache : bf16[pages, 16, 2, 64] write state
    part p grid (s < seqs, h < 2) {
      if le(index(0), %pages[s, floordiv(%pos[s], 16)]) {
        store %cache[%pages[s, floordiv(%pos[s], 16)], mod(%pos[s], 16), h, d] over (d < 64) = %k[s, h, d]
      }
    }
  })");
}

TEST(TileAccept, PagedAttentionInTwoPhases) {
  accept(R"(kernel @attend {
    symbol tokens : tokens in [1, 8192]
    symbol seqs : seqs in [1, 64]
    symbol context : context in [1, 32768]
    symbol pages : pages in [1, inf]
    param %start : i32[seqs + 1] read step range [0, tokens + 1) monotone total tokens
    param %slot : i32[seqs] read step range [-1, seqs) distinct masked
    param %pos : i32[tokens] read step range [0, context) consecutive
    param %pages : i32[seqs, ceildiv(context, 16)] read step range [0, pages) distinct
    param %q : bf16[tokens, 4, 64] read activation
    param %k : bf16[pages, 16, 2, 64] read state
    param %v : bf16[pages, 16, 2, 64] read state
    param %y : bf16[tokens, 4, 64] write activation
    part p grid (s < seqs, h < 4) {
      for t in [%start[s], %start[s + 1]) {
        let n in [1, context] = add(%pos[t], index(1))
        reduce %sc[j < n] : f32 = dot lanes 16 over d < 64 of %q[t, h, d], %k[%pages[s, floordiv(j, 16)], mod(j, 16), floordiv(h, 2), d]
        reduce %top : f32 = max lanes 16 over j < n of %sc[j]
        tile %e[j < n] : f32 = exp(sub(%sc[j], %top))
        reduce %sum : f32 = sum lanes 16 over j < n of %e[j]
        reduce %o[d < 64] : f32 = dot lanes 16 over j < n of %e[j], %v[%pages[s, floordiv(j, 16)], mod(j, 16), floordiv(h, 2), d]
        store %y[t, h, d] over (d < 64) = div(%o[d], %sum)
      }
    }
  })");
}

TEST(TileAccept, EmbeddingGatherAndArgmax) {
  accept(R"(kernel @sample {
    symbol rows : rows in [1, 64]
    symbol tokens : tokens in [rows, 8192]
    param %ids : i32[tokens] read step range [0, 1000)
    param %at : i32[rows] read step range [0, tokens)
    param %table : bf16[1000, 64] read weight
    param %next : i32[rows] write step
    param %bias : f32[1000] read weight
    param %y : f32[rows] write activation
    part p grid (r < rows) {
      tile %id : index = %ids[%at[r]]
      tile %row[d < 64] : f32 = %table[%id, d]
      reduce %logits[v < 1000] : f32 = dot chain 256 over d < 64 of %row[d], %table[v, d]
      reduce %best : index = argmax lanes 16 over v < 1000 of %logits[v]
      store %next[r] = %best
      store %y[r] = %bias[%best]
    }
  })");
}

TEST(TileAccept, ConvStateByGuardedSelect) {
  accept(R"(kernel @conv {
    symbol tokens : tokens in [1, 8192]
    symbol seqs : seqs in [1, 64]
    symbol slots : slots in [1, inf]
    param %start : i32[seqs + 1] read step range [0, tokens + 1) monotone total tokens
    param %slot : i32[seqs] read step range [-1, slots) distinct masked
    param %x : bf16[tokens, 64] read activation
    param %w : bf16[64, 4] read weight
    param %hist : bf16[slots, 64, 3] read_write state
    param %y : bf16[tokens, 64] write activation
    part p grid (s < seqs) {
      if le(index(0), %slot[s]) {
        tile %h[c < 64, i < 3] : f32 = %hist[%slot[s], c, i]
        for t in [%start[s], %start[s + 1]) {
          reduce %acc[c < 64] : f32 = dot lanes 4 over i < 4 of %w[c, i], select(lt(index(i), index(3)), %h[c, i], %x[t, c])
          store %y[t, c] over (c < 64) = %acc[c]
          tile %old[c < 64, i < 3] : f32 = %h[c, i]
          update %h[c, i] over (c < 64, i < 3) = select(lt(index(i), index(2)), %old[c, i + 1], %x[t, c])
        }
        store %hist[%slot[s], c, i] over (c < 64, i < 3) = %h[c, i]
      }
    }
  })");
}

TEST(TileAccept, OneWorkItemOfSeveralWrites) {
  accept(R"(kernel @k {
    symbol tokens : tokens in [1, 64]
    param %y : f32[tokens] write activation
    param %z : f32[tokens, 4] write activation
    part p grid (t < tokens, h < 4) {
      store %z[t, h] = 1.0
      if eq(index(h), index(0)) {
        store %y[t] = 1.0
      }
    }
  })");
}

}  // namespace
}  // namespace gm
