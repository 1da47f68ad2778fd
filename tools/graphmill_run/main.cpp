#include "tools/common/bench_command.h"
#include "tools/common/check_command.h"
#include "tools/common/run_command.h"

int main(int argc, char** argv) {
  gm::ProgramLine program("graphmill-run",
                          "Runs and checks plans; compiling them is graphmill's work.");
  gm::add_run(program);
  gm::add_check_plan(program);
  gm::add_bench(program);
  return program.run(argc, argv);
}
