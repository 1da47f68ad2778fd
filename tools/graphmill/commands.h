// The commands that need the compiler, each in a file of its own. tools/common has those that do
// not.
#pragma once

#include "tools/common/program.h"

namespace gm {

void add_compile(ProgramLine& program);
void add_inspect(ProgramLine& program);
void add_opt(ProgramLine& program);
void add_tokenize(ProgramLine& program);
void add_check(ProgramLine& program);
void add_synth(ProgramLine& program);
void add_eval(ProgramLine& program);
void add_explain(ProgramLine& program);

}  // namespace gm
