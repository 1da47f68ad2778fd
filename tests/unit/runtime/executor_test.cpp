#include "runtime/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_model.h"
#include "runtime/npy.h"

namespace gm {
namespace {

using test::fake_instance;
using ::testing::HasSubstr;

// Two sequences: 3 tokens in pages 0, and 2 tokens in page 4.
Step good_step() {
  Step step;
  step.program = "mixed";
  step.tokens = 5;
  step.seqs = 2;
  step.rows = 2;
  step.ids = {10, 11, 12, 20, 21};
  step.pos = {0, 1, 2, 0, 1};
  step.seq_start = {0, 3, 5};
  step.ctx = {0, 0};
  step.slot = {1, 0};
  step.pages.assign(20, -1);
  step.pages[0] = 0;
  step.pages[10] = 4;
  step.logit_row = {2, 4};
  return step;
}

std::vector<int32_t> chosen(Instance& instance, const Step& step) {
  const auto done = instance.executor().run(step);
  EXPECT_TRUE(done) << done.error().to_string();
  const auto next = instance.executor().output("next");
  return next ? std::vector<int32_t>(next->i32().begin(), next->i32().end())
              : std::vector<int32_t>();
}

TEST(Executor, RunsAStepAndShowsItsOutputs) {
  auto instance = fake_instance();
  ASSERT_TRUE(instance) << instance.error().to_string();
  Executor& executor = (*instance)->executor();
  EXPECT_FALSE(executor.output("next"));
  const std::vector<int32_t> want = {test::fake_next(test::fake_hidden({10, 11, 12}, 3)),
                                     test::fake_next(test::fake_hidden({20, 21}, 2))};
  EXPECT_EQ(chosen(**instance, good_step()), want);
  const auto logits = executor.output("logits");
  ASSERT_TRUE(logits);
  EXPECT_EQ(logits->shape, (std::vector<int64_t>{2, test::kVocab}));
  EXPECT_EQ(logits->dtype, DType::f32);
  EXPECT_EQ(logits->to_f32()[static_cast<size_t>(want[0])],
            static_cast<float>(test::fake_hidden({10, 11, 12}, 3) % 1000));
  EXPECT_FALSE(executor.output("hidden"));
  EXPECT_EQ(executor.steps(), 1);
}

TEST(Executor, PoisonAndMovesChangeNothingButShowStaleReads) {
  const auto four_steps = [](bool poison, bool stale) {
    InstanceOptions options;
    options.executor.poison = poison;
    options.sizes.move_arena = poison;
    auto instance = fake_instance(options, {}, stale);
    EXPECT_TRUE(instance);
    std::vector<float> all;
    for (int i = 0; i < 4; ++i) {
      chosen(**instance, good_step());
      const auto logits = (*instance)->executor().output("logits")->to_f32();
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  };
  EXPECT_EQ(four_steps(false, false), four_steps(true, false));
  EXPECT_NE(four_steps(false, true), four_steps(true, true));
}

TEST(Executor, BrokenContractsAreNamedAndRunNothing) {
  auto instance = fake_instance();
  ASSERT_TRUE(instance);
  const auto expect = [&](const std::function<void(Step&)>& spoil, Code code,
                          const std::string& place, const std::string& text) {
    Step step = good_step();
    spoil(step);
    const auto done = (*instance)->executor().run(step);
    ASSERT_FALSE(done) << text;
    EXPECT_EQ(done.error().code, code);
    EXPECT_THAT(done.error().message, HasSubstr(text));
    EXPECT_EQ(done.error().location.to_string(), "step: " + place);
    EXPECT_FALSE(done.error().fix.empty());
    EXPECT_FALSE((*instance)->executor().output("next"));
  };
  expect([](Step& s) { s.ids[3] = 97; }, Code::step_range, "ids[3]",
         "ids[3] is 97, but must be at least 0 and below 97");
  expect([](Step& s) { s.ids[0] = -1; }, Code::step_range, "ids[0]", "ids[0] is -1");
  expect([](Step& s) { s.pos[4] = 40; }, Code::step_range, "pos[4]", "below 40");
  expect([](Step& s) { s.slot[1] = 4; }, Code::step_range, "slot[1]", "at least -1 and below 4");
  expect([](Step& s) { s.slot[1] = -2; }, Code::step_range, "slot[1]", "slot[1] is -2");
  expect([](Step& s) { s.pages[3] = 40; }, Code::step_range, "pages[3]", "below 40");
  expect([](Step& s) { s.logit_row[1] = 5; }, Code::step_range, "logit_row[1]",
         "logit_row[1] is 5, but must be at least 0 and below 5");
  expect([](Step& s) { s.seq_start[0] = 1; }, Code::step_order, "seq_start[0]",
         "seq_start[0] is 1, but must be 0");
  expect([](Step& s) { s.seq_start = {0, 5, 3}; }, Code::step_order, "seq_start[2]",
         "seq_start[2] is 3, but seq_start[1] before it is 5");
  expect([](Step& s) { s.seq_start = {0, 3, 4}; }, Code::step_order, "seq_start[2]",
         "seq_start[2] is 4, but must be 5");
  expect([](Step& s) { s.slot = {1, 1}; }, Code::step_distinct, "slot[1]",
         "slot[1] is 1, as slot[0] is already");
  expect([](Step& s) { s.pages[11] = 0; }, Code::step_distinct, "pages[11]",
         "pages[11] is 0, as pages[0] is already");
  expect([](Step& s) { s.pos[2] = 3; }, Code::step_consecutive, "pos[2]",
         "pos[2] is 3, but must be 2, one after the position before it in sequence 0");
  expect([](Step& s) { s.ids.pop_back(); }, Code::step_size, "ids",
         "input ids has 4 elements, but a step of 5 tokens and 2 sequences has 5");
  expect([](Step& s) { s.pages.resize(19); }, Code::step_size, "pages", "has 19 elements");
  expect([](Step& s) { s.tokens = 13; }, Code::step_dim, "tokens",
         "has tokens = 13, but must have 1 to 12");
  expect([](Step& s) { s.seqs = 0; }, Code::step_dim, "seqs", "has seqs = 0");
  expect([](Step& s) { s.rows = 5; }, Code::step_dim, "rows", "rows = 5, but must have 1 to 4");
  expect([](Step& s) { s.program = "layer.0.mixed"; }, Code::step_program, "layer.0.mixed",
         "no program \"layer.0.mixed\", only decode, mixed");
  EXPECT_TRUE((*instance)->executor().run(good_step()));
}

TEST(Executor, MemoryIsSealedAndCounted) {
  auto instance = fake_instance();
  ASSERT_TRUE(instance);
  HostMemory& memory = (*instance)->memory();
  EXPECT_TRUE(memory.sealed());
  const auto more = memory.allocate(1 << 21, "a late buffer");
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Code::run_sealed);
  EXPECT_THAT(more.error().message,
              HasSubstr("a late buffer asks for 2.0 MiB after the memory of the run was sealed"));
  // What was announced is what was taken, but for the rounding of each buffer.
  EXPECT_LE(memory.allocated_bytes(), (*instance)->need().total);
  EXPECT_GT(memory.allocated_bytes() + 64 * 24, (*instance)->need().total);
}

TEST(Executor, TooLittleMemoryIsRefusedWithTheSum) {
  InstanceOptions options;
  options.memory_budget = 1000;
  const auto instance = fake_instance(options);
  ASSERT_FALSE(instance);
  const Diag& diag = instance.error();
  EXPECT_EQ(diag.code, Code::memory_budget);
  EXPECT_EQ(diag.exit_code(), Exit::wrong_machine);
  EXPECT_THAT(diag.message, HasSubstr("but 1000 bytes are available"));
  EXPECT_THAT(diag.fix, HasSubstr("--kv-tokens"));
  ASSERT_EQ(diag.notes.size(), 7u);
  EXPECT_EQ(diag.notes[0].message, "weights: 448 bytes (1 buffers)");
  EXPECT_EQ(diag.notes[2].message, "kv cache: 640 bytes (40 pages of 4 tokens)");
  const auto available = available_memory();
  ASSERT_TRUE(available);
  EXPECT_GT(*available, 1 << 20);
}

TEST(Executor, SizesThatThePlanDoesNotAllow) {
  const auto expect = [](RunSizes sizes, const std::string& flag, const std::string& text) {
    const auto result = RunSizes::for_plan(test::fake_plan(), sizes);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::run_size);
    EXPECT_THAT(result.error().to_string(), HasSubstr(flag));
    EXPECT_THAT(result.error().message, HasSubstr(text));
  };
  expect({.slots = 5}, "--max-seqs",
         "5 sequences at a time were asked for, but the plan allows 1 to 4");
  expect({.pages = 41}, "--kv-tokens", "1 to 40");
  expect({.rows = 13}, "--logits-out", "1 to 12");
  expect({.threads = -1}, "--threads", "-1 threads");
  const auto all = RunSizes::for_plan(test::fake_plan(), {.slots = 2});
  ASSERT_TRUE(all);
  EXPECT_EQ(all->pages, 20);
  EXPECT_EQ(all->rows, 2);
  EXPECT_GE(all->threads, 1);
}

TEST(Executor, AKernelThatIsNotThere) {
  Plan plan = test::fake_plan();
  plan.kernels[1].name = "decode.tail";
  plan.programs[0].nodes[1].kernel = "decode.tail";
  const test::TempDir folder;
  const auto tensors = SafeTensors::open_file(
      test::write_checkpoint(folder.path() / "m.safetensors", {test::bias_tensor()}));
  const auto instance = Instance::create(std::make_shared<const Plan>(plan),
                                         std::make_shared<test::FakeLibrary>(), *tensors);
  ASSERT_FALSE(instance);
  EXPECT_EQ(instance.error().code, Code::run_kernel);
}

TEST(Executor, AnInstanceReleasesAllItHolds) {
  auto library = std::make_shared<test::FakeLibrary>();
  auto plan = std::make_shared<const Plan>(test::fake_plan());
  const std::weak_ptr<KernelLibrary> library_left = library;
  const std::weak_ptr<const Plan> plan_left = plan;
  const test::TempDir folder;
  const auto tensors = SafeTensors::open_file(
      test::write_checkpoint(folder.path() / "m.safetensors", {test::bias_tensor()}));
  auto instance = Instance::create(std::move(plan), std::move(library), *tensors);
  ASSERT_TRUE(instance);
  EXPECT_FALSE(library_left.expired());
  instance->reset();
  EXPECT_TRUE(library_left.expired());
  EXPECT_TRUE(plan_left.expired());
}

TEST(StatePool, LowestFreeIdFirstAndNothingTwice) {
  IdPool pool(3);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_EQ(pool.take(), 1);
  EXPECT_EQ(pool.take(), 2);
  EXPECT_EQ(pool.take(), std::nullopt);
  pool.give_back(2);
  pool.give_back(0);
  EXPECT_EQ(pool.take(), 0);
  EXPECT_DEATH(pool.give_back(2), "id 2 was not taken");
  PageAllocator pages(4, 16);
  EXPECT_EQ(pages.pages_for(33), 3);
  EXPECT_TRUE(pages.promise(3));
  EXPECT_FALSE(pages.promise(2));
  std::vector<int32_t> table;
  pages.grow(table, 17);
  EXPECT_EQ(table, (std::vector<int32_t>{0, 1}));
  pages.release(table, 3);
  EXPECT_EQ(pages.unpromised(), 4);
}

TEST(Npy, HeaderAndData) {
  const test::TempDir folder;
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> shape = {2, 3};
  ASSERT_TRUE(write_npy(folder.path() / "x.npy", shape, values));
  const auto text = read_text_file(folder.path() / "x.npy");
  ASSERT_TRUE(text);
  EXPECT_EQ(text->substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_THAT(*text, HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, ), }"));
  ASSERT_EQ(text->size() % 64, 24u);
  EXPECT_EQ(std::memcmp(text->data() + text->size() - 24, values.data(), 24), 0);
  EXPECT_EQ((*text)[text->size() - 25], '\n');
  EXPECT_FALSE(write_npy(folder.path() / "no" / "x.npy", shape, values));
}

TEST(Npy, ReadsWhatItWrites) {
  const test::TempDir folder;
  const auto path = folder.path() / "x.npy";
  const std::vector<int64_t> shape = {3, 1};
  ASSERT_TRUE(write_npy(path, shape, std::vector<float>{1, -0.5, 3}));
  auto array = read_npy(path);
  ASSERT_TRUE(array) << array.error().to_string();
  EXPECT_EQ(array->shape, shape);
  EXPECT_TRUE(array->floating);
  EXPECT_EQ(array->numbers, (std::vector<double>{1, -0.5, 3}));
  ASSERT_TRUE(write_npy(path, shape, std::vector<double>{1, 1e300, 3}));
  array = read_npy(path);
  ASSERT_TRUE(array) << array.error().to_string();
  EXPECT_EQ(array->numbers, (std::vector<double>{1, 1e300, 3}));
  ASSERT_TRUE(write_npy(path, {}, std::vector<int64_t>{-(int64_t{1} << 40)}));
  array = read_npy(path);
  ASSERT_TRUE(array) << array.error().to_string();
  EXPECT_TRUE(array->shape.empty());
  EXPECT_FALSE(array->floating);
  EXPECT_EQ(array->integers, (std::vector<int64_t>{-(int64_t{1} << 40)}));
}

// Whatever is cut off or changed in a file is an error, or another array; nothing is read outside.
TEST(Npy, RefusesDamage) {
  const test::TempDir folder;
  const auto path = folder.path() / "x.npy";
  ASSERT_TRUE(write_npy(path, std::vector<int64_t>{2, 2}, std::vector<float>{1, 2, 3, 4}));
  const std::string sound = *read_text_file(path);
  for (size_t bytes = 0; bytes < sound.size(); ++bytes) {
    ASSERT_TRUE(write_file_atomically(path, std::string_view(sound).substr(0, bytes)));
    const auto array = read_npy(path);
    ASSERT_FALSE(array) << bytes;
    EXPECT_EQ(array.error().code, Code::evaluate_input) << bytes;
  }
  const auto with = [&](std::string_view old, std::string_view now) {
    std::string text = sound;
    text.replace(text.find(old), old.size(), now);
    EXPECT_TRUE(write_file_atomically(path, text));
    return read_npy(path);
  };
  EXPECT_FALSE(with("<f4", ">f4"));
  EXPECT_FALSE(with("<f4", "|O8"));
  EXPECT_FALSE(with("False", "True "));
  EXPECT_FALSE(with("'shape'", "'shapf'"));
  EXPECT_FALSE(with("(2, 2, )", "(2, -2,)"));
  EXPECT_FALSE(with("(2, 2, )", "(2, 2, x"));
  EXPECT_FALSE(with("(2, 2, )", "(2 2, 1)"));
  EXPECT_FALSE(with("'shape': (2, 2, )", "'shape':(4294967296,4294967296,4)"));
  EXPECT_TRUE(with("(2, 2, )", "(4,    )"));
}

}  // namespace
}  // namespace gm
