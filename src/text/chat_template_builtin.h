// The built-in chat templates: our own text for the formats that well-known models document.
//
// They are chosen by name, never guessed from a model. Each has messages with roles system, user
// and assistant; formats without a system role put its text before the first user message.
#pragma once

#include <array>
#include <string_view>

namespace baton {

struct BuiltinTemplate {
  std::string_view name;
  std::string_view source;
};

inline constexpr std::array<BuiltinTemplate, 8> kBuiltinTemplates = {{
    {"chatml",
     R"({%- for m in messages -%}
{{ '<|im_start|>' ~ m.role ~ '\n' ~ m.content ~ '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%})"},

    {"gemma",
     R"({{- bos_token -}}
{%- set ns = namespace(system='') -%}
{%- for m in messages -%}
{%- if m.role == 'system' -%}{%- set ns.system = m.content ~ '\n\n' -%}
{%- else -%}
{{ '<start_of_turn>' ~ ('model' if m.role == 'assistant' else m.role) ~ '\n' }}
{{- (ns.system if m.role == 'user' else '') ~ m.content | trim ~ '<end_of_turn>\n' }}
{%- if m.role == 'user' -%}{%- set ns.system = '' -%}{%- endif -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%})"},

    {"llama2",
     R"({%- set ns = namespace(system='') -%}
{%- for m in messages -%}
{%- if m.role == 'system' -%}{%- set ns.system = '<<SYS>>\n' ~ m.content ~ '\n<</SYS>>\n\n' -%}
{%- elif m.role == 'user' -%}
{{ bos_token ~ '[INST] ' ~ ns.system ~ m.content | trim ~ ' [/INST]' }}
{%- set ns.system = '' -%}
{%- elif m.role == 'assistant' -%}{{ ' ' ~ m.content | trim ~ ' ' ~ eos_token }}
{%- else -%}{{ raise_exception('This template knows the roles system, user and assistant') }}
{%- endif -%}
{%- endfor -%})"},

    {"llama3",
     R"({{- bos_token -}}
{%- for m in messages -%}
{{ '<|start_header_id|>' ~ m.role ~ '<|end_header_id|>\n\n' ~ m.content | trim ~ '<|eot_id|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif -%})"},

    {"mistral",
     R"({{- bos_token -}}
{%- set ns = namespace(system='') -%}
{%- for m in messages -%}
{%- if m.role == 'system' -%}{%- set ns.system = m.content ~ '\n\n' -%}
{%- elif m.role == 'user' -%}
{{ '[INST]' ~ ns.system ~ m.content ~ '[/INST]' }}
{%- set ns.system = '' -%}
{%- elif m.role == 'assistant' -%}{{ m.content ~ eos_token }}
{%- else -%}{{ raise_exception('This template knows the roles system, user and assistant') }}
{%- endif -%}
{%- endfor -%})"},

    {"phi3",
     R"({%- for m in messages -%}
{{ '<|' ~ m.role ~ '|>\n' ~ m.content ~ '<|end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|assistant|>\n' }}{%- endif -%})"},

    {"vicuna",
     R"({%- for m in messages -%}
{%- if m.role == 'system' -%}{{ m.content ~ '\n\n' }}
{%- elif m.role == 'user' -%}{{ 'USER: ' ~ m.content ~ '\n' }}
{%- elif m.role == 'assistant' -%}{{ 'ASSISTANT: ' ~ m.content ~ eos_token ~ '\n' }}
{%- else -%}{{ raise_exception('This template knows the roles system, user and assistant') }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ 'ASSISTANT:' }}{%- endif -%})"},

    {"zephyr",
     R"({%- for m in messages -%}
{{ '<|' ~ m.role ~ '|>\n' ~ m.content ~ eos_token ~ '\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|assistant|>\n' }}{%- endif -%})"},
}};

}  // namespace baton
