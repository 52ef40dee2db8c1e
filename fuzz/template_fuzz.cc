// Arbitrary bytes as a chat template, rendered over a fixed conversation: no crash, no undefined
// behaviour, bounded time and memory.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using baton::templates::Value;
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const baton::Result<baton::Template> parsed = baton::Template::Parse(source);
  if (!parsed.has_value()) return 0;
  const baton::Result<Value> messages = baton::TemplateValueFromJsonText(
      R"([{"role":"system","content":"Be brief."},
          {"role":"user","content":"Hé said: \"<b>&\" 1 + 1 = 2?\n"},
          {"role":"assistant","content":"","tool_calls":[{"id":"a1","function":
            {"name":"add","arguments":{"x":1,"y":[2.5,null,true,{"z":"日本"}]}}}]}])");
  if (!messages.has_value()) return 0;
  baton::TemplateInputs inputs;
  inputs.variables = {{"messages", *messages},
                      {"tools", Value::None()},
                      {"n", Value::Int(7)},
                      {"s", Value::String("text with Ünicode")},
                      {"add_generation_prompt", Value::Bool(true)},
                      {"bos_token", Value::String("<s>")},
                      {"eos_token", Value::String("</s>")}};
  inputs.now = baton::CivilTime{.year = 2024, .month = 7, .day = 26};
  const baton::TemplateLimits limits = {.max_steps = 200'000,
                                        .max_output_bytes = 1U << 20,
                                        .max_value_bytes = 1U << 20,
                                        .max_work_bytes = 16U << 20,
                                        .max_items = 20'000,
                                        .max_range = 10'000,
                                        .max_depth = 500};
  (void)parsed->Render(inputs, limits).has_value();
  return 0;
}
