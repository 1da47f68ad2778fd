#include "ops/reference.h"

#include <algorithm>

#include "ops/expr_program.h"

namespace gm {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 31;

template <class T>
using Inputs = std::span<const RefTensor<T>* const>;

template <class T>
T rounded(DType dtype, T x) {
  if constexpr (std::is_same_v<T, float>) {
    return round_to(dtype, x);
  } else {
    return x;
  }
}

// What one op's evaluation needs at hand.
template <class T>
struct Evaluation {
  const OpInstance& op;
  std::span<const TensorType> types;
  Inputs<T> inputs;
  std::vector<RefTensor<T>> outputs;
  std::string fault;

  void take_fault(const ExprProgram<T>& program) {
    if (fault.empty()) fault = program.fault();
  }
};

std::vector<std::string> axis_names(size_t rank) {
  std::vector<std::string> names;
  for (size_t d = 0; d < rank; ++d) names.push_back(fmt::format("i{}", d));
  return names;
}

std::vector<Expr> as_indices(std::span<const std::string> names) {
  std::vector<Expr> indices;
  for (const std::string& name : names) indices.push_back(Expr::index(SymExpr::symbol(name)));
  return indices;
}

// Calls body(indices) for each element of a shape, row-major; the first `rank` entries of the
// buffer are the indices.
template <class Body>
void for_each_index(std::span<const int64_t> shape, std::vector<int64_t>& indices, Body body) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  for (int64_t flat = 0; flat < count; ++flat) {
    int64_t rest = flat;
    for (size_t d = shape.size(); d-- > 0;) {
      indices[d] = rest % shape[d];
      rest /= shape[d];
    }
    body(static_cast<size_t>(flat));
  }
}

template <class T>
void evaluate_elements(Evaluation<T>& run) {
  RefTensor<T>& out = run.outputs[0];
  RefContext context(run.op, run.types);
  const auto names = axis_names(out.shape.size());
  ExprProgram<T> program(run.op.def().element(context, as_indices(names)), names, run.inputs);
  std::vector<int64_t> at(names.size());
  for_each_index(out.shape, at, [&](size_t flat) {
    program.run(at);
    if (is_float(run.types[0].dtype)) {
      out.data[flat] = rounded(run.types[0].dtype, program.number());
    } else {
      out.ints[flat] = program.integer();
    }
  });
  run.take_fault(program);
}

template <class T>
T reduce(ReduceOp op, T total, T x) {
  return op == ReduceOp::max ? (total < x ? x : total) : total + x;
}

template <class T>
void evaluate_rows(Evaluation<T>& run) {
  const OpDef& def = run.op.def();
  RefTensor<T>& out = run.outputs[0];
  RefContext context(run.op, run.types);
  const auto names = axis_names(out.shape.size());
  const auto indices = as_indices(names);
  const std::span row(indices.data(), indices.size() - 1);
  std::vector<Expr> reduced;
  std::vector<ExprProgram<T>> programs;
  for (size_t i = 0; i < def.reductions.size(); ++i) {
    programs.emplace_back(def.reductions[i].value(context, row, indices.back(), reduced), names,
                          run.inputs);
    reduced.push_back(Expr::tile(fmt::format("{}", i), {}, ScalarType::f32));
  }
  ExprProgram<T> element(def.row_element(context, indices, reduced), names, run.inputs);

  const int64_t width = run.inputs[0]->shape.back();
  const size_t rank = names.size();
  std::vector<int64_t> at(rank);
  for_each_index(std::span(out.shape).first(rank - 1), at, [&](size_t flat) {
    std::vector<T> totals;
    for (size_t i = 0; i < programs.size(); ++i) {
      const ReduceOp op = def.reductions[i].op;
      T total = op == ReduceOp::max ? -std::numeric_limits<T>::infinity() : T(0);
      for (at[rank - 1] = 0; at[rank - 1] < width; ++at[rank - 1]) {
        programs[i].run(at, totals);
        total = reduce(op, total, programs[i].number());
      }
      totals.push_back(total);
    }
    for (at[rank - 1] = 0; at[rank - 1] < width; ++at[rank - 1]) {
      element.run(at, totals);
      out.data[flat * static_cast<size_t>(width) + static_cast<size_t>(at[rank - 1])] =
          rounded(run.types[0].dtype, element.number());
    }
  });
  for (const auto& program : programs) run.take_fault(program);
  run.take_fault(element);
}

bool uses_axis(const Expr& e, std::string_view axis) {
  bool found = false;
  visit_nodes(
      e, [&](const Expr& node) { found |= node->kind == ExprKind::index && node->sym.uses(axis); });
  return found;
}

// Whether neighbours along the axis lie at a constant distance.
bool is_strided(std::span<const Expr> indices, std::string_view axis) {
  return std::ranges::all_of(indices, [&](const Expr& index) {
    const auto sym = index.as_sym();
    return sym ? sym->linear_in(axis).has_value() : !uses_axis(index, axis);
  });
}

template <class T>
void evaluate_contraction(Evaluation<T>& run) {
  const OpDef& def = run.op.def();
  RefTensor<T>& out = run.outputs[0];
  RefContext context(run.op, run.types);
  auto names = axis_names(out.shape.size());  // row, n
  names.push_back("k");
  const auto indices = as_indices(names);
  const size_t rank = out.shape.size();
  const std::span row(indices.data(), rank - 1);
  const auto w_index = def.w_index(context, row, indices[rank - 1], indices[rank]);
  ExprProgram<T> a_program(context.read(0, def.a_index(context, row, indices[rank])), names,
                           run.inputs);
  ExprProgram<T> w_program(context.read(1, w_index), names, run.inputs);
  const bool strided = is_strided(w_index, "k");

  const int64_t extent_k = def.extent_k(run.op).constant().value();
  const int64_t extent_n = out.shape.back();
  std::vector<int64_t> at(rank + 1);
  std::vector<T> a(static_cast<size_t>(extent_k));
  std::vector<T> w(static_cast<size_t>(extent_k));
  for_each_index(std::span(out.shape).first(rank - 1), at, [&](size_t flat) {
    at[rank - 1] = 0;
    for (at[rank] = 0; at[rank] < extent_k; ++at[rank]) {
      a_program.run(at);
      a[static_cast<size_t>(at[rank])] = a_program.number();
    }
    for (at[rank - 1] = 0; at[rank - 1] < extent_n; ++at[rank - 1]) {
      const int64_t probes = strided ? std::min<int64_t>(extent_k, 2) : extent_k;
      int64_t offsets[2] = {};
      for (at[rank] = 0; at[rank] < probes; ++at[rank]) {
        w_program.run(at);
        w[static_cast<size_t>(at[rank])] = w_program.number();
        if (at[rank] < 2) offsets[at[rank]] = w_program.offset();
      }
      if (!w_program.fault().empty()) return;
      for (int64_t k = probes; k < extent_k; ++k) {
        const int64_t offset = offsets[0] + (offsets[1] - offsets[0]) * k;
        w[static_cast<size_t>(k)] = run.inputs[1]->data[static_cast<size_t>(offset)];
      }
      T sum = 0;
      for (size_t k = 0; k < a.size(); ++k) sum += a[k] * w[k];
      out.data[flat * static_cast<size_t>(extent_n) + static_cast<size_t>(at[rank - 1])] =
          rounded(run.types[0].dtype, sum);
    }
  });
  run.take_fault(a_program);
  run.take_fault(w_program);
}

// The references of kernel-like ops index without looking; what their integers must satisfy is
// common to all of them.
template <class T>
std::string integer_fault(const OpInstance& op, Inputs<T> inputs) {
  const auto operand = [&](std::string_view name) -> const RefTensor<T>* {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (op.def().operands[i].name == name) return inputs[i];
    }
    return nullptr;
  };
  const auto outside = [](const RefTensor<T>* tensor, int64_t lo, int64_t hi) -> std::string {
    if (tensor == nullptr) return {};
    for (int64_t x : tensor->ints) {
      if (x < lo || x >= hi) return fmt::format("{} is not within [{}, {})", x, lo, hi);
    }
    return {};
  };
  const auto* pages = operand("pages");
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = op.def().operands[i].name;
    std::string fault;
    if (op.def().operands[i].kind == OperandDef::Kind::state) {
      const int64_t rows = inputs[i]->shape[0];
      fault = outside(operand("slot"), -1, rows);
      if (fault.empty()) fault = outside(pages, -1, rows);
    } else if (name == "pos" && pages != nullptr) {
      // Each op with pages has a cache of [pages, tokens a page, ...].
      for (size_t s = 0; s < inputs.size() && fault.empty(); ++s) {
        if (op.def().operands[s].kind != OperandDef::Kind::state) continue;
        fault = outside(inputs[i], 0, pages->shape[1] * inputs[s]->shape[1]);
      }
    } else if (name == "seq_start") {
      const auto& start = inputs[i]->ints;
      const bool ordered = std::ranges::is_sorted(start);
      if (!ordered || start.front() != 0 || start.back() != inputs[0]->shape[0]) {
        fault = fmt::format("it does not ascend from 0 to the {} tokens", inputs[0]->shape[0]);
      }
    }
    if (!fault.empty()) return fmt::format("operand {}: {}", name, fault);
  }
  return {};
}

template <class T>
void evaluate_kernel(Evaluation<T>& run) {
  const OpDef& def = run.op.def();
  run.fault = integer_fault(run.op, run.inputs);
  if (!run.fault.empty()) return;
  for (size_t i = 0; i < def.results.size(); ++i) {
    if (!def.results[i].state) continue;
    run.outputs[i].data = run.inputs[static_cast<size_t>(def.results[i].state_operand)]->data;
  }
  RefCall<T> call{run.op, run.inputs, run.outputs,
                  [&](size_t result, T x) { return rounded(run.types[result].dtype, x); },
                  [](DType dtype, T x) { return rounded(dtype, x); }};
  if constexpr (std::is_same_v<T, float>) {
    def.reference_f32(call);
  } else {
    def.reference_f64(call);
  }
}

// Shape and storage of a type whose dimensions are all numbers.
template <class T>
Result<RefTensor<T>> zeros(const TensorType& type, const Location& where) {
  RefTensor<T> tensor;
  int64_t count = 1;
  for (const SymExpr& dim : type.shape) {
    const int64_t extent = dim.constant().value_or(-1);
    if (extent < 0 || (extent > 0 && count > kMostElements / extent)) {
      return err(Code::evaluate_input, where, "give its symbols smaller values",
                 "{} cannot be evaluated: it is {}", type.to_string(),
                 extent < 0 ? "symbolic or negative" : "larger than 2^31 elements");
    }
    count *= extent;
    tensor.shape.push_back(extent);
  }
  if (is_float(type.dtype)) {
    tensor.data.resize(static_cast<size_t>(count));
  } else {
    tensor.ints.resize(static_cast<size_t>(count));
  }
  return tensor;
}

template <class T>
Result<> check_fits(const RefTensor<T>& tensor, const TensorType& type, std::string_view name,
                    const Location& where) {
  GM_ASSIGN(const RefTensor<T> wanted, zeros<T>(type, where));
  if (tensor.shape == wanted.shape && tensor.data.size() == wanted.data.size() &&
      tensor.ints.size() == wanted.ints.size()) {
    return {};
  }
  return err(Code::evaluate_input, where, "give a tensor of that shape and dtype",
             "{} must be {}, but a tensor of shape [{}] with {} floats and {} integers is given",
             name, type.to_string(), fmt::join(tensor.shape, ", "), tensor.data.size(),
             tensor.ints.size());
}

using Dims = std::map<std::string, int64_t, std::less<>>;

Result<int64_t> evaluate_dim(const SymExpr& e, const Dims& dims, const Location& where) {
  const auto value = e.evaluate(dims);
  if (value) return *value;
  return err(Code::evaluate_input, where, "give every symbol of the graph a value",
             "{} has no value", e.to_string());
}

Result<TensorType> at_dims(const TensorType& type, const Dims& dims, const Location& where) {
  TensorType result{type.dtype, {}};
  for (const SymExpr& dim : type.shape) {
    GM_ASSIGN(const int64_t extent, evaluate_dim(dim, dims, where));
    result.shape.emplace_back(extent);
  }
  return result;
}

Result<> check_contract(const Contract& contract, std::span<const int64_t> values, const Dims& dims,
                        const Location& where) {
  GM_ASSIGN(const int64_t lo, evaluate_dim(contract.lo, dims, where));
  std::optional<int64_t> hi;
  if (contract.hi) {
    GM_ASSIGN(hi, evaluate_dim(*contract.hi, dims, where));
  }
  for (int64_t x : values) {
    if (x < lo || (hi && x >= *hi)) {
      return err(Code::evaluate_input, where, "keep the contract of the input",
                 "element {} is not within [{}, {})", x, lo, hi ? fmt::format("{}", *hi) : "");
    }
  }
  if (contract.monotone) {
    bool ok = std::ranges::is_sorted(values) && (values.empty() || values.front() == 0);
    if (contract.total && !values.empty()) {
      GM_ASSIGN(const int64_t total, evaluate_dim(*contract.total, dims, where));
      ok = ok && values.back() == total;
    }
    if (!ok)
      return err(Code::evaluate_input, where, "keep the contract of the input",
                 "elements do not ascend from 0 to the total");
  }
  if (contract.distinct) {
    std::vector<int64_t> sorted(values.begin(), values.end());
    std::ranges::sort(sorted);
    const auto twice =
        std::ranges::adjacent_find(sorted, [](int64_t a, int64_t b) { return a == b && a >= 0; });
    if (twice != sorted.end()) {
      return err(Code::evaluate_input, where, "keep the contract of the input",
                 "element {} occurs twice", *twice);
    }
  }
  return {};
}

}  // namespace

template <class T>
Result<std::vector<RefTensor<T>>> evaluate_op(const OpDef& def, std::span<const TensorType> types,
                                              const Attrs& attrs,
                                              std::span<const RefTensor<T>* const> inputs,
                                              const Location& where) {
  GM_CHECK(types.size() == inputs.size(), "{} types for {} tensors", types.size(), inputs.size());
  GM_ASSIGN(const std::vector<TensorType> results, infer_types(def, types, attrs, where));
  for (size_t i = 0; i < inputs.size(); ++i) {
    GM_TRY(check_fits(*inputs[i], types[i], def.operands[i].name, where));
  }
  const OpInstance op(def, types, attrs);
  Evaluation<T> run{op, results, inputs, {}, {}};
  for (const TensorType& type : results) {
    GM_ASSIGN(RefTensor<T> tensor, zeros<T>(type, where));
    run.outputs.push_back(std::move(tensor));
  }
  switch (def.op_class) {
    case OpClass::pointwise:
    case OpClass::view:
      evaluate_elements(run);
      break;
    case OpClass::row_reduction:
      evaluate_rows(run);
      break;
    case OpClass::contraction:
      evaluate_contraction(run);
      break;
    case OpClass::kernel_like:
      evaluate_kernel(run);
      break;
  }
  if (!run.fault.empty()) {
    return err(Code::evaluate_index, where, "look at the integers that the op reads", "{}: {}",
               def.name, run.fault);
  }
  return std::move(run.outputs);
}

template <class T>
Result<std::vector<RefTensor<T>>> evaluate_graph(
    const Graph& graph, const std::map<std::string, RefTensor<T>, std::less<>>& inputs,
    const Dims& dims) {
  std::vector<RefTensor<T>> values(graph.values().size());
  std::vector<TensorType> types(values.size());
  for (const Value& value : graph.values()) {
    const Location where = Location::of_path({}, value.name);
    GM_ASSIGN(types[index_of(value.id)], at_dims(value.type, dims, where));
    if (value.kind == ValueKind::result) continue;
    RefTensor<T>& tensor = values[index_of(value.id)];
    if (const auto given = inputs.find(value.name); given != inputs.end()) {
      tensor = given->second;
    } else if (value.source && !value.source->values.empty()) {
      GM_ASSIGN(tensor, zeros<T>(types[index_of(value.id)], where));
      const auto& numbers = value.source->values;
      tensor.data.assign(numbers.begin(), numbers.end());
    } else {
      return err(Code::evaluate_input, where, "give one for each input, state and weight",
                 "no tensor is given for {}", value.name);
    }
    GM_TRY(check_fits(tensor, types[index_of(value.id)], value.name, where));
    if (value.contract) GM_TRY(check_contract(*value.contract, tensor.ints, dims, where));
  }
  for (const Op& op : graph.ops()) {
    const Location where = op.location.empty() ? Location::of_path({}, op.where) : op.location;
    const OpDef* def = graph.table().find(op.kind);
    GM_CHECK(def != nullptr, "a graph has an op {}", op.kind);
    std::vector<TensorType> operand_types;
    std::vector<const RefTensor<T>*> operands;
    for (ValueId id : op.inputs) {
      operand_types.push_back(types[index_of(id)]);
      operands.push_back(&values[index_of(id)]);
    }
    GM_ASSIGN(auto results, evaluate_op<T>(*def, operand_types, op.attrs, operands, where));
    GM_CHECK(results.size() == op.outputs.size(), "{} has {} results", op.kind, results.size());
    for (size_t i = 0; i < results.size(); ++i) {
      values[index_of(op.outputs[i])] = std::move(results[i]);
    }
  }
  return values;
}

template Result<std::vector<RefTensor<float>>> evaluate_op(const OpDef&,
                                                           std::span<const TensorType>,
                                                           const Attrs&,
                                                           std::span<const RefTensor<float>* const>,
                                                           const Location&);
template Result<std::vector<RefTensor<double>>> evaluate_op(
    const OpDef&, std::span<const TensorType>, const Attrs&,
    std::span<const RefTensor<double>* const>, const Location&);
template Result<std::vector<RefTensor<float>>> evaluate_graph(
    const Graph&, const std::map<std::string, RefTensor<float>, std::less<>>&, const Dims&);
template Result<std::vector<RefTensor<double>>> evaluate_graph(
    const Graph&, const std::map<std::string, RefTensor<double>, std::less<>>&, const Dims&);

}  // namespace gm
