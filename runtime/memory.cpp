#include "runtime/memory.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <sys/mman.h>

#include "base/mapped_file.h"
#include "runtime/thread_pool.h"

namespace gm {
namespace {

// Larger blocks are mapped: the system gives them zeroed, and only pages that are touched take
// memory.
constexpr int64_t kMapFrom = 1 << 20;
constexpr int64_t kAlignment = 64;

int64_t rounded_up(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

int64_t pages_of(const Plan& plan, int64_t tokens) {
  return tokens / plan.limits.page_tokens + (tokens % plan.limits.page_tokens != 0);
}

// Adds slots of a kind, each rounded up to the alignment; false if the sum leaves int64.
bool add_slots(const Program& program, const SymTable& symbols, SlotKind kind, int64_t& sum) {
  for (const Slot& slot : program.slots) {
    if (slot.kind != kind) continue;
    const std::optional<int64_t> bytes = largest_bytes(symbols, slot);
    if (!bytes || *bytes > INT64_MAX - kAlignment) return false;
    if (__builtin_add_overflow(sum, rounded_up(*bytes), &sum)) return false;
  }
  return true;
}

std::optional<int64_t> number_in(const std::string& file) {
  const auto text = read_text_file(file);
  if (!text || text->empty() || (*text)[0] < '0' || (*text)[0] > '9') return std::nullopt;
  errno = 0;
  const int64_t value = std::strtoll(text->c_str(), nullptr, 10);
  if (errno != 0) return std::nullopt;
  return value;
}

}  // namespace

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      mapped_(std::exchange(other.mapped_, false)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    release();
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    mapped_ = std::exchange(other.mapped_, false);
  }
  return *this;
}

Buffer::~Buffer() { release(); }

void Buffer::release() {
  if (mapped_) {
    munmap(data_, static_cast<size_t>(bytes_));
  } else {
    std::free(data_);
  }
  data_ = nullptr;
}

Result<Buffer> HostMemory::allocate(int64_t bytes, std::string_view what) {
  GM_CHECK(bytes >= 0, "{} bytes for {}", bytes, what);
  if (sealed_) {
    return err(Code::run_sealed, {}, "allocate everything before the first step",
               "{} asks for {} after the memory of the run was sealed", what, bytes_text(bytes));
  }
  Buffer buffer;
  buffer.bytes_ = bytes;
  void* data = nullptr;
  if (bytes >= kMapFrom) {
    data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) {
      data = nullptr;
    } else {
      buffer.mapped_ = true;
      madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);  // fewer TLB misses; may be refused
    }
  } else {
    const auto size = static_cast<size_t>(std::max(rounded_up(bytes), kAlignment));
    data = std::aligned_alloc(kAlignment, size);
    if (data != nullptr) std::memset(data, 0, size);
  }
  if (data == nullptr) {
    return err(Code::memory_refused, {}, "free memory or run a smaller plan",
               "the system refused {} for {}: {}", bytes_text(bytes), what, std::strerror(errno));
  }
  buffer.data_ = static_cast<std::byte*>(data);
  allocated_ += bytes;
  return buffer;
}

Result<RunSizes> RunSizes::for_plan(const Plan& plan, RunSizes sizes) {
  const auto refuse = [&](std::string_view what, int64_t value, int64_t most,
                          std::string_view flag) {
    return err(Code::run_size, Location::of_path({}, std::string(flag)),
               fmt::format("give 1 to {}, or compile with greater limits", most),
               "{} {} were asked for, but the plan allows 1 to {}", value, what, most);
  };
  const PlanLimits& limits = plan.limits;
  if (sizes.slots == 0) sizes.slots = limits.max_seqs;
  if (sizes.slots < 1 || sizes.slots > limits.max_seqs) {
    return refuse("sequences at a time", sizes.slots, limits.max_seqs, "--max-seqs");
  }
  int64_t most_pages = 0, pages = 0;
  const int64_t each = pages_of(plan, limits.max_context);
  if (__builtin_mul_overflow(limits.max_seqs, each, &most_pages) ||
      __builtin_mul_overflow(sizes.slots, each, &pages)) {
    return err(Code::run_size, {}, "compile with smaller --max-seqs or --max-context",
               "{} sequences of {} tokens have more pages than can be counted", limits.max_seqs,
               limits.max_context);
  }
  if (sizes.pages == 0) sizes.pages = pages;
  if (sizes.pages < 1 || sizes.pages > most_pages) {
    return refuse("pages of cache", sizes.pages, most_pages, "--kv-tokens");
  }
  const int64_t most_rows = std::max(limits.max_tokens, limits.max_seqs);
  if (sizes.rows == 0) sizes.rows = sizes.slots;
  if (sizes.rows < 1 || sizes.rows > most_rows) {
    return refuse("rows of logits", sizes.rows, most_rows, "--logits-out");
  }
  constexpr int kMostThreads = 1024;
  if (sizes.threads == 0) sizes.threads = std::min(available_threads(), kMostThreads);
  if (sizes.threads < 1 || sizes.threads > kMostThreads) {
    return refuse("threads", sizes.threads, kMostThreads, "--threads");
  }
  return sizes;
}

SymTable run_symbols(const Program& program, const RunSizes& sizes) {
  SymTable table;
  for (SymInfo info : program.symbols.symbols()) {
    const SymRange range = program.symbols.range(SymExpr::symbol(info.name));
    const auto most = [&](int64_t chosen) {
      info.hi = SymExpr(range.hi ? std::min(*range.hi, chosen) : chosen);
    };
    if (info.role == SymRole::slots || info.role == SymRole::seqs) most(sizes.slots);
    if (info.role == SymRole::pages) most(sizes.pages);
    if (info.role == SymRole::rows) most(sizes.rows);
    table.declare(std::move(info));
  }
  return table;
}

Result<MemoryNeed> memory_need(const Plan& plan, const RunSizes& sizes) {
  int64_t weights = 0, states = 0, cache = 0, inputs = 0, outputs = 0, arena = 0, scratch = 0;
  bool fits = true;
  const auto add = [&](int64_t& sum, const std::vector<int64_t>& factors) {
    int64_t bytes = 1;
    for (const int64_t factor : factors) fits &= !__builtin_mul_overflow(bytes, factor, &bytes);
    fits &= bytes <= INT64_MAX - kAlignment;
    if (fits) fits &= !__builtin_add_overflow(sum, rounded_up(bytes), &sum);
  };
  for (const WeightBuffer& weight : plan.weights) {
    std::vector<int64_t> factors = weight.shape;
    factors.push_back(size_bytes(weight.dtype));
    add(weights, factors);
  }
  for (const StateBuffer& state : plan.states) {
    std::vector<int64_t> factors = {size_bytes(state.dtype)};
    const bool paged = state.shape.at(0) == SymExpr::symbol("pages");
    factors.push_back(paged ? sizes.pages : sizes.slots);
    for (size_t i = 1; i < state.shape.size(); ++i) {
      const auto extent = state.shape[i].constant();
      GM_CHECK(extent.has_value(), "state {} was not checked", state.name);
      factors.push_back(*extent);
    }
    add(paged ? cache : states, factors);
  }
  for (const Program& program : plan.programs) {
    const SymTable symbols = run_symbols(program, sizes);
    arena = std::max(arena, program.arena_bytes);
    fits &= add_slots(program, symbols, SlotKind::input, inputs);
    fits &= add_slots(program, symbols, SlotKind::output, outputs);
  }
  for (const PlanKernel& kernel : plan.kernels) scratch = std::max(scratch, kernel.scratch_bytes);
  int64_t all_scratch = 0;
  add(all_scratch, {scratch, sizes.threads});
  int64_t arenas = 0;
  add(arenas, {arena, sizes.move_arena ? 2 : 1});
  MemoryNeed need;
  need.parts = {
      {"weights", weights, fmt::format("{} buffers", plan.weights.size())},
      {"sequence states", states, fmt::format("{} slots", sizes.slots)},
      {"kv cache", cache,
       fmt::format("{} pages of {} tokens", sizes.pages, plan.limits.page_tokens)},
      {"arena", arenas, fmt::format("steps of at most {} tokens", plan.limits.max_tokens)},
      {"scratch", all_scratch, fmt::format("{} threads", sizes.threads)},
      {"inputs", inputs, fmt::format("{} programs", plan.programs.size())},
      {"outputs", outputs, fmt::format("at most {} rows of logits", sizes.rows)}};
  for (const MemoryPart& part : need.parts) {
    fits &= !__builtin_add_overflow(need.total, part.bytes, &need.total);
  }
  if (!fits) {
    return err(Code::memory_budget, {}, "compile with smaller limits",
               "the memory of a run of this plan has no size in 64 bits");
  }
  return need;
}

std::optional<int64_t> available_memory() {
  std::optional<int64_t> available;
  if (const auto text = read_text_file("/proc/meminfo")) {
    const size_t at = text->find("MemAvailable:");
    if (at != std::string::npos) {
      available = std::strtoll(text->c_str() + at + 13, nullptr, 10) * 1024;
    }
  }
  // Control groups: version 2, then 1. What the group uses as file cache can be given up and is not
  // seen here, so the limit alone counts where usage cannot be read.
  const std::pair<const char*, const char*> groups[] = {
      {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes",
       "/sys/fs/cgroup/memory/memory.usage_in_bytes"}};
  for (const auto& [limit_file, usage_file] : groups) {
    const std::optional<int64_t> limit = number_in(limit_file);
    if (!limit) continue;
    int64_t cached = 0;
    if (const auto stat =
            read_text_file(std::string(limit_file).substr(0, std::string(limit_file).rfind('/')) +
                           "/memory.stat")) {
      for (const char* key : {"\nfile ", "\ninactive_file "}) {
        const size_t at = stat->find(key);
        if (at == std::string::npos) continue;
        cached = std::strtoll(stat->c_str() + at + std::strlen(key), nullptr, 10);
        break;
      }
    }
    const int64_t used = std::max<int64_t>(0, number_in(usage_file).value_or(0) - cached);
    const int64_t left = std::max<int64_t>(0, *limit - used);
    available = available ? std::min(*available, left) : left;
    break;
  }
  return available;
}

Result<> check_memory(const MemoryNeed& need, int64_t budget) {
  if (need.total <= budget) return {};
  Diag diag{Code::memory_budget,
            fmt::format("the run needs {}, but {} are available", bytes_text(need.total),
                        bytes_text(budget)),
            {},
            "make the cache smaller with --kv-tokens, compile with smaller --max-seqs or "
            "--max-context, or raise --memory-limit",
            {}};
  for (const MemoryPart& part : need.parts) {
    diag.notes.push_back(
        {fmt::format("{}: {} ({})", part.name, bytes_text(part.bytes), part.detail), {}});
  }
  return Error(std::move(diag));
}

std::string bytes_text(int64_t bytes) {
  const char* const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

}  // namespace gm
