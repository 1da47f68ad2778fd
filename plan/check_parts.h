// The parts of the plan checker (plan/check.h), one a concern. Each stops at the first fault.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace gm::check {

inline constexpr std::string_view kFix =
    "recompile the plan; if the fault comes back, report it with the command that compiled it";

// Bounds that keep the checker's own work and memory small whatever a file says. The largest plans
// have some thousand nodes and a dozen symbols.
inline constexpr size_t kMaxNodes = 16384;
inline constexpr size_t kMaxSymbols = 64;
inline constexpr size_t kMaxRank = 8;

// One program with how to speak of it: "programs[1].nodes[3].args[0]" as the place, "program
// decode, node 3 (layers.0.mlp)" in the text.
struct Context {
  const Plan& plan;
  const Program& program;
  std::string file;  // "m.gmp: program.json"
  std::string path;  // "programs[1]"

  template <class... A>
  Error fault(Code code, const std::string& below, fmt::format_string<A...> text,
              A&&... args) const {
    return err(code, Location::of_path(file, path + below), std::string(kFix), "program {}: {}",
               program.name, fmt::format(text, std::forward<A>(args)...));
  }
  std::string node_text(size_t node) const {
    return fmt::format("node {} ({})", node, program.nodes[node].label);
  }
  const std::string& slot_name(size_t slot) const { return program.slots[slot].name; }
};

// Names, kernels, states, weight recipes, limits: all but the programs.
Result<> check_contents(const Plan& plan, const std::string& file);
// How a weight buffer is filled.
Result<> check_recipe(const WeightBuffer& weight, const Location& at);

// Symbols and slots by themselves and against the buffers they name.
Result<> check_symbols(const Context& c);
Result<> check_slots(const Context& c);
// What each node says by itself: kernel, arguments, `after`, what it may write.
Result<> check_nodes(const Context& c);

// Whether a path of `after` edges leads from one node to another.
class Reachability {
 public:
  explicit Reachability(const Program& program);  // check_nodes() must have passed
  bool before(size_t earlier, size_t later) const {
    return earlier < later && (rows_[later * words_ + earlier / 64] >> (earlier % 64) & 1) != 0;
  }

 private:
  size_t words_;
  std::vector<uint64_t> rows_;
};

// Reads after writes, writes after reads and writes after writes of each slot are ordered; outputs
// are written.
Result<> check_dependences(const Context& c, const Reachability& reachable);
// The arena: places, size, overlap, in-place pairs. check_dependences() must have passed.
Result<> check_arena(const Context& c, const Reachability& reachable);

}  // namespace gm::check
