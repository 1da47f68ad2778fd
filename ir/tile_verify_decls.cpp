// Symbols and parameters of a kernel, before any statement is looked at.
#include <set>

#include "ir/tile_verify.h"

namespace gm {
namespace {

class Declarations {
 public:
  explicit Declarations(const Kernel& kernel) : kernel_(kernel) {}

  Result<> run() {
    path_ = "@" + kernel_.name;
    GM_TRY(check_symbols());
    for (const Param& param : kernel_.params) GM_TRY(check_param(param));
    return {};
  }

 private:
  template <class... A>
  Error fail(Code code, std::string fix, fmt::format_string<A...> text, A&&... args) const {
    Location where = kernel_.location;
    where.path = path_;
    return err(code, std::move(where), std::move(fix), text, std::forward<A>(args)...);
  }

  Result<> dims_only(const SymExpr& e, std::string_view what) const {
    for (const std::string& name : e.symbols()) {
      if (!kernel_.symbols.find(name)) {
        return fail(Code::tile_name, "use declared symbols only", "{} uses '{}', which is no dim",
                    what, name);
      }
    }
    return {};
  }

  Result<> check_symbols() {
    std::set<std::string, std::less<>> before;
    for (const SymInfo& info : kernel_.symbols.symbols()) {
      for (const SymExpr& bound : {info.lo, info.hi.value_or(0)}) {
        for (const std::string& name : bound.symbols()) {
          if (!before.contains(name)) {
            return fail(Code::tile_name, "declare it before",
                        "the bounds of '{}' use '{}', which is not declared before it", info.name,
                        name);
          }
        }
      }
      before.insert(info.name);
    }
    return {};
  }

  Result<> check_param(const Param& param) {
    path_ = "@" + kernel_.name + "/%" + param.name;
    if (kernel_.find_param(param.name) != &param) {
      return fail(Code::tile_name, "name the parameters apart", "the parameter %{} is there twice",
                  param.name);
    }
    if (param.dtype == DType::pred)
      return fail(Code::tile_type, "use i8", "the parameter %{} is of dtype pred", param.name);
    for (const SymExpr& extent : param.shape) GM_TRY(dims_only(extent, "a shape"));
    if (param.residency == Residency::weight && param.access != Access::read)
      return fail(Code::tile_access, "declare it 'read'", "the weight %{} is written", param.name);
    if (!param.contract) return {};
    const Contract& contract = *param.contract;
    if (param.dtype != DType::i32 || param.access != Access::read) {
      return fail(Code::tile_type, "give contracts to i32 parameters that are read",
                  "%{} has a contract", param.name);
    }
    GM_TRY(dims_only(contract.lo, "a contract"));
    if (contract.hi) GM_TRY(dims_only(*contract.hi, "a contract"));
    if (contract.total) GM_TRY(dims_only(*contract.total, "a contract"));
    return {};
  }

  const Kernel& kernel_;
  std::string path_;
};

}  // namespace

Result<> verify_declarations(const Kernel& kernel) { return Declarations(kernel).run(); }

}  // namespace gm
