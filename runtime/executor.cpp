#include "runtime/executor.h"

#include <algorithm>
#include <cstring>

namespace gm {
namespace {

constexpr int kPoison = 0xCB;  // as bf16 or f32 a large number, as an index far outside

int64_t aligned(int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

struct BoundNode {
  KernelFn run;
  std::array<std::vector<void*>, 2> args;  // by which arena is in use
  std::vector<uint32_t> dims;              // indices into the program's symbols
  std::vector<uint32_t> items;             // indices into its expressions; their sum
};

struct HostBuffer {
  uint32_t slot = 0;
  Buffer memory;
  std::vector<uint32_t> shape;  // indices into the expressions
};

}  // namespace

struct Executor::BoundProgram {
  const Program* program = nullptr;
  SymTable symbols;  // with this run's upper ends
  std::vector<BoundNode> nodes;
  std::vector<HostBuffer> inputs, outputs;

  // The values of this step. The many expressions of the nodes are few different ones.
  SymValues values;
  std::vector<int64_t> dims;  // in the order of the symbols
  std::vector<SymExpr> expressions;
  std::vector<int64_t> results;

  uint32_t expression(const SymExpr& e) {
    const auto found = std::find(expressions.begin(), expressions.end(), e);
    if (found == expressions.end()) {
      expressions.push_back(e);
      results.push_back(-1);
      return static_cast<uint32_t>(expressions.size() - 1);
    }
    return static_cast<uint32_t>(found - expressions.begin());
  }
  int64_t elements(const HostBuffer& buffer) const {
    int64_t count = 1;
    for (const uint32_t extent : buffer.shape) count *= results[extent];
    return count;
  }
};

int64_t TensorView::elements() const {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

std::vector<float> TensorView::to_f32() const {
  std::vector<float> result(static_cast<size_t>(elements()));
  for (size_t i = 0; i < result.size(); ++i) {
    uint16_t half = 0;
    if (dtype == DType::f32) {
      std::memcpy(&result[i], data + i * 4, 4);
    } else {
      GM_CHECK(dtype == DType::bf16 || dtype == DType::f16, "{} as f32", to_string(dtype));
      std::memcpy(&half, data + i * 2, 2);
      result[i] = dtype == DType::bf16 ? bf16_to_f32(half) : f16_to_f32(half);
    }
  }
  return result;
}

std::span<const int32_t> TensorView::i32() const {
  GM_CHECK(dtype == DType::i32, "{} as i32", to_string(dtype));
  return {reinterpret_cast<const int32_t*>(data), static_cast<size_t>(elements())};
}

std::span<const float> TensorView::f32() const {
  GM_CHECK(dtype == DType::f32, "{} as f32", to_string(dtype));
  return {reinterpret_cast<const float*>(data), static_cast<size_t>(elements())};
}

Executor::Executor(const Plan& plan, const RunSizes& sizes, ThreadPool& threads,
                   ExecutorOptions options)
    : plan_(plan), sizes_(sizes), threads_(threads), options_(options) {}

Executor::~Executor() = default;

Result<std::unique_ptr<Executor>> Executor::create(const Plan& plan, KernelLibrary& library,
                                                   const WeightStore& weights,
                                                   const StateStore& states, const RunSizes& sizes,
                                                   HostMemory& memory, ThreadPool& threads,
                                                   ExecutorOptions options) {
  std::unique_ptr<Executor> executor(new Executor(plan, sizes, threads, options));
  int64_t arena = 0, scratch = 0;
  for (const Program& program : plan.programs) arena = std::max(arena, program.arena_bytes);
  for (const PlanKernel& kernel : plan.kernels) scratch = std::max(scratch, kernel.scratch_bytes);
  GM_ASSIGN(executor->arenas_[0], memory.allocate(arena, "the arena"));
  if (sizes.move_arena) {
    GM_ASSIGN(executor->arenas_[1], memory.allocate(arena, "the second arena"));
  }
  executor->scratch_each_ = aligned(scratch);
  GM_ASSIGN(executor->scratch_,
            memory.allocate(executor->scratch_each_ * threads.size(), "scratch memory"));
  for (const Program& program : plan.programs) {
    GM_TRY(executor->bind(program, library, weights, states, memory));
  }
  return executor;
}

Result<> Executor::bind(const Program& program, KernelLibrary& library, const WeightStore& weights,
                        const StateStore& states, HostMemory& memory) {
  auto bound = std::make_unique<BoundProgram>();
  bound->program = &program;
  bound->symbols = run_symbols(program, sizes_);
  for (const SymInfo& symbol : program.symbols.symbols()) bound->values[symbol.name] = 0;
  bound->dims.resize(program.symbols.symbols().size());

  // The place of each slot; activations are offsets into whichever arena is in use.
  std::vector<std::byte*> place(program.slots.size(), nullptr);
  for (uint32_t i = 0; i < program.slots.size(); ++i) {
    const Slot& slot = program.slots[i];
    switch (slot.kind) {
      case SlotKind::weight:
        // Kernels of a checked plan never write a weight.
        place[i] = const_cast<std::byte*>(weights.find(slot.name));
        GM_CHECK(place[i] != nullptr, "weight {} is not bound", slot.name);
        break;
      case SlotKind::state:
        place[i] = states.find(slot.name);
        GM_CHECK(place[i] != nullptr, "state {} is not allocated", slot.name);
        break;
      case SlotKind::input:
      case SlotKind::output: {
        const std::optional<int64_t> bytes = largest_bytes(bound->symbols, slot);
        GM_CHECK(bytes.has_value(), "slot {} has no bound", slot.name);
        HostBuffer buffer;
        buffer.slot = i;
        GM_ASSIGN(buffer.memory,
                  memory.allocate(*bytes, fmt::format("{} {} of {}", to_string(slot.kind),
                                                      slot.name, program.name)));
        for (const SymExpr& extent : slot.shape) buffer.shape.push_back(bound->expression(extent));
        place[i] = buffer.memory.data();
        (slot.kind == SlotKind::input ? bound->inputs : bound->outputs)
            .push_back(std::move(buffer));
        break;
      }
      case SlotKind::activation:
        GM_CHECK(slot.arena_offset >= 0 && slot.arena_offset <= program.arena_bytes,
                 "activation {} lies outside of the arena", slot.name);
        break;
    }
  }
  // Sequence starts are checked before what is checked by them.
  std::ranges::stable_sort(bound->inputs, {}, [&](const HostBuffer& b) {
    return program.slots[b.slot].name != "seq_start";
  });

  for (const Node& node : program.nodes) {
    const PlanKernel* kernel = plan_.find_kernel(node.kernel);
    GM_CHECK(kernel != nullptr, "no kernel {}", node.kernel);
    BoundNode& b = bound->nodes.emplace_back();
    GM_ASSIGN(b.run, library.find(*kernel));
    for (const std::string& dim : kernel->dims) {
      const auto symbols = program.symbols.symbols();
      const auto found = std::ranges::find(symbols, dim, &SymInfo::name);
      GM_CHECK(found != symbols.end(), "kernel {} takes {}", kernel->name, dim);
      b.dims.push_back(static_cast<uint32_t>(found - symbols.begin()));
    }
    for (const SymExpr& items : kernel->part_items) b.items.push_back(bound->expression(items));
    for (size_t a = 0; a < 2; ++a) {
      for (const NodeArg& arg : node.args) {
        const Slot& slot = program.slots[arg.slot];
        const bool in_arena = slot.kind == SlotKind::activation;
        b.args[a].push_back(in_arena ? arenas_[a].data() + slot.arena_offset : place[arg.slot]);
      }
      if (!sizes_.move_arena) break;
    }
  }
  programs_.push_back(std::move(bound));
  return {};
}

Result<> Executor::set_dims(BoundProgram& program, const Step& step) {
  const auto symbols = program.symbols.symbols();
  for (size_t i = 0; i < symbols.size(); ++i) {
    const SymInfo& symbol = symbols[i];
    int64_t value = 0;
    switch (symbol.role) {
      case SymRole::tokens:
        value = step.tokens;
        break;
      case SymRole::seqs:
        value = step.seqs;
        break;
      case SymRole::rows:
        value = step.rows;
        break;
      case SymRole::context:
        value = plan_.limits.max_context;
        break;
      case SymRole::pages:
        value = sizes_.pages;
        break;
      case SymRole::slots:
        value = sizes_.slots;
        break;
      case SymRole::constant:
      case SymRole::loop: {
        const SymRange range = program.symbols.range(SymExpr::symbol(symbol.name));
        value = range.lo.value_or(0);
        GM_CHECK(range.lo == range.hi, "symbol {} of {} has no value", symbol.name, step.program);
        break;
      }
    }
    const SymRange range = program.symbols.range(SymExpr::symbol(symbol.name));
    if (value < range.lo.value_or(0) || value > range.hi.value_or(INT64_MAX)) {
      return err(Code::step_dim, Location::of_path("step", symbol.name),
                 "cut the step into smaller ones, or compile with greater limits",
                 "a step of {} has {} = {}, but must have {} to {}", step.program, symbol.name,
                 value, range.lo.value_or(0), range.hi.value_or(INT64_MAX));
    }
    program.dims[i] = value;
    program.values.find(symbol.name)->second = value;
  }
  for (size_t i = 0; i < program.expressions.size(); ++i) {
    const std::optional<int64_t> value = program.expressions[i].evaluate(program.values);
    GM_CHECK(value && *value >= 0, "{} has no value in a step of {}",
             program.expressions[i].to_string(), step.program);
    program.results[i] = *value;
  }
  return {};
}

Result<> Executor::set_inputs(BoundProgram& program, const Step& step) {
  const char* const fix = "give inputs of the sizes that the plan's step signature says";
  const bool ragged =
      program.program->slots[program.inputs.empty() ? 0 : program.inputs[0].slot].name ==
      "seq_start";
  for (const HostBuffer& input : program.inputs) {
    const Slot& slot = program.program->slots[input.slot];
    const int64_t elements = program.elements(input);
    const auto wrong_size = [&](size_t given) {
      return err(Code::step_size, Location::of_path("step", slot.name), fix,
                 "input {} has {} elements, but a step of {} tokens and {} sequences has {}",
                 slot.name, given, step.tokens, step.seqs, elements);
    };
    if (slot.dtype == DType::i32) {
      const std::vector<int32_t>* values = step.find(slot.name);
      if (values == nullptr) {
        return err(Code::step_program, Location::of_path("step", slot.name),
                   "compile the plan again with this version",
                   "program {} has an input {}, which steps do not have", step.program, slot.name);
      }
      if (static_cast<int64_t>(values->size()) != elements) return wrong_size(values->size());
      GM_TRY(check_contract(
          slot, *values,
          ragged ? std::span<const int32_t>(step.seq_start) : std::span<const int32_t>(),
          program.values, seen_));
      std::memcpy(input.memory.data(), values->data(), values->size() * sizeof(int32_t));
      continue;
    }
    if (slot.name != "x" || (slot.dtype != DType::f32 && slot.dtype != DType::bf16)) {
      return err(Code::step_program, Location::of_path("step", slot.name),
                 "compile the plan again with this version",
                 "program {} has an input {} of {}, which steps do not have", step.program,
                 slot.name, to_string(slot.dtype));
    }
    if (static_cast<int64_t>(step.x.size()) != elements) return wrong_size(step.x.size());
    for (size_t i = 0; i < step.x.size(); ++i) {
      if (slot.dtype == DType::f32) {
        std::memcpy(input.memory.data() + i * 4, &step.x[i], 4);
      } else {
        const uint16_t bits = f32_to_bf16(step.x[i]);
        std::memcpy(input.memory.data() + i * 2, &bits, 2);
      }
    }
  }
  return {};
}

void Executor::poison(BoundProgram& program) {
  if (sizes_.move_arena) arena_ ^= 1;
  for (const Buffer& arena : arenas_) {
    if (arena.data() != nullptr)
      std::memset(arena.data(), kPoison, static_cast<size_t>(arena.bytes()));
  }
  std::memset(scratch_.data(), kPoison, static_cast<size_t>(scratch_.bytes()));
  for (const HostBuffer& output : program.outputs) {
    std::memset(output.memory.data(), kPoison, static_cast<size_t>(output.memory.bytes()));
  }
}

Result<> Executor::run(const Step& step) {
  const auto found = std::ranges::find_if(
      programs_, [&](const auto& p) { return p->program->name == step.program; });
  if (found == programs_.end()) {
    std::vector<std::string_view> names;
    for (const auto& p : programs_) names.push_back(p->program->name);
    return err(Code::step_program, Location::of_path("step", step.program),
               "compile with --check-outputs for programs of single layers",
               "the plan has no program \"{}\", only {}", step.program, fmt::join(names, ", "));
  }
  BoundProgram& program = **found;
  last_ = nullptr;
  GM_TRY(set_dims(program, step));
  GM_TRY(set_inputs(program, step));
  if (options_.poison) poison(program);
  std::vector<int64_t>& dims = node_dims_;
  for (const BoundNode& node : program.nodes) {
    dims.clear();
    for (const uint32_t dim : node.dims) dims.push_back(program.dims[dim]);
    int64_t items = 0;
    for (const uint32_t part : node.items) items += program.results[part];
    void* const* args = node.args[arena_].data();
    threads_.parallel_for(items, [&](int64_t begin, int64_t end, int thread) {
      node.run(dims.data(), args, begin, end, scratch_.data() + thread * scratch_each_);
    });
  }
  last_ = &program;
  ++steps_;
  return {};
}

std::optional<TensorView> Executor::output(std::string_view name) const {
  if (last_ == nullptr) return std::nullopt;
  for (const HostBuffer& output : last_->outputs) {
    const Slot& slot = last_->program->slots[output.slot];
    if (slot.name != name) continue;
    TensorView view{slot.dtype, {}, output.memory.data()};
    for (const uint32_t extent : output.shape) view.shape.push_back(last_->results[extent]);
    return view;
  }
  return std::nullopt;
}

std::optional<int64_t> Executor::input_extent(std::string_view program, std::string_view input,
                                              size_t axis) const {
  for (const auto& bound : programs_) {
    if (bound->program->name != program) continue;
    for (const HostBuffer& buffer : bound->inputs) {
      const Slot& slot = bound->program->slots[buffer.slot];
      if (slot.name != input || axis >= slot.shape.size()) continue;
      SymValues values = {
          {"context", plan_.limits.max_context}, {"pages", sizes_.pages}, {"slots", sizes_.slots}};
      return slot.shape[axis].evaluate(values);
    }
  }
  return std::nullopt;
}

}  // namespace gm
