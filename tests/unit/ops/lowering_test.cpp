// The lowerings of kernel-like ops, each as a kernel with a parameter an operand and nothing fused:
// verified, executed by the interpreter and compared with the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "codegen/tile/interpreter.h"
#include "tests/unit/ops/cases.h"

namespace gm {
namespace {

class PlainLowering : public LoweringContext {
 public:
  PlainLowering(const OpInstance& op, std::span<const TensorType> results)
      : op_(&op), results_(results) {
    kernel_.name = op.def().name;
    for (size_t i = 0; i < op.input_count(); ++i) {
      const OperandDef& operand = op.def().operands[i];
      Param param{operand.name, op.input(i).dtype, op.input(i).shape};
      const bool state = operand.kind == OperandDef::Kind::state;
      if (state) param.residency = Residency::state;
      for (const ResultDef& result : op.def().results) {
        if (result.state && result.state_operand == static_cast<int>(i)) {
          param.access = Access::read_write;
        }
      }
      if (operand.kind == OperandDef::Kind::integer) param.residency = Residency::step;
      kernel_.params.push_back(std::move(param));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      if (op.def().results[i].state) continue;
      kernel_.params.push_back({fmt::format("out{}", i),
                                results[i].dtype,
                                results[i].shape,
                                Access::write,
                                Residency::activation,
                                {}});
    }
    add_contracts();
  }

  const OpInstance& op() const override { return *op_; }
  const TensorType& result(size_t i) const override { return results_[i]; }
  Expr read(size_t operand, std::vector<Expr> indices) override {
    const bool floats = is_float(op_->input(operand).dtype);
    return Expr::load(op_->def().operands[operand].name, std::move(indices),
                      floats ? ScalarType::f32 : ScalarType::index);
  }
  void part(std::string_view name, std::vector<std::pair<std::string, SymExpr>> grid,
            const std::function<void(BlockBuilder&, std::span<const Expr>)>& body) override {
    BlockBuilder b;
    for (const Param& param : kernel_.params) b.fresh(param.name);  // taken
    Part part;
    part.name = name;
    std::vector<Expr> indices;
    for (auto& [axis, extent] : grid) {
      part.grid.push_back(b.axis(axis, extent));
      indices.push_back(at(part.grid.back()));
    }
    body(b, indices);
    part.body = b.take();
    kernel_.parts.push_back(std::move(part));
  }
  void write(BlockBuilder& b, size_t result, std::vector<Axis> axes, std::vector<Expr> indices,
             Expr value) override {
    b.store(fmt::format("out{}", result), std::move(axes), std::move(indices), std::move(value));
  }
  Expr read_state(size_t operand, std::vector<Expr> indices) override {
    return read(operand, std::move(indices));
  }
  void write_state(BlockBuilder& b, size_t result, std::vector<Axis> axes,
                   std::vector<Expr> indices, Expr value) override {
    const auto operand = static_cast<size_t>(op_->def().results[result].state_operand);
    b.store(op_->def().operands[operand].name, std::move(axes), std::move(indices),
            std::move(value));
  }
  Kernel& kernel() { return kernel_; }

 private:
  // What the runtime promises of step inputs (the contracts of a step).
  void add_contracts() {
    const auto rows = [&](std::string_view name) {
      const Param* param = kernel_.find_param(name);
      return param == nullptr ? SymExpr(1) : param->shape[0];
    };
    for (Param& param : kernel_.params) {
      if (param.residency != Residency::step) continue;
      Contract contract;
      if (param.name == "seq_start") {
        contract.monotone = true;
        contract.total = kernel_.params[0].shape[0];
      } else if (param.name == "slot" || param.name == "pages") {
        contract.lo = -1;
        contract.hi = param.name == "slot"                     ? rows("state")
                      : kernel_.find_param("cache") != nullptr ? rows("cache")
                                                               : rows("keys");
        contract.distinct = contract.masked = true;
      } else if (param.name == "pos") {
        const Param* cache = kernel_.find_param("cache");
        if (cache == nullptr) cache = kernel_.find_param("keys");
        contract.hi = kernel_.find_param("pages")->shape[1] * cache->shape[1];
        contract.consecutive = true;
      }
      param.contract = contract;
    }
  }
  const OpInstance* op_;
  std::span<const TensorType> results_;
  Kernel kernel_;
};

using Bytes = std::vector<std::byte>;

Bytes to_bytes(const TensorType& type, const RefTensor<float>& tensor) {
  const size_t width = static_cast<size_t>(size_bytes(type.dtype));
  const size_t count = std::max(tensor.data.size(), tensor.ints.size());
  Bytes bytes(count * width + 1);
  for (size_t i = 0; i < count; ++i) {
    if (type.dtype == DType::f32) {
      std::memcpy(&bytes[i * 4], &tensor.data[i], 4);
    } else if (type.dtype == DType::bf16) {
      const uint16_t bits = f32_to_bf16(tensor.data[i]);
      std::memcpy(&bytes[i * 2], &bits, 2);
    } else {
      const auto value = static_cast<int32_t>(tensor.ints[i]);
      std::memcpy(&bytes[i * 4], &value, 4);
    }
  }
  return bytes;
}

void from_bytes(const TensorType& type, const Bytes& bytes, RefTensor<float>& tensor) {
  for (size_t i = 0; i < tensor.data.size(); ++i) {
    if (type.dtype == DType::f32) {
      std::memcpy(&tensor.data[i], &bytes[i * 4], 4);
    } else {
      uint16_t bits = 0;
      std::memcpy(&bits, &bytes[i * 2], 2);
      tensor.data[i] = bf16_to_f32(bits);
    }
  }
  for (size_t i = 0; i < tensor.ints.size(); ++i) {
    int32_t value = 0;
    std::memcpy(&value, &bytes[i * 4], 4);
    tensor.ints[i] = value;
  }
}

std::vector<const OpDef*> kernel_ops() {
  std::vector<const OpDef*> ops;
  for (const OpDef& def : builtin_ops().defs()) {
    if (def.op_class == OpClass::kernel_like) ops.push_back(&def);
  }
  return ops;
}

class Lowering : public testing::TestWithParam<const OpDef*> {};

TEST_P(Lowering, ComputesWhatTheReferenceDoes) {
  const OpDef& def = *GetParam();
  for (size_t number = 0; number < def.cases.size(); ++number) {
    const OpDef::Case& c = def.cases[number];
    SCOPED_TRACE(fmt::format("case {}", number));
    const auto inputs = case_inputs<float>(def, c, 3);
    const auto types = infer_types(def, c.inputs, c.attrs, {}).value();
    const auto wanted = evaluate_case(def, c, inputs).value();
    const OpInstance op(def, c.inputs, c.attrs);
    PlainLowering lowering(op, types);
    def.lower(lowering);
    const auto verified = verify_kernel(lowering.kernel());
    EXPECT_TRUE(verified) << verified.error().to_string() << print_kernel(lowering.kernel());
    const auto interpreter = TileInterpreter::create(lowering.kernel(), Checked::yes);
    ASSERT_TRUE(interpreter) << interpreter.error().to_string() << print_kernel(lowering.kernel());

    std::vector<Bytes> bytes;
    for (size_t i = 0; i < inputs.size(); ++i) bytes.push_back(to_bytes(c.inputs[i], inputs[i]));
    std::vector<size_t> buffer_of(types.size());
    for (size_t i = 0; i < types.size(); ++i) {
      buffer_of[i] = static_cast<size_t>(def.results[i].state_operand);
      if (def.results[i].state) continue;
      buffer_of[i] = bytes.size();
      RefTensor<float> poison = wanted[i];
      for (float& x : poison.data) x = 12345;
      for (int64_t& x : poison.ints) x = -77;
      bytes.push_back(to_bytes(types[i], poison));
    }
    std::vector<void*> buffers;
    for (Bytes& b : bytes) buffers.push_back(b.data());
    interpreter->run({}, buffers, 0, interpreter->work_items({}));

    for (size_t i = 0; i < types.size(); ++i) {
      RefTensor<float> got = wanted[i];
      from_bytes(types[i], bytes[buffer_of[i]], got);
      EXPECT_EQ(got.ints, wanted[i].ints);
      // Sums are added in another order than in the reference.
      const auto interior = c.attrs.find("interior");
      const bool coarse =
          types[i].dtype == DType::bf16 ||
          (interior != c.attrs.end() && std::get<std::string>(interior->second) == "bf16");
      for (size_t k = 0; k < got.data.size(); ++k) {
        const float scale = std::max(std::abs(wanted[i].data[k]), 0.5F);
        ASSERT_NEAR(got.data[k], wanted[i].data[k], scale * (coarse ? 0x1p-7 : 0x1p-19))
            << "result " << i << " element " << k;
      }
    }
  }
}

// The shapes of a model: symbolic, decode and mixed.
TEST(SymbolicLowering, IsProvenInBounds) {
  const SymExpr seqs = SymExpr::symbol("seqs");
  const SymExpr slots = SymExpr::symbol("slots");
  const SymExpr pool = SymExpr::symbol("pages");
  const SymExpr table = SymExpr::ceildiv(SymExpr::symbol("context"), 16);
  const auto type = [](DType dtype, std::vector<SymExpr> shape) {
    return TensorType{dtype, std::move(shape)};
  };
  for (const bool mixed : {false, true}) {
    const SymExpr tokens = mixed ? SymExpr::symbol("tokens") : seqs;
    const auto act = [&](std::vector<SymExpr> shape) {
      return type(DType::bf16, std::move(shape));
    };
    const auto i32 = [&](std::vector<SymExpr> shape) { return type(DType::i32, std::move(shape)); };
    const auto f32 = [&](std::vector<SymExpr> shape) { return type(DType::f32, std::move(shape)); };
    const std::vector<std::pair<const char*, OpDef::Case>> ops = {
        {"causal_conv",
         {{act({tokens, 200}), act({200, 4}), act({slots, 3, 200}), i32({seqs}), i32({seqs})},
          {},
          {}}},
        {"gated_delta_rule",
         {{f32({tokens, 2, 24}), f32({tokens, 2, 24}), act({tokens, 4, 40}), f32({tokens, 4}),
           act({tokens, 4}), f32({slots, 4, 24, 40}), i32({seqs}), i32({seqs})},
          {},
          {}}},
        {"cache_append",
         {{act({tokens, 2, 32}), act({pool, 16, 2, 32}), i32({tokens}), i32({seqs, table})},
          {},
          {}}},
        {"attention",
         {{act({tokens, 4, 32}), act({pool, 16, 2, 32}), act({pool, 16, 2, 32}), i32({tokens}),
           i32({seqs, table})},
          {{"scale", 0.25}, {"interior", std::string("bf16")}},
          {}}},
        {"rope",
         {{act({tokens, 4, 32}), act({tokens, 4}), act({tokens, 4})},
          {{"interior", std::string("bf16")}},
          {}}},
        {"topk_route", {{f32({tokens, 9})}, {{"k", int64_t{3}}}, {}}},
        {"argmax", {{f32({tokens, 99})}, {{"valid", std::vector<int64_t>{2, 50, 60, 97}}}, {}}}};
    for (auto [name, c] : ops) {
      const OpDef& def = *builtin_ops().find(name);
      if (mixed && def.operands.back().name == "seq_start") c.inputs.push_back(i32({seqs + 1}));
      const auto types = infer_types(def, c.inputs, c.attrs, {});
      ASSERT_TRUE(types) << types.error().to_string();
      const OpInstance op(def, c.inputs, c.attrs);
      PlainLowering lowering(op, *types);
      Kernel& kernel = lowering.kernel();
      kernel.symbols.declare({"seqs", SymRole::seqs, 1, SymExpr(64), 1});
      kernel.symbols.declare({"tokens", SymRole::tokens, 1, SymExpr(8192), 1});
      kernel.symbols.declare({"slots", SymRole::slots, 1, SymExpr(1 << 20), 1});
      kernel.symbols.declare({"pages", SymRole::pages, 1, SymExpr(1 << 20), 1});
      kernel.symbols.declare({"context", SymRole::context, 1, SymExpr(1 << 18), 1});
      for (Param& param : kernel.params) {
        if (param.name == "pos") param.contract->hi = SymExpr::symbol("context");
      }
      def.lower(lowering);
      const auto verified = verify_kernel(kernel);
      EXPECT_TRUE(verified) << verified.error().to_string() << print_kernel(kernel);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Lowering, testing::ValuesIn(kernel_ops()),
                         [](const auto& op) { return op.param->name; });

}  // namespace
}  // namespace gm
