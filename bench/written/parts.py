"""What the scripts here share: programs on one CPU that end by their pids, nginx, Weir, distributors, and cgroups."""
import collections
import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import machine  # noqa: E402
from peers import HERE, ROOT, Peer, free_port, program, target_dir  # noqa: E402,F401

CGROUPS = "/sys/fs/cgroup"
GMOND = """globals {{ daemonize = no setuid = no mute = no deaf = no host_dmax = 0 cleanup_threshold = 300 send_metadata_interval = 5 }}
cluster {{ name = "bench" owner = "bench" latlong = "" url = "" }}
udp_send_channel {{ host = 127.0.0.1 port = {udp} }}
udp_recv_channel {{ bind = 127.0.0.1 port = {udp} }}
tcp_accept_channel {{ bind = 127.0.0.1 port = {tcp} }}
"""


class Program(Peer):
    """A command on one CPU. `make` gets the program and returns the words; it may write files with `file`."""

    def __init__(self, label, scratch, cpu, make, listens=True):
        super().__init__(label, "made", scratch, cpu)
        self.make, self.listens = make, listens

    def _made(self):
        return self.make(self)

    def file(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def start(self, join=None):
        """`join` is called in the new process before its program begins."""
        if self.listens and not join:
            return super().start()
        os.makedirs(self.dir, exist_ok=True)
        command = self.make(self)

        def prepare():
            os.sched_setaffinity(0, {self.cpu})
            if join:
                join()
        log = open(os.path.join(self.dir, "log"), "wb")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.dir, start_new_session=True, preexec_fn=prepare)
        time.sleep(0.5)
        if self.process.poll() is not None:
            raise SystemExit(f"bench: {self.label} ended: {self.log()}")
        return self

    def log(self):
        with open(os.path.join(self.dir, "log"), errors="replace") as f:
            return f.read()[-2000:]

    def cpu_seconds(self):
        return sum(self.clocks()[0].values())


def nginx(server, http="", workers=1, modules=""):
    """A maker of nginx with this `server` block; @port@ is its port."""
    def make(peer):
        folder = peer.dir
        text = f"""{"user root;" if os.geteuid() == 0 else ""} {modules}
daemon off; worker_processes {workers}; error_log {folder}/error.log warn; pid {folder}/nginx.pid;
events {{ worker_connections 16384; }}
http {{ access_log off; keepalive_timeout 3600s; keepalive_requests 1000000000; tcp_nodelay on;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  {http}
  server {{ {server} }} }}"""
        return [installed("nginx"), "-p", folder, "-c", peer.file("nginx.conf", text.replace("@port@", str(peer.port)))]
    return make


def installed(name):
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if not found:
        raise SystemExit(f"bench: {name} is not installed; bench/WRITTEN.md names Debian's packages")
    return found


def weir(binary, upstream, more="", site=""):
    """A maker of Weir with these keys of `[upstream.main]`, more tables before it, and more keys of its one site."""
    def make(peer):
        peer.admin = free_port()
        text = f"""[admin]
listen = "127.0.0.1:{peer.admin}"
[[listen]]
address = "127.0.0.1:{peer.port}"
[cache]
memory = "64MiB"
{more}
[upstream.main]
client_share = 100
{upstream}
[[site]]
hosts = ["*"]
upstream = "main"
{site}
"""
        return [binary, "run", "--config", peer.file("weir.toml", text), "--state", os.path.join(peer.dir, "state")]
    return make


def decided(peer):
    """How many requests each pick of a running Weir has decided."""
    text = urllib.request.urlopen(f"http://127.0.0.1:{peer.admin}/metrics", timeout=10).read().decode()
    counts = collections.Counter()
    for labels, value in re.findall(r"^weir_origin_picks_total\{(.*)\} (\S+)", text, re.M):
        counts[re.search('pick="(.*?)"', labels).group(1)] += float(value)
    return counts


def by(peer, pick):
    """The share of requests that this pick has decided, in words."""
    counts = decided(peer)
    return f"{counts[pick] / max(sum(counts.values()), 1):.1%}"


def stress(binary, cpu, url, *words):
    """One run of weir-stress; every response must be right."""
    command = [binary, url, "--json", *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
    report = json.loads(done.stdout)
    if not report["clean"]:
        raise SystemExit(f"bench: {url}: {report}")
    return report["sides"][0]


class Group:
    """A cgroup with a share of one core: version 2 where it has the controller, else version 1."""
    PERIOD = 10_000

    def __init__(self, name, share):
        """Makes the group."""
        self._find(name)
        try:
            if self.is_new:
                self._write(CGROUPS, "cgroup.subtree_control", "+cpu")
            for folder in {self.path, self.account}:
                os.mkdir(folder)
            if self.is_new:
                self._write(self.path, "cpu.max", f"{int(share * self.PERIOD)} {self.PERIOD}")
            else:
                self._write(self.path, "cpu.cfs_period_us", self.PERIOD)
                self._write(self.path, "cpu.cfs_quota_us", int(share * self.PERIOD))
        except OSError as error:
            raise SystemExit(f"bench: no cgroup with a share of a core here: {error}")

    def _find(self, name):
        self.is_new = os.path.exists(f"{CGROUPS}/cgroup.controllers")
        self.path = f"{CGROUPS}/{name}" if self.is_new else f"{CGROUPS}/cpu/{name}"
        self.account = self.path if self.is_new else f"{CGROUPS}/cpuacct/{name}"

    @classmethod
    def there(cls, name):
        """A group that is there already."""
        group = cls.__new__(cls)
        group._find(name)
        return group

    @staticmethod
    def _write(folder, name, value):
        with open(f"{folder}/{name}", "w") as f:
            f.write(str(value))

    def join(self):
        """Puts the calling process into the group."""
        for folder in {self.path, self.account}:
            self._write(folder, "cgroup.procs", os.getpid())

    def used(self):
        """CPU seconds of the group so far."""
        if self.is_new:
            with open(f"{self.path}/cpu.stat") as f:
                return int(f.readline().split()[1]) / 1e6
        with open(f"{self.account}/cpuacct.usage") as f:
            return int(f.read()) / 1e9

    def remove(self):
        for folder in {self.path, self.account}:
            for _ in range(50):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
                    break
                time.sleep(0.1)


def ratio(values, base):
    """The median of the ratios of two rows, round by round."""
    return statistics.median(one / other for one, other in zip(values, base))


def quiet(cpus):
    """What others take of these CPUs now, in words."""
    return f"Others used {machine.others_share(cpus):.0%} of the CPUs before it began."


def distributor(args, scratch, cpu, origins, form="full"):
    """A running `weir distributor` of one thread on one CPU. Its policy is `even`; `table` is the `[pick.ask]` that asks it."""
    def make(peer):
        list_of = ", ".join(f'"http://127.0.0.1:{port}"' for port in origins)
        text = f"""[distributor]
listen = ["udp://127.0.0.1:{peer.port}"]
form = "{form}"
rate = 100000000
[upstream.even]
origins = [{list_of}]
pick = "round_robin"
"""
        return [args.weir, "distributor", "--config", peer.file("distributor.toml", text), "--threads", "1"]
    asked = Program(f"distributor-{form}", scratch, cpu, make, listens=False).start()
    asked.policy = "even"
    asked.table = f'[pick.ask]\ndistributor = ["udp://127.0.0.1:{asked.port}"]\npolicy = "{asked.policy}"\nform = "{form}"\n'
    return asked
