#include "cli/bench_kernels_command.h"
#include "cli/bench_limits_command.h"
#include "cli/bench_model_command.h"
#include "cli/bench_serve_command.h"
#include "cli/chat_command.h"
#include "cli/command.h"
#include "cli/detokenize_command.h"
#include "cli/eval_density_command.h"
#include "cli/eval_kl_command.h"
#include "cli/eval_logits_command.h"
#include "cli/eval_needle_command.h"
#include "cli/eval_perplexity_command.h"
#include "cli/inspect_command.h"
#include "cli/pack_command.h"
#include "cli/run_command.h"
#include "cli/serve_command.h"
#include "cli/simulate_command.h"
#include "cli/template_entry.h"
#include "cli/tokenize_command.h"
#include "cli/tune_command.h"

namespace baton {

std::vector<std::unique_ptr<Command>> MakeCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(MakeRunCommand());
  commands.push_back(MakeChatCommand());
  commands.push_back(MakeServeCommand());
  commands.push_back(MakeInspectCommand());
  commands.push_back(MakePackCommand());
  commands.push_back(MakeTuneCommand());
  commands.push_back(MakeTokenizeCommand());
  commands.push_back(MakeDetokenizeCommand());
  commands.push_back(MakeTemplateCommand());
  commands.push_back(MakeEvalLogitsCommand());
  commands.push_back(MakeEvalPerplexityCommand());
  commands.push_back(MakeEvalKlCommand());
  commands.push_back(MakeEvalDensityCommand());
  commands.push_back(MakeEvalNeedleCommand());
  commands.push_back(MakeBenchLimitsCommand());
  commands.push_back(MakeBenchKernelsCommand());
  commands.push_back(MakeBenchModelCommand());
  commands.push_back(MakeBenchServeCommand());
  commands.push_back(MakeSimulateCommand());
  return commands;
}

}  // namespace baton
