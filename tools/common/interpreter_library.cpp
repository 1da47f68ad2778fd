#include "tools/common/interpreter_library.h"

#include <map>

#include "codegen/tile/interpreter.h"

namespace gm {
namespace {

class InterpreterLibrary : public KernelLibrary {
 public:
  InterpreterLibrary(std::shared_ptr<const Plan> plan, std::string file)
      : plan_(std::move(plan)), file_(std::move(file)) {}

  Result<KernelFn> find(const PlanKernel& kernel) override {
    auto found = kernels_.find(kernel.name);
    if (found == kernels_.end()) {
      GM_ASSIGN(TileInterpreter made, make(kernel));
      found =
          kernels_.emplace(kernel.name, std::make_shared<const TileInterpreter>(std::move(made)))
              .first;
    }
    return [run = found->second, dims = kernel.dims.size(), params = kernel.params.size()](
               const int64_t* values, void* const* args, int64_t begin, int64_t end, std::byte*) {
      run->run({values, dims}, {args, params}, begin, end);
    };
  }

 private:
  Result<TileInterpreter> make(const PlanKernel& described) {
    const std::string where = file_ + ": " + described.text_member;
    const auto text = plan_->texts.find(described.text_member);
    if (text == plan_->texts.end()) {
      return err(Code::plan_text, Location::of_file(where), "compile the plan again",
                 "the text of kernel {} is missing", described.name);
    }
    GM_ASSIGN(const Kernel kernel, parse_kernel(text->second, where));
    GM_TRY(verify_kernel(kernel));
    // The plan's checker has seen the description, not the text: the two must be of one kernel.
    bool same = kernel.symbols.symbols().size() == described.dims.size() &&
                kernel.params.size() == described.params.size() &&
                kernel.parts.size() == described.part_items.size();
    for (size_t i = 0; same && i < described.dims.size(); ++i)
      same = kernel.symbols.symbols()[i].name == described.dims[i];
    for (size_t i = 0; same && i < described.params.size(); ++i)
      same = kernel.params[i].name == described.params[i];
    for (size_t i = 0; same && i < described.part_items.size(); ++i)
      same = work_items(kernel.parts[i]) == described.part_items[i];
    if (!same) {
      return err(Code::plan_kernel, Location::of_file(where), "compile the plan again",
                 "the text of kernel {} is not of the kernel that the plan describes",
                 described.name);
    }
    return TileInterpreter::create(kernel);
  }

  std::shared_ptr<const Plan> plan_;
  std::string file_;
  std::map<std::string, std::shared_ptr<const TileInterpreter>, std::less<>> kernels_;
};

}  // namespace

std::shared_ptr<KernelLibrary> interpreter_library(std::shared_ptr<const Plan> plan,
                                                   std::string file) {
  return std::make_shared<InterpreterLibrary>(std::move(plan), std::move(file));
}

}  // namespace gm
