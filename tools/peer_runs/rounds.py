"""The interleaved run: round after round, row after row, one engine after the other.

Each measurement is a line of JSON in a journal, so a run that was stopped goes on where it was.
"""
import json

from peer_runs.engines import Unavailable


class Journal:
    """The measurements of one run, by (row, engine, round)."""

    def __init__(self, path, setting, resume):
        self._path, self.done = path, {}
        lines = path.read_text(encoding="utf-8").splitlines() if resume and path.is_file() else []
        if lines and json.loads(lines[0]) == setting:
            for line in lines[1:]:
                if line.endswith("}"):  # else the last one, which was cut
                    entry = json.loads(line)
                    self.done[entry["row"], entry["engine"], entry["round"]] = entry
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            for entry in [setting, *self.done.values()]:
                file.write(json.dumps(entry) + "\n")

    def add(self, entry):
        self.done[entry["row"], entry["engine"], entry["round"]] = entry
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def entries(self):
        return list(self.done.values())


def run_rounds(rows, engines, rounds, journal, model_of, say):
    """Fills the journal. Models one after the other; the engine that begins changes with each row
    and round. An engine that cannot do a row is not asked again for it."""
    models = list(dict.fromkeys(row.model for row in rows))
    for model in models:
        path = model_of(model)
        for number in range(rounds):
            for place, row in enumerate(row for row in rows if row.model == model):
                begin = (number + place) % len(engines)
                for engine in engines[begin:] + engines[:begin]:
                    measure_once(row, engine, number, journal, path, say)
        for engine in engines:
            engine.close()


def measure_once(row, engine, number, journal, path, say):
    if (row.name, engine.name, number) in journal.done:
        return
    entry = {"row": row.name, "engine": engine.name, "round": number}
    earlier = [e for e in journal.entries() if (e["row"], e["engine"]) == (row.name, engine.name)]
    failed = [e["reason"] for e in earlier if "reason" in e]
    if failed:
        journal.add({**entry, "reason": failed[0]})
        return
    try:
        entry.update(engine.measure(row, path))
        say(f"round {number + 1}: {row.title}: {engine.name} {entry['rate']:,.1f} tokens/s")
    except Unavailable as error:
        entry["reason"] = str(error)
        say(f"round {number + 1}: {row.title}: {error}")
    journal.add(entry)
