#include "plan/check.h"

#include "plan/check_parts.h"

namespace gm {

Result<> check_plan(const Plan& plan, const std::string& file) {
  GM_TRY(check::check_contents(plan, file));
  for (size_t i = 0; i < plan.programs.size(); ++i) {
    const check::Context c{plan, plan.programs[i], file + ": program.json",
                           fmt::format("programs[{}]", i)};
    GM_TRY(check::check_symbols(c));
    GM_TRY(check::check_slots(c));
    GM_TRY(check::check_nodes(c));
    const check::Reachability reachable(c.program);
    GM_TRY(check::check_dependences(c, reachable));
    GM_TRY(check::check_arena(c, reachable));
  }
  return {};
}

}  // namespace gm
