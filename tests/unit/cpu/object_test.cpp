// The shared object itself, and what is refused.
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>

#include "codegen/cpu/loader.h"
#include "tests/unit/cpu/harness.h"

namespace gm::test {
namespace {

constexpr const char* kScale = R"(kernel @scale {
  symbol n : tokens in [0, 4096]
  param %x : f32[n] read activation
  param %y : f32[n] write activation
  part main grid (one < 1) {
    tile %big[i < 4096] : f32 = 0.0
    tile %small[i < 64] : f32 = 1.0
    store %y[i] over (i < n) = add(mul(%x[i], 2.0), add(%big[i], %small[0]))
  }
})";

std::vector<Kernel> some_kernels() {
  std::vector<Kernel> kernels;
  for (int i = 0; i < 6; ++i) {
    Kernel kernel = kernel_of(kScale);
    kernel.name = fmt::format("scale.{}", i);
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

struct Elf {
  std::vector<std::string> exported, undefined, needed;
  bool constructors = false;
};

Elf read_elf(std::span<const std::byte> bytes) {
  Elf result;
  Elf64_Ehdr header;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  std::memcpy(sections.data(), bytes.data() + header.e_shoff, sections.size() * sizeof(Elf64_Shdr));
  const auto text = [&](const Elf64_Shdr& table, uint64_t at) {
    return std::string(
        reinterpret_cast<const char*>(bytes.data() + sections[table.sh_link].sh_offset + at));
  };
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type == SHT_INIT_ARRAY || section.sh_type == SHT_FINI_ARRAY)
      result.constructors = true;
    if (section.sh_type == SHT_DYNSYM) {
      for (uint64_t i = 1; i < section.sh_size / sizeof(Elf64_Sym); ++i) {
        Elf64_Sym symbol;
        std::memcpy(&symbol, bytes.data() + section.sh_offset + i * sizeof symbol, sizeof symbol);
        (symbol.st_shndx == SHN_UNDEF ? result.undefined : result.exported)
            .push_back(text(section, symbol.st_name));
      }
    }
    if (section.sh_type == SHT_DYNAMIC) {
      for (uint64_t i = 0; i < section.sh_size / sizeof(Elf64_Dyn); ++i) {
        Elf64_Dyn entry;
        std::memcpy(&entry, bytes.data() + section.sh_offset + i * sizeof entry, sizeof entry);
        if (entry.d_tag == DT_NEEDED) result.needed.push_back(text(section, entry.d_un.d_val));
        if (entry.d_tag == DT_INIT || entry.d_tag == DT_FINI) result.constructors = true;
      }
    }
  }
  return result;
}

TEST(CpuObject, ExportsTheKernelsAndNeedsNothing) {
  for (const CpuTarget& target : host_targets()) {
    const auto object = compile_kernels(some_kernels(), target);
    ASSERT_TRUE(object) << object.error().to_string();
    const Elf elf = read_elf(object->shared_object);
    EXPECT_THAT(elf.exported, testing::UnorderedElementsAre("k0", "k1", "k2", "k3", "k4", "k5"));
    EXPECT_THAT(elf.undefined, testing::IsEmpty());
    EXPECT_THAT(elf.needed, testing::IsEmpty());
    EXPECT_FALSE(elf.constructors);
    ASSERT_EQ(object->kernels.size(), 6u);
    EXPECT_EQ(object->kernels[4].name, "scale.4");
    EXPECT_EQ(object->kernels[4].symbol, "k4");
    EXPECT_EQ(object->kernels[4].scratch_bytes, 4096 * 4);  // the small tile is on the stack
    EXPECT_EQ(object->llvm_version.substr(0, 3), "19.");
  }
}

TEST(CpuObject, BytesAreDeterministic) {
  const CpuTarget target = *parse_cpu_target("cpu");
  int calls = 0;
  int last = 0;
  const auto first = compile_kernels(some_kernels(), target, [&](int done, int total) {
    EXPECT_EQ(total, 6);
    EXPECT_EQ(done, last + 1);
    last = done;
    ++calls;
  });
  ASSERT_TRUE(first) << first.error().to_string();
  EXPECT_EQ(calls, 6);
  for (int i = 0; i < 3; ++i) {
    const auto second = compile_kernels(some_kernels(), target);
    ASSERT_TRUE(second);
    EXPECT_EQ(first->shared_object, second->shared_object);
  }
  const std::string_view text(reinterpret_cast<const char*>(first->shared_object.data()),
                              first->shared_object.size());
  EXPECT_EQ(text.find("graphmill-"), std::string_view::npos) << "the temporary folder's name";
}

TEST(CpuObject, NoKernelsAreAnEmptyObject) {
  const auto object = compile_kernels({}, *parse_cpu_target("cpu"));
  ASSERT_TRUE(object) << object.error().to_string();
  EXPECT_TRUE(object->kernels.empty());
  EXPECT_TRUE(object->shared_object.empty());
}

TEST(CpuObject, RefusesUnboundedTiles) {
  const Kernel kernel = kernel_of(R"(kernel @wide {
  symbol n : tokens in [0, inf]
  param %y : f32[n] write activation
  part main grid (one < 1) {
    tile %t[i < n] : f32 = 0.0
    store %y[i] over (i < n) = %t[i]
  }
})");
  const auto object = compile_kernels({&kernel, 1}, *parse_cpu_target("cpu"));
  ASSERT_FALSE(object);
  EXPECT_EQ(object.error().code, Code::cpu_unbounded);
  EXPECT_EQ(object.error().message, "axis i < n of tile 't' has no upper bound");
  EXPECT_EQ(object.error().location.file, "test.gm");
}

TEST(CpuObject, RefusesTilesBeyondTheScratchMemory) {
  const Kernel kernel = kernel_of(R"(kernel @wide {
  symbol n : tokens in [0, 4000000000000000]
  param %y : f32[n] write activation
  part main grid (one < 1) {
    tile %t[i < n, j < 4096] : f32 = 0.0
    store %y[i] over (i < n) = %t[i, 0]
  }
})");
  const auto object = compile_kernels({&kernel, 1}, *parse_cpu_target("cpu"));
  ASSERT_FALSE(object);
  EXPECT_EQ(object.error().code, Code::cpu_unbounded);
  EXPECT_EQ(object.error().message, "tile 't' needs more than 1073741824 bytes");
}

TEST(CpuObject, RefusesUnexpandedMath) {
  const Kernel kernel = kernel_of(R"(kernel @raw {
  param %y : f32[1] read_write activation
  part main grid (i < 1) {
    store %y[i] = exp(%y[i])
  }
})");
  const auto object = compile_kernels({&kernel, 1}, *parse_cpu_target("cpu"));
  ASSERT_FALSE(object);
  EXPECT_EQ(object.error().code, Code::cpu_lowering);
  EXPECT_EQ(object.error().message, "exp has no instruction on a CPU");
}

TEST(CpuTarget, Names) {
  EXPECT_EQ(parse_cpu_target("cpu")->cpu, "x86-64-v3");
  EXPECT_EQ(parse_cpu_target("cpu:v4")->cpu, "x86-64-v4");
  const auto native = parse_cpu_target("cpu:native");
  ASSERT_TRUE(native) << native.error().to_string();
  EXPECT_EQ(native->level, CpuLevel::native);
  EXPECT_THAT(native->features, testing::HasSubstr("+avx2"));
  const auto wrong = parse_cpu_target("cpu:v9");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Code::cpu_target);
  EXPECT_EQ(wrong.error().message, "unknown CPU target 'cpu:v9'");
}

TEST(CpuTarget, AForeignCpuIsRefused) {
  const auto object = compile_kernels({}, CpuTarget{CpuLevel::native, "granite", ""});
  ASSERT_FALSE(object);
  EXPECT_EQ(object.error().code, Code::cpu_target);
  const auto old = compile_kernels({}, CpuTarget{CpuLevel::native, "x86-64", ""});
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().code, Code::cpu_target);
}

TEST(CpuLoader, AMissingLibraryIsSaid) {
  const std::array<std::string, 2> folders = {"/nonexistent/bin", "/nonexistent/lib"};
  const auto backend = open_cpu_backend(folders);
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().code, Code::cpu_library);
  EXPECT_EQ(backend.error().exit_code(), Exit::wrong_machine);
  EXPECT_THAT(backend.error().message, testing::HasSubstr("/nonexistent/lib/libgraphmill_cpu.so"));
}

// Not a test of anything but speed: GM_CPU_BENCH=1 prints GFLOP/s and the time to compile.
TEST(CpuBench, PanelContraction) {
  if (std::getenv("GM_CPU_BENCH") == nullptr) GTEST_SKIP() << "set GM_CPU_BENCH";
  const Kernel kernel = kernel_of(R"(kernel @panel {
  symbol tokens : tokens in [1, 8192]
  param %x : bf16[tokens, 2560] read activation
  param %w : bf16[64, 2560, 64] read weight
  param %y : bf16[tokens, 4096] write activation
  part main grid (tb < ceildiv(tokens, 4), nb < 64) {
    tile %a[m < min(4, tokens - 4*tb), k < 2560] : f32 = %x[4*tb + m, k]
    reduce %acc[m < min(4, tokens - 4*tb), n < 64] : f32 = dot chain 256 over k < 2560 of %a[m, k], %w[nb, k, n]
    store %y[4*tb + m, 64*nb + n] over (m < min(4, tokens - 4*tb), n < 64) = round_bf16(%acc[m, n])
  }
})");
  using Clock = std::chrono::steady_clock;
  for (const CpuTarget& target : host_targets()) {
    const auto begin = Clock::now();
    const auto object = compile_kernels({&kernel, 1}, target);
    const double compile_ms =
        std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    ASSERT_TRUE(object);
    const Loaded loaded(*object);
    const auto function = loaded.find("k0");
    void* scratch =
        std::aligned_alloc(64, static_cast<size_t>(object->kernels[0].scratch_bytes + 64));
    Bytes w = random_floats(DType::bf16, 64 * 2560 * 64, 1);
    for (const int64_t tokens : {1, 4, 64}) {
      Bytes x = random_floats(DType::bf16, tokens * 2560, 2);
      Bytes y(static_cast<size_t>(tokens * 4096 * 2));
      void* args[] = {x.data(), w.data(), y.data()};
      const int64_t items = (tokens + 3) / 4 * 64;
      double best = 1e9;
      for (int round = 0; round < 20; ++round) {
        const auto start = Clock::now();
        function(&tokens, args, 0, items, scratch);
        best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
      }
      fmt::print("{} M={}: {:.3f} ms, {:.1f} GFLOP/s, {:.1f} GB/s (compiled in {:.1f} ms)\n",
                 target.cpu, tokens, best * 1e3,
                 2e-9 * 2560 * 4096 * static_cast<double>(tokens) / best, 2e-9 * 2560 * 4096 / best,
                 compile_ms);
    }
    std::free(scratch);
  }
}

}  // namespace
}  // namespace gm::test
