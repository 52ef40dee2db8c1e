"""From measurements to the lines of a table: medians, the better setting, ratios within rounds."""
import statistics

FAST, EXACT, LLAMA, OPENVINO = "Baton fast", "Baton exact", "llama.cpp", "OpenVINO"
VLLM = "vLLM"


def by_round(entries, row, engine):
    """{round: rate} of one engine in one row."""
    return {e["round"]: e["rate"] for e in entries
            if (e["row"], e["engine"]) == (row, engine) and "rate" in e}


def reason_of(entries, row, engine):
    """Why there is no rate; None if there is one or it was not asked for."""
    for e in entries:
        if e["row"] == row and e["engine"].startswith(engine) and "reason" in e:
            return e["reason"]
    return None


def median_and_spread(rates):
    """The median, and the largest distance from it as a part of it; None of one rate."""
    median = statistics.median(rates)
    if len(rates) == 1:
        return median, None
    return median, max(abs(rate - median) for rate in rates) / median


def better_llama(entries, row):
    """(name, rates by round) of the setting of llama.cpp with the higher median; or (None, {})."""
    names = sorted({e["engine"] for e in entries if e["engine"].startswith(LLAMA)})
    found = [(name, by_round(entries, row, name)) for name in names]
    found = [(name, rates) for name, rates in found if rates]
    return max(found, key=lambda pair: statistics.median(pair[1].values()), default=(None, {}))


def ratio(of, to):
    """The median over the rounds of one rate divided by another; None without a common round."""
    shared = [of[number] / to[number] for number in of if number in to]
    return statistics.median(shared) if shared else None


def summarize(row, entries):
    """A dictionary of one line: rates, ratios, share and reasons."""
    fast = by_round(entries, row.name, FAST)
    exact = by_round(entries, row.name, EXACT)
    setting, llama = better_llama(entries, row.name)
    openvino = by_round(entries, row.name, OPENVINO)
    vllm = by_round(entries, row.name, VLLM)
    shares = [(e["share"], e["bound_by"]) for e in entries
              if (e["row"], e["engine"]) == (row.name, FAST) and "share" in e]
    line = {"rates": {}, "setting": setting, "llama_ratio": ratio(fast, llama),
            "openvino_ratio": ratio(fast, openvino), "vllm_ratio": ratio(fast, vllm), "share": None, "reasons": {}}
    for name, rates in ((FAST, fast), (EXACT, exact), (LLAMA, llama), (OPENVINO, openvino),
                        (VLLM, vllm)):
        if rates:
            line["rates"][name] = median_and_spread(list(rates.values()))
        elif reason_of(entries, row.name, name):
            line["reasons"][name] = reason_of(entries, row.name, name)
    if shares:
        line["share"] = (statistics.median(share for share, _ in shares), shares[0][1])
    return line


def losses(rows, entries):
    """[(row, engine, figures)] of sparse prefill: what each loses against its own dense prefill."""
    found = {}
    for row in rows:
        for e in entries:
            if e["row"] == row.name and "kl" in e:
                found.setdefault((row.name, e["engine"]), (row, e["engine"], e))
    return list(found.values())


def bars_for(row, has_avx512_vnni):
    """(least ratio to llama.cpp, to OpenVINO) that the row asks for on such a machine."""
    return (row.bars[0], row.bars[1]) if has_avx512_vnni else (row.bars[2], None)


def missed(rows, lines, has_avx512_vnni):
    """(title, engine, ratio, bar) of the bars that were not reached."""
    found = []
    for row, line in zip(rows, lines):
        bars = bars_for(row, has_avx512_vnni)
        for name, reached, bar in ((LLAMA, line["llama_ratio"], bars[0]),
                                   (OPENVINO, line["openvino_ratio"], bars[1]),
                                   (VLLM, line["vllm_ratio"], row.vllm_bar)):
            if bar is not None and reached is not None and reached < bar:
                found.append((row.title, name, reached, bar))
    return found
