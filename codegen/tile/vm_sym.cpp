#include "codegen/tile/vm_sym.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace gm::tile_vm {
namespace {

constexpr int kMaxHeight = 64;

// Reads the canonical text of a SymExpr, which is the one public view of its structure.
class SymReader {
 public:
  SymReader(std::string_view text, const std::function<int(std::string_view)>& slot_of)
      : text_(text), slot_of_(slot_of) {}

  std::optional<SymTree> read() {
    SymTree tree = sum();
    GM_CHECK(!unknown_.empty() || at_ == text_.size(), "cannot read the expression '{}' at {}",
             text_, at_);
    if (!unknown_.empty()) return std::nullopt;
    return tree;
  }
  const std::string& unknown() const { return unknown_; }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  static SymTree constant(int64_t value) { return {SymTree::Kind::constant, value, {}}; }

  SymTree sum() {
    SymTree result{SymTree::Kind::add, 0, {}};
    bool negative = take('-');
    while (true) {
      SymTree term = product();
      if (negative) term = {SymTree::Kind::mul, 0, {constant(-1), std::move(term)}};
      result.args.push_back(std::move(term));
      if (take('+')) {
        negative = false;
      } else if (take('-')) {
        negative = true;
      } else {
        break;
      }
    }
    if (result.args.size() == 1) return std::move(result.args[0]);
    return result;
  }

  SymTree product() {
    SymTree result{SymTree::Kind::mul, 0, {}};
    do result.args.push_back(power());
    while (take('*'));
    if (result.args.size() == 1) return std::move(result.args[0]);
    return result;
  }

  SymTree power() {
    SymTree base = factor();
    if (!take('^')) return base;
    const int64_t exponent = factor().value;
    SymTree result{SymTree::Kind::mul, 0, {}};
    for (int64_t i = 0; i < exponent; ++i) result.args.push_back(base);
    return result;
  }

  SymTree factor() {
    skip();
    if (take('-')) return {SymTree::Kind::mul, 0, {constant(-1), factor()}};
    if (take('(')) {
      SymTree inner = sum();
      GM_CHECK(take(')'), "')' is missing in '{}'", text_);
      return inner;
    }
    const size_t start = at_;
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) {
      uint64_t value = 0;
      while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0)
        value = value * 10 + static_cast<uint64_t>(text_[at_++] - '0');
      return constant(static_cast<int64_t>(value));
    }
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 ||
                                  text_[at_] == '_' || text_[at_] == '.'))
      ++at_;
    const std::string_view name = text_.substr(start, at_ - start);
    GM_CHECK(!name.empty(), "cannot read the expression '{}' at {}", text_, at_);
    if (take('(')) return function(name);
    const int slot = slot_of_(name);
    if (slot < 0 && unknown_.empty()) unknown_ = name;
    return {SymTree::Kind::slot, slot, {}};
  }

  SymTree function(std::string_view name) {
    SymTree result;
    if (name == "floordiv")
      result.kind = SymTree::Kind::floordiv;
    else if (name == "ceildiv")
      result.kind = SymTree::Kind::ceildiv;
    else if (name == "mod")
      result.kind = SymTree::Kind::mod;
    else if (name == "min")
      result.kind = SymTree::Kind::min;
    else if (name == "max")
      result.kind = SymTree::Kind::max;
    else
      GM_CHECK(false, "unknown function '{}' in '{}'", name, text_);
    do result.args.push_back(sum());
    while (take(','));
    GM_CHECK(take(')'), "')' is missing in '{}'", text_);
    return result;
  }

  std::string_view text_;
  const std::function<int(std::string_view)>& slot_of_;
  size_t at_ = 0;
  std::string unknown_;
};

int64_t floor_divide(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return q * b > a ? q - 1 : q;
}

int64_t apply(SymTree::Kind kind, int64_t a, int64_t b) {
  switch (kind) {
    case SymTree::Kind::add:
      return a + b;
    case SymTree::Kind::mul:
      return a * b;
    case SymTree::Kind::floordiv:
      return floor_divide(a, b);
    case SymTree::Kind::ceildiv:
      return -floor_divide(-a, b);
    case SymTree::Kind::mod:
      return a - floor_divide(a, b) * b;
    case SymTree::Kind::min:
      return std::min(a, b);
    case SymTree::Kind::max:
      return std::max(a, b);
    default:
      return 0;
  }
}

}  // namespace

bool SymTree::uses(int slot) const {
  if (kind == Kind::slot) return value == slot;
  return std::ranges::any_of(args, [&](const SymTree& arg) { return arg.uses(slot); });
}

std::optional<SymTree> resolve(const SymExpr& e,
                               const std::function<int(std::string_view)>& slot_of,
                               std::string& unknown) {
  const std::string text = e.to_string();
  SymReader reader(text, slot_of);
  std::optional<SymTree> result = reader.read();
  if (!result) unknown = reader.unknown();
  return result;
}

SymCode::SymCode(const SymTree& tree) {
  if (linear(tree, 1)) return;
  constant_ = 0;
  terms_.clear();
  flatten(tree, 1);
}

bool SymCode::linear(const SymTree& tree, int64_t factor) {
  switch (tree.kind) {
    case SymTree::Kind::constant:
      constant_ += factor * tree.value;
      return true;
    case SymTree::Kind::slot:
      terms_.push_back({factor, static_cast<int>(tree.value)});
      return true;
    case SymTree::Kind::add:
      return std::ranges::all_of(tree.args,
                                 [&](const SymTree& arg) { return linear(arg, factor); });
    case SymTree::Kind::mul: {
      const SymTree* variable = nullptr;
      for (const SymTree& arg : tree.args) {
        if (arg.kind == SymTree::Kind::constant) {
          factor *= arg.value;
        } else if (variable != nullptr) {
          return false;
        } else {
          variable = &arg;
        }
      }
      if (variable == nullptr) {
        constant_ += factor;
        return true;
      }
      return linear(*variable, factor);
    }
    default:
      return false;
  }
}

void SymCode::flatten(const SymTree& tree, int height) {
  GM_CHECK(height + static_cast<int>(tree.args.size()) <= kMaxHeight,
           "an index expression nests too deeply");
  int at = height;
  for (const SymTree& arg : tree.args) flatten(arg, at++);
  steps_.push_back({tree.kind, tree.value, static_cast<int>(tree.args.size())});
}

int64_t SymCode::evaluate(const int64_t* slots) const {
  if (steps_.empty()) {
    int64_t result = constant_;
    for (const Term& term : terms_) result += term.coefficient * slots[term.slot];
    return result;
  }
  int64_t stack[kMaxHeight + 1];
  int top = 0;
  for (const Step& step : steps_) {
    if (step.kind == SymTree::Kind::constant) {
      stack[top++] = step.value;
    } else if (step.kind == SymTree::Kind::slot) {
      stack[top++] = slots[step.value];
    } else {
      top -= step.count;
      int64_t value = stack[top];
      for (int i = 1; i < step.count; ++i) value = apply(step.kind, value, stack[top + i]);
      stack[top++] = value;
    }
  }
  return stack[0];
}

}  // namespace gm::tile_vm
