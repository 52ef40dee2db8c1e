#include "evaluate/policy_label.h"

#include <algorithm>
#include <sstream>

#include "kernels/sparse_policy_text.h"

namespace baton {
namespace {

std::vector<std::string> WordsOf(const SparsePolicy& policy) {
  std::istringstream text(PolicyText(policy));
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

// The words of one policy that another does not have, blanks between them. A list that the other
// one has and this one lacks stands as an empty word.
std::string Difference(const SparsePolicy& policy, const SparsePolicy& base) {
  const std::vector<std::string> of_base = WordsOf(base);
  std::string text;
  for (const std::string& word : WordsOf(policy)) {
    if (std::find(of_base.begin(), of_base.end(), word) != of_base.end()) continue;
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

}  // namespace

std::string PolicyLabel(const SparsePolicy& policy) {
  std::string label = Difference(policy, DefaultSparsePolicy());
  if (label.empty()) return "default";
  const std::string rest = Difference(policy, SparsePolicy());
  const std::string other = rest.empty() ? "published" : "published " + rest;
  return other.size() < label.size() ? other : label;
}

Result<std::vector<SparsePolicy>> BaselinesOf(const SparsePolicy& policy) {
  if (policy.rule != SelectionRule::kShare) {
    return Fail(ErrorCode::kInvalid,
                "yardsticks keep as many blocks as the policy, so its rule must be a share "
                "(rule=share:S), not " +
                    PolicyLabel(policy));
  }
  std::vector<SparsePolicy> all(7, policy);
  all[0] = SparsePolicy();
  all[1] = SparsePolicy();
  all[1].has_correction = false;
  all[2].has_correction = !policy.has_correction;
  all[3].estimate =
      policy.estimate == BlockEstimate::kFar ? BlockEstimate::kMean : BlockEstimate::kFar;
  all[4].rule = SelectionRule::kNone;
  all[5].energy = BlockEnergy::kRandom;
  all[5].energy_seed = 1;
  all[6].energy = BlockEnergy::kTrue;
  return all;
}

}  // namespace baton
