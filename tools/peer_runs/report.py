"""The section of docs/performance.md that tools/peers writes; the rest of the file stays."""
from peer_runs import summary

HEAD = "# Performance\n"


def replace_section(text, section, option):
    """`text` with the marked section of such a run replaced, or added at its end."""
    command = f"tools/peers{option}"
    begin = f"<!-- {command}: begin; what stands up to its end is written by it -->"
    end = f"<!-- {command}: end -->"
    block = f"{begin}\n{section.strip()}\n{end}\n"
    if begin in text and end in text.split(begin, 1)[1]:
        before, rest = text.split(begin, 1)
        return before + block + rest.split(end, 1)[1].removeprefix("\n")
    return (text.rstrip("\n") + "\n" if text.strip() else HEAD) + "\n" + block


def table(header, rows):
    """A table in Markdown; all columns but the first to the right."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def rate_text(pair):
    median, spread = pair
    digits = 0 if median >= 100 else 1
    return f"{median:,.{digits}f} " + ("once" if spread is None else f"± {100 * spread:.0f} %")


def ratio_text(ratio, bar):
    if ratio is None:
        return ""
    shown = f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}"
    if bar is None:
        return shown
    return f"{shown} of {bar:.3g}" if ratio >= bar else f"**{shown}** of {bar:.3g}"


def speed_table(rows, lines, has_avx512_vnni):
    """The table, and the notes that its cells refer to."""
    notes = []

    def note(text):
        if text not in notes:
            notes.append(text)
        return f"[{notes.index(text) + 1}]"

    body = []
    for row, line in zip(rows, lines):
        bars = summary.bars_for(row, has_avx512_vnni)
        cells = []
        for name in (summary.FAST, summary.EXACT, summary.LLAMA, summary.OPENVINO, summary.VLLM):
            text = rate_text(line["rates"][name]) if name in line["rates"] else \
                note(line["reasons"][name]) if name in line["reasons"] else ""
            if name == summary.LLAMA and line["setting"]:
                text += " on" if line["setting"].endswith("on") else " off"
            cells.append(text)
        share = f"{line['share'][0]:.2f} of {line['share'][1]}" if line["share"] else ""
        body.append([row.title, *cells, ratio_text(line["llama_ratio"], bars[0]),
                     ratio_text(line["openvino_ratio"], bars[1]),
                     ratio_text(line["vllm_ratio"], row.vllm_bar), share])
    header = ["tokens/s", "Baton fast", "Baton exact", "llama.cpp, flash attention", "OpenVINO",
              "vLLM", "fast : llama.cpp", "fast : OpenVINO", "fast : vLLM",
              "fast, share of the limit"]
    return table(header, body), notes


def loss_table(losses):
    """losses: as summary.losses() returns."""
    body = [[f"{row.title}, {engine}", f"{entry['kl']['last']:.4f}", f"{entry['kl']['p99']:.3f}",
             f"{entry['kl']['top1']:.3f}", f"{entry['kl']['spread']:.4f}", entry["setting"]]
            for row, engine, entry in losses]
    return table(["sparse against dense", "KL, last 512", "P99", "top-1", "KL, spread", "setting"],
                 body)


def accuracy_table(measured):
    """measured: {model: {engine: figures}}, as accuracy.measure() returns."""
    titles = {"smollm2": "SmolLM2 Q4_1", "gemma-3": "Gemma 3 270M Q4_K_M"}
    engines = list(dict.fromkeys(name for found in measured.values() for name in found))
    body, notes = [], []
    for engine in engines:
        cells = []
        for found in measured.values():
            figures = found.get(engine, {"reason": "not measured"})
            if "reason" in figures:
                cells += ["", ""]
                notes.append(f"{engine}: {figures['reason']}")
            else:
                cells += [f"{figures['mean']:.1e}", f"{figures['max']:.1e}"]
            if "computed_with" in figures:
                notes.append(f"{engine} computes with {figures['computed_with']} here.")
        body.append([engine, *cells])
    header = ["KL from binary64"] + [f"{titles[model]}, {what}" for model in measured
                                     for what in ("mean", "max")]
    return table(header, body), list(dict.fromkeys(notes))


def section(rows, lines, measured, losses, setting):
    """The whole section. setting: what Setting of tools/peers gathered, as a dictionary."""
    speed, notes = speed_table(rows, lines, setting["has_avx512_vnni"])
    parts = [
        "## Beside other engines" + setting["title"],
        f"Written by `tools/peers{setting['option']}` on "
        f"{setting['date']}: "
        f"{setting['cpu']}, {setting['cpus']} CPUs, {setting['isa']}; "
        f"{setting['threads']} threads each, {setting['rounds']} rounds in turn. "
        + "; ".join(f"{name} {version}" for name, version in setting["versions"].items())
        + (f"; the tree is at {setting['commit']}." if setting["commit"] else "."),
        "Rates are medians, with the largest distance from them (once: of one round alone); ratios "
        "are medians of the ratios within each round, with the bar where there is one (bold: "
        "missed). All engines work on "
        "the same files and numbers of tokens; loading does not count. Decode is of 32 tokens, and "
        "with 16 sequences the tokens of all count. Baton is timed by `baton bench model`, which "
        "fills the cache of a depth with random numbers, and whose limit is that of the machine; "
        "llama.cpp by llama-bench and llama-batched-bench, at the better of its settings of flash "
        "attention, named behind the rate; OpenVINO GenAI by its paged pipeline with the prefix "
        "cache off, whose time to the first token holds a choice of that token. Requests count all "
        "tokens, read and written: `baton bench serve`, llama-batched-bench, and vLLM's engine with "
        "the file's weights as bf16, its prefix cache off.",
        speed]
    parts += ["\n".join(f"{number}. {note}" for number, note in enumerate(notes, 1))] if notes \
        else []
    if losses:
        parts += [
            "What sparse prefill loses against dense prefill of the same engine, on the same "
            "tokens of real text (`tests/data/golden/text/kjv-slice.txt`): KL in nats over the "
            "whole vocabulary. That of OpenVINO is of its pipeline's model with paged attention, "
            "asked for all logits.",
            loss_table(losses)]
    if measured:
        accuracy, notes = accuracy_table(measured)
        parts += [
            "How near their answers are to a forward pass in binary64 of the same file "
            "(`tests/data/golden/README.md`): KL divergence in nats over the reference's 20 best "
            "tokens and the rest as one; that of llama.cpp is the whole divergence, from "
            "`accuracy.json` there.",
            accuracy]
        parts += ["\n".join(f"- {note}" for note in notes)] if notes else []
        openvino = measured.get("smollm2", {}).get("OpenVINO", {})
        if openvino.get("mean", 0) > 0.1:
            parts.append("OpenVINO's reading of this Q4_1 file is far from the file's own values, "
                         "so its speed there is that of another model.")
    return "\n\n".join(parts)
