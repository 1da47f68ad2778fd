#include "runtime/native_library.h"

#include <cstdlib>
#include <fstream>

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/mapped_file.h"
#include "checkpoint_file.h"

namespace gm {
namespace {

using ::testing::HasSubstr;

class NativeLibrary : public ::testing::Test {
 protected:
  // A shared object from C; the system's compiler and linker, as the CPU code generator is not
  // there.
  std::vector<std::byte> compile(const std::string& source, const std::string& flags = "") {
    const auto c = folder_.path() / "k.c", so = folder_.path() / "k.so";
    std::ofstream(c) << source;
    const std::string command = fmt::format(
        "cc -shared -fPIC -nostdlib -O1 -fno-sanitize=all -fno-stack-protector {} -o {} {}", flags,
        so.string(), c.string());
    EXPECT_EQ(std::system(command.c_str()), 0);
    const auto file = MappedFile::open(so);
    EXPECT_TRUE(file);
    return {(*file)->bytes().begin(), (*file)->bytes().end()};
  }

  Plan plan(std::vector<std::byte> object) {
    Plan p;
    p.stage = "native";
    p.target = "cpu:v3";
    p.kernels = {{.name = "add", .symbol = "k0"}};
    p.shared_object = std::move(object);
    return p;
  }

  void expect_fault(std::span<const std::byte> object, const std::string& text) {
    const auto result = check_shared_object(object, {"k0"}, "m.plan");
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().code, Code::native_object);
    EXPECT_THAT(result.error().message, HasSubstr(text));
    EXPECT_EQ(result.error().location.to_string(), "m.plan: kernels/cpu.so");
  }

  static constexpr const char* kAdd =
      "void k0(const long* dims, void* const* args, long begin, long end, void* scratch) {"
      "  for (long i = begin; i < end; ++i) ((int*)args[1])[i] = ((const int*)args[0])[i] + "
      "(int)dims[0]; }\n";
  test::TempDir folder_;
};

TEST_F(NativeLibrary, LoadsFromMemoryAndRuns) {
  // Two at a time, of the same symbol, and again after both are gone.
  for (int round = 0; round < 3; ++round) {
    auto first = load_native_library(plan(compile(kAdd)), "a.plan");
    ASSERT_TRUE(first) << first.error().to_string();
    auto second = load_native_library(
        plan(compile("void k0(const long* d, void* const* args, long begin, long end, void* s) { "
                     "for (long i = begin; i < end; ++i) ((int*)args[1])[i] = -1; }")),
        "b.plan");
    ASSERT_TRUE(second) << second.error().to_string();
    auto add = (*first)->find({.name = "add", .symbol = "k0"}),
         other = (*second)->find({.name = "add", .symbol = "k0"});
    ASSERT_TRUE(add);
    ASSERT_TRUE(other);
    int32_t in[4] = {1, 2, 3, 4}, out[4] = {};
    void* args[] = {in, out};
    const int64_t dims[] = {10};
    (*add)(dims, args, 1, 3, nullptr);
    EXPECT_THAT(out, ::testing::ElementsAre(0, 12, 13, 0));
    (*other)(dims, args, 3, 4, nullptr);
    EXPECT_EQ(out[3], -1);
    const auto missing = (*first)->find({.name = "mul", .symbol = "k1"});
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, Code::run_kernel);
    EXPECT_THAT(missing.error().message, HasSubstr("no function \"k1\" for kernel mul"));
  }
}

TEST_F(NativeLibrary, WhatRunsByItselfOrNeedsOthersIsRefused) {
  const std::string add = kAdd;
  expect_fault(compile(add + "static int x; __attribute__((constructor)) static void f(void) { x = "
                             "1; } int k9(void) { return x; }"),
               "has a constructor");
  expect_fault(
      compile(add +
              "static volatile int x; __attribute__((destructor)) static void f(void) { x = 1; }"),
      "has a destructor");
  expect_fault(compile(add, "-Wl,--no-as-needed -lc"), "needs another library");
  expect_fault(compile(add + "void g(void); void k9(void) { g(); }"), "needs g from elsewhere");
  expect_fault(compile(add + "void k9(void) {}"), "exports k9, which is no kernel's function");
  expect_fault(compile("void k9(void) {}"), "lacks the function k0 of a kernel");
  expect_fault(compile(add + "int data = 3;"), "exports data, which is no function");
}

TEST_F(NativeLibrary, DamagedObjectsAreErrorsAndNoMore) {
  const std::vector<std::byte> object = compile(kAdd);
  ASSERT_TRUE(check_shared_object(object, {"k0"}, "m.plan"));
  expect_fault({}, "is not an ELF file");
  for (size_t size = 1; size < object.size(); size += 1 + size / 64) {
    EXPECT_FALSE(check_shared_object(std::span(object).first(size), {"k0"}, "m.plan")) << size;
  }
  std::vector<std::byte> wrong = object;
  wrong[EI_CLASS] = std::byte{ELFCLASS32};
  expect_fault(wrong, "is not a shared object for x86-64");
  // Any byte of any header: an error or not, but never a read outside.
  for (size_t at = 0; at < object.size(); ++at) {
    for (const int value : {0xff, 0x80}) {
      wrong = object;
      wrong[at] = static_cast<std::byte>(value);
      (void)check_shared_object(wrong, {"k0"}, "m.plan");
    }
  }
}

TEST_F(NativeLibrary, PlansWithoutCodeAndForOtherCpus) {
  Plan kernels = plan({});
  kernels.stage = "kernels";
  const auto none = load_native_library(kernels, "m.plan");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::run_stage);
  EXPECT_THAT(none.error().fix, HasSubstr("--executor interpreter"));

  EXPECT_TRUE(check_cpu_features("cpu:v3", "", "m.plan"));
  EXPECT_TRUE(check_cpu_features("cpu:native", "+64bit,+avx2,+cmov,-fma4,-nothing", "m.plan"));
  const auto unknown = check_cpu_features("cpu:native", "+avx2,+quantum", "m.plan");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::cpu_feature_name);
  EXPECT_THAT(unknown.error().message, HasSubstr("\"quantum\""));
  EXPECT_EQ(unknown.error().exit_code(), Exit::wrong_machine);
  // No CPU has both of these.
  const auto lacking = check_cpu_features("cpu:native", "+avx2,+lwp,+avx512fp16", "m.plan");
  ASSERT_FALSE(lacking);
  EXPECT_EQ(lacking.error().code, Code::cpu_features);
  EXPECT_THAT(lacking.error().message,
              HasSubstr("the plan was compiled for cpu:native, but this CPU lacks lwp"));
  EXPECT_THAT(lacking.error().fix, HasSubstr("--target cpu:native"));
  ASSERT_EQ(lacking.error().notes.size(), 1u);
  EXPECT_THAT(lacking.error().notes[0].message, HasSubstr("avx2"));
}

}  // namespace
}  // namespace gm
