#include "codegen/tile/vm_compile.h"

#include <algorithm>
#include <bit>

#include "codegen/tile/vm_builder.h"

namespace gm::tile_vm {
namespace {

constexpr int64_t kShortRow = 16;  // below this, an axis makes a poor row

Element element_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return Element::f32;
    case DType::bf16:
      return Element::bf16;
    case DType::f16:
      return Element::f16;
    case DType::i32:
      return Element::i32;
    case DType::i8:
      return Element::i8;
    case DType::pred:
      break;
  }
  GM_CHECK(false, "a buffer of type {}", to_string(dtype));
}

bool is_index(Element element) { return element >= Element::i32; }

class Compiler {
 public:
  Compiler(const Kernel& kernel, bool checked) : kernel_(kernel) {
    out_.name = kernel.name;
    out_.checked = checked;
  }

  Result<KernelProgram> run() {
    for (const SymInfo& symbol : kernel_.symbols.symbols()) new_symbol(symbol.name);
    out_.dims = out_.slots;
    for (const Param& param : kernel_.params) {
      if (param.dtype == DType::pred)
        fail(Code::ir_type, fmt::format("%{} is a buffer of pred", param.name));
      if (error_) break;
      scope_.arrays[param.name] =
          new_array(param.name, element_of(param.dtype), param.shape, false);
    }
    out_.params = static_cast<int>(out_.arrays.size());
    for (const Part& part : kernel_.parts) {
      const Scope outer = scope_;
      PartProgram program;
      for (const Axis& axis : part.grid) program.grid.push_back(axis_of(axis));
      block(part.body, program.body);
      out_.parts.push_back(std::move(program));
      scope_ = outer;
    }
    if (error_) return Error(*std::move(error_));
    out_.initial.resize(static_cast<size_t>(out_.scalars));
    for (const PartProgram& part : out_.parts) initialise(part.body);
    return std::move(out_);
  }

 private:
  void fail(Code code, std::string message) {
    if (!error_)
      error_ =
          Diag{code, std::move(message), kernel_.location, "run the verifier on the kernel", {}};
  }

  int new_symbol(const std::string& name) {
    scope_.symbols[name] = out_.slots;
    return out_.slots++;
  }

  SymCode code_of(const SymExpr& e) {
    std::string unknown;
    const std::optional<SymTree> tree = resolve(
        e,
        [&](std::string_view name) {
          const auto it = scope_.symbols.find(name);
          return it == scope_.symbols.end() ? -1 : it->second;
        },
        unknown);
    if (tree) return SymCode(*tree);
    fail(Code::ir_name, fmt::format("unknown symbol {} in {}", unknown, e.to_string()));
    return {};
  }

  LoopAxis axis_of(const Axis& axis) {
    SymCode extent = code_of(axis.extent);  // before the axis itself is in scope
    return {new_symbol(axis.name), std::move(extent)};
  }

  int new_array(const std::string& name, Element element, const std::vector<SymExpr>& shape,
                bool is_tile) {
    ArrayInfo info{name, element, {}, out_.strides, is_tile};
    for (const SymExpr& extent : shape) info.shape.push_back(code_of(extent));
    out_.strides += static_cast<int>(shape.size());
    out_.arrays.push_back(std::move(info));
    return static_cast<int>(out_.arrays.size()) - 1;
  }

  int new_tile(const std::string& name, ScalarType type, const std::vector<Axis>& axes) {
    if (type != ScalarType::f32 && type != ScalarType::index)
      fail(Code::ir_type, fmt::format("%{} is a tile of {}", name, to_string(type)));
    std::vector<SymExpr> shape;
    for (const Axis& axis : axes) shape.push_back(axis.extent);
    return new_array(name, type == ScalarType::index ? Element::i64 : Element::f32, shape, true);
  }

  // Where the program's values lie in a frame.
  void place(Program& program) {
    program.scalar_base = out_.scalars;
    out_.scalars += static_cast<int>(program.values.size());
    out_.values = std::max(out_.values, static_cast<int>(program.values.size()));
    out_.registers = std::max(out_.registers, program.registers);
  }

  void finish(Builder& builder, Instr& instr) {
    instr.program = builder.finish({instr.address, instr.value, instr.second}, out_.checked);
    if (builder.error() && !error_) error_ = builder.error();
  }

  void check_type(const Expr& e, ScalarType type, std::string_view what) {
    if (e.type() != type)
      fail(Code::ir_type,
           fmt::format("{} is {}, not {}", what, to_string(e.type()), to_string(type)));
  }

  // The axis that runs along a row: the last, unless it is known to be short and another is not.
  static size_t row_of(const std::vector<Axis>& axes) {
    const auto is_short = [](const Axis& axis) {
      const std::optional<int64_t> extent = axis.extent.constant();
      return extent && *extent < kShortRow;
    };
    for (size_t i = axes.size(); i-- > 0;)
      if (!is_short(axes[i])) return i;
    return axes.size() - 1;
  }

  // Sets the axes of an instruction and the levels of their slots. `row` is an index into axes or
  // -1.
  std::map<int, int> nest(Instr& instr, const std::vector<Axis>& axes, int row) {
    std::map<int, int> depths;
    for (size_t i = 0; i < axes.size(); ++i) {
      LoopAxis axis = axis_of(axes[i]);
      if (static_cast<int>(i) == row) {
        instr.has_row = true;
        instr.row = std::move(axis);
      } else {
        depths[axis.slot] = static_cast<int>(instr.outer.size()) + 1;
        instr.outer.push_back(std::move(axis));
      }
    }
    return depths;
  }

  void elementwise(const std::vector<Axis>& axes, int array, bool defines,
                   const std::vector<Expr>* indices, const Expr& value, std::vector<Instr>& to) {
    const ArrayInfo& info = out_.arrays[static_cast<size_t>(array)];
    check_type(value, is_index(info.element) ? ScalarType::index : ScalarType::f32,
               fmt::format("the value for %{}", info.name));
    if (error_) return;
    const Scope outer = scope_;
    Instr instr{.kind = Instr::Kind::elementwise, .array = array, .defines = defines};
    std::map<int, int> depths =
        nest(instr, axes, axes.empty() ? -1 : static_cast<int>(row_of(axes)));
    const int level = static_cast<int>(instr.outer.size()) + (instr.has_row ? 1 : 0);
    Builder builder(out_.arrays, scope_, kernel_.location, instr.has_row ? instr.row.slot : -1,
                    std::move(depths), level);
    instr.access = {array, {}};
    if (indices == nullptr) {
      for (const Axis& axis : axes)
        instr.access.indices.push_back(builder.sym(SymExpr::symbol(axis.name)));
    } else {
      for (const Expr& index : *indices) instr.access.indices.push_back(builder.expr(index));
    }
    instr.address = builder.address(array, instr.access.indices);
    instr.value = builder.operand(builder.expr(value));
    finish(builder, instr);
    place(instr.program);
    scope_ = outer;
    to.push_back(std::move(instr));
  }

  // One of the two ways to run a reduction; `score` says how well its loads run along memory.
  Instr reduction(const ReduceStmt& s, int array, bool along, int& score) {
    const Scope outer = scope_;
    Instr instr{.kind = Instr::Kind::reduce, .array = array, .defines = true};
    instr.op = s.op;
    instr.order = s.order;
    instr.row_is_over = along;
    std::map<int, int> depths =
        nest(instr, s.axes, along ? -1 : static_cast<int>(s.axes.size()) - 1);
    LoopAxis over = axis_of(s.over);
    int level = static_cast<int>(instr.outer.size()) + 1;
    if (along) {
      instr.has_row = true;
      instr.row = std::move(over);
    } else {
      depths[over.slot] = level++;
      instr.over = std::move(over);
    }
    Builder builder(out_.arrays, scope_, kernel_.location, instr.row.slot, std::move(depths),
                    level);
    instr.access = {array, {}};
    for (const Axis& axis : s.axes)
      instr.access.indices.push_back(builder.sym(SymExpr::symbol(axis.name)));
    instr.address = builder.address(array, instr.access.indices);
    instr.value = builder.operand(builder.expr(s.a));
    if (s.op == ReduceOp::dot) instr.second = builder.operand(builder.expr(s.b));
    score = builder.contiguous_loads();
    finish(builder, instr);
    scope_ = outer;
    return instr;
  }

  void reduce(const ReduceStmt& s, std::vector<Instr>& to) {
    check_type(s.a, ScalarType::f32, fmt::format("the operand of %{}", s.tile));
    if (s.op == ReduceOp::dot)
      check_type(s.b, ScalarType::f32, fmt::format("the operand of %{}", s.tile));
    const bool lanes = s.order.kind == ReduceOrder::Kind::lanes;
    if (s.order.size < 1 || s.order.size > (int64_t{1} << 16) ||
        (lanes && !std::has_single_bit(static_cast<uint64_t>(s.order.size))))
      fail(Code::ir_type, fmt::format("%{} is reduced in {} of {}", s.tile,
                                      lanes ? "lanes" : "chains", s.order.size));
    const int array =
        new_tile(s.tile, s.op == ReduceOp::argmax ? ScalarType::index : ScalarType::f32, s.axes);
    if (error_) return;
    int along_score = 0, across_score = 0;
    Instr instr = reduction(s, array, true, along_score);
    if (!s.axes.empty() && !s.over.extent.uses(s.axes.back().name)) {
      const std::optional<int64_t> extent = s.axes.back().extent.constant();
      const bool is_short = extent && *extent < kShortRow / 2;
      Instr across = reduction(s, array, false, across_score);
      // In a chain the elements of one result wait for each other, so a row of results is better.
      if (!is_short && (across_score > along_score || (across_score == along_score && !lanes)))
        instr = std::move(across);
    }
    place(instr.program);
    to.push_back(std::move(instr));
    scope_.arrays[s.tile] = array;
  }

  // An instruction that evaluates one or two values once.
  Instr values(Instr::Kind kind, const Expr& first, const Expr* second) {
    Instr instr{.kind = kind};
    Builder builder(out_.arrays, scope_, kernel_.location, -1, {}, 0);
    instr.value = builder.expr(first);
    if (second != nullptr) instr.second = builder.expr(*second);
    finish(builder, instr);
    place(instr.program);
    return instr;
  }

  void statement(const TileStmt& s, std::vector<Instr>& to) {
    const int array = new_tile(s.tile, s.value.type(), s.axes);
    if (!error_) elementwise(s.axes, array, true, nullptr, s.value, to);
    scope_.arrays[s.tile] = array;
  }

  void statement(const UpdateStmt& s, std::vector<Instr>& to) {
    const auto it = scope_.arrays.find(s.tile);
    if (it == scope_.arrays.end() || !out_.arrays[static_cast<size_t>(it->second)].is_tile) {
      fail(Code::ir_name, fmt::format("unknown tile %{}", s.tile));
      return;
    }
    elementwise(s.axes, it->second, false, &s.indices, s.value, to);
  }

  void statement(const StoreStmt& s, std::vector<Instr>& to) {
    const auto it = scope_.arrays.find(s.buffer);
    if (it == scope_.arrays.end() || out_.arrays[static_cast<size_t>(it->second)].is_tile) {
      fail(Code::ir_name, fmt::format("unknown buffer %{}", s.buffer));
      return;
    }
    elementwise(s.axes, it->second, false, &s.indices, s.value, to);
  }

  void statement(const ReduceStmt& s, std::vector<Instr>& to) { reduce(s, to); }

  void statement(const ForStmt& s, std::vector<Instr>& to) {
    check_type(s.lo, ScalarType::index, "the lower bound of " + s.axis);
    check_type(s.hi, ScalarType::index, "the upper bound of " + s.axis);
    if (error_) return;
    Instr instr = values(Instr::Kind::loop, s.lo, &s.hi);
    const Scope outer = scope_;
    instr.slot = new_symbol(s.axis);
    block(s.body, instr.body);
    scope_ = outer;
    to.push_back(std::move(instr));
  }

  void statement(const IfStmt& s, std::vector<Instr>& to) {
    check_type(s.condition, ScalarType::pred, "the condition of an if");
    if (error_) return;
    Instr instr = values(Instr::Kind::branch, s.condition, nullptr);
    block(s.body, instr.body);
    to.push_back(std::move(instr));
  }

  void statement(const LetStmt& s, std::vector<Instr>& to) {
    check_type(s.value, ScalarType::index, "the value of " + s.name);
    if (error_) return;
    Instr instr = values(Instr::Kind::let, s.value, nullptr);
    instr.slot = new_symbol(s.name);
    to.push_back(std::move(instr));
  }

  void block(const Block& stmts, std::vector<Instr>& to) {
    const Scope outer = scope_;
    for (const Stmt& stmt : stmts) {
      if (error_) break;
      std::visit([&](const auto& s) { statement(s, to); }, stmt.node);
    }
    scope_ = outer;
  }

  void initialise(const std::vector<Instr>& instrs) {
    for (const Instr& instr : instrs) {
      for (const auto& [value, constant] : instr.program.constants)
        out_.initial[static_cast<size_t>(instr.program.scalar_base + value)] = constant;
      initialise(instr.body);
    }
  }

  const Kernel& kernel_;
  KernelProgram out_;
  Scope scope_;
  std::optional<Diag> error_;
};

}  // namespace

Result<KernelProgram> compile(const Kernel& kernel, bool checked) {
  return Compiler(kernel, checked).run();
}

}  // namespace gm::tile_vm
