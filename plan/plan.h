// A plan: everything the runtime needs to run a compiled model but the weights themselves. It is
// written by the compiler, stored as an uncompressed zip (plan/plan_file.h), read back and proved
// sound by an independent checker (plan/check.h) before anything in it is used. docs/plan-format.md
// describes the members.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/diag.h"
#include "base/dtype.h"
#include "base/json.h"
#include "base/sym.h"

namespace gm {

inline constexpr int kPlanFormatMajor = 1;
inline constexpr int kPlanFormatMinor = 1;

// What a slot's memory is and who owns it.
//   weight: a WeightBuffer, bound once · activation: bytes of the program's arena · state: a
//   StateBuffer of the pool input: written by the host before a step · output: read by the host
//   after it
enum class SlotKind : uint8_t { weight, activation, state, input, output };
enum class SlotAccess : uint8_t { read, write, read_write };

// What the host promises about an i32 input, and checks before each step (the fields of
// ir/graph.h's Contract).
struct InputContract {
  SymExpr lo = 0;
  std::optional<SymExpr> hi;
  bool monotone = false;
  std::optional<SymExpr> total;
  bool distinct = false;
  bool masked = false;
  bool consecutive = false;
  bool operator==(const InputContract&) const = default;
};

struct Slot {
  std::string name;  // unique in the program; of a weight or state: the buffer's name
  SlotKind kind{};
  DType dtype{};
  std::vector<SymExpr> shape;             // over the program's symbols, row-major, dense
  int64_t arena_offset = -1;              // activation only; a multiple of kArenaAlignment
  std::optional<InputContract> contract;  // input, i32
  bool operator==(const Slot&) const = default;
};
inline constexpr int64_t kArenaAlignment = 64;

struct NodeArg {
  uint32_t slot = 0;
  SlotAccess access{};
  bool operator==(const NodeArg&) const = default;
};

// One kernel launch. Nodes are listed in an order that respects `after`.
struct Node {
  std::string kernel;         // a name in Plan::kernels
  std::vector<NodeArg> args;  // in the order of the kernel's parameters
  std::vector<uint32_t>
      after;  // earlier nodes that must have ended; the transitive reduction is enough
  // (written slot, read slot) pairs that share memory on purpose: the read slot's last use is this
  // node.
  std::vector<std::pair<uint32_t, uint32_t>> in_place;
  std::string label;  // place in the model, for people
  bool operator==(const Node&) const = default;
};

// One step signature's node list: "decode", "mixed", or with --check-outputs "layer.N.mixed", ...
struct Program {
  std::string name;
  std::string graph;  // member of the plan with the L0 text
  SymTable symbols;   // the dims, with their ranges
  std::vector<Slot> slots;
  std::vector<Node> nodes;
  int64_t arena_bytes = 0;
  bool operator==(const Program&) const = default;
};

struct PlanKernel {
  std::string name;
  std::string symbol;               // in the shared object; empty if the plan has no native code
  std::vector<std::string> dims;    // symbols, in the order the function takes their values
  std::vector<std::string> params;  // names, in the order of NodeArg
  std::vector<SymExpr> part_items;  // work items of each part, over dims
  int64_t scratch_bytes = 0;        // per thread
  std::string text_member;          // "kernels/NAME.gm"
  bool operator==(const PlanKernel&) const = default;
};

// One checkpoint tensor, or some rows of it, or a series of tensors, placed into a weight buffer.
// At most one of slice, series and groups is there (ir/graph.h's WeightSource has the same fields).
struct WeightPart {
  std::string tensor;                 // canonical name; empty if `values` are the contents
  std::vector<int64_t> stored_shape;  // what the checkpoint must hold
  int slice_axis = -1;                // -1: all of it
  int64_t slice_begin = 0, slice_end = 0;
  std::vector<double> values;  // exact in f32
  int64_t panel_offset = 0;    // panels: first panel of this part
  // Not 0: `tensor` has one '*', which stands for 0, 1, ... series - 1; these tensors, each of
  // stored_shape, are stacked along a new outermost axis.
  int64_t series = 0;
  // Not 0: axis 0 is so many equal groups of rows; for each range in turn, these rows of every
  // group in turn.
  int64_t groups = 0;
  std::vector<std::pair<int64_t, int64_t>> ranges = {};
  bool operator==(const WeightPart&) const = default;
};

// A buffer in the layout the kernels read, filled from the checkpoint at load.
//   dense: one part, as stored · transposed: one part [A, B] (unit axes dropped) stored as [B, A]
//   panels: parts [..., N, K] stacked along N, each from a panel border: [..., sum of ceildiv(N,
//   32), K, 32], zero-filled
struct WeightBuffer {
  std::string name;
  DType dtype{};               // as the checkpoint stores it; every part has it
  std::vector<int64_t> shape;  // of the buffer
  std::string layout;          // "dense", "panels", "transposed"
  std::vector<WeightPart> parts;
  bool operator==(const WeightBuffer&) const = default;
};

// State of all sequences: `shape` has exactly one symbol, `slots` (one entry a sequence) or `pages`
// (kv), outermost.
struct StateBuffer {
  std::string name;
  DType dtype{};
  std::vector<SymExpr> shape;
  bool operator==(const StateBuffer&) const = default;
};

// Facts about the model that the runtime and `inspect summary` need.
struct ModelFacts {
  std::string architecture;  // "qwen3_5", "qwen3_5_moe", "qwen3_next"
  int64_t vocab = 0, hidden = 0, layers = 0;
  int64_t max_position = 0;  // of the checkpoint
  std::vector<int64_t> stop_ids;
  std::vector<std::string> layer_types;
  bool operator==(const ModelFacts&) const = default;
};

// The limits the plan was compiled for.
struct PlanLimits {
  int64_t max_context = 0;  // tokens of one sequence
  int64_t max_seqs = 0;     // sequences in one step
  int64_t max_tokens = 0;   // tokens in one mixed step
  int64_t page_tokens = 16;
  bool operator==(const PlanLimits&) const = default;
};

struct Plan {
  std::string compiler;  // "graphmill 0.1.0"
  std::string stage;     // "native" (runs), "kernels" (L2 text only)
  std::string target;    // "cpu:v3"
  std::string
      target_features;  // what the CPU must have, as LLVM writes it; empty without native code
  std::string llvm_version;
  std::string dtype;     // activations: "bf16", "f32"
  std::string numerics;  // "match-storage"
  std::string fusion;    // "off", "full"
  ModelFacts model;
  PlanLimits limits;
  std::vector<Program> programs;
  std::vector<PlanKernel> kernels;           // sorted by name
  std::vector<WeightBuffer> weights;         // sorted by name
  std::vector<StateBuffer> states;           // sorted by name
  std::map<std::string, std::string> texts;  // members with text: graph*.gm, kernels/*.gm
  std::vector<std::byte> shared_object;      // kernels/cpu.so; empty if none
  std::string tokenizer;  // tokenizer.json as it was; empty if the checkpoint has none
  Json report;            // the fusion report, schema in docs/fusion-report.md

  bool operator==(const Plan&) const = default;
  const Program* find_program(std::string_view name) const;
  const PlanKernel* find_kernel(std::string_view name) const;
  const WeightBuffer* find_weight(std::string_view name) const;
  const StateBuffer* find_state(std::string_view name) const;
};

// The bytes a slot takes with each of its extents at its largest: what the arena must hold for it.
// Nothing if an extent can be negative or has no bound, or if the size leaves int64.
std::optional<int64_t> largest_bytes(const SymTable& symbols, const Slot& slot);

// The shape that a part gives: of its slice, of all its series, of the rows of its groups. The part
// must be sound.
std::vector<int64_t> part_shape(const WeightPart& part);
// The checkpoint's name of tensor `index` of a part's series, or of its only tensor.
std::string part_tensor(const WeightPart& part, int64_t index);

std::string_view to_string(SlotKind kind);
std::string_view to_string(SlotAccess access);

}  // namespace gm
