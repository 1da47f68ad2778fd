#include "ir/region_text.h"

#include <algorithm>

#include "ir/lexer.h"

namespace gm {
namespace {

const std::string& op_name(const Graph& graph, OpId op) {
  return graph.value(graph.op(op).outputs[0]).name;
}

constexpr std::pair<Reason, std::string_view> kReasons[] = {
#define GM_REASON(number, name, summary) {Reason::name, #name},
#include "ir/reasons.def"
#undef GM_REASON
};

class Parser {
 public:
  Parser(TokenStream tokens, const Graph& graph) : tokens_(std::move(tokens)), graph_(graph) {}

  Result<Regions> run() {
    GM_TRY(tokens_.expect("regions"));
    GM_TRY(tokens_.expect("{"));
    while (!tokens_.accept("}")) {
      if (tokens_.accept("region")) {
        GM_TRY(region());
      } else if (tokens_.accept("accepted")) {
        GM_TRY(decision(Verdict::accepted));
      } else if (tokens_.accept("rejected")) {
        GM_TRY(decision(Verdict::rejected));
      } else {
        return tokens_.unexpected("'region', 'accepted', 'rejected' or '}'");
      }
    }
    if (!tokens_.at_end()) return tokens_.unexpected("the end of the text");
    return std::move(regions_);
  }

 private:
  Result<ValueId> value() {
    const Location where = tokens_.location();
    GM_ASSIGN(const std::string name, tokens_.expect_value_name("a value of the graph, as %x"));
    if (const auto found = graph_.find_value(name)) return *found;
    return err(Code::ir_name, where, "name a value of the graph above",
               "the graph has no value %{}", name);
  }

  Result<OpId> op() {
    const Location where = tokens_.location();
    GM_ASSIGN(const ValueId id, value());
    const Op* producer = graph_.producer(id);
    if (producer == nullptr) {
      return err(Code::ir_name, where, "name a result of an op", "no op computes %{}",
                 graph_.value(id).name);
    }
    return producer->id;
  }

  Result<> region() {
    Region region;
    GM_ASSIGN(region.name, tokens_.expect_string("the region's name"));
    GM_ASSIGN(region.implementation, tokens_.expect_identifier("an implementation, as generated"));
    GM_TRY(tokens_.expect("{"));
    do {
      const Location where = tokens_.location();
      GM_ASSIGN(const std::string word, tokens_.expect_identifier("a role"));
      std::optional<Role> role;
      for (Role r : {Role::anchor, Role::prologue, Role::epilogue, Role::member}) {
        if (to_string(r) == word) role = r;
      }
      if (!role)
        return err(Code::ir_syntax, where, "write anchor, prologue, epilogue or member",
                   "'{}' is no role", word);
      GM_ASSIGN(const OpId id, op());
      region.members.push_back({id, *role});
    } while (tokens_.accept(","));
    regions_.regions.push_back(std::move(region));
    return tokens_.expect("}");
  }

  // A rule's name holds hyphens, which are tokens of their own.
  Result<std::string> rule() {
    GM_ASSIGN(std::string name, tokens_.expect_identifier("the name of a fusion rule"));
    while (tokens_.accept("-")) {
      GM_ASSIGN(const std::string more, tokens_.expect_identifier("the rest of a rule's name"));
      name += "-" + more;
    }
    return name;
  }

  Result<> decision(Verdict verdict) {
    Decision d{.id = static_cast<uint32_t>(regions_.ledger.size()),
               .rule = "",
               .verdict = verdict,
               .reason = {},
               .detail = "",
               .ops = {},
               .value = {}};
    if (!tokens_.accept("?")) {  // found by no rule
      GM_ASSIGN(d.rule, rule());
    }
    const Location where = tokens_.location();
    GM_ASSIGN(const std::string reason, tokens_.expect_identifier("a reason"));
    const auto known =
        std::ranges::find(kReasons, reason, &std::pair<Reason, std::string_view>::second);
    if (known == std::end(kReasons)) {
      return err(Code::ir_name, where, "use a reason of ir/reasons.def", "'{}' is no reason",
                 reason);
    }
    d.reason = known->first;
    GM_ASSIGN(d.detail, tokens_.expect_string("the reason in words"));
    GM_TRY(tokens_.expect("{"));
    do {
      GM_ASSIGN(const OpId id, op());
      d.ops.push_back(id);
    } while (tokens_.accept(","));
    GM_TRY(tokens_.expect("}"));
    if (tokens_.accept("on")) {
      GM_ASSIGN(d.value, value());
    }
    regions_.ledger.push_back(std::move(d));
    return {};
  }

  TokenStream tokens_;
  const Graph& graph_;
  Regions regions_;
};

}  // namespace

std::string print_regions(const Graph& graph, const Regions& regions) {
  std::string text = "regions {\n";
  for (const Region& region : regions.regions) {
    std::string members;
    for (const Member& m : region.members) {
      members += fmt::format("{}{} %{}", members.empty() ? "" : ", ", to_string(m.role),
                             op_name(graph, m.op));
    }
    text += fmt::format("  region {} {} {{ {} }}\n", quote(region.name), region.implementation,
                        members);
  }
  for (const Decision& d : regions.ledger) {
    std::string ops;
    for (OpId op : d.ops) ops += fmt::format("{}%{}", ops.empty() ? "" : ", ", op_name(graph, op));
    text +=
        fmt::format("  {} {} {} {} {{ {} }}", to_string(d.verdict), d.rule.empty() ? "?" : d.rule,
                    reason_label(d.reason), quote(d.detail), ops);
    if (d.value) text += fmt::format(" on %{}", graph.value(*d.value).name);
    text += "\n";
  }
  return text + "}\n";
}

Result<Regions> parse_regions(std::string_view text, const std::string& file, const Graph& graph) {
  GM_ASSIGN(TokenStream tokens, TokenStream::of(text, file));
  return Parser(std::move(tokens), graph).run();
}

}  // namespace gm
