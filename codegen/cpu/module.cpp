#include "codegen/cpu/module.h"

#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/Passes/PassBuilder.h>

#include <algorithm>

#include "codegen/cpu/emitter.h"

namespace gm::cpu {
namespace {

// Nothing here reassociates floats: no instruction carries a fast-math flag.
constexpr const char* kPasses =
    "function(sroa<modify-cfg>,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,"
    "loop-mssa(licm<allowspeculation>),gvn<no-load-pre>,sroa<modify-cfg>,instcombine<no-verify-"
    "fixpoint>,"
    "loop-mssa(licm<allowspeculation>),simplifycfg)";

constexpr uint64_t kZeroBytes = 256;  // the widest masked access: 32 lanes of 8 bytes

Error refused(const Kernel& kernel, std::string_view why) {
  return err(Code::cpu_llvm, kernel.location, "report this kernel; it is no fault of the model",
             "LLVM refused the code of kernel '{}': {}", kernel.name, why);
}

llvm::Function* make_part_function(const Kernel& kernel, llvm::Module& module) {
  llvm::LLVMContext& context = module.getContext();
  llvm::Type* i64 = llvm::Type::getInt64Ty(context);
  llvm::Type* pointer = llvm::PointerType::get(context, 0);
  std::vector<llvm::Type*> types = {i64, i64};
  types.insert(types.end(), kernel.symbols.symbols().size(), i64);
  const size_t first_param = types.size();
  types.insert(types.end(), kernel.params.size() + 1, pointer);
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), types, false);
  auto* function = llvm::Function::Create(type, llvm::GlobalValue::InternalLinkage, "", module);
  // Not inlined into the entry: the promises about the arguments hold inside this function.
  function->addFnAttr(llvm::Attribute::NoInline);
  for (size_t i = 0; i <= kernel.params.size(); ++i) {
    llvm::Argument* argument = function->getArg(static_cast<unsigned>(first_param + i));
    const bool is_scratch = i == kernel.params.size();
    // An activation that is read may share its memory with a result, in place.
    if (is_scratch || kernel.params[i].residency == Residency::weight ||
        (kernel.params[i].residency == Residency::step && kernel.params[i].access == Access::read))
      argument->addAttr(llvm::Attribute::NoAlias);
    if (!is_scratch && kernel.params[i].access == Access::read)
      argument->addAttr(llvm::Attribute::ReadOnly);
    argument->addAttr(llvm::Attribute::NoCapture);
    if (is_scratch) argument->addAttr(llvm::Attribute::getWithAlignment(context, llvm::Align(64)));
  }
  return function;
}

// The exported function: gives each part its share of [begin, end).
class EntryEmitter {
 public:
  EntryEmitter(const Kernel& kernel, llvm::Function* function)
      : b_(llvm::BasicBlock::Create(function->getContext(), "", function)), function_(function) {
    llvm::Type* i64 = b_.getInt64Ty();
    llvm::Type* pointer = b_.getPtrTy();
    size_t i = 0;
    for (const SymInfo& info : kernel.symbols.symbols()) {
      dims_.push_back(b_.CreateAlignedLoad(
          i64, b_.CreateConstInBoundsGEP1_64(i64, function->getArg(0), i++), llvm::Align(8)));
      names_.push_back(info.name);
    }
    for (i = 0; i < kernel.params.size(); ++i) {
      args_.push_back(b_.CreateAlignedLoad(
          pointer, b_.CreateConstInBoundsGEP1_64(pointer, function->getArg(1), i), llvm::Align(8)));
    }
    first_ = b_.getInt64(0);
  }

  void part(const Part& part, llvm::Function* callee) {
    llvm::Value* count = b_.getInt64(1);
    for (const Axis& axis : part.grid) {
      llvm::Value* extent = tree(parse_sym_tree(axis.extent.to_string()));
      count = b_.CreateMul(count, clamp(extent, b_.getInt64(0), true));
    }
    llvm::Value* last = b_.CreateAdd(first_, count);
    llvm::Value* lo = clamp(function_->getArg(2), first_, true);
    llvm::Value* hi = clamp(function_->getArg(3), last, false);
    auto* call = llvm::BasicBlock::Create(b_.getContext(), "", function_);
    auto* next = llvm::BasicBlock::Create(b_.getContext(), "", function_);
    b_.CreateCondBr(b_.CreateICmpSLT(lo, hi), call, next);
    b_.SetInsertPoint(call);
    std::vector<llvm::Value*> arguments = {b_.CreateSub(lo, first_), b_.CreateSub(hi, first_)};
    arguments.insert(arguments.end(), dims_.begin(), dims_.end());
    arguments.insert(arguments.end(), args_.begin(), args_.end());
    arguments.push_back(function_->getArg(4));
    b_.CreateCall(callee, arguments);
    b_.CreateBr(next);
    b_.SetInsertPoint(next);
    first_ = last;
  }

  void finish() { b_.CreateRetVoid(); }

 private:
  llvm::Value* clamp(llvm::Value* a, llvm::Value* bound, bool from_below) {
    llvm::Value* less = from_below ? b_.CreateICmpSLT(a, bound) : b_.CreateICmpSLT(bound, a);
    return b_.CreateSelect(less, bound, a);
  }

  llvm::Value* tree(const SymTree& t) {
    using Kind = SymTree::Kind;
    if (t.kind == Kind::number) return llvm::ConstantInt::getSigned(b_.getInt64Ty(), t.number);
    if (t.kind == Kind::symbol) {
      const auto found = std::find(names_.begin(), names_.end(), t.name);
      GM_CHECK(found != names_.end(), "symbol '{}' in a grid", t.name);
      return dims_[static_cast<size_t>(found - names_.begin())];
    }
    llvm::Value* a = tree(t.args[0]);
    if (t.kind == Kind::neg) return b_.CreateNeg(a);
    llvm::Value* b = tree(t.args[1]);
    // Divisors are positive constants.
    const auto floor_div = [&](llvm::Value* x) {
      llvm::Value* below = b_.CreateICmpSLT(b_.CreateSRem(x, b), b_.getInt64(0));
      return b_.CreateAdd(b_.CreateSDiv(x, b), b_.CreateSExt(below, b_.getInt64Ty()));
    };
    switch (t.kind) {
      case Kind::add:
        return b_.CreateAdd(a, b);
      case Kind::sub:
        return b_.CreateSub(a, b);
      case Kind::mul:
        return b_.CreateMul(a, b);
      case Kind::ceildiv:
        return b_.CreateNeg(floor_div(b_.CreateNeg(a)));
      case Kind::floordiv:
        return floor_div(a);
      case Kind::mod:
        return b_.CreateSub(a, b_.CreateMul(floor_div(a), b));
      case Kind::min:
        return clamp(a, b, false);
      case Kind::max:
        return clamp(a, b, true);
      default:
        break;
    }
    GM_CHECK(false, "symbol tree kind {}", static_cast<int>(t.kind));
  }

  llvm::IRBuilder<> b_;
  llvm::Function* function_;
  std::vector<std::string> names_;
  std::vector<llvm::Value*> dims_, args_;
  llvm::Value* first_ = nullptr;
};

Result<> optimise(const Kernel& kernel, llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  llvm::ModulePassManager passes;
  if (llvm::Error error = builder.parsePassPipeline(passes, kPasses))
    return refused(kernel, llvm::toString(std::move(error)));
  passes.run(module, modules);
  return {};
}

// LLVM reports what it cannot select this way; the default would end the process.
struct Diagnostics final : llvm::DiagnosticHandler {
  explicit Diagnostics(std::string& into) : messages(into) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getSeverity() == llvm::DS_Error) {
      llvm::raw_string_ostream stream(messages);
      llvm::DiagnosticPrinterRawOStream printer(stream);
      info.print(printer);
    }
    return true;
  }
  std::string& messages;
};

}  // namespace

Result<KernelObject> compile_kernel(const Kernel& kernel, const std::string& symbol,
                                    llvm::TargetMachine& machine) {
  llvm::LLVMContext context;
  context.setDiscardValueNames(true);
  std::string messages;
  context.setDiagnosticHandler(std::make_unique<Diagnostics>(messages));
  llvm::Module module("kernel", context);
  module.setTargetTriple(machine.getTargetTriple().str());
  module.setDataLayout(machine.createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);

  const bool avx512 =
      machine.getMCSubtargetInfo()->checkFeatures("+avx512f,+avx512vl,+avx512bw,+avx512dq");
  llvm::Type* i64 = llvm::Type::getInt64Ty(context);
  llvm::Type* pointer = llvm::PointerType::get(context, 0);
  auto* zero_type = llvm::ArrayType::get(llvm::Type::getInt8Ty(context), kZeroBytes);
  auto* zeros = new llvm::GlobalVariable(module, zero_type, true, llvm::GlobalValue::PrivateLinkage,
                                         llvm::Constant::getNullValue(zero_type));
  zeros->setAlignment(llvm::Align(64));
  auto* entry =
      llvm::Function::Create(llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                                     {pointer, pointer, i64, i64, pointer}, false),
                             llvm::GlobalValue::ExternalLinkage, symbol, module);
  EntryEmitter entry_emitter(kernel, entry);
  KernelObject object;
  for (const Part& part : kernel.parts) {
    llvm::Function* function = make_part_function(kernel, module);
    PartEmitter emitter(kernel, part, Machine{avx512 ? 16 : 4}, function, zeros);
    GM_ASSIGN(const int64_t scratch_bytes, emitter.emit());
    object.scratch_bytes = std::max(object.scratch_bytes, scratch_bytes);
    entry_emitter.part(part, function);
  }
  entry_emitter.finish();
  for (llvm::Function& function : module) {
    function.setDoesNotThrow();
    function.addFnAttr("no-builtins");
    if (avx512) {
      // The level's tuning prefers 256 bits; contractions are bound by instructions, so ask for
      // 512.
      function.addFnAttr("prefer-vector-width", "512");
      function.addFnAttr("min-legal-vector-width", "512");
    }
  }

  const auto verify = [&](const char* when) -> Result<> {
    std::string why;
    llvm::raw_string_ostream stream(why);
    if (llvm::verifyModule(module, &stream))
      return refused(kernel, fmt::format("{}: {}", when, why));
    return {};
  };
  GM_TRY(verify("as made"));
  GM_TRY(optimise(kernel, module, machine));
#ifndef NDEBUG
  GM_TRY(verify("optimised"));
#endif
  llvm::raw_svector_ostream stream(object.bytes);
  llvm::legacy::PassManager emit;
  if (machine.addPassesToEmitFile(emit, stream, nullptr, llvm::CodeGenFileType::ObjectFile))
    return refused(kernel, "no object file can be written for this target");
  emit.run(module);
  if (!messages.empty()) return refused(kernel, messages);
  return object;
}

}  // namespace gm::cpu
