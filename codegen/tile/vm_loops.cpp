#include "codegen/tile/vm_loops.h"

#include "base/dtype.h"

namespace gm::tile_vm {

namespace portable {
#define GM_VM_TARGET
#include "codegen/tile/vm_loops.inc"
#undef GM_VM_TARGET
}  // namespace portable

#if defined(__x86_64__)
namespace avx2 {
#define GM_VM_TARGET __attribute__((target("avx2,fma")))
#include "codegen/tile/vm_loops.inc"
#undef GM_VM_TARGET
}  // namespace avx2

const Loops& loops() {
  static const Loops& chosen = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
                                   ? avx2::kLoops
                                   : portable::kLoops;
  return chosen;
}
#else
const Loops& loops() { return portable::kLoops; }
#endif

}  // namespace gm::tile_vm
