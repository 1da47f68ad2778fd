// Targets by name, and the host.
#include <algorithm>
#include <mutex>

#include <llvm/ADT/StringMap.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>

#include "codegen/cpu/module.h"

namespace gm::cpu {

namespace {
constexpr const char* kTriple = "x86_64-unknown-linux-gnu";
}

Result<CpuTarget> host_target() {
  CpuTarget target{CpuLevel::native, llvm::sys::getHostCPUName().str(), ""};
  std::vector<std::string> features;
  for (const auto& feature : llvm::sys::getHostCPUFeatures())
    features.push_back((feature.second ? "+" : "-") + feature.first().str());
  std::sort(features.begin(), features.end(), [](const std::string& a, const std::string& b) {
    return a.compare(1, std::string::npos, b, 1, std::string::npos) < 0;
  });
  for (const std::string& feature : features)
    target.features += (target.features.empty() ? "" : ",") + feature;
  for (const char* needed : {"+avx2", "+fma", "+f16c"}) {
    if (std::find(features.begin(), features.end(), needed) == features.end()) {
      return err(Code::cpu_target, Location::of_path("--target", "cpu:native"),
                 "run on a machine of level x86-64-v3 or higher", "this CPU ({}) lacks {}",
                 target.cpu, needed + 1);
    }
  }
  return target;
}

Result<std::unique_ptr<llvm::TargetMachine>> create_target_machine(const CpuTarget& target) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  const auto refuse = [&](std::string_view why) {
    return err(Code::cpu_target, Location::of_path("--target", target.cpu),
               "use cpu, cpu:v3, cpu:v4 or cpu:native", "LLVM has no such CPU: {}", why);
  };
  std::string why;
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(kTriple, why);
  if (found == nullptr) return refuse(why);
  // Asked before the target machine is made, which would print a warning of its own.
  const std::unique_ptr<llvm::MCSubtargetInfo> known(
      found->createMCSubtargetInfo(kTriple, "x86-64", ""));
  if (!known || !known->isCPUStringValid(target.cpu)) return refuse(target.cpu);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;  // an fma is one that the kernel asks for
  std::unique_ptr<llvm::TargetMachine> machine(
      found->createTargetMachine(kTriple, target.cpu, target.features, options, llvm::Reloc::PIC_,
                                 llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
  if (!machine) return refuse("no target machine");
  if (!machine->getMCSubtargetInfo()->checkFeatures("+avx2,+fma,+f16c"))
    return refuse("it lacks AVX2, FMA or F16C");
  return machine;
}

}  // namespace gm::cpu
