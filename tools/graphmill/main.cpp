#include "tools/common/bench_command.h"
#include "tools/common/run_command.h"
#include "tools/graphmill/commands.h"

int main(int argc, char** argv) {
  gm::ProgramLine program(
      "graphmill", "Compiles Qwen3.5 models to plans, looks into plans, and runs and checks them.");
  gm::add_compile(program);
  gm::add_run(program);
  gm::add_check(program);
  gm::add_bench(program);
  gm::add_inspect(program);
  gm::add_opt(program);
  gm::add_tokenize(program);
  gm::add_synth(program);
  gm::add_eval(program);
  gm::add_explain(program);
  return program.run(argc, argv);
}
