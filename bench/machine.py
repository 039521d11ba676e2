"""Facts of the machine, and how busy it is."""
import os
import re
import subprocess
import time


def line(command):
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=20)
        return (result.stdout + result.stderr).strip().splitlines()[0]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return "unknown"


def facts():
    with open("/proc/cpuinfo") as f:
        model = re.search(r"model name\s*:\s*(.*)", f.read())
    with open("/proc/meminfo") as f:
        memory = int(f.readline().split()[1]) / 2**20
    with open("/proc/sys/net/ipv4/tcp_wmem") as f:
        wmem = " ".join(f.read().split())
    with open("/proc/sys/net/ipv4/tcp_congestion_control") as f:
        control = f.read().strip()
    kernel = os.uname().release
    return (f"{os.cpu_count()} CPUs ({model.group(1) if model else 'unknown'}), {memory:.0f} GiB of memory, Linux {kernel}, "
            f"tcp_wmem {wmem}, congestion control {control}; loopback, server on one CPU, load and origin on another.")


def build():
    """How what is measured was built (dist/trained)."""
    return "trained" if os.path.basename(os.environ.get("CARGO_TARGET_DIR", "").rstrip("/")) == "trained" else "dist, untrained"


def revision(root):
    """Which version of this repository it is. The pages that are being written are no change of it."""
    pages = [":(exclude)bench/*.md", ":(exclude)bench/*.svg"]
    is_changed = line(["git", "-C", root, "status", "--porcelain", "-uno", "--", ".", *pages]) != "unknown"
    return line(["git", "-C", root, "rev-parse", "--short=12", "HEAD"]) + (" with local changes" if is_changed else "")


def commit(root):
    """What was measured, and how it was built."""
    return f"Commit {revision(root)}, {build()}, {line(['rustc', '--version'])}."


def versions(weir, nginx, root):
    return f"{line([weir, '--version'])} ({revision(root)}, {build()}), {line([nginx, '-v']).replace('nginx version: ', '')}, {line(['rustc', '--version'])}."


def busy(cpu):
    """Busy seconds of one CPU since boot, and those stolen by the host."""
    with open("/proc/stat") as f:
        for text in f:
            if text.startswith(f"cpu{cpu} "):
                v = [int(x) for x in text.split()[1:]]
                hz = os.sysconf("SC_CLK_TCK")
                return (v[0] + v[1] + v[2] + v[5] + v[6]) / hz, v[7] / hz
    return 0.0, 0.0


def others_share(cpus, seconds=0.5):
    """The share of these CPUs that is in use while nothing of ours runs."""
    before = sum(busy(cpu)[0] for cpu in cpus)
    time.sleep(seconds)
    return (sum(busy(cpu)[0] for cpu in cpus) - before) / seconds / len(cpus)
