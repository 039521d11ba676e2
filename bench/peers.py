"""The servers under measurement: how each is started, frozen and stopped.

Only processes started here are ever signalled, by their pids."""
import functools
import os
import shutil
import signal
import socket
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
MEMORY = "1GiB"


def target_dir():
    return os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))


# What builds the programs that are measured; `make trained` builds them twice (docs/guide/benchmarks.md).
BUILD = "cargo build --profile dist --locked -p weir -p weir-stress"


@functools.cache
def program(name, given=None):
    """A program of this repository, or the one that is given. Any but one of the profile `dist` is refused (ADR 0100)."""
    path = given or os.path.join(target_dir(), "dist", name)
    if not os.path.exists(path):
        raise SystemExit(f"bench: {path} is not there; run `{BUILD}` first")
    said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20).stdout
    if "profile dist" not in said.splitlines():
        raise SystemExit(f"bench: {path} is not what is handed out ({said.strip() or 'it does not say its version'}); run `{BUILD}` first")
    return path


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def tree(pid):
    """pid and its living descendants."""
    found, todo = [], [pid]
    while todo:
        p = todo.pop()
        try:
            for task in os.listdir(f"/proc/{p}/task"):
                with open(f"/proc/{p}/task/{task}/children") as f:
                    todo += [int(child) for child in f.read().split()]
            found.append(p)
        except OSError:
            pass
    return found


class Peer:
    """One running server. `label` is its row in the tables."""

    def __init__(self, label, kind, scratch, cpu, origin=0, **options):
        self.label, self.kind, self.cpu, self.origin, self.options = label, kind, cpu, origin, options
        self.port, self.dir = free_port(), os.path.join(scratch, label)
        self.process = None

    def start(self):
        os.makedirs(self.dir, exist_ok=True)
        command = getattr(self, "_" + self.kind)()
        log = open(os.path.join(self.dir, "log"), "wb")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.dir, start_new_session=True,
                                        preexec_fn=lambda: os.sched_setaffinity(0, {self.cpu}))
        for _ in range(200):
            if self.process.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                time.sleep(0.05)
        with open(os.path.join(self.dir, "log"), errors="replace") as f:
            raise SystemExit(f"bench: {self.label} does not listen: {f.read()[-2000:]}")

    def _floor(self):
        return [program("weir-floor"), "--listen", f"127.0.0.1:{self.port}"]

    def _nginx(self):
        nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
        if not nginx:
            raise SystemExit("bench: nginx is not installed; run `apt-get install nginx`")
        with open(os.path.join(HERE, "peers", self.options["conf"])) as f:
            conf = f.read()
        values = dict(dir=self.dir, port=self.port, origin=self.origin, **self.options)
        for name, value in values.items():
            conf = conf.replace(f"@{name}@", str(value))
        if os.geteuid() == 0:
            conf = "user root;\n" + conf
        path = os.path.join(self.dir, "nginx.conf")
        with open(path, "w") as f:
            f.write(conf)
        return [nginx, "-p", self.dir, "-c", path]

    def _filled(self, conf, **values):
        """A configuration of peers/ with its @names@ filled in, as a file."""
        with open(os.path.join(HERE, "peers", conf)) as f:
            text = f.read()
        for name, value in dict(dir=self.dir, port=self.port, origin=self.origin, **self.options, **values).items():
            text = text.replace(f"@{name}@", str(value))
        path = os.path.join(self.dir, conf)
        with open(path, "w") as f:
            f.write(text)
        return path

    def _installed(self, name):
        found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
        if not found:
            raise SystemExit(f"bench: {name} is not installed; run `apt-get install {name}`")
        return found

    def _nginx_tls(self):
        path = self._filled("tls.nginx.conf", user="user root;" if os.geteuid() == 0 else "")
        return [self._installed("nginx"), "-p", self.dir, "-c", path]

    def _haproxy_tls(self):
        return [self._installed("haproxy"), "-db", "-f", self._filled("tls.haproxy.cfg")]

    def _h2o_tls(self):
        return [self._installed("h2o"), "-c", self._filled("tls.h2o.conf")]

    def _weir_tls(self):
        return [program("weir", self.options.get("program")), "run", "--config", self._filled("tls.weir.toml", admin=free_port())]

    def _weir(self):
        return [program("weir", self.options.get("program")), "run", "--origin", f"http://127.0.0.1:{self.origin}", "--listen",
                f"127.0.0.1:{self.port}", "--admin", f"127.0.0.1:{free_port()}", "--state", f"{self.dir}/state", "--memory", MEMORY]

    def pids(self):
        return tree(self.process.pid) if self.process else []

    def signal(self, number):
        for pid in self.pids():
            try:
                os.kill(pid, number)
            except OSError:
                pass

    def freeze(self):
        self.signal(signal.SIGSTOP)

    def thaw(self):
        self.signal(signal.SIGCONT)

    def stop(self):
        if not self.process:
            return
        pids = self.pids()
        self.thaw()
        self.signal(signal.SIGTERM)
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            self.process.wait()
        self.process = None

    # ------------------------------------------------------------ accounting
    def clocks(self):
        """CPU time so far: of each thread in seconds at nanosecond resolution, and of each process in user space."""
        threads, users = {}, {}
        for pid in self.pids():
            try:
                for task in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{task}/schedstat") as f:
                        threads[task] = int(f.read().split()[0]) / 1e9
                with open(f"/proc/{pid}/stat") as f:
                    users[pid] = int(f.read().rsplit(")", 1)[1].split()[11]) / os.sysconf("SC_CLK_TCK")
            except OSError:
                pass
        return threads, users

    @staticmethod
    def spent(before, after):
        """Seconds of CPU in all and in user space between two `clocks`. What has ended in between takes its time with
        it (nginx's cache loader does), so only living processes are compared."""
        return tuple(sum(value - earlier.get(who, 0) for who, value in later.items()) for earlier, later in zip(before, after))

    def memory_mb(self):
        """Resident memory, shared pages divided among the processes that share them."""
        total = 0
        for pid in self.pids():
            try:
                with open(f"/proc/{pid}/smaps_rollup") as f:
                    total += sum(int(line.split()[1]) for line in f if line.startswith("Pss:"))
            except OSError:
                pass
        return total / 1024
