"""What a process is doing, from /proc: so that tests wait for a state, not for a time."""
import ctypes
import os
import pathlib
import re
import signal
import time

FOX = "The quick brown fox jumps over the lazy dog. "
FIRST_TOKEN = re.compile(rb"first token after ([\d.]+) s")
# Progress shows after one second; a prefill of this length must have shown it.
SURELY_SHOWN = 1.5
SLOW = ["--isa", "portable", "--threads", "1", "--chunk", "8"]


def status(pid, key):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return re.search(rf"^{key}:\s*(\S+)", text, re.M).group(1)


def wait_until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain until {what}")
        time.sleep(0.002)


def has_signal(pid, key, number=signal.SIGINT):
    return bool(int(status(pid, key), 16) >> (number - 1) & 1)


def is_mapped(pid, path):
    """Whether the process has the file in its address space."""
    try:
        return path in pathlib.Path(f"/proc/{pid}/maps").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def cpu_seconds(pid):
    """What the process has computed so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_asleep(pid):
    """Whether no thread of the process computes."""
    def state(task):
        return (task / "stat").read_text().rpartition(")")[2].split()[0]
    try:
        return all(state(task) == "S" for task in pathlib.Path(f"/proc/{pid}/task").iterdir())
    except (FileNotFoundError, ProcessLookupError):  # a thread or the process has ended
        return False


def wait_until_stuck(pid):
    """Waits until the process waits for somebody else, for 0.1 s on end."""
    asleep = [0]

    def long_asleep():
        asleep[0] = asleep[0] + 1 if is_asleep(pid) else 0
        return asleep[0] >= 50
    wait_until(long_asleep, "the process waits")


def send_sigint(pid):
    """Sends the signal to a process that waits; returns when it has been taken note of."""
    os.kill(pid, signal.SIGINT)
    wait_until(lambda: not has_signal(pid, "ShdPnd"), "the signal is taken")
    wait_until_stuck(pid)


def long_prefill(run, arguments):
    """The result of run(arguments, with a prompt whose prefill took SURELY_SHOWN seconds).

    run returns the bytes that hold the figures. On a faster machine the prompt gets longer.
    """
    copies = 4
    while True:
        seen = run([*arguments, "-p", FOX * copies])
        if float(FIRST_TOKEN.search(seen).group(1)) >= SURELY_SHOWN:
            return seen
        copies *= 2


def drop_root_rights():
    """Lets the rights of files count for root too; for preexec_fn."""
    if os.geteuid() != 0:
        return
    cap_dac_override, cap_dac_read_search, pr_capbset_drop = 1, 2, 24
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in (cap_dac_override, cap_dac_read_search):
        if libc.prctl(pr_capbset_drop, capability, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
